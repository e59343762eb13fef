//! Counters: a group of tracks for each dimension, beside the ranks.

use super::packet;
use super::wire::Message;
use syncline_timeline::{Counter, counter::Unit};

/// All counters, on tracks numbered from `first`.
pub(super) fn draw(counters: &[Counter], first: u64) -> Message {
    let mut trace = Message::default();
    let mut uuid = first;
    for of_dimension in counters.chunk_by(|a, b| a.dimension == b.dimension) {
        let group = uuid;
        packet::group(&mut trace, group, &of_dimension[0].dimension);
        for (rank, counter) in (0..).zip(of_dimension) {
            uuid += 1;
            packet::counter(&mut trace, uuid, (group, rank), counter.name, &unit(counter.unit));
            for &(time, value) in &counter.points {
                packet::value(&mut trace, (super::ns(time.0), uuid), value);
            }
        }
        uuid += 1;
    }
    trace
}

fn unit(unit: Unit) -> packet::Unit {
    match unit {
        Unit::Percent => packet::Unit::Named("%"),
        Unit::Bytes => packet::Unit::Bytes,
        Unit::Count => packet::Unit::Count,
    }
}
