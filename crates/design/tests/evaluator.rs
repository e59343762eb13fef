//! Evaluations against closed forms, and against whole runs.

use syncline_design::Evaluator;
use syncline_diagnostics::Code;
use syncline_scenario::{NetworkSettings, Placement, Scenario, Workload};
use syncline_simulate::{Control, run};
use syncline_timeline::Data;
use syncline_units::{Bytes, Rate, Time};

/// An all-reduce of 64 MB on `dims`, with one chunk and links of no latency.
fn all_reduce(dims: &str) -> Scenario {
    let json = format!(
        r#"{{"schema": "syncline/1", "fabric": {{"dims": [{dims}]}},
            "collectives": {{"chunks": 1, "all_reduce": "enhanced"}},
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "64MB"}}]}}}}"#
    );
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn ring(name: &str, size: u32) -> String {
    format!(
        r#"{{"name": "{name}", "shape": "ring", "direction": "one-way", "size": {size}, "rate_per_npu": "1GB/s", "latency": "0s"}}"#
    )
}

const GB: u64 = 1_000_000_000;

#[test]
fn a_ring_takes_its_closed_form_at_every_rate() {
    let mut evaluator = Evaluator::new(all_reduce(&ring("a", 8)));
    for rate in [1, 2, 50] {
        evaluator.set_rates(&[Rate::from_bytes_per_s(rate * GB)]).unwrap();
        let found = evaluator.evaluate(&mut Control::default()).unwrap();
        // 2 (n - 1) steps of 1/n of the data each (Thakur et al. 2005); every link sends all the time.
        let expected = Rate::from_bytes_per_s(rate * GB).transfer_time(Bytes(14 * 8_000_000)).unwrap();
        assert_eq!(found.total, expected, "{rate} GB/s");
        assert_eq!(found.busy[0], ("a".to_owned(), expected));
    }
}

#[test]
fn dimensions_are_busy_for_their_share_of_the_bytes() {
    let mut evaluator = Evaluator::new(all_reduce(&[ring("a", 4), ring("b", 8)].join(", ")));
    evaluator.set_rates(&[Rate::from_bytes_per_s(4 * GB), Rate::from_bytes_per_s(GB)]).unwrap();
    let found = evaluator.evaluate(&mut Control::default()).unwrap();
    // Reduce-scatter and all-gather along `a` move 3/4 of the data each, the all-reduce along `b` 2 * 7/8 of a quarter.
    assert_eq!(found.busy[0], ("a".to_owned(), Time(24_000_000_000)));
    assert_eq!(found.busy[1], ("b".to_owned(), Time(28_000_000_000)));
    assert_eq!(found.total, Time(52_000_000_000));
}

#[test]
fn an_evaluation_agrees_with_a_whole_run() {
    for shape in ["ring", "switch", "fully_connected"] {
        let dims = format!(
            r#"{{"name": "a", "shape": "{shape}", "size": 6, "rate": "10GB/s", "latency": "1us"}},
               {{"name": "b", "shape": "switch", "size": 5, "rate_per_npu": "3GB/s", "latency": "2us"}}"#
        );
        // 64 MB do not divide evenly by 30 ranks, so that each is simulated.
        let scenario = all_reduce(&dims);
        let timeline = run(&scenario, Control::default()).unwrap().timeline;
        let found = Evaluator::new(scenario).evaluate(&mut Control::default()).unwrap();
        assert_eq!(found.total.as_s(), timeline.summary.total_time_s);
        let links = timeline.tables.iter().find(|table| table.name == "links").unwrap();
        let column = |name: &str| &links.columns.iter().find(|column| column.name == name).unwrap().data;
        let (Data::Text(of), Data::Float(busy)) = (column("dimension"), column("busy_s")) else { panic!() };
        for (name, longest) in found.busy.iter().take(2) {
            let rows = of.iter().zip(busy).filter(|(of, _)| *of == name).map(|(_, &busy)| busy);
            assert_eq!(rows.fold(0.0, f64::max), longest.as_s(), "{shape}: {name}");
        }
    }
}

#[test]
fn a_changed_fabric_and_placement_are_measured() {
    let mut scenario = all_reduce(&ring("a", 8));
    scenario.network = NetworkSettings::Flow(Default::default());
    let mut evaluator = Evaluator::new(scenario);
    evaluator.set_fabric(all_reduce(&ring("a", 4)).fabric);
    assert_eq!(evaluator.evaluate(&mut Control::default()).unwrap().total, Time(96_000_000_000));
    // Neighbours in rank are now 2, 3, 2 and 1 links apart, so that each of the 4 links carries two messages at a time.
    evaluator.set_placement(Placement::Npus(vec![0, 2, 1, 3]));
    assert_eq!(evaluator.evaluate(&mut Control::default()).unwrap().total, Time(192_000_000_000));
}

#[test]
fn rates_must_fit_the_dimensions() {
    let mut evaluator = Evaluator::new(all_reduce(&ring("a", 8)));
    let found = evaluator.set_rates(&[Rate(8), Rate(8)]).unwrap_err();
    assert_eq!(found.0[0].code, Code::BadFabric);
    assert_eq!(found.0[0].allowed.as_deref(), Some("1"));
}

#[test]
fn files_are_read_at_the_first_evaluation_only() {
    let folder = std::env::temp_dir().join(format!("syncline-evaluator-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("job.txt");
    std::fs::write(&file, "DATA\n1\nlayer -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 8000000 0\n").unwrap();
    let mut scenario = all_reduce(&ring("a", 8));
    let file_text = file.display().to_string();
    scenario.workload = Workload::AstraText { file: file_text, iterations: 1 };
    let evaluator = Evaluator::new(scenario);
    let first = evaluator.clone().evaluate(&mut Control::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(evaluator.evaluate(&mut Control::default()).unwrap(), first);
}
