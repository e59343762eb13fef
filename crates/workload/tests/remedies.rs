//! Jobs that do not fit into memory: the error, and that the changes it proposes make them fit.

use crate::support::{fabric, timed, types};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::Bytes;
use syncline_workload::batch::{Batch, Number};
use syncline_workload::job::Training;
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::memory::{Footprint, footprints};
use syncline_workload::parallel::{Axes, Parallel, Recompute};
use syncline_workload::remedy::{Asked, fits, memory_size};
use syncline_workload::types::Optimizer;

const BATCH: u32 = 8;

/// `number` blocks of 1,000 parameters, which keep 16,000 bytes for 8 samples, 2,000 if marked layers are recomputed.
fn blocks(number: u32) -> Vec<Layer> {
    let of = |block: u32| Layer {
        parameters: 1_000,
        inputs: 400,
        outputs: 400,
        kept: Some(Bytes(16_000)),
        kept_selective: Some(Bytes(2_000)),
        block: Some(block),
        sharding: Sharding::Replicated,
        ..timed(&format!("l{block}"), 1, 1, 1)
    };
    (0..number).map(of).collect()
}

fn needs(layers: &[Layer], ranks: u32, parallel: &Parallel, batch: u32) -> Option<Vec<Footprint>> {
    let batch = Batch { micro_batch: Some(batch), number: Number::MicroBatches(4) };
    let training = Training::new(layers, &fabric(&[ranks]), parallel, 1, batch, types()).ok()?;
    Some(footprints(&training, Optimizer::Adam))
}

fn largest(found: &[Footprint]) -> u64 {
    found.iter().map(|each| each.total().0).max().unwrap()
}

fn refusal(layers: &[Layer], ranks: u32, parallel: &Parallel, capacity: u64) -> Option<Diagnostic> {
    let batch = Batch { micro_batch: Some(BATCH), number: Number::MicroBatches(4) };
    let axes = fabric(&[ranks]);
    let asked = Asked { layers, axes: &axes, parallel, optimizer: Optimizer::Adam, batch, types: types() };
    fits(&asked, &needs(layers, ranks, parallel, BATCH).unwrap(), Bytes(capacity)).err()
}

/// The remedies of a message, each as keys and values, and what it says the job then needs.
fn remedies(problem: &Diagnostic) -> Vec<(Vec<(String, String)>, String)> {
    let help = problem.help.as_deref().unwrap();
    let Some(list) = help.strip_prefix("it fits with ") else { return Vec::new() };
    let one = |remedy: &str| {
        let (changes, total) = remedy.strip_suffix(')').unwrap().split_once(" (").unwrap();
        let change = |change: &str| {
            let (key, value) = change.trim_matches('`').split_once('=').unwrap();
            (key.strip_prefix("workload.").unwrap().to_owned(), value.to_owned())
        };
        (changes.split(" and ").map(change).collect(), total.to_owned())
    };
    list.split("; or ").map(one).collect()
}

/// A job with these changes: its layers for fewer samples, its parallelisation, its batch.
fn changed(
    layers: &[Layer],
    parallel: &Parallel,
    changes: &[(String, String)],
) -> (Vec<Layer>, Parallel, u32) {
    let (mut layers, mut parallel, mut batch) = (layers.to_vec(), parallel.clone(), BATCH);
    for (key, value) in changes {
        match key.as_str() {
            "parallel.zero" => parallel.zero = value.parse().unwrap(),
            "parallel.recompute" => {
                parallel.recompute = if value == "full" { Recompute::Full } else { Recompute::Selective }
            }
            "parallel.sequence" => parallel.sequence = value == "true",
            "parallel.tensor" => parallel.tensor = Axes::Degree(value.parse().unwrap()),
            "parallel.pipeline" => parallel.pipeline = Axes::Degree(value.parse().unwrap()),
            "batch_per_npu" => {
                batch = value.parse().unwrap();
                for layer in &mut layers {
                    let part = |amount: u64| amount * u64::from(batch) / u64::from(BATCH);
                    (layer.inputs, layer.outputs) = (part(layer.inputs), part(layer.outputs));
                    layer.kept = layer.kept.map(|kept| Bytes(part(kept.0)));
                    layer.kept_selective = layer.kept_selective.map(|kept| Bytes(part(kept.0)));
                }
            }
            other => panic!("{other}"),
        }
    }
    (layers, parallel, batch)
}

/// Checks the remedies that a job is offered, and returns their changes as text.
fn checked(layers: &[Layer], ranks: u32, parallel: &Parallel, capacity: u64) -> Vec<String> {
    let problem = refusal(layers, ranks, parallel, capacity).unwrap();
    let mut told = Vec::new();
    for (changes, total) in remedies(&problem) {
        let after = |changes: &[(String, String)]| {
            let (layers, parallel, batch) = changed(layers, parallel, changes);
            needs(&layers, ranks, &parallel, batch).map(|found| largest(&found))
        };
        let needed = after(&changes).expect("the changes are possible");
        assert!(needed <= capacity, "{changes:?} need {needed} of {capacity}");
        assert_eq!(memory_size(Bytes(needed)), total, "{changes:?}");
        // A smaller change of the last kind is not enough.
        let mut smaller = changes.clone();
        let (key, value) = smaller.last_mut().unwrap();
        let less = match (key.as_str(), value.parse::<u32>()) {
            ("parallel.zero", Ok(stage)) if stage > u32::from(parallel.zero) + 1 => Some(stage - 1),
            ("batch_per_npu", Ok(batch)) if batch < BATCH / 2 => Some(batch * 2),
            ("parallel.tensor" | "parallel.pipeline", Ok(degree)) if degree > 2 => Some(degree / 2),
            _ => None,
        };
        if let Some(less) = less {
            *value = less.to_string();
            assert!(after(&smaller).is_none_or(|needed| needed > capacity), "{smaller:?} is enough");
        }
        told.push(changes.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "));
    }
    told
}

#[test]
fn remedies_make_the_job_fit_and_are_no_larger_than_needed() {
    let divided: Vec<Layer> =
        blocks(8).into_iter().map(|layer| Layer { sharding: Sharding::Gather, ..layer }).collect();
    let marked: Vec<Layer> =
        blocks(8).into_iter().map(|layer| Layer { selective: true, tokens: Some(8), ..layer }).collect();
    let mut offered = std::collections::BTreeSet::new();
    for layers in [blocks(8), divided, marked] {
        for parallel in [
            Parallel::default(),
            Parallel { zero: 1, tensor: Axes::Degree(2), ..Parallel::default() },
            Parallel { pipeline: Axes::Degree(2), ..Parallel::default() },
        ] {
            let now = largest(&needs(&layers, 8, &parallel, BATCH).unwrap());
            assert_eq!(refusal(&layers, 8, &parallel, now), None);
            for capacity in
                [now - 1, now * 7 / 8, now / 2, now / 3, now / 5, now / 10, now / 30, now / 100, 100]
            {
                for told in checked(&layers, 8, &parallel, capacity) {
                    offered
                        .extend(told.split(' ').map(|change| change.split_once('=').unwrap().0.to_owned()));
                }
            }
        }
    }
    let kinds = [
        "batch_per_npu",
        "parallel.pipeline",
        "parallel.recompute",
        "parallel.sequence",
        "parallel.tensor",
        "parallel.zero",
    ];
    assert_eq!(offered.into_iter().collect::<Vec<_>>(), kinds);
}

#[test]
fn single_changes_come_before_several() {
    // 240,000 of 8,000 parameters: 16,000, gradients 32,000, states 192,000; activations 128,000.
    let layers = blocks(8);
    let with = |parallel: &Parallel, capacity| checked(&layers, 8, parallel, capacity);
    let default = Parallel::default();
    assert_eq!(largest(&needs(&layers, 8, &default, BATCH).unwrap()), 368_000);
    assert_eq!(
        with(&default, 300_000),
        ["parallel.zero=1", "parallel.recompute=full", "batch_per_npu=2", "parallel.pipeline=2"]
    );
    // 16,000 + 32,000 + 24,000 + 128,000 with stage 1, 28,000 less with stage 2, 10,000 less with stage 3.
    assert_eq!(with(&default, 200_000)[0], "parallel.zero=1");
    assert_eq!(with(&default, 199_999)[0], "parallel.zero=2");
    assert_eq!(with(&default, 172_000)[0], "parallel.zero=2");
    assert_eq!(with(&default, 171_999)[0], "parallel.zero=3");
    assert!(!with(&default, 161_999)[0].starts_with("parallel.zero"));
    // What is already done is not offered.
    let zero = Parallel { zero: 2, ..default.clone() };
    assert_eq!(with(&zero, 171_999)[0], "parallel.zero=3");
    assert!(with(&zero, 161_999).iter().all(|told| !told.contains("zero=2") && !told.contains("zero=1")));
    let full = Parallel { recompute: Recompute::Full, ..default.clone() };
    assert!(with(&full, 200_000).iter().all(|told| !told.contains("recompute")));
    // A single copy has nothing to divide its state among.
    assert!(checked(&layers, 1, &default, 300_000).iter().all(|told| !told.contains("zero")));
    assert_eq!(checked(&layers, 1, &default, 300_000), ["parallel.recompute=full", "batch_per_npu=2"]);
    // Down to one sample, and no further.
    assert_eq!(checked(&layers, 1, &default, 240_000 + 16_000), ["batch_per_npu=1"]);
    let last = checked(&layers, 1, &default, 240_000 + 15_999);
    assert!(last.iter().all(|told| !told.contains("batch_per_npu=0")), "{last:?}");
    // Two changes, of which neither is enough.
    for told in with(&default, 100_000) {
        assert!(told.starts_with("parallel.pipeline=") || told.contains(' '), "{told}");
    }
}

#[test]
fn at_most_three_changes_of_different_kinds_are_combined() {
    let layers = blocks(8);
    let mut sizes = std::collections::BTreeSet::new();
    for capacity in (5_000..120_000).step_by(5_000) {
        for told in checked(&layers, 8, &Parallel::default(), capacity) {
            let mut keys: Vec<&str> =
                told.split(' ').map(|change| change.split_once('=').unwrap().0).collect();
            sizes.insert(keys.len());
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), told.split(' ').count(), "{told}");
        }
        let told = checked(&layers, 8, &Parallel::default(), capacity);
        assert!(told.len() <= 4);
        let sets: std::collections::BTreeSet<Vec<&str>> = told
            .iter()
            .map(|told| told.split(' ').map(|change| change.split_once('=').unwrap().0).collect())
            .collect();
        assert_eq!(sets.len(), told.len(), "one remedy of each set of kinds: {told:?}");
    }
    assert!(sizes.contains(&2) && sizes.contains(&3) && !sizes.contains(&4), "{sizes:?}");
    let none = refusal(&layers, 8, &Parallel::default(), 10).unwrap();
    assert_eq!(
        none.help.as_deref(),
        Some("no combination of up to 3 changes makes it fit: use more NPUs, or a smaller model")
    );
}

#[test]
fn the_memory_of_a_rank_is_listed_by_its_parts() {
    let layers = blocks(4);
    let problem = refusal(&layers, 4, &Parallel { zero: 3, ..Parallel::default() }, 50_000).unwrap();
    assert_eq!(problem.code, Code::DoesNotFit);
    assert_eq!(problem.key.as_deref(), Some("workload.parallel"));
    // A quarter of 4,000 parameters; two blocks of them gathered.
    assert_eq!(
        problem.found.as_deref(),
        Some(
            "parameters 1.95 KiB, gradients 3.91 KiB, optimizer states 23.44 KiB, gathered parameters 3.91 KiB, activations 62.5 KiB"
        )
    );
    assert_eq!(problem.allowed.as_deref(), Some("48.83 KiB together"));
    assert_eq!(problem.notes, [] as [String; 0]);
    let staged = Parallel { pipeline: Axes::Degree(2), ..Parallel::default() };
    let problem = refusal(&layers, 2, &staged, 50_000).unwrap();
    assert_eq!(problem.message, "a rank of stage 0 needs 121.1 KiB, and an NPU has 48.83 KiB");
    assert_eq!(
        problem.found.as_deref(),
        Some(
            "parameters 3.91 KiB, gradients 7.81 KiB, optimizer states 46.88 KiB, activations 62.5 KiB (2 micro-batches in flight)"
        )
    );
    // The last of two stages has one in flight; with more parameters it needs the most.
    let mut heavy = blocks(4);
    heavy[3].parameters = 9_000;
    let problem = refusal(&heavy, 2, &staged, 50_000).unwrap();
    assert!(problem.message.starts_with("a rank of stage 1 needs"));
    assert!(problem.found.unwrap().ends_with("activations 31.25 KiB"));
    let mut unknown = blocks(4);
    unknown[1].kept = None;
    let problem = refusal(&unknown, 2, &Parallel::default(), 50_000).unwrap();
    assert_eq!(problem.notes, ["activations are not counted: `kept` is unknown for some layers"]);
    assert!(problem.found.unwrap().ends_with("optimizer states 93.75 KiB"));
}

#[test]
fn memory_is_shown_with_four_digits_in_the_largest_unit() {
    for (bytes, text) in [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1_023, "1023 B"),
        (1_024, "1 KiB"),
        (1_536, "1.5 KiB"),
        (1_034, "1.01 KiB"),
        (102_348, "99.95 KiB"),
        (102_400, "100 KiB"),
        (102_500, "100.1 KiB"),
        (1_048_524, "1023.9 KiB"),
        (1_048_525, "1 MiB"),
        (3 << 29, "1.5 GiB"),
        (5 << 40, "5 TiB"),
        (7 << 50, "7 PiB"),
        (u64::MAX, "16384 PiB"),
    ] {
        assert_eq!(memory_size(Bytes(bytes)), text, "{bytes}");
    }
}

#[test]
fn selective_recomputation_and_sequence_parallelism_are_offered_together() {
    // Eight blocks: one replicated half that tokens divide, one divided half that recomputation leaves small.
    let of = |block: u32, name: &str, marked: bool| Layer {
        parameters: 0,
        kept: Some(Bytes(8_000)),
        kept_selective: marked.then_some(Bytes(0)),
        selective: marked,
        tokens: Some(8),
        sharding: if marked { Sharding::Divided } else { Sharding::Replicated },
        block: Some(block),
        ..timed(&format!("{name}{block}"), 1, 1, 1)
    };
    let layers: Vec<Layer> =
        (0..8).flat_map(|block| [of(block, "norm", false), of(block, "attention", true)]).collect();
    let parallel = Parallel { tensor: Axes::Degree(2), ..Parallel::default() };
    // 8 x (8,000 + 4,000) now; selective alone 8 x 8,000 + 4,000; sequence alone 8 x 8,000; both 8 x 4,000 + 4,000.
    let at = |capacity| checked(&layers, 2, &parallel, capacity);
    let pair = "parallel.recompute=selective parallel.sequence=true";
    assert_eq!(at(36_000)[0], pair);
    assert_eq!(at(63_999)[0], pair);
    // If one of them is enough, it is offered alone.
    assert_eq!(at(68_000)[..2], ["parallel.recompute=selective", "parallel.sequence=true"]);
    assert!(!at(64_000).contains(&pair.to_owned()));
    assert_ne!(at(35_999)[0], pair);
    // Without sequence parallelism on a single rank of a part, without tokens, or with it, there is no such pair.
    let single = Parallel { tensor: Axes::Degree(1), ..Parallel::default() };
    assert!(checked(&layers, 2, &single, 80_000).iter().all(|told| !told.contains("sequence")));
    let bare: Vec<Layer> = layers.iter().map(|layer| Layer { tokens: None, ..layer.clone() }).collect();
    assert!(checked(&bare, 2, &parallel, 63_999).iter().all(|told| !told.contains("sequence")));
    let with = Parallel { sequence: true, ..parallel };
    assert!(checked(&layers, 2, &with, 50_000).iter().all(|told| !told.contains("sequence")));
}
