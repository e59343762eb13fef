//! Which of several ready tasks a rank's compute takes, and where its idle time goes, compared with a minimal
//! scheduler.

use crate::support::cases;
use proptest::prelude::*;
use std::collections::BTreeSet;
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};
use syncline_timeline::{Data, Track};

/// A job of two ranks that do the same, independently of each other.
#[derive(Clone, Debug)]
struct Job {
    /// By task: microseconds of compute; `None` for a task that takes no time, which is a collective of one rank.
    compute: Vec<Option<u64>>,
    /// By task: the tasks that it waits for.
    after: Vec<Vec<usize>>,
}

/// Random jobs. Dependencies follow a random order of the tasks, which differs from the order of their numbers.
fn job() -> impl Strategy<Value = Job> {
    (2usize..14).prop_flat_map(|count| {
        let order = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
        let compute = prop::collection::vec(prop::option::weighted(0.6, 1u64..4), count);
        let edges = prop::collection::vec((0..count, 0..count), 0..2 * count);
        (order, compute, edges).prop_map(|(order, compute, edges)| {
            let mut after = vec![BTreeSet::new(); compute.len()];
            for (a, b) in edges.into_iter().filter(|(a, b)| a != b) {
                after[order[a.max(b)]].insert(order[a.min(b)]);
            }
            Job { compute, after: after.into_iter().map(|tasks| tasks.into_iter().collect()).collect() }
        })
    })
}

/// The expected order of tasks: whenever compute is free, it takes the ready task with the lowest number.
fn expected(job: &Job) -> Vec<usize> {
    let (mut done, mut taken) = (BTreeSet::new(), Vec::new());
    loop {
        let ready = |task: &usize| {
            !done.contains(task) && job.after[*task].iter().all(|before| done.contains(before))
        };
        let ready: Vec<usize> = (0..job.compute.len()).filter(ready).collect();
        // Tasks that take no time are done at once.
        if let Some(&free) = ready.iter().find(|&&task| job.compute[task].is_none()) {
            done.insert(free);
        } else if let Some(&next) = ready.first() {
            done.insert(next);
            taken.push(next);
        } else {
            return taken;
        }
    }
}

fn simulated(job: &Job) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2u32 {
        let node = |(task, &compute): (usize, &Option<u64>)| {
            let (id, name) = (task as u64, task.to_string());
            let before: Vec<u64> = job.after[task].iter().map(|&before| before as u64).collect();
            let node = match compute {
                Some(micros) => Node::compute(id, &name, micros),
                None => Node::collective(id, &name, CollectiveType::AllReduce, 8)
                    .in_group(&(rank + 1).to_string()),
            };
            node.after(&before)
        };
        let nodes: Vec<Node> = job.compute.iter().enumerate().map(node).collect();
        write_file(&folder.path().join(format!("trace.{rank}.et")), &Metadata::astra(), &nodes).unwrap();
    }
    let groups = folder.path().join("groups.json");
    std::fs::write(&groups, r#"{"1": [0], "2": [1]}"#).unwrap();
    let text = |path: &std::path::Path| path.display().to_string();
    let scenario: Scenario = serde_json::from_value(serde_json::json!({
        "schema": "syncline/1",
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "1us"}]},
        "workload": {"source": "chakra", "prefix": text(&folder.path().join("trace")), "groups": text(&groups)},
        "trace": {"ranks": [0, 1]},
    }))
    .unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The tasks of a rank's compute in the order of time.
fn order(run: &Run, rank: u32) -> Vec<usize> {
    let spans = &run.timeline.spans;
    let mut own: Vec<_> =
        spans.spans.iter().filter(|span| span.rank.0 == rank && span.track == Track::Compute).collect();
    own.sort_by_key(|span| span.start);
    own.iter().map(|span| spans.labels[span.label as usize].parse().unwrap()).collect()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_lowest_of_all_ready_tasks_goes_first(job in job()) {
        let run = simulated(&job);
        for rank in 0..2 {
            prop_assert_eq!(order(&run, rank), expected(&job));
        }
        let table = run.timeline.table("ranks").unwrap();
        let column = |name: &str| match &table.column(name).unwrap().data {
            Data::Float(values) => values[0],
            other => panic!("{other:?}"),
        };
        let whole = job.compute.iter().flatten().sum::<u64>() as f64 * 1e-6;
        prop_assert!((column("finish_s") - whole).abs() < 1e-12);
        prop_assert_eq!((column("compute_s"), column("exposed_communication_s")), (column("finish_s"), 0.0));
    }
}
