//! The algorithm that is chosen where none is named, against simulations of every algorithm of the library.

use serde_json::{Value, json};
use syncline_plan::registry::{ENTRIES, by_name};
use syncline_simulate::{Control, Scenario, run};
use syncline_units::CollectiveKind;

/// A default may take so much longer than the best algorithm.
const WORSE: f64 = 1.05;

/// One collective over one dimension. `algorithm` is named where it is given.
fn scenario(
    kind: &str,
    bytes: u64,
    dim: &Value,
    network: &Value,
    settings: &Value,
    algorithm: Option<&str>,
) -> Value {
    let mut collectives = settings.clone();
    if let Some(name) = algorithm {
        collectives["algorithms"] = json!({"default": {kind: name}});
    }
    json!({"schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": format!("{bytes}B")}]},
        "fabric": {"dims": [dim]}, "collectives": collectives, "network": network})
}

fn time(value: Value) -> Option<f64> {
    let scenario: Scenario = serde_json::from_value(value).unwrap();
    run(&scenario, Control::default()).ok().map(|run| run.timeline.summary.total_time_s)
}

/// Names of all algorithms that offer a collective to so many ranks.
fn library(kind: CollectiveKind, ranks: u32) -> Vec<&'static str> {
    let names = ENTRIES.iter().flat_map(|entry| entry.examples).copied();
    names.filter(|name| by_name(name).unwrap().offers(kind, ranks).is_ok()).collect()
}

/// What the default takes over what the best algorithm takes, and which that is.
fn excess(kind: CollectiveKind, bytes: u64, dim: &Value, network: &Value, settings: &Value) -> (f64, String) {
    let ranks = dim["size"].as_u64().unwrap() as u32;
    let of = |name| time(scenario(kind.name(), bytes, dim, network, settings, name));
    let chosen = of(None).unwrap();
    let found = library(kind, ranks).into_iter().filter_map(|name| Some((of(Some(name))?, name)));
    let (best, name) = found.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    (if best > 0.0 { chosen / best } else { 1.0 }, format!("{name}: {best:e} s, the default {chosen:e} s"))
}

fn dim(shape: &str, size: u32) -> Value {
    json!({"name": "d", "shape": shape, "size": size, "rate": "50GB/s", "latency": "500ns"})
}

/// The network model by which plans are compared: in a ring, one that lets messages wait for links that others use. Chunks
/// that follow each other from rank to rank are told apart by `queued`.
fn model(shape: &str, kind: CollectiveKind) -> Value {
    let rooted = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
    json!({"model": match shape {
        "ring" if rooted => "queued",
        "ring" => "flow",
        _ => "analytical",
    }})
}

#[test]
fn a_default_is_as_good_as_the_best_of_the_library() {
    let mut worse = Vec::new();
    let all = std::env::var_os("EVERY_CASE").is_some();
    let sizes: &[u64] = if all {
        &[4, 512, 4096, 16_384, 65_536, 1 << 20, 1 << 24, 1 << 28, 1 << 30]
    } else {
        &[4, 65_536, 1 << 26]
    };
    let ranks: &[u32] = if all { &[2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 31, 32, 48, 64] } else { &[3, 6, 8, 24] };
    for shape in ["switch", "fully_connected", "ring"] {
        for &ranks in ranks {
            for &bytes in sizes {
                for &kind in CollectiveKind::ALL {
                    let (excess, best) =
                        excess(kind, bytes, &dim(shape, ranks), &model(shape, kind), &json!({}));
                    if excess > WORSE {
                        worse.push(format!("{shape} {ranks} {kind} {bytes} B: {excess:.3}, {best}"));
                    }
                }
            }
        }
    }
    assert!(worse.is_empty(), "{}\n{}", worse.len(), worse.join("\n"));
}

/// Where buffers lose what they do not hold, no default overflows them so that a connection waits for a time-out.
#[test]
fn defaults_do_not_collapse_where_packets_are_lost() {
    let network = json!({"model": "packet", "buffer": "2MiB"});
    let star = json!({"name": "d", "shape": "switch", "size": 16, "rate": "100Gb/s", "latency": "500ns"});
    let timeouts = |kind: &str, name| {
        let value = scenario(kind, 4_000_000, &star, &network, &json!({}), name);
        let scenario: Scenario = serde_json::from_value(value).unwrap();
        let run = run(&scenario, Control::default()).unwrap();
        run.timeline.summary.packets.map_or(0, |packets| packets.timeouts)
    };
    for kind in ["all_reduce", "all_to_all", "reduce", "broadcast"] {
        assert_eq!(timeouts(kind, None), 0, "{kind}");
    }
    assert!(
        timeouts("reduce", Some("direct")) > 0,
        "the buffer is small enough to lose what all send at once"
    );
}
