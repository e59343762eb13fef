//! Fabrics given link by link, and a calendar that calls a network until nothing more happens.

use syncline_fabric::{Fabric, Graph, GraphLink, Routing};
use syncline_net_api::Origin;
use syncline_net_api::calendar::{CALL, CALL_LAST, DELIVER, LEFT};
use syncline_net_api::{Calendar, Call, NetworkModel, Owner, Sent, Transfer};
use syncline_net_packet::Packets;
use syncline_units::{Bytes, NpuId, Rate, Time};

/// Picoseconds that a link takes for a byte.
pub(crate) const BYTE: u64 = 80;
/// Picoseconds from one end of a link to the other.
pub(crate) const LATENCY: u64 = 500_000;

/// Links of 100 Gb/s and 0.5 us.
pub(crate) fn graph(npus: u32, switches: u32, links: &[(u32, u32)]) -> Fabric {
    routed(npus, switches, links, Routing::Shortest)
}

/// As [`graph`], with other routes.
pub(crate) fn routed(npus: u32, switches: u32, links: &[(u32, u32)], routing: Routing) -> Fabric {
    let link = |&(from, to): &(u32, u32)| GraphLink {
        from,
        to,
        rate: Rate(8_000_000_000_000 / BYTE),
        latency: Time(LATENCY),
    };
    Fabric::graph(Graph::new(npus, switches, links.iter().map(link).collect(), routing).unwrap())
}

/// NPUs around a switch: link `2 n` leads from NPU `n` to it, and link `2 n + 1` back.
pub(crate) fn star(npus: u32) -> Fabric {
    let links: Vec<(u32, u32)> = (0..npus).flat_map(|npu| [(npu, npus), (npus, npu)]).collect();
    graph(npus, 1, &links)
}

/// What a calendar said of messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) left: Vec<(u64, u32)>,
    pub(crate) delivered: Vec<(u64, u32)>,
}

/// A message.
pub(crate) fn message(id: u32, from: u32, to: u32, bytes: u64) -> Transfer {
    Transfer {
        id,
        from: NpuId(from),
        to: NpuId(to),
        lane: 0,
        job: 0,
        bytes: Bytes(bytes),
        key: 0,
        owner: Owner::UNKNOWN,
        origin: Origin::UNKNOWN,
    }
}

/// Sends messages at time 0, all of which leave later.
pub(crate) fn send(network: &mut Packets<'_>, calendar: &mut Calendar, messages: &[Transfer]) {
    for message in messages {
        assert_eq!(network.send(Time::ZERO, message, calendar), Sent::Later);
    }
}

/// Handles events until none is left, or none before `until`.
pub(crate) fn run(network: &mut Packets<'_>, calendar: &mut Calendar, until: u64) -> Said {
    let mut said = Said::default();
    // The network handles its own events up to then.
    calendar.limit = Time(until);
    while calendar.next_time().is_some_and(|time| time.0 <= until) {
        let event = calendar.pop().unwrap();
        let (time, subject, detail) = (event.time, event.subject, event.detail);
        match event.kind() {
            CALL | CALL_LAST => network.call(time, Call { subject, detail }, calendar),
            LEFT => said.left.push((time.0, subject)),
            DELIVER => said.delivered.push((time.0, subject)),
            other => panic!("an event of kind {other}"),
        }
    }
    said
}
