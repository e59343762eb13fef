//! Meshes of any axes, several meshes in one job, layers on some ranks, and exchanges that layers give: times and bytes
//! against closed forms, and the quotient against a simulation of every rank.

use crate::support::{cases, simulate};
use proptest::prelude::*;
use serde_json::{Value, json};
use syncline_timeline::{Data, Timeline};

/// A layer whose passes take 10, 20 and 30 us, and which exchanges only what is given.
fn layer(name: &str, exchanges: Value) -> Value {
    json!({"name": name, "forward": {"time": "10us"}, "input_grad": {"time": "20us"}, "weight_grad": {"time": "30us"},
        "sharding": "replicated", "exchanges": exchanges})
}

fn exchange(when: &str, axes: &[&str], kind: &str) -> Value {
    json!({"when": when, "axes": axes, "kind": kind, "bytes": "12kB"})
}

/// A job on a switch of `ranks` ports of 1 GB/s without latency.
fn job(layers: &[Value], ranks: u32, parallel: Value) -> Value {
    json!({
        "schema": "syncline/1",
        "workload": {"source": "layers", "layers": layers, "parallel": parallel},
        "fabric": {"dims": [{"name": "d", "shape": "switch", "size": ranks, "rate": "1GB/s", "latency": "0s"}]},
        "collectives": {"chunks": 1},
    })
}

fn microseconds(timeline: &Timeline) -> f64 {
    (timeline.summary.step_time_s * 1e9).round() / 1e3
}

fn step(layers: &[Value], ranks: u32, parallel: Value) -> f64 {
    microseconds(&simulate(&job(layers, ranks, parallel)))
}

/// Microseconds of a collective of 12 kB among `n` ranks at 1 GB/s: an all-to-all sends all but the own block.
fn to_all(n: f64) -> f64 {
    12.0 * (n - 1.0) / n
}

#[test]
fn an_exchange_takes_the_time_of_its_group() {
    // Eight ranks: tensor 2, context 2, data 2. Two layers; the first one's exchange blocks.
    let parallel = json!({"tensor": {"degree": 2}, "axes": {"context": {"degree": 2}}, "data": "rest"});
    let compute = 60.0 + 40.0;
    // Groups of consecutive ranks, or with an even stride, exchange in one phase. `tensor` and `data` are apart: half of
    // the data crosses each of them.
    for (axes, exchange_us) in [
        (&["context"][..], to_all(2.0)),
        (&["context", "data"], to_all(4.0)),
        (&["tensor", "data"], 2.0 * to_all(2.0)),
        (&["data", "tensor", "context"], to_all(8.0)),
    ] {
        for when in ["before_forward", "after_forward", "before_backward", "before_weight_grad"] {
            let layers = [layer("a", json!([exchange(when, axes, "all_to_all")])), layer("b", json!([]))];
            assert_eq!(step(&layers, 8, parallel.clone()), compute + exchange_us, "{when} {axes:?}");
        }
    }
}

#[test]
fn an_exchange_that_overlaps_hides_behind_compute() {
    // 12 us of all-to-all behind the 10 us of layer `b` and the backward pass: hidden. Two such after another take 21.
    let overlaps = |when: &str| {
        let mut given = exchange(when, &["data"], "all_to_all");
        given["blocks"] = json!(false);
        given
    };
    let of = |given: Value| step(&[layer("a", given), layer("b", json!([]))], 8, json!({"data": "all"}));
    assert_eq!(of(json!([overlaps("after_forward")])), 100.0);
    assert_eq!(of(json!([exchange("after_forward", &["data"], "all_to_all")])), 110.5);
    // Exchanges of one moment follow each other.
    let twice = exchange("after_forward", &["data"], "all_to_all");
    assert_eq!(of(json!([twice, twice])), 121.0);
    // After the last pass nothing hides it, whether it blocks or not.
    assert_eq!(of(json!([exchange("after_weight_grad", &["data"], "all_to_all")])), 110.5);
}

#[test]
fn a_layer_may_be_needed_late() {
    // The all-to-all of `a` overlaps `b` (10 us), and is awaited by `c`: 0.5 us are left. Backward, the gradient of the
    // output of `a` is on its way while `b` computes its gradients (50 us).
    let moments = ["after_forward", "before_backward"];
    let both = moments.map(|when| exchange(when, &["data"], "all_to_all"));
    let mut first = layer("a", json!(both));
    first["needed_by"] = json!("c");
    let layers = [first, layer("b", json!([])), layer("c", json!([]))];
    assert_eq!(step(&layers, 8, json!({"data": "all"})), 180.0 - 20.0 + 0.5);
    // The same after another layer, which then waits for the input gradient of `a`.
    let [a, b, c] = layers;
    let layers = [layer("z", json!([])), a, b, c];
    assert_eq!(step(&layers, 8, json!({"data": "all"})), 240.0 - 20.0 + 0.5);
}

#[test]
fn experts_exchange_on_a_mesh_of_their_own() {
    // 16 ranks: dense layers on tensor 4 x data 4, experts on expert 8 x data 2.
    let moments = ["before_forward", "after_forward", "before_backward", "after_input_grad"];
    let both = moments.map(|when| exchange(when, &["expert"], "all_to_all"));
    let mut experts = layer("experts", json!(both));
    experts["mesh"] = json!("experts");
    let layers = [layer("attention", json!([])), experts];
    let parallel = json!({"tensor": {"degree": 4}, "data": "rest",
        "meshes": {"experts": {"tensor": {"degree": 1}, "axes": {"expert": {"degree": 8}}, "data": "rest"}}});
    assert_eq!(step(&layers, 16, parallel.clone()), 100.0 + 4.0 * to_all(8.0));
    let timeline = simulate(&job(&layers, 16, parallel));
    assert_eq!(timeline.summary.parallelism, "tensor 4 x data 4");
    let names: Vec<&str> = timeline.summary.exposed_by_axis.iter().map(|axis| axis.name.as_str()).collect();
    assert_eq!(names, ["experts.expert"]);
    // Each of the 16 ranks sends seven eighths of four times 12 kB.
    assert_eq!(timeline.summary.bytes, 16 * 4 * 12_000 * 7 / 8);
}

#[test]
fn ranks_without_a_layer_skip_it() {
    // One rank of four has the first layer, and broadcasts to the others, which wait.
    let mut table = layer("table", json!([]));
    table["ranks"] = json!({"tensor": [0]});
    let layers = [table, layer("rest", json!([exchange("before_forward", &["tensor"], "broadcast")]))];
    let parallel = json!({"tensor": {"degree": 4}, "data": "rest"});
    let timeline = simulate(&job(&layers, 8, parallel));
    // One rank: 10 + 30 of the table and 60 of the rest; the others only the latter.
    let Data::Float(compute) = &timeline.table("ranks").unwrap().column("compute_s").unwrap().data else {
        unreachable!()
    };
    let rounded: Vec<f64> = compute.iter().map(|s| (s * 1e9).round() / 1e3).collect();
    assert_eq!(rounded, [100.0, 60.0, 60.0, 60.0, 100.0, 60.0, 60.0, 60.0]);
    // 12 kB reach three ranks from one port at 1 GB/s: the bound is 12 us, and the last receiver has it by 36 us.
    let broadcast = microseconds(&timeline) - 100.0;
    assert!((12.0..=36.0).contains(&broadcast), "{broadcast}");
}

#[test]
fn groups_that_leave_out_ranks_are_smaller() {
    // Ranks 0 to 2 of every four exchange among three; rank 3 does nothing.
    let mut part = layer("part", json!([exchange("after_forward", &["tensor"], "all_to_all")]));
    part["ranks"] = json!({"tensor": [0, 1, 2]});
    let timeline =
        simulate(&job(&[part, layer("all", json!([]))], 8, json!({"tensor": {"degree": 4}, "data": "rest"})));
    assert_eq!(timeline.summary.bytes, 2 * 3 * 8_000);
}

/// A random job on one or two dimensions.
fn random() -> impl Strategy<Value = Value> {
    let axis = || prop::sample::select(vec!["tensor", "data", "extra", "inner"]);
    let when = prop::sample::select(vec![
        "before_use",
        "before_forward",
        "after_forward",
        "before_backward",
        "after_input_grad",
        "before_weight_grad",
        "after_weight_grad",
        "after_update",
    ]);
    let kind =
        prop::sample::select(vec!["all_reduce", "all_to_all", "all_gather", "broadcast", "reduce_scatter"]);
    let given = (when, prop::collection::btree_set(axis(), 1..4), kind, 1u32..4, any::<bool>());
    let one = (
        prop::option::of(prop::collection::vec(given, 0..3)),
        prop::sample::select(vec!["gather", "column", "row", "divided", "replicated"]),
        prop::option::of((axis(), 0u32..2)),
        any::<bool>(),
    );
    let sizes = (1u32..3, 1u32..3, 1u32..3, 1u32..3, 1u32..3);
    let settings = (0u8..4, any::<[bool; 3]>(), 1u32..3, prop::sample::select(vec!["analytical", "queued"]));
    (prop::collection::vec(one, 2..5), sizes, settings).prop_map(
        |(of, (tensor, data, extra, inner, stages), (zero, [sequence, first, overlap], iterations, network))| {
            let mut layers = Vec::new();
            for (at, (given, sharding, ranks, second)) in of.into_iter().enumerate() {
                let mut layer = json!({"name": format!("l{at}"), "forward": {"time": "7us"},
                    "input_grad": {"time": "5us"}, "weight_grad": {"time": "3us"}, "update": {"time": "1us"},
                    "parameters": 480, "inputs": 960, "outputs": 960, "sharding": sharding});
                if let Some(given) = given {
                    let exchanges = given.into_iter().map(|(when, axes, kind, kilobytes, blocks)| {
                        let mut one = json!({"when": when, "axes": axes, "kind": kind,
                            "bytes": format!("{}B", 1920 * kilobytes)});
                        if when.starts_with("after") {
                            one["blocks"] = json!(blocks);
                        }
                        one
                    });
                    layer["exchanges"] = exchanges.collect();
                }
                let size = |axis| match axis {
                    "tensor" => tensor,
                    "data" => data,
                    "extra" => extra,
                    _ => inner,
                };
                if let Some((axis, at)) = ranks
                    && at < size(axis)
                    && !second
                {
                    layer["ranks"] = json!({axis: [at]});
                }
                if second {
                    layer["mesh"] = json!("second");
                }
                layers.push(layer);
            }
            let degree = |size: u32| json!({"degree": size});
            let axes = json!({"extra": degree(extra), "inner": degree(inner)});
            json!({
                "schema": "syncline/1",
                "workload": {
                    "source": "layers",
                    // Equal stages.
                    "layers": if layers.len() % 2 == 1 { layers[1..].to_vec() } else { layers },
                    "parallel": {
                        "tensor": degree(tensor), "data": degree(data), "axes": axes, "pipeline": degree(stages),
                        "meshes": {"second": {"tensor": degree(1), "data": "rest",
                            "axes": {"extra": degree(extra), "inner": degree(inner)},
                            "order": ["inner", "data", "extra", "tensor", "pipeline"]}},
                        "zero": zero, "sequence": sequence,
                        "backward": if first { "input_first" } else { "weight_first" },
                        "overlap": if overlap { "gradients" } else { "none" },
                    },
                    "micro_batches": 2, "iterations": iterations, "types": "fp16",
                },
                "fabric": {"dims": [
                    {"name": "a", "shape": "switch", "size": tensor * extra * inner * data * stages, "rate": "1GB/s",
                        "latency": "500ns"}]},
                "collectives": {"chunks": 2, "min_chunk": "1B"},
                "network": {"model": network},
            })
        },
    )
}

proptest! {
    #![proptest_config(cases(120))]
    #[test]
    fn any_mesh_finishes_the_same_with_the_quotient_and_without(value in random()) {
        let quotient = simulate(&value);
        let mut all = value.clone();
        all["symmetry"] = json!(false);
        let full = simulate(&all);
        let same = |timeline: &Timeline| {
            let s = &timeline.summary;
            (s.total_time_s, s.step_time_s, s.compute_s, s.exposed_communication_s, s.messages, s.bytes)
        };
        prop_assert_eq!(same(&quotient), same(&full), "{}", value);
        for table in ["layers", "ranks", "links"] {
            prop_assert!(quotient.table(table) == full.table(table), "{table} {value}");
        }
    }
}
