//! How an endpoint orders and limits its chunks (dlrm2020 III-C.1), compared with times computed by hand.

use serde_json::{Value, json};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{Data, Timeline, Track};
use syncline_units::RankId;

fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}")).timeline
}

/// Collectives of the given kinds and sizes, issued one after the other, 1 us apart, starting at 1 us: they are those
/// of weight gradients whose compute takes 1 us each. They belong to layers `l1`, `l2` and so on.
fn issued(sets: &[(&str, u32)], collectives: &Value, dims: &Value) -> Timeline {
    let layers: Vec<Value> = sets
        .iter()
        .enumerate()
        .map(|(index, (kind, bytes))| {
            json!({"name": format!("l{}", index + 1), "weight_grad": {"time": "1us"},
                "exchanges": [{"when": "after_weight_grad", "axes": ["data"], "kind": kind, "bytes": format!("{bytes}B")}]})
        })
        .rev()
        .collect();
    simulate(&json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "layers": layers, "parallel": {"data": "all"}},
        "fabric": {"dims": dims},
        "collectives": collectives,
    }))
}

/// Two NPUs over 1 GB/s: a byte takes a nanosecond, and each of an all-reduce's two rounds sends half of its data.
fn pair() -> Value {
    json!([{"name": "d", "shape": "fully_connected", "size": 2, "rate": "1GB/s"}])
}

fn settings_of(more: &Value) -> Value {
    let mut settings = json!({"chunks": 10, "element": "1B", "min_chunk": "1B", "issue_threshold": 0,
        "active_chunks": 0, "outstanding": 1});
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    settings
}

/// The microseconds at which the collectives of the layers `l1`, `l2` and so on finish, in the order in which they were
/// issued.
fn finishes(timeline: &Timeline) -> Vec<f64> {
    let table = timeline.table("collectives").unwrap();
    let Data::Text(layers) = &table.column("layer").unwrap().data else { unreachable!() };
    let Data::Float(finish) = &table.column("finish_s").unwrap().data else { unreachable!() };
    let mut rows: Vec<(&String, f64)> =
        layers.iter().zip(finish.iter().map(|second| (second * 1e9).round() / 1e3)).collect();
    rows.sort_by(|a, b| a.0.cmp(b.0));
    rows.into_iter().map(|row| row.1).collect()
}

/// An all-reduce, or an all-to-all, that alone takes 8 us. Cut into ten chunks, each chunk takes 0.8 us.
const REDUCE: (&str, u32) = ("all_reduce", 8_000);
const EXCHANGE: (&str, u32) = ("all_to_all", 16_000);

#[test]
fn the_last_all_reduce_goes_first_and_chunks_that_have_begun_stay() {
    let of = |order: &str| {
        let settings = settings_of(&json!({"order": order, "all_reduce": "baseline"}));
        finishes(&issued(&[REDUCE, REDUCE, REDUCE], &settings, &pair()))
    };
    assert_eq!(of("fifo"), [9.0, 17.0, 25.0]);
    // The first collective has finished two chunks at 2.6 us, the second has finished one at 3.4 us. Then the third
    // uses the whole network until 11.4 us, and the second, with nine chunks left, until 18.6 us.
    for order in ["lifo", "priority"] {
        assert_eq!(of(order), [25.0, 18.6, 11.4]);
    }
}

#[test]
fn an_all_to_all_goes_before_later_all_reduces() {
    let of = |order: &str| {
        let settings = settings_of(&json!({"order": order, "all_reduce": "baseline"}));
        finishes(&issued(&[REDUCE, EXCHANGE, REDUCE], &settings, &pair()))
    };
    assert_eq!(of("fifo"), [9.0, 17.0, 25.0]);
    assert_eq!(of("lifo"), [25.0, 18.6, 11.4]);
    // From 2.6 us on, the exchange uses the whole network.
    assert_eq!(of("priority"), [25.0, 10.6, 18.6]);
}

#[test]
fn two_all_to_alls_are_equal_and_the_later_one_goes_first() {
    let settings = settings_of(&json!({"order": "priority", "all_reduce": "baseline"}));
    // The first has finished three chunks at 3.4 us, when the second starts.
    assert_eq!(finishes(&issued(&[EXCHANGE, REDUCE, EXCHANGE], &settings, &pair())), [17.0, 25.0, 11.4]);
}

#[test]
fn a_chunk_has_its_collectives_priority_in_every_phase_and_queue() {
    // Reduce-scatter and all-gather of a chunk take 0.4 us each, in one dimension. The phase in progress at 2 us, when
    // the second collective is issued, ends at 2.2 us; the chunk's other phase waits like all others of its collective.
    for queues in [1, 2, 3, 5] {
        let of = |order: &str, sets: &[(&str, u32)]| {
            let settings =
                settings_of(&json!({"order": order, "all_reduce": "hierarchical_2n", "queues": queues}));
            finishes(&issued(sets, &settings, &pair()))
        };
        assert_eq!(of("lifo", &[REDUCE, REDUCE]), [17.0, 10.2], "{queues} queues");
        assert_eq!(of("priority", &[REDUCE, EXCHANGE, REDUCE]), [25.0, 10.2, 18.2], "{queues} queues");
    }
}

#[test]
fn priority_holds_between_dimensions() {
    // A chunk takes 0.04 us in `local`, 0.8 us in `global`, and 0.04 us in `local` again; chunks wait for `global`.
    let dims = json!([
        {"name": "local", "shape": "fully_connected", "size": 2, "rate": "20GB/s"},
        {"name": "global", "shape": "fully_connected", "size": 2, "rate": "1GB/s"},
    ]);
    let reduce = ("all_reduce", 16_000);
    let of = |order: &str| {
        let settings = settings_of(&json!({"order": order, "all_reduce": "hierarchical_optimal"}));
        finishes(&issued(&[reduce, reduce, EXCHANGE], &settings, &dims))
    };
    assert_eq!(of("fifo"), [9.08, 17.08, 25.04]);
    // `global` starts chunks at 1.04, 1.84, 2.64 and 3.44 us: two of the first collective, one of the second, then the
    // exchange.
    assert_eq!(of("priority"), [25.08, 18.68, 11.44]);
}

/// The largest number of chunks that rank 0 has in a dimension at the same time.
fn most_at_once(timeline: &Timeline, dim: u16) -> usize {
    let mut times: Vec<(u64, bool)> = Vec::new();
    for span in &timeline.spans.spans {
        if span.rank == RankId(0) && span.track == Track::Dimension(dim) && span.end > span.start {
            times.extend([(span.start.0, true), (span.end.0, false)]);
        }
    }
    // A chunk that ends makes room for one that starts at the same time.
    times.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, begins) in times {
        now = if begins { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

#[test]
fn the_limit_on_outstanding_chunks_of_a_dimension_holds() {
    let dims = json!([
        {"name": "local", "shape": "ring", "size": 4, "count": 3, "rate": "4GB/s"},
        {"name": "global", "shape": "fully_connected", "size": 4, "rate": "1GB/s"},
    ]);
    let sets = [("all_reduce", 64_000), ("all_to_all", 64_000), ("all_reduce", 64_000)];
    let most = |outstanding: u32| {
        let settings = json!({"order": "priority", "all_reduce": "hierarchical_optimal", "chunks": 100,
            "outstanding": outstanding});
        let timeline = issued(&sets, &settings_of(&settings), &dims);
        (most_at_once(&timeline, 0), most_at_once(&timeline, 1))
    };
    for outstanding in [1, 3, 64] {
        let (local, global) = most(outstanding);
        assert!(local <= outstanding as usize, "{local}");
        assert_eq!(global, outstanding as usize);
    }
    assert!(most(0).1 > 64);
}

#[test]
fn every_step_of_an_all_reduce_pays_the_injection_latency_twice() {
    // dlrm2020 IV.C: a double binary tree on 128 nodes has 14 steps, direct on 8 and a tree on 16 have 10.
    let flat = json!([{"name": "global", "shape": "switch", "size": 128, "rate": "100Gb/s"}]);
    let hierarchical = json!([
        {"name": "local", "shape": "fully_connected", "size": 8, "rate": "100Gb/s"},
        {"name": "global", "shape": "switch", "size": 16, "rate": "100Gb/s"},
    ]);
    for (dims, steps) in [(flat, 14), (hierarchical, 10)] {
        let time = |latency: &str| {
            let settings = json!({"chunks": 1, "all_reduce": "hierarchical_optimal", "injection_latency": latency,
                "algorithms": {
                    "local": {"reduce_scatter": "direct", "all_gather": "direct"},
                    "global": {"all_reduce": "double_binary_tree"}}});
            let named = dims.as_array().unwrap().iter().any(|dim| dim["name"] == "local");
            let mut settings = settings_of(&settings);
            if !named {
                settings["algorithms"].as_object_mut().unwrap().remove("local");
            }
            (issued(&[("all_reduce", 1_024)], &settings, &dims).summary.total_time_s * 1e6, steps)
        };
        let (with, steps) = time("100us");
        let (without, _) = time("0us");
        assert!((with - without - f64::from(2 * 100 * steps)).abs() < 1e-6, "{with} {without}");
    }
}

/// The times at which two all-reduces of 8 us each finish: one of a weight gradient, issued at 1 us among data-parallel
/// ranks, and one of an input gradient, issued at 2 us among tensor-parallel ranks. They share no link. Two ranks share
/// a layer's compute, so each gradient takes 1 us.
fn of_two_groups(collectives: &Value, dims: &Value, tensor: &Value) -> (f64, f64) {
    let reduce = |when: &str, axis: &str| json!({"when": when, "axes": [axis], "kind": "all_reduce", "bytes": "8000B"});
    let timeline = simulate(&json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "parallel": {"tensor": tensor, "data": "rest"}, "layers": [
            {"name": "bottom"},
            {"name": "top", "weight_grad": {"time": "2us"}, "input_grad": {"time": "2us"},
                "exchanges": [reduce("after_weight_grad", "data"), reduce("after_input_grad", "tensor")]}]},
        "fabric": {"dims": dims},
        "collectives": collectives,
    }));
    let table = timeline.table("collectives").unwrap();
    let Data::Text(groups) = &table.column("group").unwrap().data else { unreachable!() };
    let Data::Float(finish) = &table.column("finish_s").unwrap().data else { unreachable!() };
    let of = |group: &str| {
        let row = groups.iter().position(|name| name == group).unwrap();
        (finish[row] * 1e9).round() / 1e3
    };
    (of("data.0"), of("tensor.0"))
}

#[test]
fn a_process_group_does_not_wait_for_chunks_of_another_one() {
    let two = json!([
        {"name": "local", "shape": "fully_connected", "size": 2, "rate": "1GB/s"},
        {"name": "global", "shape": "fully_connected", "size": 2, "rate": "1GB/s"},
    ]);
    let one = json!([{"name": "d", "shape": "fully_connected", "size": 4, "rate": "1GB/s"}]);
    let apart = |limit: &str, more: &Value| {
        let mut settings = json!({"chunks": 10, "element": "1B", "min_chunk": "1B", "issue_batch": 1,
            "issue_threshold": 0, "active_chunks": 0,
            "all_reduce": "baseline", "algorithms": {"default": {"all_reduce": "direct"}}});
        settings[limit] = json!(1);
        for (key, value) in more.as_object().unwrap() {
            settings[key] = value.clone();
        }
        [
            of_two_groups(&settings, &two, &json!({"dims": ["local"]})),
            of_two_groups(&settings, &one, &json!({"degree": 2})),
        ]
    };
    // In one dimension, a rank's chunks of both groups wait in the same queues if the rank has only one scheduler.
    for (limit, [of_two, of_one]) in
        [("issue_threshold", [(9.0, 17.0), (9.0, 17.0)]), ("active_chunks", [(9.0, 10.0), (9.0, 17.0)])]
    {
        for side_by_side in [json!({}), json!({"order": "lifo", "schedulers": "per_group"})] {
            assert_eq!(apart(limit, &side_by_side), [(9.0, 10.0); 2], "{limit}, {side_by_side}");
        }
        assert_eq!(apart(limit, &json!({"schedulers": "per_rank"})), [of_two, of_one], "{limit}");
    }
    // An order over all collectives of a rank needs one scheduler for the rank: the last collective goes first as soon
    // as there is room.
    assert_eq!(apart("issue_threshold", &json!({"order": "lifo"})), [(17.0, 10.6); 2]);
}
