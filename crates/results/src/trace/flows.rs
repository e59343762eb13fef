//! Arrows between slices.
//!
//! Perfetto draws an arrow between the events that carry the same flow id, in the order of their time. These are the
//! start of the sending slice and the start of the receiving slice. If a receive was posted before its message was
//! sent, the end of the receiving slice carries the id instead, so that no arrow points backwards.

use syncline_timeline::Flow;

/// An event of the trace, numbered as twice the span's position in drawing order, plus one for its end.
pub(super) type Event = u64;

/// Largest number of bytes that an arrow adds: two flow ids of ten bytes, each with one more byte for each of the two
/// length fields around it.
pub(super) const BYTES: u64 = 24;

/// An arrow: its id, counted from 1, and the positions of its two spans in drawing order.
#[derive(Clone, Copy)]
pub(super) struct Arrow {
    id: u64,
    from: u32,
    to: u32,
    at_end: bool,
}

impl Arrow {
    /// The position of the later of its two spans.
    pub(super) fn complete_at(&self) -> u32 {
        self.from.max(self.to)
    }
}

/// The arrows that can be drawn. `position` holds each span's position in drawing order; `time` returns the start and
/// end of the span at a position, in the trace's time.
pub(super) fn arrows(flows: &[Flow], position: &[u32], time: impl Fn(u32) -> (u64, u64)) -> Vec<Arrow> {
    let arrow = |(id, flow): (u64, &Flow)| {
        let from = *position.get(flow.from as usize)?;
        let to = *position.get(flow.to as usize)?;
        let at_end = to < from;
        // If the receiving span ends before the sending one starts, an arrow would point backwards.
        let drawn = from != to && (!at_end || time(to).1 > time(from).0);
        drawn.then_some(Arrow { id, from, to, at_end })
    };
    (1..).zip(flows).filter_map(arrow).collect()
}

/// The flow ids of events, for the arrows whose ends are both among the first `drawn` spans.
pub(super) struct Ids(Vec<(Event, u64)>);

impl Ids {
    pub(super) fn new(arrows: &[Arrow], drawn: u32) -> Self {
        let ends = |arrow: &Arrow| {
            let from = u64::from(arrow.from) * 2;
            let to = u64::from(arrow.to) * 2 + u64::from(arrow.at_end);
            [(from, arrow.id), (to, arrow.id)]
        };
        let mut ids: Vec<(Event, u64)> =
            arrows.iter().filter(|arrow| arrow.complete_at() < drawn).flat_map(ends).collect();
        ids.sort_unstable();
        Self(ids)
    }

    /// Replaces the content of `ids` with the ids of `event`.
    pub(super) fn of(&self, event: Event, ids: &mut Vec<u64>) {
        ids.clear();
        let start = self.0.partition_point(|pair| pair.0 < event);
        ids.extend(self.0[start..].iter().take_while(|pair| pair.0 == event).map(|pair| pair.1));
    }
}
