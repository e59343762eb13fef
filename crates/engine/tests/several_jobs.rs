//! Several jobs on one fabric: when they slow each other down, and when they do not.

use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Ended, JobSummary, Summary};

fn scenario(jobs: Value, more: Value) -> Scenario {
    let mut scenario = json!({
        "schema": "syncline/1",
        "workload": { "source": "jobs", "jobs": jobs },
        "fabric": { "dims": [{ "name": "d", "shape": "switch", "size": 8, "rate": "8Gb/s", "latency": "1us" }] },
        "network": { "model": "queued" }
    });
    for (key, value) in more.as_object().unwrap() {
        scenario[key] = value.clone();
    }
    serde_json::from_value(scenario).unwrap()
}

fn all_reduce(name: &str, npus: &[u32], more: Value) -> Value {
    let comm = json!({ "kind": "all_reduce", "bytes": "1MiB" });
    let mut job = json!({
        "name": name,
        "workload": { "source": "collectives", "collectives": [comm], "iterations": 3 },
        "placement": { "npus": npus }
    });
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

fn summary(scenario: &Scenario) -> Summary {
    let summary =
        run(scenario, Control::default()).unwrap_or_else(|error| panic!("{error}")).timeline.summary;
    assert_eq!(summary.ended, Ended::Finished);
    summary
}

fn slowdowns(summary: &Summary) -> Vec<f64> {
    summary.jobs.iter().map(|job: &JobSummary| job.slowdown.unwrap()).collect()
}

const LEFT: [u32; 4] = [0, 1, 2, 3];
const RIGHT: [u32; 4] = [4, 5, 6, 7];

/// Jobs that share no link are as fast as alone, under every network model, whenever they begin.
#[test]
fn jobs_apart_do_not_slow_each_other_down() {
    for model in ["analytical", "queued", "packet"] {
        let jobs =
            json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &RIGHT, json!({ "start": "123us" }))]);
        let found = summary(&scenario(jobs, json!({ "network": { "model": model } })));
        assert_eq!(slowdowns(&found), [1.0, 1.0], "{model}");
        let [a, b] = &found.jobs[..] else { panic!() };
        assert_eq!((a.step_time_s, b.start_s, a.iterations), (b.step_time_s, 123e-6, 3));
        assert!((b.finish_s - a.finish_s - 123e-6).abs() < 1e-12, "{model}");
        assert_eq!(found.total_time_s, b.finish_s);
        assert_eq!(a.sent_bytes, b.sent_bytes);
    }
}

/// A small message of one job does not wait for a large message of another job between the same two NPUs: each job has
/// its own connection, and they share links evenly. 1 MB arrives after 2 ms at half of 1 GB/s; 8 MB arrive after 9 ms,
/// the time of all.
#[test]
fn jobs_between_the_same_npus_have_connections_of_their_own() {
    let send = |name: &str, bytes: &str| {
        let comm = json!({ "kind": "broadcast", "bytes": bytes });
        json!({ "name": name, "placement": { "npus": [0, 1] },
            "workload": { "source": "collectives", "collectives": [comm] },
            "collectives": { "chunks": 1, "algorithms": { "default": { "broadcast": "direct" } } } })
    };
    let network = json!([{ "model": "flow" }, { "model": "packet", "transport": "rdma", "framing": "0B" }]);
    for network in network.as_array().unwrap() {
        for names in [["small", "large"], ["large", "small"]] {
            let bytes = |name| if name == "small" { "1MB" } else { "8MB" };
            let jobs = json!(names.map(|name| send(name, bytes(name))));
            let found = summary(&scenario(jobs, json!({ "network": network })));
            let end = |name: &str| found.jobs.iter().find(|job| job.name == name).unwrap().finish_s;
            let (small, large) = (end("small"), end("large"));
            assert!((2.0e-3..2.2e-3).contains(&small), "{network} {names:?}: {small}");
            assert!((9.0e-3..9.9e-3).contains(&large), "{network} {names:?}: {large}");
        }
    }
}

/// Two equal jobs on the same NPUs get half of every link each. Latencies do not change.
#[test]
fn jobs_on_shared_npus_share_their_links() {
    for model in ["analytical", "queued", "packet"] {
        let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &LEFT, json!({}))]);
        let found = summary(&scenario(jobs, json!({ "network": { "model": model } })));
        for slowdown in slowdowns(&found) {
            assert!((1.8..2.1).contains(&slowdown), "{model}: {slowdown}");
        }
    }
}

/// A job that starts after the other has finished is not slowed down.
#[test]
fn jobs_one_after_the_other_do_not_slow_each_other_down() {
    let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &LEFT, json!({ "start": "1s" }))]);
    let found = summary(&scenario(jobs, json!({})));
    assert_eq!(slowdowns(&found), [1.0, 1.0]);
    assert!(found.jobs[0].finish_s < 1.0 && found.jobs[1].finish_s > 1.0);
    // Waiting for the start of the job is not exposed communication.
    assert_eq!(found.jobs[1].exposed_communication_s, found.jobs[0].exposed_communication_s);
}

/// A list of one job gives the same results as the job without a list.
#[test]
fn a_list_of_one_job_gives_the_results_of_that_job() {
    let job = all_reduce("only", &LEFT, json!({}));
    let several = run(&scenario(json!([job]), json!({})), Control::default()).unwrap().timeline;
    let mut alone = scenario(json!([job]), json!({}));
    let syncline_scenario::Workload::Jobs { jobs } = alone.workload.clone() else { panic!() };
    alone.workload = (*jobs[0].workload).clone();
    alone.placement = jobs[0].placement.clone();
    let alone = run(&alone, Control::default()).unwrap().timeline;
    let only = &several.summary.jobs[0];
    assert_eq!(only.step_time_s, alone.summary.step_time_s);
    assert_eq!(only.exposed_communication_s, alone.summary.exposed_communication_s);
    assert_eq!(several.summary.messages, alone.summary.messages);
    let links = |timeline: &syncline_timeline::Timeline| {
        timeline.tables.iter().find(|table| table.name == "links").unwrap().clone()
    };
    assert_eq!(links(&several), links(&alone));
}

/// Jobs may differ in everything: compute, iterations, plans of collectives.
#[test]
fn jobs_have_plans_and_iterations_of_their_own() {
    let layer = json!({ "name": "l", "forward": { "time": "1ms" }, "input_grad": "none", "weight_grad": { "time": "1ms" },
        "update": "none", "parameters": 100_000, "inputs": 0, "outputs": 0 });
    let training = json!({ "source": "layers", "layers": [layer], "iterations": 2 });
    let mut second = all_reduce(
        "b",
        &RIGHT,
        json!({ "collectives": { "chunks": 1, "algorithms": {
        "default": { "all_reduce": "halving_doubling" } }, "all_reduce": "baseline" } }),
    );
    second["workload"]["iterations"] = json!(5);
    let jobs = json!([{ "name": "a", "workload": training, "placement": { "npus": LEFT } }, second]);
    let timeline = run(&scenario(jobs, json!({})), Control::default()).unwrap().timeline;
    let [a, b] = &timeline.summary.jobs[..] else { panic!() };
    assert_eq!((a.iterations, b.iterations), (2, 5));
    assert!((a.compute_s - 4e-3).abs() < 1e-12 && b.compute_s == 0.0);
    let text = |table: &str, column: &str| -> Vec<String> {
        let table = timeline.tables.iter().find(|each| each.name == table).unwrap();
        match &table.columns.iter().find(|each| each.name == column).unwrap().data {
            syncline_timeline::Data::Text(values) => values.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(text("layers", "layer"), ["a/l", "b/all_reduce 1MiB"]);
    assert!(text("collectives", "algorithm").iter().any(|name| name.contains("halving_doubling")));
    assert!(text("collectives", "group").contains(&"b/all.0".to_owned()));
    assert_eq!(text("jobs", "job"), ["a", "b"]);
}

#[test]
fn errors_say_which_job_they_concern() {
    let cases = [
        (json!([]), json!({}), "workload.jobs", "wrong number of jobs"),
        (
            json!([all_reduce("a", &LEFT, json!({})), all_reduce("a", &RIGHT, json!({}))]),
            json!({}),
            "workload.jobs.1.name",
            "two jobs are named `a`",
        ),
        (
            json!([all_reduce("a", &[0, 9], json!({}))]),
            json!({}),
            "workload.jobs.0.placement.1",
            "which does not exist",
        ),
        (
            json!([
                all_reduce("a", &LEFT, json!({})),
                all_reduce("b", &LEFT, json!({ "collectives": { "chunks": 0 } }))
            ]),
            json!({}),
            "workload.jobs.1.collectives.chunks",
            "at least 1",
        ),
        (
            json!([all_reduce("a", &LEFT, json!({}))]),
            json!({ "faults": [{ "rank": [0], "factor": 2.0 }] }),
            "faults.0",
            "only links",
        ),
        (
            json!([
                all_reduce("a", &LEFT, json!({})),
                all_reduce("b", &LEFT, json!({ "workload": { "source": "jobs", "jobs": [] } }))
            ]),
            json!({}),
            "workload.jobs.1.workload",
            "may not contain other jobs",
        ),
    ];
    for (jobs, more, key, message) in cases {
        let error = run(&scenario(jobs, more), Control::default()).unwrap_err().0.remove(0);
        assert_eq!(error.key.as_deref(), Some(key));
        assert!(error.message.contains(message), "{}", error.message);
    }
    // An error in a shared part is reported once.
    let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &RIGHT, json!({}))]);
    let bad =
        json!({ "fabric": { "dims": [{ "name": "d", "shape": "switch", "size": 8, "rate": "0Gb/s" }] } });
    assert_eq!(run(&scenario(jobs, bad), Control::default()).unwrap_err().0.len(), 1);
}

/// A run that is cut off has no slowdowns.
#[test]
fn a_limit_leaves_slowdowns_out() {
    let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &RIGHT, json!({ "start": "1s" }))]);
    let found =
        run(&scenario(jobs, json!({ "limits": { "sim_time": "100us" } })), Control::default()).unwrap();
    let summary = found.timeline.summary;
    assert_eq!(summary.ended, Ended::LimitReached);
    assert!(summary.jobs.iter().all(|job| job.slowdown.is_none() && job.finish_s >= job.start_s));
}

/// A slow link costs a job the same alone and together with others.
#[test]
fn a_slow_link_costs_a_job_the_same_alone_and_together() {
    let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &RIGHT, json!({}))]);
    let faults = json!({ "faults": [{ "link": ["NPU 0", "switch 0"], "factor": 4.0 }] });
    let found = summary(&scenario(jobs, faults));
    assert_eq!(slowdowns(&found), [1.0, 1.0]);
    assert!(found.jobs[0].step_time_s > 2.0 * found.jobs[1].step_time_s);
    assert!(found.fault_cost_s.unwrap() > 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever jobs share, runs are repeatable, bytes are those of the jobs alone, and another order of jobs only
    /// reorders the results.
    #[test]
    fn jobs_finish_and_repeat(
        sizes in prop::collection::vec(2usize..6, 1..4), shift in 0u32..8, start in 0u32..50, model in 0usize..2
    ) {
        let placed = |index: usize, size: usize| -> Vec<u32> {
            (0..size as u32).map(|npu| (npu + shift * index as u32) % 8).collect()
        };
        let jobs: Vec<Value> = sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| {
                let start = json!({ "start": format!("{}us", start * index as u32) });
                all_reduce(&format!("job{index}"), &placed(index, size), start)
            })
            .collect();
        let name = ["queued", "analytical"][model];
        let network = json!({ "network": { "model": name } });
        let scenario = scenario(json!(jobs), network);
        let [one, two] = [(); 2].map(|()| run(&scenario, Control::default()).unwrap().timeline);
        prop_assert_eq!(&one.summary, &two.summary);
        prop_assert_eq!(&one.tables, &two.tables);
        for (job, &size) in one.summary.jobs.iter().zip(&sizes) {
            // Every rank of a ring sends 2 (n - 1) / n of the vector in every iteration.
            let n = size as f64;
            let sent = 3.0 * 2.0 * (n - 1.0) * f64::from(1 << 20);
            prop_assert!((job.sent_bytes as f64 - sent).abs() <= 64.0 * n * 6.0, "{} of {sent}", job.sent_bytes);
            // Other jobs may change the order of messages, which may make a job slightly faster.
            prop_assert!(job.slowdown.unwrap() > 0.9, "{:?}", job);
        }
    }
}

/// A training job whose ranks hold 1 GB: 62.5 million parameters in fp16 and Adam's 12 bytes, without activations.
fn training(name: &str, npus: &[u32], capacity: &str) -> Value {
    let layer = json!({ "name": "l", "forward": { "time": "1ms" }, "parameters": 62_500_000, "sharding": "gather", "kept": "0B" });
    json!({
        "name": name,
        "workload": { "source": "layers", "layers": [layer], "iterations": 1, "types": {
                          "compute": "fp16", "parameters": "fp16", "activations": "fp16", "gradients": "fp16",
                          "optimizer": "fp32", "communication": "fp16" }, "optimizer": "adam",
                      "parallel": { "tensor": "none", "data": "rest" } },
        "compute": { "model": "given" },
        "npu_memory": capacity,
        "placement": { "npus": npus }
    })
}

/// 62.5 million parameters of 2 + 2 + 12 bytes.
#[test]
fn jobs_that_do_not_fit_together_are_refused_with_the_numbers() {
    let on = |second: &[u32], capacity: &str| {
        let jobs = json!([training("a", &LEFT, capacity), training("b", second, capacity)]);
        run(&scenario(jobs, json!({})), Control::default())
    };
    assert!(on(&LEFT, "2GB").is_ok());
    assert!(on(&RIGHT, "1GB").is_ok());
    let found = on(&[4, 5, 3, 2], "1999999999B").unwrap_err();
    let [error] = &found.0[..] else { panic!("{found}") };
    assert_eq!(error.code, syncline_diagnostics::Code::DoesNotFit);
    assert_eq!(error.key.as_deref(), Some("workload.jobs.1.placement"));
    let said = format!("{found}");
    for part in
        ["`a` and `b` need 1.86 GiB together on NPU 2", "so does another NPU", "a 953.7 MiB, b 953.7 MiB"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// The table of collectives names the job of each; with a single job, the column is empty.
#[test]
fn the_table_of_collectives_names_jobs() {
    let jobs = json!([all_reduce("a", &LEFT, json!({})), all_reduce("b", &RIGHT, json!({}))]);
    let timeline = run(&scenario(jobs, json!({})), Control::default()).unwrap().timeline;
    let text = |table: &str, column: &str| match &timeline.table(table).unwrap().column(column).unwrap().data
    {
        syncline_timeline::Data::Text(values) => values.clone(),
        other => panic!("{other:?}"),
    };
    let jobs = text("collectives", "job");
    assert_eq!(jobs.iter().filter(|job| *job == "a").count(), 3);
    assert_eq!(jobs.iter().filter(|job| *job == "b").count(), 3);
    for (job, layer) in jobs.iter().zip(text("collectives", "layer")) {
        assert!(layer.starts_with(&format!("{job}/")), "{job} {layer}");
    }
}
