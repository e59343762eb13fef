//! Writes the operations of real runs as a Perfetto trace.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use syncline_results::trace::{DEFAULT_TRACE_BYTES, Origin, encode};
use syncline_timeline::{Span, Spans, Track};
use syncline_units::{Bytes, RankId, Time};

/// An operation: rank, group (0 is the whole job), label, bytes, and when it began and ended, in seconds.
type Row = (u32, u16, String, u64, f64, f64);

/// Encodes operations as a Perfetto trace, whose ranks are called measured. `groups` has the names of groups from 1 on.
/// Returns the trace, and the number of operations that are not drawn, with the `left_out` that were not recorded.
#[pyfunction]
pub(crate) fn measured_trace(
    py: Python<'_>,
    rows: Vec<Row>,
    groups: Vec<String>,
    left_out: u64,
) -> (Bound<'_, PyBytes>, u64) {
    let trace = py.detach(|| {
        let mut labels: BTreeMap<String, u32> = BTreeMap::new();
        let mut spans = Spans { dims: groups, left_out, ..Spans::default() };
        // Picoseconds.
        let time = |seconds: f64| Time((seconds.max(0.0) * 1e12) as u64);
        for (rank, group, label, bytes, began, ended) in rows {
            let next = labels.len() as u32;
            let label = *labels.entry(label).or_insert(next);
            let track = group.checked_sub(1).map_or(Track::Communication, Track::Dimension);
            let (rank, bytes) = (RankId(rank), Bytes(bytes));
            spans.spans.push(Span { rank, track, start: time(began), end: time(ended), label, bytes });
        }
        let mut by_number: Vec<(u32, String)> =
            labels.into_iter().map(|(label, number)| (number, label)).collect();
        by_number.sort_unstable();
        spans.labels = by_number.into_iter().map(|(_, label)| label).collect();
        encode(&spans, &[], DEFAULT_TRACE_BYTES, Origin::Measured)
    });
    (PyBytes::new(py, &trace.bytes), trace.left_out)
}
