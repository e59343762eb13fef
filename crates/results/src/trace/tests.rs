//! Reads traces with an independent decoder and replays them as Perfetto does: one stack for each track, flow ids by
//! time.

use super::wire::decode::{Value, fields};
use super::{DEFAULT_TRACE_BYTES, Origin, Trace, ns};
use crate::testing::{any_spans, timeline};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use syncline_timeline::counter::Unit;
use syncline_timeline::{Counter, Flow, Spans, Track};
use syncline_units::Time;

/// A trace without counters.
fn encode(spans: &Spans, max_bytes: u64) -> Trace {
    super::encode(spans, &[], max_bytes, Origin::Simulated)
}

#[derive(Debug, Default, PartialEq, Eq, Clone)]
struct Slice {
    process: String,
    track: String,
    name: String,
    category: String,
    start: u64,
    end: Option<u64>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Replay {
    slices: Vec<Slice>,
    /// Indices of slices, in the order of the ids.
    flows: Vec<(usize, usize)>,
    /// Group, name and unit of each counter, with its values, in the order of their tracks.
    counters: Vec<(String, Vec<(u64, f64)>)>,
}

fn number(message: &[u8], field: u64) -> Option<u64> {
    fields(message).into_iter().find_map(|(number, value)| match value {
        Value::Varint(value) if number == field => Some(value),
        _ => None,
    })
}

fn inner(message: &[u8], field: u64) -> Option<&[u8]> {
    fields(message).into_iter().find_map(|(number, value)| match value {
        Value::Bytes(value) if number == field => Some(value),
        _ => None,
    })
}

fn text(message: &[u8], field: u64) -> Option<String> {
    inner(message, field).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// Replays a trace, and panics on everything that Perfetto would count as an error.
fn replay(trace: &[u8]) -> Replay {
    let mut names: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut processes = BTreeMap::new();
    let mut tracks: BTreeMap<u64, (String, String)> = BTreeMap::new();
    let mut threads = Vec::new();
    let mut ids = BTreeSet::new();
    let mut groups: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    let mut counters: BTreeMap<u64, usize> = BTreeMap::new();
    let mut stacks: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut replay = Replay::default();
    let mut clock: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, (field, value)) in fields(trace).into_iter().enumerate() {
        let Value::Bytes(packet) = value else { panic!("{value:?}") };
        assert_eq!(field, 1);
        assert_eq!(number(packet, 10), Some(1), "every packet names its sequence");
        if let Some(data) = inner(packet, 12) {
            assert_eq!((at, number(packet, 13), number(packet, 87)), (0, Some(1), Some(1)));
            for (kind, value) in fields(data) {
                let Value::Bytes(entry) = value else { panic!("{value:?}") };
                let id = (kind, number(entry, 1).unwrap());
                assert!(names.insert(id, text(entry, 2).unwrap()).is_none(), "{id:?} twice");
            }
        }
        if let Some(track) = inner(packet, 60) {
            let uuid = number(track, 1).unwrap();
            assert!(ids.insert(uuid), "track {uuid} twice");
            if let Some(process) = inner(track, 3) {
                processes.insert(number(process, 1).unwrap(), (uuid, text(process, 6).unwrap()));
            } else if let Some(thread) = inner(track, 4) {
                let (process, rank) = &processes[&number(thread, 1).unwrap()];
                assert_eq!(number(track, 5), Some(*process));
                threads.push(number(thread, 2).unwrap());
                assert!(tracks.insert(uuid, (rank.clone(), text(thread, 5).unwrap())).is_none());
            } else if let Some(counter) = inner(track, 8) {
                let (group, below) = groups.get_mut(&number(track, 5).unwrap()).unwrap();
                assert_eq!(number(track, 12), Some(*below), "ranks count from 0");
                *below += 1;
                let unit =
                    text(counter, 6).unwrap_or_else(|| format!("unit {}", number(counter, 3).unwrap()));
                let name = format!("{group} | {} | {unit}", text(track, 2).unwrap());
                assert!(counters.insert(uuid, replay.counters.len()).is_none());
                replay.counters.push((name, Vec::new()));
            } else if number(track, 11).is_some() {
                assert!(groups.insert(uuid, (text(track, 2).unwrap(), 0)).is_none());
            } else if uuid > 0 {
                assert!(tracks.insert(uuid, (String::new(), text(track, 2).unwrap())).is_none());
            }
        }
        let Some(event) = inner(packet, 11) else { continue };
        let time = number(packet, 8).unwrap();
        assert_eq!(number(packet, 13), Some(2));
        let uuid = number(event, 11).unwrap();
        if number(event, 9) == Some(4) {
            let value = fields(event).into_iter().find(|&(field, _)| field == 44);
            let Some((_, Value::Fixed64(bits))) = value else { panic!("{value:?}") };
            let values = &mut replay.counters[counters[&uuid]].1;
            assert!(values.last().is_none_or(|&(before, _)| before <= time));
            values.push((time, f64::from_bits(bits)));
            continue;
        }
        let (process, track) = tracks[&uuid].clone();
        // A track's events are in order of time.
        assert!(*clock.get(&uuid).unwrap_or(&0) <= time);
        clock.insert(uuid, time);
        let stack = stacks.entry(uuid).or_default();
        let slice = if number(event, 9) == Some(1) {
            let name = text(event, 23).or_else(|| Some(names[&(2, number(event, 10)?)].clone())).unwrap();
            let category = names[&(1, number(event, 3).unwrap())].clone();
            let bytes = inner(event, 4).map_or(0, |annotation| {
                assert_eq!(names[&(3, number(annotation, 1).unwrap())], "bytes");
                number(annotation, 3).unwrap()
            });
            replay.slices.push(Slice { process, track, name, category, start: time, end: None, bytes });
            stack.push(replay.slices.len() - 1);
            replay.slices.len() - 1
        } else {
            assert_eq!(number(event, 9), Some(2));
            let slice = stack.pop().expect("an end has a begin");
            replay.slices[slice].end = Some(time);
            slice
        };
        assert!(stack.len() <= 1, "slices of a lane do not nest");
        for (field, value) in fields(event) {
            if let (47, Value::Fixed64(id)) = (field, value) {
                match open.remove(&id) {
                    Some(from) => replay.flows.push((from, slice)),
                    None => assert!(open.insert(id, slice).is_none()),
                }
            }
        }
    }
    assert!(open.is_empty(), "every arrow has two ends");
    assert!(stacks.values().all(Vec::is_empty), "every slice ends");
    let largest = processes.keys().next_back().copied().unwrap_or(0);
    assert!(threads.iter().all(|&tid| tid > largest) && threads.is_sorted());
    replay
}

/// Two dimensions with counters of every unit.
fn some_counters() -> Vec<Counter> {
    let counter = |dimension: &str, name, unit, points: &[(u64, f64)]| Counter {
        dimension: dimension.to_owned(),
        name,
        unit,
        points: points.iter().map(|&(ns, value)| (Time::from_ns(ns), value)).collect(),
    };
    vec![
        counter("local", "utilisation", Unit::Percent, &[(0, 12.5), (1000, 0.0)]),
        counter("local", "longest queue", Unit::Bytes, &[(0, 0.0), (500, 65536.0), (1000, 0.0)]),
        counter("scale-out", "time-outs", Unit::Count, &[(500, 1.0), (1000, 0.0)]),
    ]
}

#[test]
fn counters_are_drawn_in_groups_beside_the_spans() {
    let mut spans = timeline().spans;
    spans.left_out = 1;
    let trace = super::encode(&spans, &some_counters(), DEFAULT_TRACE_BYTES, Origin::Simulated);
    let replay = replay(&trace.bytes);
    let expected = [
        ("local | utilisation | %", vec![(0, 12.5), (1000, 0.0)]),
        ("local | longest queue | unit 3", vec![(0, 0.0), (500, 65536.0), (1000, 0.0)]),
        ("scale-out | time-outs | unit 2", vec![(500, 1.0), (1000, 0.0)]),
    ];
    assert_eq!(replay.counters, expected.map(|(name, values)| (name.to_owned(), values)));
    assert_eq!(replay.slices.len(), spans.spans.len() + 1);
}

#[test]
fn counters_are_drawn_whole_or_not_at_all_and_the_limit_holds() {
    let spans = timeline().spans;
    let drawn = |limit: u64| {
        let trace = super::encode(&spans, &some_counters(), limit, Origin::Simulated);
        assert!(trace.bytes.len() as u64 <= limit.max(400), "{} of {limit}", trace.bytes.len());
        replay(&trace.bytes).counters.len()
    };
    let drawn: Vec<usize> = (0..2_000).step_by(7).map(drawn).collect();
    assert!(drawn.is_sorted() && drawn.iter().all(|counters| [0, 3].contains(counters)));
    assert_eq!((drawn.first(), drawn.last()), (Some(&0), Some(&3)));
}

fn shown(spans: &Spans, at: usize) -> (String, u64, Option<u64>, u64) {
    let span = &spans.spans[at];
    (format!("rank {}", span.rank.0), ns(span.start.0), Some(ns(span.end.0)), span.bytes.0)
}

#[test]
fn a_small_run_is_drawn_with_its_spans_and_arrow() {
    let spans = timeline().spans;
    let trace = encode(&spans, DEFAULT_TRACE_BYTES);
    assert_eq!((trace.spans, trace.left_out), (7, 0));
    let replay = replay(&trace.bytes);
    let lines: Vec<String> = replay
        .slices
        .iter()
        .map(|s| {
            format!(
                "{} | {} | {} | {}..{} | {} | {}",
                s.process,
                s.track,
                s.name,
                s.start,
                s.end.unwrap(),
                s.bytes,
                s.category
            )
        })
        .collect();
    let expected = [
        "rank 1 | memory | wait | 0..0 | 1099511627776 | memory",
        "rank 0 | compute | conv1 forward | 0..5000 | 0 | compute",
        "rank 0 | communication | all-reduce | 5000..9000 | 8192 | communication",
        "rank 0 | local | all-reduce | 5000..9000 | 4096 | dimension",
        "rank 1 | exposed communication | wait | 5000..9500 | 0 | exposed communication",
        "rank 0 | communication 2 | all-reduce | 6000..10000 | 8192 | communication",
        "rank 1 | local | all-reduce | 7001..9500 | 4096 | dimension",
    ];
    assert_eq!(lines, expected);
    assert_eq!(replay.flows, [(3, 6)]);
}

#[test]
fn a_receive_that_was_posted_early_gets_its_arrow_at_its_end() {
    let mut spans = timeline().spans;
    spans.flows = vec![
        Flow { from: 2, to: 1 },  // Posted at 5 us, sent at 7 us, received at 9 us.
        Flow { from: 3, to: 0 },  // The receive ends before the send starts: not drawn.
        Flow { from: 4, to: 4 },  // To itself: not drawn.
        Flow { from: 0, to: 99 }, // To nothing: not drawn.
    ];
    let replay = replay(&encode(&spans, DEFAULT_TRACE_BYTES).bytes);
    assert_eq!(replay.flows, [(6, 3)]);
}

#[test]
fn a_cut_trace_says_how_many_spans_are_left_out() {
    let mut spans = timeline().spans;
    spans.left_out = 1;
    let trace = encode(&spans, DEFAULT_TRACE_BYTES);
    let note = replay(&trace.bytes).slices.into_iter().find(|slice| slice.process.is_empty()).unwrap();
    assert_eq!(
        (note.track.as_str(), note.name.as_str()),
        ("trace was cut", "trace was cut: 1 span left out")
    );
    assert_eq!((note.start, note.end), (0, Some(10_000)));

    let trace = encode(&spans, 0);
    assert_eq!((trace.spans, trace.left_out), (0, 8));
    assert!(trace.bytes.len() < 400, "{}", trace.bytes.len());
    assert_eq!(replay(&trace.bytes).slices[0].name, "trace was cut: 8 spans left out");
    assert!(replay(&encode(&Spans::default(), 0).bytes).slices.is_empty());
    let unseen = Spans { left_out: 3, ..Spans::default() };
    assert_eq!(replay(&encode(&unseen, 0).bytes).slices[0].name, "trace was cut: 3 spans left out");
}

#[test]
fn many_labels_and_arrows_stay_within_the_limit() {
    let mut spans = timeline().spans;
    let span = spans.spans[1];
    spans.labels = (0..3_000).map(|at| format!("label {at} {}", "x".repeat(at % 300))).collect();
    spans.spans = (0..3_000).map(|at| syncline_timeline::Span { label: at, ..span }).collect();
    // All arrows end at one span, whose event therefore has the largest length.
    spans.flows = (0..3_000)
        .map(|at| Flow { from: at, to: 2_999 })
        .chain((1..3_000).map(|to| Flow { from: 0, to }))
        .collect();
    for limit in [1_000, 5_000, 50_000, 500_000, 700_000, 5_000_000] {
        let trace = encode(&spans, limit);
        assert!(trace.bytes.len() as u64 <= limit, "{} of {limit}", trace.bytes.len());
        let replay = replay(&trace.bytes);
        assert_eq!(trace.spans + trace.left_out, 3_000);
        assert_eq!(replay.slices.len() as u64, trace.spans + u64::from(trace.left_out > 0));
    }
}

/// All ids of tracks and processes in a trace, but that of the root.
fn ids(trace: &[u8]) -> BTreeSet<(u64, u64)> {
    let mut found = BTreeSet::new();
    for (_, value) in fields(trace) {
        let Value::Bytes(packet) = value else { panic!("{value:?}") };
        let Some(track) = inner(packet, 60) else { continue };
        found.insert((1, number(track, 1).unwrap()));
        let process = inner(track, 3).or_else(|| inner(track, 4));
        found.extend(process.map(|process| (2, number(process, 1).unwrap())));
    }
    found.remove(&(1, 0));
    found
}

#[test]
fn a_measured_trace_can_be_shown_beside_a_simulated_one() {
    let spans = timeline().spans;
    let [simulated, measured] = [Origin::Simulated, Origin::Measured]
        .map(|origin| super::encode(&spans, &some_counters(), DEFAULT_TRACE_BYTES, origin).bytes);
    assert!(ids(&simulated).is_disjoint(&ids(&measured)));
    let [simulated, measured] = [replay(&simulated).slices, replay(&measured).slices];
    let renamed = |slice: &Slice| Slice { process: format!("{}, measured", slice.process), ..slice.clone() };
    assert_eq!(simulated.iter().map(renamed).collect::<Vec<_>>(), measured);
}

proptest! {
    #[test]
    fn every_span_is_drawn_once_where_it_belongs(spans in any_spans()) {
        let trace = encode(&spans, DEFAULT_TRACE_BYTES);
        prop_assert_eq!(&trace, &encode(&spans, DEFAULT_TRACE_BYTES));
        prop_assert_eq!((trace.spans, trace.left_out), (spans.spans.len() as u64, spans.left_out));
        let replay = replay(&trace.bytes);
        let mut found: Vec<_> = replay
            .slices
            .iter()
            .filter(|slice| !slice.process.is_empty())
            .map(|slice| (slice.process.clone(), slice.start, slice.end, slice.bytes))
            .collect();
        let mut expected: Vec<_> = (0..spans.spans.len()).map(|at| shown(&spans, at)).collect();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        for (from, to) in replay.flows {
            prop_assert!(replay.slices[from].start <= replay.slices[to].end.unwrap());
        }
        let exposed = spans.spans.iter().filter(|span| span.track == Track::Exposed).count();
        prop_assert_eq!(replay.slices.iter().filter(|s| s.category == "exposed communication").count(), exposed);
    }

    #[test]
    fn a_cut_trace_keeps_its_limit_and_the_earliest_spans(spans in any_spans(), limit in 400..4_000_u64) {
        let trace = encode(&spans, limit);
        prop_assert!(trace.bytes.len() as u64 <= limit, "{} of {limit}", trace.bytes.len());
        let replay = replay(&trace.bytes);
        let drawn: Vec<_> = replay.slices.iter().filter(|slice| !slice.process.is_empty()).collect();
        prop_assert_eq!(drawn.len() as u64, trace.spans);
        let mut starts: Vec<u64> = spans.spans.iter().map(|span| ns(span.start.0)).collect();
        starts.sort_unstable();
        let mut drawn: Vec<u64> = drawn.iter().map(|slice| slice.start).collect();
        drawn.sort_unstable();
        prop_assert_eq!(&starts[..drawn.len()], &drawn[..]);
        prop_assert_eq!(replay.slices.iter().any(|slice| slice.process.is_empty()), trace.left_out > 0);
    }
}
