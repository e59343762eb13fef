//! Compares runs of a scenario with and without the quotient.

use crate::support::simulate;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use syncline_timeline::{Data, Flow, Span, Summary, Table, Timeline, Track};

/// A span with its label as text.
type Labelled<'a> = (u32, Track, u64, u64, &'a str, u64);

/// Spans, and the two spans of each message, in an order that does not depend on when they were recorded.
fn spans(timeline: &Timeline) -> (Vec<Labelled<'_>>, Vec<[Labelled<'_>; 2]>) {
    let of = |span: &Span| {
        let label = timeline.spans.labels[span.label as usize].as_str();
        (span.rank.0, span.track, span.start.0, span.end.0, label, span.bytes.0)
    };
    let all = &timeline.spans.spans;
    let mut spans: Vec<_> = all.iter().map(of).collect();
    spans.sort_unstable();
    let ends = |flow: &Flow| [flow.from, flow.to].map(|at| of(&all[at as usize]));
    let mut flows: Vec<_> = timeline.spans.flows.iter().map(ends).collect();
    flows.sort_unstable();
    (spans, flows)
}

/// Compares a run with the quotient to one without it. Returns the number of ranks simulated with it.
pub(crate) fn compare(value: &Value) -> u64 {
    compare_tracing(value, 1)
}

/// As [`compare`], with spans of the first `traced` ranks.
pub(crate) fn compare_tracing(value: &Value, traced: u64) -> u64 {
    let mut value = value.clone();
    value["trace"] = json!({"ranks": (0..traced).collect::<Vec<_>>(), "max_spans": 1 << 20});
    let quotient = simulate(&value);
    value["symmetry"] = json!(false);
    let full = simulate(&value);
    assert_eq!(full.summary.simulated_ranks, full.summary.ranks);
    let simulated = quotient.summary.simulated_ranks;
    let mut summary = quotient.summary.clone();
    (summary.simulated_ranks, summary.events) = (full.summary.simulated_ranks, full.summary.events);
    summary.simulated_iterations = full.summary.simulated_iterations;
    summary.simulated_micro_batches = full.summary.simulated_micro_batches;
    let mut expected = full.summary.clone();
    let flow = value["network"]["model"] == "flow";
    if flow {
        // If chains of messages end within a picosecond of each other, or if all links on a path are full, any of them
        // may become critical: only the length of the critical path is the same.
        assert!(close(path_length(&summary), path_length(&expected)), "{value}");
        for each in [&mut summary, &mut expected] {
            (each.critical_path, each.bottleneck, each.reason) = Default::default();
        }
    }
    // Micro-batches that are left out count in the parts of the critical path, but have no rows in its table.
    let left_out = quotient.summary.simulated_micro_batches < full.summary.simulated_micro_batches;
    assert_same(&json!(summary), &json!(expected), flow, &value);
    let names = |timeline: &Timeline| timeline.tables.iter().map(|table| table.name).collect::<Vec<_>>();
    assert_eq!(names(&quotient), names(&full), "{value}");
    for (mine, other) in quotient.tables.iter().zip(&full.tables) {
        if mine.name == "contention" {
            assert_eq!(held_back(mine), held_back(other), "{value}");
            continue;
        }
        if mine.name == "critical_path" && (flow || left_out) {
            continue;
        }
        let columns = |table: &Table| table.columns.iter().map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(columns(mine), columns(other), "{} {value}", mine.name);
        for (column, same) in mine.columns.iter().zip(&other.columns) {
            if flow && column.name == "waiting_s" {
                continue;
            }
            // A chain of messages goes from rank to rank. With the quotient, the table names the rank that represents
            // them.
            if (mine.name, column.name) == ("critical_path", "rank") {
                continue;
            }
            let alike = match (&column.data, &same.data) {
                (Data::Float(mine), Data::Float(other)) if flow => {
                    mine.len() == other.len() && mine.iter().zip(other).all(|(&a, &b)| close(a, b))
                }
                (mine, other) => mine == other,
            };
            assert!(alike, "{}.{} {mine:#?} {other:#?} {value}", mine.name, column.name);
        }
    }
    let (mut mine, mut other) = (spans(&quotient), spans(&full));
    if flow {
        for (spans, _) in [&mut mine, &mut other] {
            spans.sort_unstable_by_key(|&(rank, track, start, end, label, bytes)| {
                (rank, track, label, bytes, start, end)
            });
        }
        assert_eq!(mine.0.len(), other.0.len(), "{value}");
        for (a, b) in mine.0.iter().zip(&other.0) {
            assert!(
                a.2.abs_diff(b.2) <= PICOSECONDS && a.3.abs_diff(b.3) <= PICOSECONDS,
                "{a:?} {b:?} {value}"
            );
        }
    } else {
        assert_eq!(mine, other, "{value}");
    }
    simulated
}

/// How much times of the flow model may differ: rates are rounded down to whole units, and if two links tie, the order
/// of events decides which of them is rounded.
const PICOSECONDS: u64 = 1_000;

/// Whether two numbers of the flow model agree.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()) + 1e-9
}

/// Length of the critical path in seconds.
fn path_length(summary: &Summary) -> f64 {
    summary.critical_path.iter().map(|part| part.time_s).sum()
}

/// Asserts that two values are equal; numbers of the flow model (`flow`) only need to be close.
fn assert_same(mine: &Value, other: &Value, flow: bool, scenario: &Value) {
    match (mine, other) {
        (Value::Object(a), Value::Object(b)) if flow => {
            assert!(a.keys().eq(b.keys()));
            a.iter().for_each(|(key, value)| assert_same(value, &b[key], flow, scenario));
        }
        (Value::Array(a), Value::Array(b)) if flow => {
            assert_eq!(a.len(), b.len(), "{scenario}");
            a.iter().zip(b).for_each(|(a, b)| assert_same(a, b, flow, scenario));
        }
        (Value::Number(a), Value::Number(b)) if flow => {
            assert!(close(a.as_f64().unwrap(), b.as_f64().unwrap()), "{a} {b} {scenario}");
        }
        _ => assert_eq!(mine, other, "{scenario}"),
    }
}

/// The messages that links delayed and their bytes, by layer and collective, summed over links. Which of several full
/// links, and which of several equal links, a row names may differ.
fn held_back(table: &Table) -> BTreeMap<(&str, &str), [i64; 2]> {
    let text = |name: &str| match &table.column(name).unwrap().data {
        Data::Text(rows) => rows,
        other => panic!("{name} {other:?}"),
    };
    let int = |name: &str| match &table.column(name).unwrap().data {
        Data::Int(rows) => rows,
        other => panic!("{name} {other:?}"),
    };
    let mut sums = BTreeMap::new();
    for (row, links) in int("links").iter().enumerate() {
        let sum: &mut [i64; 2] = sums.entry((&*text("layer")[row], &*text("kind")[row])).or_default();
        sum[0] += links * int("messages")[row];
        sum[1] += links * int("sent_bytes")[row];
    }
    sums
}

/// Makes sizes divide evenly among up to 4 x 4 x 4 ranks.
pub(crate) fn even(mut value: Value) -> Value {
    const FACTOR: u64 = 64 * 27;
    let workload = &mut value["workload"];
    for collective in workload.get_mut("collectives").and_then(Value::as_array_mut).into_iter().flatten() {
        let bytes: u64 = collective["bytes"].as_str().unwrap().trim_end_matches('B').parse().unwrap();
        collective["bytes"] = json!(format!("{}B", bytes * 4 * FACTOR));
    }
    for layer in workload.get_mut("layers").and_then(Value::as_array_mut).into_iter().flatten() {
        for key in ["parameters", "inputs", "outputs"] {
            layer[key] = json!(layer[key].as_u64().unwrap() * FACTOR);
        }
    }
    value
}

/// More iterations than it takes to become steady.
pub(crate) fn longer(mut value: Value, iterations: u32) -> Value {
    value["workload"]["iterations"] = json!(iterations);
    value
}
