//! Stragglers and broken parts: their cost, compared with times computed by hand.

use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};

fn outcome(value: &Value) -> Result<Run, String> {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).map_err(|errors| errors.to_string())
}

/// One layer of 100 us of compute on a ring of four, and an all-reduce of 4 MB: 6 rounds of 500 kB over both ways.
fn ring(faults: Value) -> Value {
    json!({"schema": "syncline/1",
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "50GB/s", "latency": "1us"}]},
        "workload": {"source": "layers", "layers": [{"name": "a", "forward": {"time": "60us"},
            "weight_grad": {"time": "40us"}, "parameters": 1_000_000}]},
        "collectives": {"chunks": 2}, "faults": faults})
}

const HEALTHY: f64 = 100e-6 + 6.0 * 11e-6;

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-11, "{found} {expected}");
}

#[test]
fn a_slow_rank_costs_its_additional_compute_time() {
    let without = outcome(&ring(json!([]))).unwrap().timeline.summary;
    near(without.step_time_s, HEALTHY);
    assert_eq!((without.healthy_step_time_s, without.fault_cost_s, without.faults.len()), (None, None, 0));
    let cost = |fault: Value| {
        let summary = outcome(&ring(json!([fault]))).unwrap().timeline.summary;
        near(summary.healthy_step_time_s.unwrap(), HEALTHY);
        near(summary.fault_cost_s.unwrap(), summary.step_time_s - HEALTHY);
        summary.fault_cost_s.unwrap()
    };
    near(cost(json!({"rank": [2], "factor": 1.5})), 50e-6);
    // Half the pace from 20 us to 50 us loses 15 us, also if the window opens in the second task.
    near(cost(json!({"rank": [2], "factor": 2.0, "from": "20us", "until": "50us"})), 15e-6);
    near(cost(json!({"rank": [2], "factor": 2.0, "from": "50us", "until": "80us"})), 15e-6);
    // While the rank communicates, nothing is lost.
    near(cost(json!({"rank": [2], "factor": 9.0, "from": "100us", "until": "1ms"})), 0.0);
    near(cost(json!({"random_ranks": 1, "factor": 1.5})), 50e-6);
}

#[test]
fn slow_and_dead_links_slow_the_rings_down() {
    let summary = |faults: Value| outcome(&ring(faults)).unwrap();
    // In one of the two directions, one link takes four times as long. It is then never idle: six messages and a
    // latency.
    let slow = summary(json!([{"link": ["NPU 1", "NPU 2"], "one_way": true, "factor": 4.0}]));
    near(slow.timeline.summary.step_time_s, 100e-6 + 6.0 * 40e-6 + 1e-6);
    assert_eq!(slow.timeline.summary.faults, ["links 4 times as slow: NPU 1 -> NPU 2"]);
    // A dead cable: the messages of both rings share the links on the long way round.
    let dead = summary(json!([{"link": ["npu 1", "npu 2"], "dead": true}]));
    assert!(dead.timeline.summary.fault_cost_s.unwrap() > 10e-6);
    let links = dead.timeline.table("links").unwrap();
    let column = |name: &str| links.column(name).unwrap().data.clone();
    let (syncline_timeline::Data::Text(from), syncline_timeline::Data::Text(to)) =
        (column("from"), column("to"))
    else {
        panic!()
    };
    let syncline_timeline::Data::Int(bytes) = column("carried_bytes") else { panic!() };
    let syncline_timeline::Data::Float(rates) = column("rate_bytes_per_s") else { panic!() };
    for index in 0..from.len() {
        let broken = [(&*from[index], &*to[index])]
            .iter()
            .all(|ends| [("NPU 1", "NPU 2"), ("NPU 2", "NPU 1")].contains(ends));
        assert_eq!(
            (bytes[index] == 0, rates[index] == 0.0),
            (broken, broken),
            "{} {}",
            from[index],
            to[index]
        );
    }
}

#[test]
fn random_faults_follow_the_seed() {
    let said = |seed: u64| {
        let mut value = ring(json!([{"random_ranks": 2, "factor": 2.0}, {"random_links": 1, "factor": 2.0}]));
        value["fabric"]["dims"][0]["size"] = json!(64);
        value["seed"] = json!(seed);
        outcome(&value).unwrap().timeline.summary.faults
    };
    assert_eq!(said(1), said(1));
    assert!((2..9).any(|seed| said(seed)[0] != said(1)[0]));
    assert!((2..9).any(|seed| said(seed)[1] != said(1)[1]));
}

#[test]
fn faults_that_disconnect_the_ranks_are_refused() {
    let apart =
        json!([{"link": ["NPU 0", "NPU 1"], "dead": true}, {"link": ["NPU 0", "NPU 3"], "dead": true}]);
    let error = outcome(&ring(apart)).unwrap_err();
    assert!(error.contains("SL0202") && error.contains("no path leads from NPU 0 to NPU 1"), "{error}");
    // The disconnected NPU is not used: the job runs on the others.
    let mut value =
        ring(json!([{"link": ["NPU 0", "NPU 1"], "dead": true}, {"link": ["NPU 0", "NPU 3"], "dead": true}]));
    value["placement"] = json!({"npus": [1, 2, 3]});
    assert!(outcome(&value).is_ok());
}

#[test]
fn impossible_faults_are_refused() {
    for (fault, expected) in [
        (json!({"rank": [4], "factor": 2.0}), "faults.0.rank"),
        (json!({"rank": [1], "factor": 0.5}), "from 1 to"),
        (json!({"rank": [1]}), "the fault has no `factor`"),
        (json!({"factor": 2.0}), "does not say which ranks or links it affects"),
        (json!({"link": 99, "dead": true}), "the fabric has no link with this number"),
        (json!({"link": ["NPU 0", "NPU 2"], "dead": true}), "NPU 0 and one of NPU 1, NPU 3"),
        (json!({"link": ["NPU 0", "NPU x"], "dead": true}), "no such NPU or switch"),
        (json!({"link": 1, "dead": true, "factor": 2.0}), "both `factor` and `dead`"),
        (json!({"link": 1, "dead": true, "from": "1us"}), "lasts the whole run"),
        (json!({"random_links": 5, "dead": true}), "at most 4"),
        (json!({"random_ranks": 5, "factor": 2.0}), "at most 4"),
        (json!({"rank": [1], "factor": 2.0, "from": "2us", "until": "1us"}), "ends before it begins"),
    ] {
        let error = outcome(&ring(json!([fault]))).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn ranks_with_faults_are_traced() {
    let traced = |faults: Value, change: &dyn Fn(&mut Value)| -> Vec<u32> {
        let mut value = ring(faults);
        value["fabric"]["dims"][0]["size"] = json!(16);
        change(&mut value);
        let spans = outcome(&value).unwrap().timeline.spans.spans;
        let ranks: std::collections::BTreeSet<u32> = spans.iter().map(|span| span.rank.0).collect();
        ranks.into_iter().collect()
    };
    assert_eq!(traced(json!([]), &|_| {}), [0]);
    assert_eq!(traced(json!([{"rank": [5, 9], "factor": 2.0}]), &|_| {}), [0, 5, 9]);
    let link = json!([{"link": ["NPU 3", "NPU 4"], "factor": 2.0}, {"rank": [0, 7], "factor": 2.0}]);
    assert_eq!(traced(link.clone(), &|_| {}), [0, 3, 4, 7]);
    // Also if rank i is not on NPU i, and if ranks are listed.
    let backwards: Vec<u32> = (0..16).rev().collect();
    assert_eq!(
        traced(link.clone(), &|value| value["placement"] = json!({"npus": backwards})),
        [0, 7, 11, 12]
    );
    assert_eq!(traced(link, &|value| value["trace"] = json!({"ranks": [2]})), [2]);
    // At most the limit; slow ranks take precedence over broken links.
    let many = json!([
        {"link": ["NPU 14", "NPU 15"], "factor": 2.0},
        {"rank": [13, 1, 2, 3, 4, 5, 6, 7, 8], "factor": 2.0},
    ]);
    assert_eq!(traced(many, &|_| {}), [0, 1, 2, 3, 4, 5, 6, 7, 13]);
}

#[test]
fn warnings_are_sent_once_before_the_first_event() {
    let mut value = ring(json!([{"rank": [2], "factor": 1.5}]));
    value["workload"]["layers"] =
        json!([{"name": "shapeless", "forward": {"ops": {"flop": "1GFLOP", "memory": "1MB"}}}]);
    value["compute"] =
        json!({"model": "systolic", "rows": 8, "columns": 8, "clock": "1GHz", "memory": "900GB/s"});
    let scenario: Scenario = serde_json::from_value(value).unwrap();
    let mut said = Vec::new();
    let mut warn = |found: &syncline_diagnostics::Diagnostics| said.push(found.clone());
    let run = run(&scenario, Control { warn: Some(&mut warn), ..Control::default() }).unwrap();
    assert_eq!(said, [run.diagnostics]);
}
