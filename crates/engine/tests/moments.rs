//! Tables over time: the critical path has no gaps and leads through the activities that were waited for; slices of
//! time hold the bytes that links carried.

use crate::support::{cases, scenario, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use syncline_timeline::{Data, Summary, Table, Timeline, Track};
use syncline_units::Time;

fn table<'a>(timeline: &'a Timeline, name: &str) -> &'a Table {
    timeline.table(name).unwrap()
}

fn floats<'a>(table: &'a Table, column: &str) -> &'a [f64] {
    match &table.column(column).unwrap().data {
        Data::Float(values) => values,
        other => panic!("{other:?}"),
    }
}

fn texts<'a>(table: &'a Table, column: &str) -> &'a [String] {
    match &table.column(column).unwrap().data {
        Data::Text(values) => values,
        other => panic!("{other:?}"),
    }
}

fn ints<'a>(table: &'a Table, column: &str) -> &'a [i64] {
    match &table.column(column).unwrap().data {
        Data::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

/// The path as `(start in us, end in us, rank, kind, what, dimension)`.
fn path(timeline: &Timeline) -> Vec<(f64, f64, i64, &str, &str, &str)> {
    let table = table(timeline, "critical_path");
    let micro =
        |column| floats(table, column).iter().map(|time| (time * 1e9).round() / 1e3).collect::<Vec<_>>();
    let (starts, ends) = (micro("start_s"), micro("end_s"));
    let text = |column| texts(table, column);
    (0..starts.len())
        .map(|row| {
            let text = |column| text(column)[row].as_str();
            (starts[row], ends[row], ints(table, "rank")[row], text("kind"), text("what"), text("dimension"))
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn the_path_has_no_gaps_and_is_as_long_as_the_run(value in scenario()) {
        let timeline = simulate(&value);
        let table = table(&timeline, "critical_path");
        let (starts, ends) = (floats(table, "start_s"), floats(table, "end_s"));
        let times = std::iter::once(&0.0).chain(ends);
        prop_assert!(starts.iter().chain([&ends.last().copied().unwrap_or(0.0)]).eq(times), "{starts:?} {ends:?}");
        prop_assert!(starts.iter().zip(ends).all(|(start, end)| start < end));
        if timeline.summary.iterations <= 2 {
            prop_assert_eq!(ends.last().copied().unwrap_or(0.0), timeline.summary.total_time_s);
        }
    }

    /// The parts of the mean rank's step add up to the step, and the parts of the path to the path.
    #[test]
    fn parts_of_the_step_and_of_the_path_add_up(value in scenario()) {
        let summary = simulate(&value).summary;
        let waits = [summary.exposed_communication_s, summary.exposed_memory_s, summary.bubble_s, summary.skew_s, summary.idle_s];
        let sum = summary.compute_s + waits.iter().sum::<f64>();
        prop_assert!((sum - summary.total_time_s).abs() <= 1e-9 * summary.total_time_s || summary.compute_s == 0.0,
            "{sum} {}", summary.total_time_s);
        let by_axis: f64 = summary.exposed_by_axis.iter().map(|axis| axis.exposed_communication_s).sum();
        prop_assert!((by_axis - summary.exposed_communication_s).abs() <= 1e-9 * summary.total_time_s);
        let path: f64 = summary.critical_path.iter().map(|part| part.time_s).sum();
        if summary.iterations <= 2 {
            prop_assert!((path - summary.total_time_s).abs() <= 1e-9 * summary.total_time_s, "{path} {summary:?}");
        }
        let shares: u32 = summary.critical_path.iter().map(|part| part.per_mille).sum();
        prop_assert!(shares == 1000 || summary.total_time_s == 0.0);
    }

    /// For each kind of wait, the trace of a rank and the table of ranks give the same time. The time after a rank's
    /// last task is bubble or skew, as in the summary.
    #[test]
    fn waits_in_the_trace_are_those_of_the_table(mut value in scenario()) {
        let ranks: Vec<u64> = (0..simulate(&value).summary.ranks).collect();
        (value["trace"], value["symmetry"]) = (json!({"ranks": ranks, "max_spans": 1_000_000}), json!(false));
        let timeline = simulate(&value);
        let (summary, spans) = (&timeline.summary, &timeline.spans);
        prop_assume!(spans.left_out == 0 && summary.iterations <= 2 && summary.compute_s > 0.0);
        let of_rank = |track: Track, rank: usize| -> f64 {
            let spans = spans.spans.iter().filter(|span| span.track == track && span.rank.0 as usize == rank);
            spans.map(|span| span.end.saturating_sub(span.start).as_s()).sum()
        };
        let ranks = table(&timeline, "ranks");
        let (mut bubbles, mut skews) = (0.0, 0.0);
        for rank in 0..summary.ranks as usize {
            let close = |track, expected: f64| (of_rank(track, rank) - expected).abs() < 1e-11;
            let of = |column| floats(ranks, column)[rank];
            prop_assert!(close(Track::Exposed, of("exposed_communication_s")), "rank {rank}");
            let late = of_rank(Track::Bubble, rank) + of_rank(Track::Skew, rank) - of("bubble_s") - of("skew_s");
            prop_assert!((late - (summary.total_time_s - of("finish_s"))).abs() < 1e-11, "rank {rank}: {late}");
            bubbles += of_rank(Track::Bubble, rank);
            skews += of_rank(Track::Skew, rank);
        }
        let mean = |sum: f64| sum / summary.ranks as f64;
        prop_assert!((mean(bubbles) - summary.bubble_s).abs() < 1e-11, "{bubbles} {}", summary.bubble_s);
        prop_assert!((mean(skews) - summary.skew_s).abs() < 1e-11, "{skews} {}", summary.skew_s);
    }

    /// Each compute segment of the path equals a compute span in the trace of its rank.
    #[test]
    fn compute_on_the_path_agrees_with_the_trace(mut value in scenario()) {
        let ranks: Vec<u64> = (0..simulate(&value).summary.ranks).collect();
        (value["trace"], value["symmetry"]) = (json!({"ranks": ranks}), json!(false));
        let timeline = simulate(&value);
        let spans = &timeline.spans;
        // A task may wait for a task of an iteration that is no longer recorded.
        prop_assume!(spans.left_out == 0 && timeline.summary.iterations <= 2);
        let nano = |time: Time| (time.as_s() * 1e9).round() as u64;
        let computed: BTreeSet<_> = spans
            .spans
            .iter()
            .filter(|span| span.track == Track::Compute)
            .map(|span| {
                let what = spans.labels[span.label as usize].as_str();
                (i64::from(span.rank.0), nano(span.start), nano(span.end), what)
            })
            .collect();
        for (start, end, rank, kind, what, _) in path(&timeline) {
            let nano = |micro: f64| (micro * 1e3).round() as u64;
            prop_assert!(kind != "compute" || computed.contains(&(rank, nano(start), nano(end), what)),
                "{what} of rank {rank} from {start} to {end} us");
        }
    }

    #[test]
    fn slices_hold_what_links_carried(mut value in scenario()) {
        value["network"] = json!({"model": "queued"});
        let timeline = simulate(&value);
        prop_assume!(timeline.summary.iterations <= 2);
        let (activity, links) = (table(&timeline, "activity"), table(&timeline, "links"));
        let (starts, ends) = (floats(activity, "start_s"), floats(activity, "end_s"));
        let utilization = floats(activity, "utilization");
        for dim in &timeline.summary.dims {
            let rows = || (0..starts.len()).filter(|&row| texts(activity, "dimension")[row] == dim.name);
            let mine = |column| -> Vec<f64> {
                let dims = texts(links, "dimension").iter();
                let of = floats(links, column).iter().zip(dims).filter(|(_, name)| **name == dim.name);
                of.map(|(value, _)| *value).collect()
            };
            let capacity: f64 = mine("rate_bytes_per_s").iter().sum();
            let carried: f64 = rows().map(|row| utilization[row] * (ends[row] - starts[row]) * capacity).sum();
            let busy: f64 = mine("busy_s").iter().zip(mine("rate_bytes_per_s")).map(|(busy, rate)| busy * rate).sum();
            prop_assert!((carried - busy).abs() <= 1e-6 * busy.max(1.0), "{carried} {busy} {}", dim.name);
            for row in rows() {
                let (mean, busiest) = (utilization[row], floats(activity, "busiest_utilization")[row]);
                prop_assert!(mean <= busiest * (1.0 + 1e-9) && busiest <= 1.0, "{mean} {busiest}");
            }
        }
    }
}

/// Two ranks on a ring of 1 GB/s: 1 MB takes 1 ms and a latency of 10 us.
fn two(workload: Value) -> Timeline {
    simulate(&json!({
        "schema": "syncline/1",
        "workload": workload,
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "10us",
                             "direction": "one-way"}]},
        "collectives": {"chunks": 1},
    }))
}

fn layer(name: &str, compute: &str, parameters: u64) -> Value {
    json!({"name": name, "forward": {"time": compute}, "input_grad": {"time": "1us"}, "weight_grad": {"time": compute},
           "update": {"time": "0us"}, "parameters": parameters, "inputs": 1, "outputs": 1})
}

#[test]
fn the_path_goes_through_the_communication_that_compute_waits_for() {
    let timeline = two(json!({
        "source": "layers",
        "layers": [layer("a", "100us", 500_000), layer("b", "100us", 0)],
        "parallel": {"data": "all", "tensor": "none"},
        "types": "fp16",
        "iterations": 1,
    }));
    let path = path(&timeline);
    let brief: Vec<_> = path.iter().map(|&(start, end, _, kind, _, dim)| (start, end, kind, dim)).collect();
    // Forward a, b; weight and input gradient of b, weight gradient of a; then an all-reduce of 1 MB: a reduce-scatter
    // and an all-gather, each with one message of 0.5 MB.
    assert_eq!(
        brief,
        [
            (0.0, 100.0, "compute", ""),
            (100.0, 200.0, "compute", ""),
            (200.0, 300.0, "compute", ""),
            (300.0, 301.0, "compute", ""),
            (301.0, 401.0, "compute", ""),
            (401.0, 1401.0, "bytes", "d"),
            (1401.0, 1421.0, "latency", "d"),
        ],
        "{path:?}"
    );
}

#[test]
fn the_path_changes_to_the_rank_that_others_wait_for() {
    let mut value = json!({
        "schema": "syncline/1",
        "workload": {
            "source": "layers",
            "layers": [layer("a", "100us", 500_000)],
            "parallel": {"data": "all", "tensor": "none"},
            "types": "fp16",
            "iterations": 2,
        },
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "10us",
                             "direction": "one-way"}]},
        "collectives": {"chunks": 1},
        "faults": [{"rank": [1], "factor": 3.0, "until": "600us"}, {"rank": [0], "factor": 2.0, "from": "600us"}],
    });
    for quotient in [true, false] {
        value["symmetry"] = json!(quotient);
        let timeline = simulate(&value);
        let path = path(&timeline);
        let compute = path.iter().filter(|(.., kind, _, _)| *kind == "compute");
        let compute: Vec<_> = compute.map(|&(start, end, rank, ..)| (rank, end - start)).collect();
        assert_eq!(compute, [(1, 300.0), (1, 300.0), (0, 200.0), (0, 200.0)], "{path:?}");
    }
}

#[test]
fn the_path_goes_through_earlier_chunks_that_blocked_the_queue() {
    let timeline = simulate(&json!({
        "schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "4MB"}]},
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "0us",
                             "direction": "one-way"}]},
        "collectives": {"chunks": 4, "issue_threshold": 1, "issue_batch": 1},
    }));
    let path = path(&timeline);
    let brief: Vec<_> = path.iter().map(|&(start, end, _, kind, _, dim)| (start, end, kind, dim)).collect();
    // Only one chunk at a time is in its first phase: the reduce-scatter of a chunk shares the link with the all-gather
    // of the previous one, and the link is never idle.
    assert_eq!(brief, [(0.0, 4000.0, "bytes", "d")]);
}

#[test]
fn a_long_job_shows_its_first_two_iterations() {
    let layers = |iterations: u32| {
        two(json!({
            "source": "layers",
            "layers": [layer("a", "100us", 500_000)],
            "parallel": {"data": "all", "tensor": "none"},
            "types": "fp16",
            "iterations": iterations,
        }))
    };
    let (two, many) = (layers(2), layers(50));
    assert_eq!(path(&two), path(&many));
    assert!(many.summary.simulated_iterations < 50);
    let ends = |timeline: &Timeline| {
        floats(table(timeline, "activity"), "end_s").iter().copied().fold(0.0, f64::max)
    };
    assert!(ends(&many) <= two.summary.total_time_s && ends(&many) > 0.98 * two.summary.total_time_s);
}

#[test]
fn waiting_for_a_slow_rank_is_not_booked_to_the_network() {
    let mut value = json!({
        "schema": "syncline/1",
        "workload": {
            "source": "layers",
            "layers": [layer("a", "1ms", 50_000)],
            "parallel": {"data": "all", "tensor": "none"},
            "types": "fp16",
            "iterations": 2,
        },
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s", "latency": "1us"}]},
        "faults": [{"rank": [2], "factor": 2.0}],
    });
    let summary = simulate(&value).summary;
    assert!(summary.skew_s / summary.total_time_s > 0.3, "{summary:?}");
    assert!(summary.exposed_fraction < 0.05, "{summary:?}");
    assert_eq!(summary.bottleneck.name(), "compute", "{}", summary.reason);
    assert!(summary.reason.contains("the same work spread evenly over ranks by 36."), "{}", summary.reason);
    // One rank takes twice as long as the three others: 2 / (5 / 4) times the mean.
    assert!(
        summary.reason.contains("Rank 2 computes 1.60 times as long as the mean rank"),
        "{}",
        summary.reason
    );
    // Ranks are slow one after the other, none of them all the time.
    value["faults"] =
        json!([{"rank": [2], "factor": 2.0, "until": "4ms"}, {"rank": [1], "factor": 2.0, "from": "4ms"}]);
    let summary = simulate(&value).summary;
    assert_eq!(summary.bottleneck.name(), "compute", "{}", summary.reason);
    assert!(summary.reason.contains("the same work spread evenly over ranks by 36."), "{}", summary.reason);
    value["faults"] = json!([]);
    assert_eq!(simulate(&value).summary.bottleneck.name(), "compute");
}

#[test]
fn the_bottleneck_is_where_the_time_goes() {
    let mut value = json!({
        "schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "64MB"}]},
        "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "100GB/s", "latency": "1us"}]},
        "collectives": {"reduction_rate": "10GB/s"},
    });
    let summary = simulate(&value).summary;
    assert_eq!(summary.bottleneck.name(), "reduction", "{}", summary.reason);
    value["collectives"]["reduction_rate"] = json!("10TB/s");
    assert_eq!(simulate(&value).summary.bottleneck.name(), "d");
}

/// A dimension that is busy only while compute is, is not the one to make faster.
#[test]
fn the_bottleneck_is_the_dimension_that_is_worth_making_faster() {
    let layer = |name: &str, parameters: u64| {
        json!({"name": name, "forward": {"time": "160ms"}, "input_grad": {"time": "160ms"},
               "weight_grad": {"time": "160ms"}, "parameters": parameters, "inputs": 80_000_000,
               "outputs": 80_000_000, "sharding": "row"})
    };
    let step = |node: &str, cluster: &str| {
        let dim = |name: &str, rate: &str| json!({"name": name, "shape": "switch", "size": 4, "rate": rate, "latency": "1us"});
        simulate(&json!({
            "schema": "syncline/1",
            "workload": {
                "source": "layers",
                "layers": [layer("z", 1000), layer("y", 400_000_000)],
                "parallel": {"tensor": {"dims": ["node"]}, "data": {"dims": ["cluster"]}},
                "types": "fp16",
                "iterations": 2,
            },
            "fabric": {"dims": [dim("node", node), dim("cluster", cluster)]},
        }))
        .summary
    };
    let summary = step("20GB/s", "10GB/s");
    let busy: Vec<_> = summary.dims.iter().map(|dim| dim.busiest_link_busy).collect();
    assert!(busy[1] > busy[0], "{busy:?}");
    let share = |name| {
        let of = summary.critical_path.iter().filter(|part| part.tier.as_deref() == Some(name));
        of.map(|part| part.per_mille).sum::<u32>()
    };
    assert!(share("node") > 100 && share("cluster") < 10, "{}", summary.reason);
    let saved = |faster: Summary| summary.step_time_s - faster.step_time_s;
    let [node, cluster] = [step("200GB/s", "10GB/s"), step("20GB/s", "100GB/s")].map(saved);
    assert!(node > 10.0 * cluster && cluster >= 0.0, "{node} {cluster}");
}

/// Four hosts below each of two leaves send all their data over the single link from their leaf to the spine.
fn through_the_spine(network: &str) -> Timeline {
    simulate(&json!({
        "schema": "syncline/1",
        "fabric": {"built": {"network": {"leaf_spine": {
            "leaves": 2, "hosts_per_leaf": 4, "spines": 1, "rate": "8Gb/s", "uplink_rate": "8Gb/s", "latency": "1us"}}}},
        "placement": {"npus": [0, 4]},
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "8MB"}]},
        "collectives": {"chunks": 1},
        "network": {"model": network},
    }))
}

/// Ranks on NPUs 0 and 4 exchange 4 MB at 1 GB/s: two of the eight hosts' links and the uplink of each leaf are full
/// for 4 ms in each direction.
#[test]
fn tiers_have_rows_for_each_direction() {
    let timeline = through_the_spine("flow");
    let tiers = table(&timeline, "tiers");
    let lanes: Vec<(String, String)> =
        texts(tiers, "tier").iter().cloned().zip(texts(tiers, "way").iter().cloned()).collect();
    let mut names = lanes.clone();
    names.dedup();
    let expected = [("host-leaf", "up"), ("host-leaf", "down"), ("leaf-spine", "up"), ("leaf-spine", "down")];
    assert_eq!(names, expected.map(|(tier, way)| (tier.to_owned(), way.to_owned())));
    let (starts, ends) = (floats(tiers, "start_s"), floats(tiers, "end_s"));
    for (tier, way) in expected {
        let rows = || (0..lanes.len()).filter(|&row| (&*lanes[row].0, &*lanes[row].1) == (tier, way));
        let links = if tier == "host-leaf" { 8 } else { 2 };
        assert!(rows().all(|row| ints(tiers, "links")[row] == links), "{tier}");
        let length = |row: usize| ends[row] - starts[row];
        let full: f64 = rows().filter(|&row| ints(tiers, "full_links")[row] == 2).map(length).sum();
        // Slices at the start and the end are partly full.
        assert!((full - 4e-3).abs() < 1e-4, "{tier} {way} {full}");
        let carried: f64 = rows().map(|row| floats(tiers, "utilization")[row] * length(row)).sum();
        assert!((carried * links as f64 - 2.0 * 4e-3).abs() < 1e-6, "{tier} {way} {carried}");
        assert!(rows().all(|row| floats(tiers, "busiest_utilization")[row] <= 1.0));
    }
    // The table of links agrees.
    let links = table(&timeline, "links");
    let ends = texts(links, "from").iter().zip(texts(links, "to"));
    for ((from, to), (tier, way)) in ends.zip(texts(links, "tier").iter().zip(texts(links, "way"))) {
        let expected = match (from.split(' ').next().unwrap(), to.split(' ').next().unwrap()) {
            ("NPU", "leaf") => ("host-leaf", "up"),
            ("leaf", "NPU") => ("host-leaf", "down"),
            ("leaf", "spine") => ("leaf-spine", "up"),
            ("spine", "leaf") => ("leaf-spine", "down"),
            other => panic!("{other:?}"),
        };
        assert_eq!((tier.as_str(), way.as_str()), expected);
    }
}

/// In a fabric of dimensions, the tiers are the dimensions, so there is no table of tiers.
#[test]
fn tiers_of_a_regular_fabric_are_its_dimensions() {
    let timeline =
        two(json!({"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MB"}]}));
    assert!(timeline.tables.iter().all(|table| table.name != "tiers"));
    assert!(texts(table(&timeline, "links"), "tier").iter().all(|tier| tier == "d"));
    assert!(texts(table(&timeline, "links"), "way").iter().all(String::is_empty));
}

/// All hosts of two leaves exchange 8 MB each, half of which cross the only spine. An NPU's port sends 7 MB at 1 GB/s;
/// a leaf's uplink would have to carry 16 MB in that time, and takes 16 ms at its rate.
fn across_the_spine(uplink: &str, network: &str) -> Summary {
    simulate(&json!({
        "schema": "syncline/1",
        "fabric": {"built": {"network": {"leaf_spine": {
            "leaves": 2, "hosts_per_leaf": 4, "spines": 1, "rate": "8Gb/s", "uplink_rate": uplink, "latency": "1us"}}}},
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "8MB"}]},
        "collectives": {"chunks": 1, "algorithms": {"default": {"all_to_all": "direct"}}},
        "network": {"model": network},
    }))
    .summary
}

#[test]
fn overloaded_links_are_reported_with_a_bound() {
    let told = across_the_spine("8Gb/s", "analytical");
    let over = told.overload.expect("uplinks are overloaded");
    assert_eq!(over.links, 4, "{over:?}");
    assert!(over.link.contains("spine 0"), "{over:?}");
    assert!((over.least_time_s - 16e-3).abs() < 1e-9, "{over:?}");
    assert!(told.total_time_s < 8e-3 && over.times > 2.0, "{over:?}");
    // The lateness is the time that the uplink needs beyond that of the ports.
    assert!(over.late_s > 8e-3 && over.late_s < 10e-3, "{over:?}");
    // The bound holds in a model in which links are shared.
    let shared = across_the_spine("8Gb/s", "flow");
    assert!(shared.total_time_s >= over.least_time_s, "{} {over:?}", shared.total_time_s);
    assert_eq!(shared.overload, None);
    // With uplinks as fast as all hosts of a leaf together, no link is overloaded.
    assert_eq!(across_the_spine("32Gb/s", "analytical").overload, None);
}

/// On nodes with rails, the links inside nodes and those of network cards have separate rows; each axis is booked to
/// the tier of its slowest links.
#[test]
fn tiers_have_rows_of_their_own() {
    let timeline = simulate(&json!({
        "schema": "syncline/1",
        "fabric": {"built": {
            "network": {"leaf_spine": {"leaves": 4, "hosts_per_leaf": 8, "spines": 2, "rate": "8Gb/s", "latency": "1us"}},
            "nodes": {"npus": 4, "rate_per_npu": "80Gb/s", "latency": "1us", "rails": true}}},
        "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "32MB"}]},
    }));
    let summary = &timeline.summary;
    let names: Vec<&str> = summary.dims.iter().map(|dim| dim.name.as_str()).collect();
    assert_eq!(names, ["scale-up", "host-leaf", "leaf-spine"]);
    // Up to the switch and down again: 3/4 of 32 MB twice inside a node, and 7/8 of the quarter that is left on a rail.
    assert_eq!(summary.dims[0].carried_bytes, 32 * 2 * 2 * 24_000_000);
    assert_eq!(summary.dims[1].carried_bytes, 32 * 2 * 2 * 7_000_000);
    assert_eq!(summary.dims[2].carried_bytes, 0);
    let phases: BTreeSet<&str> =
        texts(table(&timeline, "phases"), "dimension").iter().map(String::as_str).collect();
    assert_eq!(phases, BTreeSet::from(["host-leaf", "scale-up"]));
    let on_path: BTreeSet<&str> = path(&timeline).iter().map(|segment| segment.5).collect();
    assert_eq!(on_path, BTreeSet::from(["host-leaf", "scale-up"]));
    let links = table(&timeline, "links");
    assert_eq!(texts(links, "dimension"), texts(links, "tier"));
    assert_eq!(summary.simulated_ranks, 1);
}
