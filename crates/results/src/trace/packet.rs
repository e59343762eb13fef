//! The messages of a Perfetto trace that this crate writes, with the field numbers of `perfetto/trace/*.proto`.
//!
//! A trace is a list of packets. [`names`] lists all names once; later packets refer to them by number. [`root`],
//! [`process`], [`thread`], [`global`], [`group`] and [`counter`] declare tracks. [`begin`] and [`end`] make a slice on
//! a track, [`value`] a value of a counter.

use super::Origin;
use super::wire::Message;
use syncline_timeline::Track;

/// Id of the writer of all packets (Perfetto's `trusted_packet_sequence_id`).
const SEQUENCE: u64 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: this packet starts a new list of names.
const CLEARED: u64 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: this packet refers to names by number.
const NEEDS_NAMES: u64 = 2;
/// `ChildTracksOrdering.EXPLICIT`.
const EXPLICIT: u64 = 3;
/// Number of the only debug annotation, `bytes`.
const BYTES: u64 = 1;

/// The names of categories, in the order of their numbers from 1: those of [`Track::OWN`], then two more.
pub(super) fn categories() -> impl Iterator<Item = &'static str> {
    Track::OWN.into_iter().map(|(_, name)| name).chain(["dimension", "note"])
}

/// The number of the category of slices that are notes.
pub(super) const NOTE: u64 = Track::OWN.len() as u64 + 2;

/// The number of the category of slices on a track at this place.
pub(super) fn category(place: u32) -> u64 {
    u64::from(place.min(Track::OWN.len() as u32)) + 1
}

fn packet(trace: &mut Message, fill: impl FnOnce(&mut Message)) {
    trace.message(1, |packet| {
        packet.uint(10, SEQUENCE);
        fill(packet);
    });
}

/// One interned name: the content of `InternedData.event_names`, encoded as its field.
pub(super) fn name_entry(data: &mut Message, iid: u64, name: &str) {
    named(data, 2, iid, name);
}

fn named(data: &mut Message, field: u32, iid: u64, name: &str) {
    data.message(field, |entry| {
        entry.uint(1, iid);
        entry.text(2, name);
    });
}

/// The first packet: the names of all slices (as [`name_entry`] encodes them), categories and annotations.
pub(super) fn names(trace: &mut Message, entries: &[u8]) {
    packet(trace, |packet| {
        packet.uint(13, CLEARED);
        packet.uint(87, 1);
        packet.message(12, |data| {
            for (iid, name) in (1..).zip(categories()) {
                named(data, 1, iid, name);
            }
            data.append(entries);
            named(data, 3, BYTES, "bytes");
        });
    });
}

fn descriptor(trace: &mut Message, uuid: u64, rank: u64, fill: impl FnOnce(&mut Message)) {
    packet(trace, |packet| {
        packet.message(60, |track| {
            track.uint(1, uuid);
            track.uint(12, rank);
            fill(track);
        });
    });
}

/// The root of all tracks. It tells Perfetto to show processes and threads in the order of their ranks.
pub(super) fn root(trace: &mut Message) {
    packet(trace, |packet| {
        packet.message(60, |track| {
            track.uint(1, 0);
            track.uint(19, 1);
            track.uint(20, 1);
        });
    });
}

/// The process of a rank.
pub(super) fn process(trace: &mut Message, uuid: u64, rank: u32, origin: Origin) {
    descriptor(trace, uuid, u64::from(rank), |track| {
        track.uint(11, EXPLICIT);
        track.message(3, |process| {
            process.uint(1, origin.process(rank));
            process.text(6, &origin.name(rank));
        });
    });
}

/// The thread of one lane of a rank. All versions of Perfetto show the threads of a process by ascending `tid`.
pub(super) fn thread(
    trace: &mut Message,
    uuid: u64,
    parent: u64,
    process: u64,
    tid: u64,
    place: u64,
    name: &str,
) {
    descriptor(trace, uuid, place, |track| {
        track.uint(5, parent);
        track.message(4, |thread| {
            thread.uint(1, process);
            thread.uint(2, tid);
            thread.text(5, name);
        });
    });
}

/// A track that belongs to no rank.
pub(super) fn global(trace: &mut Message, uuid: u64, name: &str) {
    descriptor(trace, uuid, 0, |track| track.text(2, name));
}

/// A group of tracks under a common name, in the order of their ranks.
pub(super) fn group(trace: &mut Message, uuid: u64, name: &str) {
    descriptor(trace, uuid, 0, |track| {
        track.text(2, name);
        track.uint(11, EXPLICIT);
    });
}

/// The unit of a counter.
pub(super) enum Unit {
    /// `CounterDescriptor.Unit.UNIT_COUNT`.
    Count,
    /// `CounterDescriptor.Unit.UNIT_SIZE_BYTES`.
    Bytes,
    /// A unit of that name.
    Named(&'static str),
}

/// A counter in a group. `rank` orders it within the group.
pub(super) fn counter(trace: &mut Message, uuid: u64, (group, rank): (u64, u64), name: &str, unit: &Unit) {
    descriptor(trace, uuid, rank, |track| {
        track.text(2, name);
        track.uint(5, group);
        track.message(8, |counter| match unit {
            Unit::Count => counter.uint(3, 2),
            Unit::Bytes => counter.uint(3, 3),
            Unit::Named(name) => counter.text(6, name),
        });
    });
}

/// The name of a slice.
pub(super) enum Name<'a> {
    /// The number in [`names`].
    Interned(u64),
    /// The name itself.
    Text(&'a str),
}

fn event(trace: &mut Message, ns: u64, kind: u64, uuid: u64, flows: &[u64], fill: impl FnOnce(&mut Message)) {
    packet(trace, |packet| {
        packet.uint(8, ns);
        packet.uint(13, NEEDS_NAMES);
        packet.message(11, |event| {
            event.uint(9, kind);
            event.uint(11, uuid);
            fill(event);
            for &flow in flows {
                event.fixed64(47, flow);
            }
        });
    });
}

/// The start of a slice.
pub(super) fn begin(
    trace: &mut Message,
    (ns, uuid): (u64, u64),
    category: u64,
    name: &Name<'_>,
    bytes: u64,
    flows: &[u64],
) {
    event(trace, ns, 1, uuid, flows, |event| {
        event.uint(3, category);
        match name {
            Name::Interned(iid) => event.uint(10, *iid),
            Name::Text(name) => event.text(23, name),
        }
        if bytes > 0 {
            event.message(4, |annotation| {
                annotation.uint(1, BYTES);
                annotation.uint(3, bytes);
            });
        }
    });
}

/// The end of the slice that is open on the track.
pub(super) fn end(trace: &mut Message, (ns, uuid): (u64, u64), flows: &[u64]) {
    event(trace, ns, 2, uuid, flows, |_| {});
}

/// The value of a counter from a time on.
pub(super) fn value(trace: &mut Message, (ns, uuid): (u64, u64), value: f64) {
    event(trace, ns, 4, uuid, &[], |event| event.fixed64(44, value.to_bits()));
}
