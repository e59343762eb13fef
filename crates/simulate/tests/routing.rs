//! Which paths messages take, in every network model: the same for all, by a hash of the flow, by the pair, or given.

use crate::support::simulate;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use syncline_report::Show;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::Data;

const MODELS: [&str; 3] = ["analytical", "queued", "packet"];

/// Four leaf switches of four hosts, each leaf connected to each of four spines. Every host sends to every other.
fn leaf_spine(routing: &Value, model: &str) -> Value {
    let link = |a: u32, b: u32| {
        let rate = "100Gb/s";
        [
            json!({"from": a, "to": b, "rate": rate, "latency": "500ns"}),
            json!({"from": b, "to": a, "rate": rate, "latency": "500ns"}),
        ]
    };
    let down = (0..16).flat_map(|host| link(host, 16 + host / 4));
    let up = (0..4).flat_map(|leaf| (0..4).flat_map(move |spine| link(16 + leaf, 20 + spine)));
    json!({
        "schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "1MB"}]},
        "fabric": {"graph": {"npus": 16, "switches": 8, "links": down.chain(up).collect::<Vec<_>>(),
                             "routing": routing}},
        "collectives": {"algorithms": {"default": {"all_to_all": "direct"}}, "chunks": 4},
        "network": {"model": model},
    })
}

/// Time of a run, and the bytes that reach each spine.
fn outcome(value: &Value) -> (f64, BTreeMap<String, i64>) {
    let timeline = simulate(value);
    let links = timeline.table("links").unwrap();
    let (Data::Text(to), Data::Int(bytes)) =
        (&links.column("to").unwrap().data, &links.column("carried_bytes").unwrap().data)
    else {
        panic!("links have ends and bytes");
    };
    let mut spines = BTreeMap::new();
    for (to, bytes) in to.iter().zip(bytes) {
        if ["switch 4", "switch 5", "switch 6", "switch 7"].contains(&&**to) {
            *spines.entry(to.to_string()).or_default() += bytes;
        }
    }
    (timeline.summary.total_time_s, spines)
}

#[test]
fn hashed_flows_use_all_spines_in_every_model() {
    for model in MODELS {
        let (one_way, alone) = outcome(&leaf_spine(&json!("shortest"), model));
        assert!(alone["switch 4"] > 0 && alone["switch 5"] + alone["switch 6"] + alone["switch 7"] == 0);
        let hashed = leaf_spine(&json!({"ecmp": {"seed": 1}}), model);
        let (spread, spines) = outcome(&hashed);
        // 192 pairs in two lanes: each spine has a quarter, give or take a third.
        let all: i64 = spines.values().sum();
        assert!(spines.values().all(|&bytes| bytes > all / 6 && bytes < all / 3), "{model} {spines:?}");
        if model == "analytical" {
            // No message waits for links inside the network.
            assert!((spread - one_way).abs() < 1e-12, "{spread} {one_way}");
        } else {
            assert!(spread < 0.6 * one_way, "{model} {spread} {one_way}");
        }
        assert_eq!(outcome(&hashed), (spread, spines.clone()));
        let (_, other) = outcome(&leaf_spine(&json!({"ecmp": {"seed": 2}}), model));
        assert_ne!(other, spines, "{model}");
    }
}

#[test]
fn without_its_own_seed_the_hash_uses_the_scenarios() {
    let with = |scenario: u64, own: Option<u64>| {
        let mut value = leaf_spine(&json!({"ecmp": {"seed": own}}), "queued");
        value["seed"] = json!(scenario);
        outcome(&value)
    };
    assert_eq!(with(5, None), with(0, Some(5)));
    assert_eq!(with(9, Some(5)), with(0, Some(5)));
    assert_ne!(with(6, None).1, with(5, None).1);
}

/// Flows on a dead link are hashed among the remaining links; the others keep their paths.
#[test]
fn hashed_flows_avoid_dead_links() {
    for model in MODELS {
        let mut value = leaf_spine(&json!({"ecmp": {"seed": 1}}), model);
        let (_, whole) = outcome(&value);
        value["faults"] = json!(
            (0..4)
                .map(|leaf| json!({"link": [format!("switch {leaf}"), "switch 5"], "dead": true}))
                .collect::<Vec<_>>()
        );
        let (_, left) = outcome(&value);
        assert_eq!(left["switch 5"], 0, "{model}");
        for spine in ["switch 4", "switch 6", "switch 7"] {
            // Packets differ by acknowledgements that arrive after the end.
            assert!(left[spine] as f64 > 0.98 * whole[spine] as f64, "{model} {left:?} {whole:?}");
        }
    }
}

/// With packet spraying, each spine carries the same, whatever the hash, and segments are sent again only because
/// packets overtake others.
#[test]
fn sprayed_packets_use_all_spines_alike() {
    let spray = |paths: u32, seed: u64| {
        let mut value = leaf_spine(&json!({"ecmp": {"seed": seed}}), "packet");
        value["workload"]["collectives"][0]["bytes"] = json!("16MB");
        let mark = json!({"from": "50kB", "to": "50kB", "probability": 1.0, "weight": 1.0, "drop": false});
        value["network"] = json!({"model": "packet", "congestion": "dctcp", "mark": mark, "spray": paths});
        let timeline = simulate(&value);
        let flows = timeline.table("flows").unwrap();
        let leaf = |name: &str| match &flows.column(name).unwrap().data {
            Data::Text(names) => names
                .iter()
                .map(|name| name.strip_prefix("NPU ").unwrap().parse::<u32>().unwrap() / 4)
                .collect::<Vec<u32>>(),
            _ => panic!("{name} is a name"),
        };
        let Data::Int(taken) = &flows.column("paths").unwrap().data else { panic!("paths are counted") };
        let paths: Vec<(bool, i64)> = (leaf("from").iter().zip(leaf("to")).zip(taken))
            .map(|((from, to), &paths)| (*from == to, paths))
            .collect();
        let packets = timeline.summary.packets.clone().unwrap();
        (outcome(&value), paths, packets.dropped, packets.retransmissions as f64 / packets.sent as f64)
    };
    let ((alone, hashed), one, ..) = spray(1, 1);
    assert!(one.iter().all(|&(_, paths)| paths == 1));
    for (paths, seed) in [(4, 1), (200, 2)] {
        let ((time, spines), found, dropped, again) = spray(paths, seed);
        // Within a leaf there is one path, between leaves one over each spine.
        assert!(found.iter().all(|&(same_leaf, paths)| paths == if same_leaf { 1 } else { 4 }));
        let (most, least) = (spines.values().max().unwrap(), spines.values().min().unwrap());
        assert!((most - least) * 100 < *most, "{spines:?}");
        assert!(time < 0.95 * alone && dropped == 0 && again < 0.01, "{time} {alone} {dropped} {again}");
    }
    assert!(hashed.values().max().unwrap() * 10 > hashed.values().min().unwrap() * 11, "{hashed:?}");
    // At most two of the four spines.
    assert!(spray(2, 1).1.iter().all(|&(same_leaf, paths)| paths == if same_leaf { 1 } else { 2 }));
}

/// dlrm2020 III-C.2: eight NPUs on seven switches, and pods of them on one.
fn pods(spread: &str, model: &str) -> Value {
    json!({
        "schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "16MB"}]},
        "fabric": {"dims": [
            {"name": "local", "shape": "switch", "size": 8, "count": 7, "spread": spread, "rate": "100Gb/s",
             "latency": "500ns"},
            {"name": "global", "shape": "switch", "size": 4, "rate": "100Gb/s", "latency": "500ns"},
        ]},
        "collectives": {"algorithms": {"default": {"all_to_all": "direct"}}, "chunks": 4},
        "network": {"model": model},
    })
}

#[test]
fn the_pair_of_npus_chooses_the_switch_in_every_model() {
    for model in MODELS {
        let timeline = simulate(&pods("pair", model));
        let links = timeline.table("links").unwrap();
        let column = |name: &str| links.column(name).unwrap().data.clone();
        let (Data::Text(from), Data::Text(to), Data::Int(bytes)) =
            (column("from"), column("to"), column("carried_bytes"))
        else {
            panic!("links have ends and bytes");
        };
        let mut up = BTreeMap::new();
        for ((from, to), bytes) in from.iter().zip(&to).zip(&bytes) {
            *up.entry((from.to_string(), to.to_string())).or_insert(0) += bytes;
        }
        for (npu, switch) in (0..8u32).flat_map(|npu| (0..7).map(move |switch| (npu, switch))) {
            let peers = (0..8).filter(|&peer| peer != npu && (npu + peer) % 7 == switch).count() as i64;
            let sent = up[&(format!("NPU {npu}"), format!("switch {switch}"))];
            // 2 MB to each peer; with packets also headers, and acknowledgements of the peers' messages.
            let most = if model == "packet" { peers * 2_250_000 } else { peers * 2_000_000 };
            assert!((peers * 2_000_000..=most).contains(&sent), "{model} {npu} {switch} {sent} {peers}");
        }
    }
}

/// One queue of chunks for all switches, because a chunk does not choose among them.
#[test]
fn chunks_of_a_dimension_whose_pairs_choose_wait_in_one_queue() {
    let fabric = |spread: &str| -> Value {
        let scenario: Scenario = serde_json::from_value(pods(spread, "packet")).unwrap();
        serde_json::from_str(&syncline_report::show(&scenario, Show::Fabric).unwrap()).unwrap()
    };
    let local = &fabric("pair")["dims"][0];
    assert_eq!(
        (&local["spread"], &local["lanes"], &local["links_per_npu"]),
        (&json!("pair"), &json!(1), &json!(7))
    );
    assert_eq!(fabric("lane")["dims"][0]["lanes"], json!(7));
}

/// After a turn, pairs of NPUs would use another switch. So every NPU of such a dimension is simulated, while in the
/// other dimensions one represents all.
#[test]
fn pairs_that_choose_are_simulated_one_by_one() {
    for model in ["analytical", "queued"] {
        let simulated = |value: &Value| simulate(value).summary.simulated_ranks;
        assert_eq!((simulated(&pods("lane", model)), simulated(&pods("pair", model))), (1, 8));
        let mut two = pods("pair", model);
        two["fabric"]["dims"][0]["count"] = json!(2);
        assert_eq!(simulated(&two), 1);
    }
}

#[test]
fn a_rule_for_switches_is_refused_elsewhere() {
    for shape in ["ring", "fully_connected"] {
        let mut value = pods("pair", "packet");
        value["fabric"]["dims"][0]["shape"] = json!(shape);
        let error = syncline_simulate::check(&serde_json::from_value(value).unwrap()).0.remove(0);
        assert_eq!((error.code.id(), error.key.as_deref()), ("SL0201", Some("fabric.dims.0.spread")));
        assert_eq!(error.allowed.as_deref(), Some("switch"));
    }
    assert!(serde_json::from_value::<Scenario>(pods("hash", "packet")).is_err());
}

/// Fabrics in which a message has no path, or an endless one, are refused before any model runs.
#[test]
fn impossible_paths_are_refused_before_the_run() {
    type Change = fn(&mut Value);
    let cut: Change = |graph| {
        let links = graph["links"].as_array_mut().unwrap();
        links.retain(|link| link["from"] != 3 && link["to"] != 3);
    };
    let one_way: Change = |graph| graph["links"].as_array_mut().unwrap().retain(|link| link["from"] != 3);
    let slow: Change = |graph| graph["links"][7]["rate"] = json!("0Gb/s");
    let loops: Change = |graph| graph["routing"] = json!({"explicit": [[0, 16, 1, 16, 2]]});
    let back: Change = |graph| graph["routing"] = json!({"explicit": [[0, 16, 0]]});
    let missing: Change = |graph| graph["routing"] = json!({"explicit": [[0, 20, 1]]});
    for model in MODELS {
        for routing in [json!("shortest"), json!({"ecmp": {}})] {
            for (change, code, key, message) in [
                (cut, "SL0202", "fabric.graph.links", "no path leads from NPU 0 to NPU 3"),
                (one_way, "SL0202", "fabric.graph.links", "no path leads from NPU 3 to NPU 0"),
                (slow, "SL0201", "fabric.graph.links.7.rate", "a link needs a rate above zero"),
                (
                    loops,
                    "SL0201",
                    "fabric.graph.routing.explicit.0",
                    "a path visits switch 0 twice: a routing loop",
                ),
                (back, "SL0201", "fabric.graph.routing.explicit.0", "from one NPU to another"),
                (
                    missing,
                    "SL0202",
                    "fabric.graph.routing.explicit.0",
                    "no link leads from NPU 0 to switch 4",
                ),
            ] {
                let mut value = leaf_spine(&routing, model);
                change(&mut value["fabric"]["graph"]);
                let scenario: Scenario = serde_json::from_value(value).unwrap();
                let mut errors = syncline_simulate::check(&scenario);
                let error = errors.0.remove(0);
                assert_eq!((error.code.id(), error.key.as_deref()), (code, Some(key)), "{model} {error}");
                assert!(error.message.contains(message), "{error}");
                assert!(run(&scenario, Control::default()).is_err());
            }
        }
    }
}

#[test]
fn unknown_routing_policies_are_refused() {
    for routing in [json!("ecpm"), json!({"ecmp": {"sed": 1}}), json!({"ecmp": {"seed": -1}})] {
        assert!(serde_json::from_value::<Scenario>(leaf_spine(&routing, "packet")).is_err(), "{routing}");
    }
}
