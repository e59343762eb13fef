//! Encodes spans and counters as a Perfetto trace (the `TrackEvent` protocol buffers), for <https://ui.perfetto.dev>
//! and its SQL.
//!
//! - Every traced rank is a process named `rank N`. Its tracks are threads: those of [`syncline_timeline::Track::OWN`],
//!   and one for each dimension, with its name. Overlapping spans of a track are spread over lanes: `communication`,
//!   `communication 2`, ...
//! - Times are simulated time in nanoseconds: picoseconds are rounded to the nearest, halves up. A span of less than a
//!   nanosecond may have no length. Adjacent spans stay adjacent.
//! - The debug annotation `bytes` of a span is the number of bytes that it moved. A message is an arrow from the span
//!   that sent it to the span that received it.
//! - Every dimension is a group of counters: its utilisation, the length of its queues, its losses in a slice of time.
//!   A value holds until the next one. The last one is zero, at the end of the recorded time.
//! - A trace has a largest size. Counters are drawn first, unless they alone exceed it. Spans are then drawn in the
//!   order of their start until the size is reached; a slice over the whole trace then says how many are left out.
//!
//! Modules: `wire` (protocol buffers), `packet` (Perfetto's messages), `lanes` (overlapping spans), `flows` (arrows),
//! `counters`.

mod counters;
mod flows;
mod lanes;
mod packet;
mod wire;

use packet::Name;
use std::collections::BTreeMap;
use syncline_timeline::{Counter, Span, Spans, Track};
use wire::Message;

/// The largest trace by default. Perfetto's web page holds a trace in memory several times over.
pub const DEFAULT_TRACE_BYTES: u64 = 200_000_000;

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The content of a `.pftrace` file.
    pub bytes: Vec<u8>,
    /// Number of spans that are drawn.
    pub spans: u64,
    /// Number of spans that are not drawn, because of the size or because they were never recorded.
    pub left_out: u64,
}

/// Where spans are from. Traces of different origins can be concatenated: the result shows both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A simulation: `rank 3`.
    Simulated,
    /// A run of real processes: `rank 3, measured`.
    Measured,
}

impl Origin {
    /// Added to ids of tracks and processes.
    const fn base(self) -> u64 {
        match self {
            Self::Simulated => 0,
            Self::Measured => 1 << 24,
        }
    }

    /// The id of a rank's process. Ids count from 1, because Perfetto takes process 0 for the idle process.
    fn process(self, rank: u32) -> u64 {
        self.base() + u64::from(rank) + 1
    }

    /// The name of a rank's process.
    fn name(self, rank: u32) -> String {
        match self {
            Self::Simulated => format!("rank {rank}"),
            Self::Measured => format!("rank {rank}, measured"),
        }
    }
}

/// Encodes spans and counters as a trace of at most `max_bytes` bytes. If not even one span fits, the trace has a few
/// hundred bytes, which say that all were left out.
///
/// Labels and dimensions without a name get one. A flow to a span that does not exist is not drawn.
pub fn encode(spans: &Spans, counters: &[Counter], max_bytes: u64, origin: Origin) -> Trace {
    let drawing = Drawing::new(spans, counters, origin);
    let plan = drawing.plan(max_bytes);
    let left_out = spans.left_out + (spans.spans.len() as u64 - u64::from(plan.drawn));
    Trace { bytes: drawing.draw(&plan, left_out), spans: u64::from(plan.drawn), left_out }
}

/// Converts picoseconds to nanoseconds, rounded to the nearest, halves up.
const fn ns(ps: u64) -> u64 {
    ps / 1000 + (ps % 1000 >= 500) as u64
}

/// The place of every span, arrow and counter in the trace.
struct Drawing<'a> {
    spans: &'a Spans,
    origin: Origin,
    /// Spans in drawing order.
    order: Vec<u32>,
    /// Places of spans, in drawing order.
    places: Vec<lanes::Place>,
    /// Track ids of all places.
    tracks: BTreeMap<lanes::Place, u64>,
    /// Track ids of ranks.
    ranks: BTreeMap<u32, u64>,
    arrows: Vec<flows::Arrow>,
    /// All counters, encoded.
    counters: Message,
}

/// The part that fits into the largest size.
struct Plan {
    /// Number of spans to draw, in drawing order.
    drawn: u32,
    /// Whether to draw counters.
    counters: bool,
    /// The labels of these spans, encoded.
    names: Message,
    /// The ranks and tracks of these spans.
    ranks: BTreeMap<u32, u64>,
    tracks: BTreeMap<lanes::Place, u64>,
}

impl<'a> Drawing<'a> {
    fn new(spans: &'a Spans, counters: &[Counter], origin: Origin) -> Self {
        let order = lanes::sorted(&spans.spans);
        let places = lanes::places(&spans.spans, &order);
        let mut tracks: BTreeMap<_, u64> = places.iter().map(|&place| (place, 0)).collect();
        let mut ranks = BTreeMap::new();
        let mut next = origin.base();
        for (place, uuid) in &mut tracks {
            ranks.entry(place.0).or_insert_with(|| {
                next += 1;
                next
            });
            next += 1;
            *uuid = next;
        }
        let mut position = vec![0; order.len()];
        for (at, &span) in (0..).zip(&order) {
            position[span as usize] = at;
        }
        let arrows =
            flows::arrows(&spans.flows, &position, |at| times(&spans.spans[order[at as usize] as usize]));
        // Ids after those of ranks, tracks and the note.
        let counters = counters::draw(counters, next + 2);
        Self { spans, origin, order, places, tracks, ranks, arrows, counters }
    }

    /// The span at a position in drawing order, and the id of its track.
    fn span(&self, at: u32) -> (&'a Span, u64) {
        let place = self.places[at as usize];
        (&self.spans.spans[self.order[at as usize] as usize], self.tracks[&place])
    }

    /// The number of a span's label among the names; those without a label share one.
    fn name(&self, span: &Span) -> u64 {
        u64::from(span.label).min(self.spans.labels.len() as u64) + 1
    }

    /// Finds how much fits into `max_bytes`.
    fn plan(&self, max_bytes: u64) -> Plan {
        let mut scratch = Message::default();
        packet::names(&mut scratch, &[]);
        packet::root(&mut scratch);
        self.note_begin(&mut scratch, u64::MAX);
        self.note_end(&mut scratch);
        // The names make the first packet longer, and so also its two length fields.
        let mut used = scratch.bytes().len() as u64 + 8;
        let of_counters = self.counters.bytes().len() as u64;
        let counters = used + of_counters <= max_bytes;
        used += if counters { of_counters } else { 0 };
        let mut arrows_at = vec![0_u32; self.order.len()];
        for arrow in &self.arrows {
            arrows_at[arrow.complete_at() as usize] += 1;
        }
        let mut named = vec![false; self.spans.labels.len() + 1];
        let mut plan = Plan {
            drawn: 0,
            counters,
            names: Message::default(),
            ranks: BTreeMap::new(),
            tracks: BTreeMap::new(),
        };
        for at in 0..self.order.len() as u32 {
            let (span, uuid) = self.span(at);
            let place = self.places[at as usize];
            let name = self.name(span);
            let (new_rank, new_track) =
                (!plan.ranks.contains_key(&place.0), !plan.tracks.contains_key(&place));
            let new_name = !named[name as usize - 1];
            scratch.clear();
            if new_rank {
                packet::process(&mut scratch, self.ranks[&place.0], place.0, self.origin);
            }
            if new_track {
                self.track(&mut scratch, place, uuid);
            }
            if new_name {
                packet::name_entry(&mut scratch, name, self.label(name));
            }
            self.begin(&mut scratch, at, &[]);
            self.end(&mut scratch, at, &[]);
            let cost = scratch.bytes().len() as u64 + u64::from(arrows_at[at as usize]) * flows::BYTES;
            if used + cost > max_bytes {
                break;
            }
            used += cost;
            plan.drawn = at + 1;
            if new_rank {
                plan.ranks.insert(place.0, self.ranks[&place.0]);
            }
            if new_track {
                plan.tracks.insert(place, uuid);
            }
            if new_name {
                named[name as usize - 1] = true;
                packet::name_entry(&mut plan.names, name, self.label(name));
            }
        }
        plan
    }

    /// Encodes the trace.
    fn draw(&self, plan: &Plan, left_out: u64) -> Vec<u8> {
        let mut trace = Message::default();
        packet::names(&mut trace, plan.names.bytes());
        packet::root(&mut trace);
        if plan.counters {
            trace.append(self.counters.bytes());
        }
        for (&rank, &uuid) in &plan.ranks {
            packet::process(&mut trace, uuid, rank, self.origin);
        }
        for (&place, &uuid) in &plan.tracks {
            self.track(&mut trace, place, uuid);
        }
        if left_out > 0 {
            self.note_begin(&mut trace, left_out);
        }
        // By time; at the same time in drawing order, in which a lane's slice ends before the next one begins.
        let mut events: Vec<(u64, flows::Event)> = (0..plan.drawn)
            .flat_map(|at| {
                let (begin, end) = times(self.span(at).0);
                [(begin, u64::from(at) * 2), (end, u64::from(at) * 2 + 1)]
            })
            .collect();
        events.sort_unstable();
        let ids = flows::Ids::new(&self.arrows, plan.drawn);
        let mut flows = Vec::new();
        for (_, event) in events {
            ids.of(event, &mut flows);
            let at = (event / 2) as u32;
            if event % 2 == 0 {
                self.begin(&mut trace, at, &flows);
            } else {
                self.end(&mut trace, at, &flows);
            }
        }
        if left_out > 0 {
            self.note_end(&mut trace);
        }
        trace.into_bytes()
    }

    fn track(&self, trace: &mut Message, place: lanes::Place, uuid: u64) {
        // Thread ids are larger than all process ids, so that Perfetto takes no thread for a process's main thread.
        let above = self.ranks.keys().next_back().map_or(0, |&rank| u64::from(rank) + 1);
        packet::thread(
            trace,
            uuid,
            self.ranks[&place.0],
            self.origin.process(place.0),
            above + uuid,
            uuid,
            &self.track_name(place),
        );
    }

    fn track_name(&self, (_, track, lane): lanes::Place) -> String {
        let name = match Track::OWN.get(track as usize) {
            Some(&(_, name)) => name.to_owned(),
            None => {
                let dim = track as usize - Track::OWN.len();
                let name = self.spans.dims.get(dim).filter(|name| !name.is_empty());
                name.cloned().unwrap_or_else(|| format!("dimension {dim}"))
            }
        };
        if lane == 0 { name } else { format!("{name} {}", lane + 1) }
    }

    fn label(&self, name: u64) -> &str {
        let label = self.spans.labels.get(name as usize - 1).map(String::as_str);
        label.filter(|label| !label.is_empty()).unwrap_or("(no name)")
    }

    fn begin(&self, trace: &mut Message, at: u32, flows: &[u64]) {
        let (span, uuid) = self.span(at);
        let category = packet::category(self.places[at as usize].1);
        let name = Name::Interned(self.name(span));
        packet::begin(trace, (times(span).0, uuid), category, &name, span.bytes.0, flows);
    }

    fn end(&self, trace: &mut Message, at: u32, flows: &[u64]) {
        let (span, uuid) = self.span(at);
        packet::end(trace, (times(span).1, uuid), flows);
    }

    /// Begins the slice that says that spans are missing. It lasts from the first span to the last.
    fn note_begin(&self, trace: &mut Message, left_out: u64) {
        let start = self.order.first().map_or(0, |&at| times(&self.spans.spans[at as usize]).0);
        let spans = if left_out == 1 { "span" } else { "spans" };
        let text = format!("trace was cut: {left_out} {spans} left out");
        packet::global(trace, self.note_track(), "trace was cut");
        packet::begin(trace, (start, self.note_track()), packet::NOTE, &Name::Text(&text), 0, &[]);
    }

    fn note_end(&self, trace: &mut Message) {
        let end = self.spans.spans.iter().map(|span| times(span).1).max().unwrap_or(0);
        packet::end(trace, (end, self.note_track()), &[]);
    }

    fn note_track(&self) -> u64 {
        self.origin.base() + (self.tracks.len() + self.ranks.len()) as u64 + 1
    }
}

/// Begin and end of a span in the trace's time.
fn times(span: &Span) -> (u64, u64) {
    (ns(span.start.0), ns(span.end.0.max(span.start.0)))
}

#[cfg(test)]
mod tests;
