//! One rank represents many: tables and summary are the same as with every rank simulated.

use crate::support::both::{compare, compare_tracing, even, longer};
use crate::support::traces::traces;
use crate::support::{cases, models, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use syncline_scenario::Scenario;

/// Largest number of ranks of a random scenario. Each scenario is also simulated rank by rank, and exchanges of all
/// with all have the square of this as messages.
const MAX_RANKS: u64 = 100;

fn scenario() -> impl Strategy<Value = Value> {
    crate::support::scenario().prop_filter("few ranks", |value| ranks(value) <= MAX_RANKS)
}

/// How often to repeat something: `wanted` times, but in a large job less often, so that all ranks together repeat it
/// at most `budget` times; at least `least` times.
fn repeated(value: &Value, wanted: u32, least: u32, budget: u64) -> u32 {
    wanted.min(least.max((budget / ranks(value)) as u32))
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn the_quotient_is_exact_for_any_sizes(value in scenario()) {
        compare(&value);
    }

    #[test]
    fn the_quotient_is_exact_for_sizes_that_divide_evenly(value in scenario()) {
        compare(&even(value));
    }

    #[test]
    fn the_quotient_is_exact_for_many_iterations(value in scenario(), all: bool, iterations in 3u32..40) {
        let iterations = repeated(&value, iterations, 6, 800);
        compare(&longer(if all { even(value) } else { value }, iterations));
    }
}

fn training() -> impl Strategy<Value = Value> {
    scenario().prop_filter("training", |value| value["workload"]["source"] == "layers")
}

/// A job of `iterations` iterations of `number` micro-batches.
fn in_micro_batches(mut value: Value, number: u32, iterations: u32) -> Value {
    value["workload"]["micro_batches"] = json!(number);
    longer(value, iterations)
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn the_quotient_is_exact_for_micro_batches(
        value in training(), all: bool, number in 1u32..13, iterations in 1u32..12,
    ) {
        let iterations = repeated(&value, iterations, 3, 800 / u64::from(number));
        let value = if all { even(value) } else { value };
        compare(&in_micro_batches(value, number, iterations));
    }

    /// More micro-batches than the engine records over time.
    #[test]
    fn the_quotient_is_exact_for_many_micro_batches(value in training(), number in 13u32..140, iterations in 1u32..5) {
        let number = repeated(&value, number, 20, 1_600);
        let iterations = repeated(&value, iterations, 2, 1_600 / u64::from(number));
        compare(&in_micro_batches(even(value), number, iterations));
    }

    #[test]
    fn the_quotient_is_exact_for_micro_batches_with_stragglers(
        value in training(), faults in faults(), number in 2u32..13, iterations in 1u32..8,
    ) {
        let iterations = repeated(&value, iterations, 3, 800 / u64::from(number));
        compare(&in_micro_batches(broken(even(value), faults), number, iterations));
    }
}

/// Collectives that some ranks finish long before others, so that iterations overlap, on a small fabric where many
/// events happen at the same time.
fn overlapping() -> impl Strategy<Value = Value> {
    let (whole, rooted) =
        (vec!["all_reduce", "reduce_scatter", "all_gather", "all_to_all"], vec!["reduce", "broadcast"]);
    let list = prop::collection::vec(
        (prop::sample::select(whole), prop::sample::select(vec![1024u32, 36_864, 589_824])),
        1..3,
    );
    let last = (prop::sample::select(rooted), prop::sample::select(vec![1024u32, 36_864]));
    let shapes = vec!["ring", "fully_connected", "switch"];
    let dim = (prop::sample::select(shapes), 2u32..4, prop::sample::select(vec!["500ns", "700ns"]));
    let order = prop::sample::select(vec!["fifo", "lifo", "priority"]);
    let reduction = prop::option::of(prop::sample::select(vec!["50GB/s", "200GB/s"]));
    (prop::collection::vec(dim, 3), order, 2u32..6, reduction, list, last, models(), 6u32..10).prop_map(
        |(dims, order, chunks, reduction, mut list, last, model, iterations)| {
            list.push(last);
            let dims: Vec<Value> = (0..)
                .zip(dims)
                .map(|(number, (shape, size, latency)): (u32, _)| {
                    let name = format!("d{number}");
                    json!({"name": name, "shape": shape, "size": size, "rate": "50GB/s", "latency": latency})
                })
                .collect();
            let mut endpoint = json!({"chunks": chunks, "order": order});
            if let Some(rate) = reduction {
                endpoint["reduction_rate"] = json!(rate);
            }
            let comm = |(kind, bytes)| json!({"kind": kind, "bytes": format!("{bytes}B")});
            let list: Vec<Value> = list.into_iter().map(comm).collect();
            json!({"schema": "syncline/1", "fabric": {"dims": dims}, "collectives": endpoint,
                "network": {"model": model},
                "workload": {"source": "collectives", "collectives": list, "iterations": iterations}})
        },
    )
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn the_quotient_is_exact_if_iterations_overlap(value in overlapping()) {
        compare(&value);
    }
}

/// A few slow ranks, some of them for a while, and perhaps a slow link.
fn faults() -> impl Strategy<Value = Value> {
    let window = prop::option::of((0u32..200, 1u32..200));
    let whole_node = any::<bool>();
    (prop::collection::vec((any::<prop::sample::Index>(), 1u32..40, window, whole_node), 1..3), 0u32..3).prop_map(
        |(ranks, links)| {
            let mut list: Vec<Value> = ranks
                .into_iter()
                .map(|(rank, tenths, window, node)| {
                    // Ranks are set later, when their number is known.
                    let mut fault = json!({"rank": rank.index(1 << 20), "factor": 1.0 + f64::from(tenths) / 10.0,
                        "node": node});
                    if let Some((from, length)) = window {
                        fault["from"] = json!(format!("{from}us"));
                        fault["until"] = json!(format!("{}us", from + length));
                    }
                    fault
                })
                .collect();
            if links == 0 {
                list.push(json!({"random_links": 1, "factor": 3.0}));
            }
            Value::Array(list)
        },
    )
}

fn ranks(value: &Value) -> u64 {
    let dims = value["fabric"]["dims"].as_array().unwrap();
    dims.iter().map(|dim| dim["size"].as_u64().unwrap()).product()
}

/// The scenario with faults: of a rank, or of all ranks that differ from it only in the lowest dimension.
fn broken(mut value: Value, mut faults: Value) -> Value {
    let (ranks, lowest) = (ranks(&value), value["fabric"]["dims"][0]["size"].as_u64().unwrap());
    let joined = value["fabric"]["dims"].as_array().unwrap().iter().any(|dim| dim["size"] != 1);
    let list = faults.as_array_mut().unwrap();
    list.retain(|fault| joined || fault["random_links"].is_null());
    for fault in list.iter_mut().filter(|fault| !fault["rank"].is_null()) {
        let rank = fault["rank"].as_u64().unwrap() % ranks;
        let first = rank - rank % lowest;
        let node = fault.as_object_mut().unwrap().remove("node").unwrap() == json!(true);
        fault["rank"] = if node { (first..first + lowest).collect() } else { json!([rank]) };
    }
    value["faults"] = faults;
    value
}

proptest! {
    #![proptest_config(cases(60))]

    /// Slow parts break the symmetry, and iterations repeat only after the time windows of faults have ended.
    #[test]
    fn the_quotient_is_exact_with_stragglers(value in scenario(), faults in faults(), iterations in 1u32..20) {
        let iterations = repeated(&value, iterations, 6, 800);
        compare(&longer(broken(even(value), faults), iterations));
    }
}

proptest! {
    #![proptest_config(cases(150))]

    /// Pipelines and their replicas, groups along dimensions and across them, several jobs on one fabric.
    #[test]
    fn the_quotient_is_exact_for_task_graphs(traces in traces(), faults in prop::option::weighted(0.3, faults())) {
        let folder = tempfile::tempdir().unwrap();
        let mut value = traces.write(folder.path());
        if let Some(faults) = faults {
            value = broken(value, faults);
        }
        compare_tracing(&value, ranks(&value));
    }
}

#[test]
fn slow_nodes_leave_the_symmetry_within_them() {
    let layer = json!({"name": "x", "forward": {"time": "20us"}, "input_grad": {"time": "20us"},
        "weight_grad": {"time": "20us"}, "parameters": 1 << 22});
    let mut value = job(json!([dim("a", "ring", 4), dim("b", "switch", 8)]), "", "");
    value["workload"] =
        json!({"source": "layers", "layers": [layer], "parallel": {"data": "all"}, "iterations": 3});
    let mut ranks = |faults: Value| {
        value["faults"] = faults;
        compare(&value)
    };
    assert_eq!(ranks(json!([])), 1);
    assert_eq!(ranks(json!([{"rank": [4, 5, 6, 7], "factor": 2.0}])), 8);
    assert_eq!(ranks(json!([{"rank": [4, 5, 6], "factor": 2.0}])), 32);
    assert_eq!(ranks(json!([{"rank": [0], "factor": 2.0, "from": "30us", "until": "90us"}])), 32);
    assert_eq!(ranks(json!([{"link": 3, "factor": 2.0}])), 32);
    assert_eq!(ranks(json!([{"link": 3, "dead": true}])), 32);
}

fn job(shape: Value, collective: &str, bytes: &str) -> Value {
    json!({"schema": "syncline/1", "fabric": {"dims": shape}, "network": {"model": "queued"},
        "workload": {"source": "collectives", "collectives": [{"kind": collective, "bytes": bytes}]},
        "collectives": {"chunks": 8}})
}

fn dim(name: &str, shape: &str, size: u32) -> Value {
    json!({"name": name, "shape": shape, "size": size, "rate": "100GB/s", "latency": "500ns"})
}

#[test]
fn one_rank_of_each_class_is_simulated() {
    let dims = |a, b, c| json!([dim("a", "ring", a), dim("b", "fully_connected", b), dim("c", "switch", c)]);
    // All ranks are alike; then halving-doubling among 6, where surplus ranks behave differently.
    assert_eq!(compare(&job(dims(4, 4, 8), "all_reduce", "16MiB")), 1);
    let mut surplus = job(dims(4, 4, 6), "all_reduce", "18MiB");
    surplus["collectives"]["algorithms"] = json!({"c": {"all_reduce": "halving_doubling"}});
    assert_eq!(compare(&surplus), 6);
    // A ring treats all 6 alike, and takes no longer.
    assert_eq!(compare(&job(dims(4, 4, 6), "all_reduce", "18MiB")), 1);
    // A broadcast begins at rank 0, and on higher axes at coordinate 0 of the lower ones.
    assert_eq!(compare(&job(dims(2, 3, 4), "broadcast", "6MiB")), 24);
    assert_eq!(compare(&job(dims(4, 3, 4), "all_to_all", "48MiB")), 1);
    // The last chunk is 4 bytes too long to be cut evenly along one axis: only that axis is simulated in full.
    let uneven = format!("{}B", (16 << 20) + 4 * 4 * 4);
    assert_eq!(compare(&job(dims(4, 4, 8), "all_reduce", &uneven)), 8);
}

#[test]
fn ranks_whose_order_matters_are_simulated() {
    // Without latency, messages that two ranks send at the same time reach a switch's port in the order of rank
    // numbers.
    let mut value = job(json!([dim("a", "ring", 4), dim("b", "switch", 4)]), "all_to_all", "16MiB");
    value["fabric"]["dims"][1]["latency"] = json!("0ns");
    assert_eq!(compare(&value), 4);
}

#[test]
fn groups_along_dimensions_keep_the_symmetry_if_sizes_divide_evenly() {
    let training = |parameters: u32, model: &str| {
        let layer = |name: &str| {
            let time = json!({"time": "20us"});
            json!({"name": name, "forward": time, "input_grad": time, "weight_grad": time, "sharding": "column",
                "parameters": parameters, "inputs": 1 << 14, "outputs": 1 << 14})
        };
        let dims = json!([dim("a", "ring", 4), dim("b", "fully_connected", 3), dim("c", "switch", 4)]);
        let mut value = job(dims, "", "");
        value["workload"] = json!({"source": "layers", "layers": [layer("x"), layer("y")], "iterations": 3,
            "parallel": {"tensor": {"dims": [model]}}});
        compare(&value)
    };
    assert_eq!(training(3 << 20, "a"), 1);
    assert_eq!(training(3 << 20, "c"), 1);
    // Three ranks do not get equal parts, nor do the four ranks that then share each part.
    assert_eq!(training(1 << 20, "a"), 12);
}

#[test]
fn replicas_of_a_pipeline_are_simulated_once() {
    // The stages of a pipeline lie along one dimension, its replicas along the other.
    let pipelines = |stages: u32, stride: u32, odd: Option<u32>| {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..32u32 {
            let stage = rank / stride % stages;
            let [below, here, above] =
                [rank.wrapping_sub(stride), rank, rank + stride].map(|rank| rank as i32);
            let (mut nodes, mut before) = (Vec::new(), Vec::new());
            for batch in 0..4u64 {
                let id = batch * 4;
                if stage > 0 {
                    nodes.push(Node::receive(id, "receive", below, here, 1 << 16, batch as i32));
                    before.push(id);
                }
                let micros = if odd == Some(rank) { 9 } else { 5 };
                nodes.push(Node::compute(id + 1, "forward", micros).after(&before));
                before = vec![id + 1];
                if stage + 1 < stages {
                    let send = Node::send(id + 2, "send", here, above, 1 << 16, batch as i32);
                    nodes.push(send.after(&before));
                }
            }
            let exchange = Node::collective(99, "gradients", CollectiveType::AllReduce, 1 << 20);
            nodes.push(exchange.in_dims(&[stride != 1, stride == 1]).after(&before));
            write_file(&folder.path().join(format!("job.{rank}.et")), &Metadata::astra(), &nodes).unwrap();
        }
        let mut value = job(json!([dim("a", "ring", 4), dim("b", "switch", 8)]), "", "");
        let prefix = folder.path().join("job");
        value["workload"] = json!({"source": "chakra", "prefix": prefix.to_str().unwrap()});
        compare_tracing(&value, 32)
    };
    assert_eq!(pipelines(4, 1, None), 4);
    assert_eq!(pipelines(8, 4, None), 8);
    assert_eq!(pipelines(4, 1, Some(9)), 32);
}

#[test]
fn iterations_that_repeat_are_left_out() {
    let layer = |name: &str, parameters: u32| {
        let time = json!({"time": "20us"});
        json!({"name": name, "forward": time, "input_grad": time, "weight_grad": time, "parameters": parameters,
            "update": {"time": "1us"}})
    };
    let dims = json!([dim("a", "ring", 4), dim("b", "fully_connected", 2), dim("c", "switch", 4)]);
    let mut value = job(dims, "", "");
    value["workload"] = json!({"source": "layers", "parallel": {"data": "all"},
        "layers": [layer("x", 1 << 22), layer("y", 1 << 20), layer("z", 1 << 16)]});
    compare(&longer(value.clone(), 60));
    // With odd numbers of elements, every rank is simulated, but iterations still repeat.
    value["workload"]["layers"][1]["parameters"] = json!((1 << 20) + 1);
    compare(&longer(value.clone(), 60));
    let long = simulate(&longer(value, 1_000));
    let summary = &long.summary;
    assert_eq!((summary.simulated_ranks, summary.ranks, summary.iterations), (32, 32, 1_000));
    assert!(summary.simulated_iterations <= 12, "{}", summary.simulated_iterations);
    assert_eq!(long.table("collectives").unwrap().rows(), 3_000);
}

#[test]
fn ties_in_time_are_broken_alike_in_iterations_that_repeat() {
    let ring = |name, size, latency| json!({"name": name, "shape": "ring", "size": size, "rate": "50GB/s", "latency": latency});
    let mut dims = json!([ring("a", 2, "500ns"), ring("b", 2, "500ns"), ring("c", 3, "700ns")]);
    dims[1]["shape"] = json!("switch");
    let mut value = job(dims, "", "");
    value["workload"]["collectives"] =
        json!([{"kind": "reduce_scatter", "bytes": "589824B"}, {"kind": "reduce", "bytes": "1024B"}]);
    value["collectives"] = json!({"chunks": 3, "reduction_rate": "200GB/s"});
    for model in ["analytical", "queued"] {
        for order in ["fifo", "lifo"] {
            value["network"]["model"] = json!(model);
            value["collectives"]["order"] = json!(order);
            for iterations in [6, 7, 20] {
                compare(&longer(value.clone(), iterations));
            }
        }
    }
}

#[test]
fn a_limit_on_simulated_time_holds_among_repeated_iterations() {
    let mut value = job(json!([dim("a", "ring", 4)]), "all_reduce", "16MiB");
    value = longer(value, 1_000);
    let whole = simulate(&value).summary;
    value["limits"] = json!({"sim_time": format!("{}us", (whole.total_time_s * 1e6 / 2.0) as u64)});
    let half = simulate(&value).summary;
    assert!((495..=500).contains(&half.iterations), "{}", half.iterations);
    assert!(half.simulated_iterations < 20);
}

#[test]
fn collectives_in_no_dimension_are_simulated_in_full() {
    let mut value = job(json!([dim("a", "ring", 6)]), "all_reduce", "1001B");
    value["collectives"]["logical"] = json!([3, 2]);
    assert_eq!(compare(&value), 6);
}

#[test]
fn a_started_later_phase_lets_earlier_phases_proceed() {
    // Two axes share one limit on chunks: each rank would use it up with a chunk whose other phase waits for another
    // rank.
    let mut value = job(json!([dim("a", "ring", 3), dim("b", "ring", 2)]), "", "");
    value["fabric"]["dims"][0] = json!({"name": "a", "shape": "ring", "size": 3, "direction": "one-way",
        "rate": "29GB/s", "latency": "1628ns"});
    value["fabric"]["dims"][1] =
        json!({"name": "b", "shape": "ring", "size": 2, "rate": "1GB/s", "latency": "0ns"});
    value["network"] = json!({"model": "analytical"});
    value["workload"] = json!({"source": "collectives", "iterations": 2, "collectives": [
        {"kind": "all_gather", "bytes": "24281856B"}, {"kind": "all_reduce", "bytes": "27648B"}]});
    value["collectives"] = json!({"all_reduce": "baseline", "chunks": 5, "active_chunks": 0, "issue_batch": 2,
        "issue_threshold": 1, "logical": [2, 3], "min_chunk": "1B", "outstanding": 1, "queues": 2});
    compare(&value);
}

#[test]
fn simulating_many_ranks_gives_a_warning_with_the_reason() {
    let told = |side: u32, change: &dyn Fn(&mut Value)| {
        let mut value = json!({"schema": "syncline/1",
            "fabric": {"dims": [
                {"name": "near", "shape": "switch", "size": 256, "rate": "50GB/s", "latency": "1us"},
                {"name": "far", "shape": "switch", "size": side, "rate": "50GB/s", "latency": "1us"}]},
            "workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "256MiB"}]},
            "collectives": {"chunks": 1, "algorithms": {"default": {"all_reduce": "halving_doubling"}}}});
        change(&mut value);
        let scenario: Scenario = serde_json::from_value(value).unwrap();
        let found = syncline_simulate::check(&scenario);
        assert!(found.0.len() < 2, "{found}");
        found.0.first().map_or(String::new(), |warning| {
            assert_eq!(warning.code, syncline_diagnostics::Code::ManyRanks);
            warning.message.clone()
        })
    };
    let slow = |value: &mut Value| value["faults"] = json!([{"rank": [3], "factor": 2.0}]);
    assert_eq!(told(512, &|_| {}), "");
    assert_eq!(told(256, &slow), "");
    let all = "131072 ranks are simulated individually: ";
    assert_eq!(told(512, &slow), format!("{all}some ranks are slow (near, far)"));
    let dead = |value: &mut Value| value["faults"] = json!([{"random_links": 1, "factor": 2.0}]);
    assert_eq!(told(512, &dead), format!("{all}links are slow or dead"));
    assert_eq!(told(512, &|value| value["symmetry"] = json!(false)), format!("{all}`symmetry` is false"));
    let at_once = |value: &mut Value| {
        value["fabric"]["dims"][0]["size"] = json!(128);
        value["fabric"]["dims"][1]["latency"] = json!("0s");
    };
    assert_eq!(
        told(1 << 17, &at_once),
        "131072 of 16777216 ranks are simulated individually: shared links have no latency (far)"
    );
    let uneven = |value: &mut Value| value["workload"]["collectives"][0]["bytes"] = json!("1000B");
    assert_eq!(told(512, &uneven), format!("{all}data is not cut evenly (near, far)"));
    let placed = |value: &mut Value| {
        value["placement"] = json!({"npus": (0..1 << 17).rev().collect::<Vec<u32>>()});
    };
    assert_eq!(told(512, &placed), format!("{all}the scenario lists the NPU of each rank"));
}
