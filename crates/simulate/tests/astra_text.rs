//! Text workloads of ASTRA-sim 1 on syncline's fabrics: published files, and small handwritten ones.

use crate::support::shared::shared;
use std::path::{Path, PathBuf};
use syncline_formats::astra1::{Policy, TextWorkload};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};
use syncline_timeline::Data;

const TORUS: &str = r#"
    {"name": "local", "shape": "ring", "size": 2, "rate": "200GB/s", "latency": "90ns"},
    {"name": "vertical", "shape": "ring", "size": 4, "rate": "25GB/s", "latency": "200ns"},
    {"name": "horizontal", "shape": "ring", "size": 4, "rate": "25GB/s", "latency": "200ns"}"#;
const SWITCH8: &str =
    r#"{"name": "all", "shape": "switch", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;

fn scenario(file: &Path, dims: &str, iterations: u32) -> Scenario {
    let file = serde_json::to_string(&file.display().to_string()).unwrap();
    serde_json::from_str(&format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "astra_text", "file": {file}, "iterations": {iterations}}},
            "fabric": {{"dims": [{dims}]}}, "collectives": {{"chunks": 4}}}}"#
    ))
    .unwrap()
}

fn simulate(file: &Path, dims: &str, iterations: u32) -> syncline_diagnostics::Result<Run> {
    run(&scenario(file, dims, iterations), Control::default())
}

fn texts(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

fn published(data: &Path) -> Vec<PathBuf> {
    ["astra1/workload", "astra1/workload_2020-07", "dlrm2020"]
        .iter()
        .flat_map(|f| texts(&data.join(f)))
        .collect()
}

const REFUSED: [Policy; 3] =
    [Policy::HybridDlrmEnhanced, Policy::HybridTransformerFwdInBckwd, Policy::DistributedInference];

/// Sizes of the groups in which activations and gradients are exchanged, according to ASTRA-sim 1.
fn groups(text: &TextWorkload, policy: Policy, dims: &[u32]) -> [u32; 2] {
    let all: u32 = dims.iter().product();
    match policy {
        Policy::Data | Policy::Micro => [1, all],
        Policy::Model => [all, 1],
        Policy::HybridDlrm => [all, all],
        Policy::HybridDataModel => [dims[0], all / dims[0]],
        Policy::HybridModelData => [all / dims[0], dims[0]],
        Policy::HybridTransformer => match text.header.model_group {
            Some(group) => [group, all / group],
            None => {
                let second = dims.get(1).copied().unwrap_or(1);
                [all / second, second]
            }
        },
        _ => unreachable!("{policy} is refused"),
    }
}

/// Nanoseconds of compute and rows of the table of collectives in one iteration.
fn expected(text: &TextWorkload, dims: &[u32]) -> (u64, usize) {
    let all: u32 = dims.iter().product();
    let (mut compute, mut rows) = (0, 0);
    for (index, layer) in text.layers.iter().enumerate() {
        let policy = layer.policy.unwrap_or(text.policy);
        let [activations, gradients] = groups(text, policy, dims);
        let weight_first = matches!(text.policy, Policy::Data | Policy::HybridDlrm);
        if text.policy != Policy::Micro {
            compute += layer.forward.cycles + layer.weight_grad.cycles;
            compute += if weight_first && index == 0 { 0 } else { layer.input_grad.cycles };
        }
        let first = if text.policy == Policy::HybridDlrm { index > 0 } else { index == 0 };
        let passes = [
            (layer.forward, activations),
            (layer.input_grad, if first { 1 } else { activations }),
            (layer.weight_grad, gradients),
        ];
        for (pass, members) in passes.into_iter().filter(|&(_, members)| members > 1) {
            if pass.exchange.is_some_and(|(_, bytes)| bytes > 0) {
                compute += layer.update_cycles;
                rows += (all / members) as usize;
            }
        }
    }
    (compute, rows)
}

fn floats(run: &Run, table: &str, column: &str) -> Vec<f64> {
    match &run.timeline.table(table).unwrap().column(column).unwrap().data {
        Data::Float(values) => values.clone(),
        other => panic!("{column} is {other:?}"),
    }
}

fn check_runs(data: &Path, dims: &str, sizes: &[u32]) {
    let mut ran = 0;
    for file in published(data) {
        let text = TextWorkload::read(&file).unwrap_or_else(|errors| panic!("{errors}"));
        if REFUSED.contains(&text.policy) {
            let errors = simulate(&file, dims, 1).unwrap_err();
            assert!(errors.to_string().contains(text.policy.name()), "{errors}");
            continue;
        }
        for iterations in [1, 2] {
            let name = file.display();
            let run = simulate(&file, dims, iterations).unwrap_or_else(|errors| panic!("{name}: {errors}"));
            let summary = &run.timeline.summary;
            let (compute, rows) = expected(&text, sizes);
            let total = f64::from(iterations) * compute as f64 * 1e-9;
            assert!(
                (summary.compute_s - total).abs() < 1e-12,
                "{name}: {} s, not {total} s",
                summary.compute_s
            );
            assert_eq!(
                run.timeline.table("collectives").unwrap().rows(),
                rows * iterations as usize,
                "{name}"
            );
            let [finish, compute, exposed] = ["finish_s", "compute_s", "exposed_communication_s"]
                .map(|column| floats(&run, "ranks", column));
            for rank in 0..finish.len() {
                let busy = compute[rank] + exposed[rank];
                assert!(
                    (busy - finish[rank]).abs() < 1e-12,
                    "{name}, rank {rank}: {busy} s of {} s",
                    finish[rank]
                );
            }
            ran += 1;
        }
    }
    assert!(ran >= 30, "only {ran} runs");
}

#[test]
fn published_files_run_on_a_torus() {
    let Some(data) = shared("data") else { return };
    check_runs(&data, TORUS, &[2, 4, 4]);
}

#[test]
fn published_files_run_on_eight_npus() {
    let Some(data) = shared("data") else { return };
    check_runs(&data, SWITCH8, &[8]);
}

#[test]
fn layers_without_header_are_refused() {
    let Some(data) = shared("data") else { return };
    for file in texts(&data.join("libra/workload")) {
        let errors = TextWorkload::read(&file).unwrap_err();
        assert!(errors.to_string().contains("its two header lines are missing"), "{errors}");
    }
}

/// Writes a file into a new temporary folder.
fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn sizes(run: &Run) -> Vec<(String, i64)> {
    let table = run.timeline.table("collectives").unwrap();
    let (Data::Text(kinds), Data::Int(sizes)) =
        (&table.column("kind").unwrap().data, &table.column("size_bytes").unwrap().data)
    else {
        panic!("other columns")
    };
    kinds.iter().cloned().zip(sizes.iter().copied()).collect()
}

#[test]
fn an_all_gather_gathers_one_shard_of_every_member() {
    let layer = "a -1 0 ALLGATHER 1000 0 NONE 0 0 NONE 0 0";
    for (policy, gathered) in [
        ("MODEL", 32_000),
        ("HYBRID_DATA_MODEL", 2_000),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 8", 8_000),
    ] {
        let (_folder, path) = file("w.txt", &format!("{policy}\n1\n{layer}\n"));
        let run = simulate(&path, TORUS, 1).unwrap();
        assert!(sizes(&run).iter().all(|row| *row == ("all_gather".to_owned(), gathered)), "{policy}");
    }
}

#[test]
fn a_model_group_splits_a_dimension() {
    // 4 of 2x4x4: dimension 0, and half of dimension 1. Groups of 6 do not fit.
    let layer = "a -1 0 ALLREDUCE 4000 0 NONE 0 0 ALLREDUCE 8000 0";
    let (_folder, path) =
        file("w.txt", &format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 4\n1\n{layer}\n"));
    let run = simulate(&path, TORUS, 1).unwrap();
    assert_eq!(run.timeline.table("collectives").unwrap().rows(), 8 + 4);
    let (_folder, path) =
        file("w.txt", &format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 6\n1\n{layer}\n"));
    let errors = simulate(&path, TORUS, 1).unwrap_err().to_string();
    assert!(errors.contains("6 ranks do not fill the dimensions evenly"), "{errors}");
}

#[test]
fn update_time_follows_every_finished_collective() {
    let text = "MODEL\n2\na -1 100 ALLREDUCE 8 100 NONE 0 100 NONE 0 7\nb -1 100 NONE 0 100 ALLREDUCE 8 100 NONE 0 5\n";
    let (_folder, path) = file("w.txt", text);
    let run = simulate(&path, SWITCH8, 1).unwrap();
    assert!((run.timeline.summary.compute_s - 612e-9).abs() < 1e-15);
}

#[test]
fn micro_benchmarks_issue_everything_at_once() {
    let text = "MICRO\n1\na -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 1000000 0\n";
    let (_folder, path) = file("w.txt", text);
    let run = simulate(&path, SWITCH8, 3).unwrap();
    assert_eq!(floats(&run, "collectives", "issue_s"), [0.0; 3]);
    assert_eq!((run.timeline.summary.compute_s, run.timeline.summary.iterations), (0.0, 3));
}

#[test]
fn exchanges_that_the_policy_does_not_have_are_refused() {
    for (text, message) in [
        ("DATA\n1\na -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 0", "the policy has no exchange after this pass"),
        (
            "HYBRID_DLRM 0\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\nb -1 1 ALLTOALL 8 1 NONE 0 1 NONE 0 0",
            "no exchange after this pass",
        ),
        (
            "MODEL\n1\na -1 1 ALLREDUCEALLTOALL 8 1 NONE 0 1 NONE 0 0",
            "this collective is read but not simulated",
        ),
        (
            "HYBRID_CUSTOMIZED\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0 MICRO",
            "a layer cannot have the policy MICRO",
        ),
        ("DATA\n1\na -1 9223372036854775807 NONE 0 1 NONE 0 1 NONE 0 0", "longer than can be simulated"),
        ("MODEL\n1\na -1 1 ALLGATHER 9223372036854775807 1 NONE 0 1 NONE 0 0", "more than 2^64 bytes"),
        ("MICRO\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0 b -1 1 NONE 0 1 NONE 0 1 NONE 0 0", "MICRO"),
    ] {
        let (_folder, path) = file("w.txt", text);
        let errors = simulate(&path, TORUS, 1).unwrap_err().to_string();
        assert!(errors.contains(message), "{text}: {errors}");
    }
}
