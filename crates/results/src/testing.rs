//! Shared by the tests of this crate: a small run, and arbitrary tables and spans.

use crate::table::OwnedTable;
use proptest::prelude::*;
use syncline_timeline::{
    Bottleneck, Column, Data, DimSummary, Flow, Span, Spans, Summary, Table, Timeline, Track,
};
use syncline_units::{Bytes, RankId, Time};

/// A run of two ranks.
pub(crate) fn timeline() -> Timeline {
    let summary = Summary {
        ranks: 2,
        npus: 2,
        iterations: 1,
        total_time_s: 0.1 + 0.2,
        dims: vec![DimSummary { name: "local".into(), utilization: 0.7, ..DimSummary::default() }],
        bottleneck: Bottleneck::Links { tier: "local".into() },
        network_model: "queued".into(),
        ..Summary::default()
    };
    let tables = vec![
        Table::new("layers", "A layer on one rank")
            .with("layer", "Name of the layer", vec!["conv1".to_owned(), "größer".to_owned()])
            .with("compute_s", "Time in compute", vec![0.1, 1e-12]),
        Table::new("collectives", "A collective")
            .with("wait_s", "Time in queues, where there are queues", vec![None, Some(3e-6)])
            .with("overlapped", "Whether compute hides it", vec![true, false]),
        Table::new("phases", "A phase of a collective").with("bytes", "Bytes sent", Vec::<i64>::new()),
        Table::new("links", "A link").with("bytes", "Bytes sent", vec![i64::MAX, 0, -1]),
        Table::new("ranks", "A rank").with("rank", "Its number", vec![0_i64, 1]),
    ];
    let span = |rank, track, start, end, label, bytes| Span {
        rank: RankId(rank),
        track,
        start: Time(start),
        end: Time(end),
        label,
        bytes: Bytes(bytes),
    };
    let spans = Spans {
        spans: vec![
            span(0, Track::Compute, 0, 5_000_000, 0, 0),
            span(0, Track::Dimension(0), 5_000_000, 9_000_499, 1, 4096),
            span(1, Track::Dimension(0), 7_000_500, 9_500_000, 1, 4096),
            span(0, Track::Communication, 5_000_000, 9_000_000, 1, 8192),
            span(0, Track::Communication, 6_000_000, 10_000_000, 1, 8192),
            span(1, Track::Exposed, 5_000_000, 9_500_000, 2, 0),
            span(1, Track::Memory, 0, 1, 2, 1 << 40),
        ],
        flows: vec![Flow { from: 1, to: 2 }],
        labels: vec!["conv1 forward".into(), "all-reduce".into(), "wait".into()],
        dims: vec!["local".into()],
        left_out: 0,
    };
    Timeline { summary, tables, spans }
}

/// Whether two tables are equal, where NaN equals itself.
pub(crate) fn same(a: &OwnedTable, b: &OwnedTable) -> bool {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    a.name == b.name
        && a.meaning == b.meaning
        && a.columns.len() == b.columns.len()
        && a.columns.iter().zip(&b.columns).all(|(a, b)| {
            let data = match (&a.data, &b.data) {
                (Data::Float(a), Data::Float(b)) => bits(a) == bits(b),
                (Data::OptionalFloat(a), Data::OptionalFloat(b)) => {
                    a.iter().map(|v| v.map(f64::to_bits)).eq(b.iter().map(|v| v.map(f64::to_bits)))
                }
                (a, b) => a == b,
            };
            (&a.name, &a.meaning) == (&b.name, &b.meaning) && data
        })
}

/// An arbitrary table of up to six columns and twenty rows.
pub(crate) fn any_table() -> impl Strategy<Value = Table> {
    const NAMES: [&str; 6] = ["a", "b_s", "c_bytes", "d_bytes_per_s", "größe", "f g"];
    let float =
        || prop_oneof![any::<f64>().prop_filter("one NaN is enough", |v| !v.is_nan()), Just(f64::NAN)];
    (0..20_usize).prop_flat_map(move |rows| {
        let data = prop_oneof![
            prop::collection::vec(any::<i64>(), rows).prop_map(Data::Int),
            prop::collection::vec(float(), rows).prop_map(Data::Float),
            prop::collection::vec(prop::option::of(float()), rows).prop_map(Data::OptionalFloat),
            prop::collection::vec(any::<String>(), rows).prop_map(Data::Text),
            prop::collection::vec(any::<bool>(), rows).prop_map(Data::Bool),
        ];
        prop::collection::vec(data, 1..=NAMES.len()).prop_map(|columns| Table {
            name: "layers",
            meaning: "A layer",
            columns: NAMES
                .iter()
                .zip(columns)
                .map(|(name, data)| Column { name, meaning: "Ü", data })
                .collect(),
        })
    })
}

/// Arbitrary spans of up to four ranks, dense enough to overlap, with arrows between any two of them.
pub(crate) fn any_spans() -> impl Strategy<Value = Spans> {
    let track = prop_oneof![
        Just(Track::Compute),
        Just(Track::Communication),
        Just(Track::Exposed),
        Just(Track::Bubble),
        Just(Track::Skew),
        Just(Track::Memory),
        (0..3_u16).prop_map(Track::Dimension),
    ];
    let span = (0..4_u32, track, 0..20_000_u64, 0..6_000_u64, 0..5_u32, 0..3_u64);
    let spans = prop::collection::vec(span, 0..60).prop_map(|spans| {
        let make = |(rank, track, start, length, label, bytes)| Span {
            rank: RankId(rank),
            track,
            start: Time(start),
            end: Time(start + length),
            label,
            bytes: Bytes(bytes),
        };
        spans.into_iter().map(make).collect::<Vec<_>>()
    });
    (spans, prop::collection::vec((0..60_u32, 0..60_u32), 0..30), 0..3_u64).prop_map(
        |(spans, flows, left_out)| {
            Spans {
                spans,
                flows: flows.into_iter().map(|(from, to)| Flow { from, to }).collect(),
                // One label and one name are missing: the trace must still be drawn.
                labels: ["forward", "backward", "all-reduce", ""].map(str::to_owned).to_vec(),
                dims: ["local", "compute"].map(str::to_owned).to_vec(),
                left_out,
            }
        },
    )
}
