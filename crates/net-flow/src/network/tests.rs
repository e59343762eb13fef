//! The model as the engine sees it: what is sent, when it is complete, and what links report (`accounts`).

mod accounts;

use super::*;
use syncline_fabric::{Graph, GraphLink, Routing};
use syncline_units::{CollectiveKind, NpuId};

/// Three NPUs in a row with 10 Gb/s: 1 MB takes 800 us. The second link has a latency of one microsecond.
fn row() -> Fabric {
    let link = |from, to, latency| GraphLink { from, to, rate: Rate(10_000_000_000), latency };
    let links = vec![
        link(0, 1, Time(1_000)),
        link(1, 0, Time(1_000)),
        link(1, 2, Time(1_000_000)),
        link(2, 1, Time(1_000_000)),
    ];
    Fabric::graph(Graph::new(3, 0, links, Routing::Ecmp { seed: 1 }).unwrap())
}

/// Time to send 1 MB.
const MB: u64 = 800_000_000;

/// A message of 1 MB.
fn transfer(id: u32, from: u32, to: u32) -> Transfer {
    let (from, to, bytes) = (NpuId(from), NpuId(to), Bytes(1_000_000));
    Transfer {
        id,
        from,
        to,
        lane: 0,
        bytes,
        key: u64::from(id),
        job: 0,
        owner: Owner::UNKNOWN,
        origin: syncline_net_api::Origin::UNKNOWN,
    }
}

fn flows<'a>(fabric: &'a Fabric, settings: &FlowSettings) -> Flows<'a> {
    Flows::new(fabric, Symmetry::none(fabric), settings)
}

/// Sends messages at the same time.
fn send(flows: &mut Flows<'_>, now: u64, messages: &[Transfer], calendar: &mut Calendar) {
    for message in messages {
        assert_eq!(flows.send(Time(now), message, calendar), Sent::Later);
    }
    if flows.settling {
        flows.call(Time(now), SETTLE, calendar);
    }
}

/// Calls the model until nothing is in flight. Returns the times at which messages were complete, and how
/// many each time.
fn run(flows: &mut Flows<'_>, calendar: &mut Calendar) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    while let Some(end) = flows.wake {
        let before = flows.events();
        flows.call(end, THROUGH, calendar);
        flows.call(end, SETTLE, calendar);
        ends.push((end.0, flows.events() - before));
    }
    ends
}

#[test]
fn a_port_that_sent_more_than_it_can_is_reported() {
    let fabric = row();
    let sent = |settings: &FlowSettings| {
        let (mut flows, mut calendar) = (flows(&fabric, settings), Calendar::default());
        send(&mut flows, 0, &[transfer(0, 0, 1), transfer(1, 0, 1)], &mut calendar);
        assert_eq!(run(&mut flows, &mut calendar), [(MB, 1), (2 * MB, 1)]);
        flows
    };
    let mut flows = sent(&FlowSettings::default());
    assert_eq!(flows.overbooked(), None);
    flows.accounts.uses_mut()[0].bytes += 2;
    assert!(flows.overbooked().is_some());
    flows.accounts.uses_mut()[0].bytes += 2_498;
    assert_eq!(flows.overbooked().unwrap(), "port 0 sent within 1.6ms what takes it 1.602ms");
    // A precision of a tenth tolerates a fifth.
    let mut flows = sent(&FlowSettings { precision: 0.1, ..FlowSettings::default() });
    flows.accounts.uses_mut()[0].bytes += 399_000;
    assert_eq!(flows.overbooked(), None);
    flows.accounts.uses_mut()[0].bytes += 2_000;
    assert!(flows.overbooked().is_some());
}

/// A path is stored until its connection is open; a connection is open until it has no messages.
#[test]
fn connections_are_open_while_they_have_messages() {
    let fabric = row();
    let (mut flows, mut calendar) = (flows(&fabric, &FlowSettings::default()), Calendar::default());
    assert_eq!(flows.send(Time(0), &transfer(0, 0, 1), &mut calendar), Sent::Later);
    assert!(flows.connections.are_closed() && flows.connections.has_found());
    flows.call(Time(0), SETTLE, &mut calendar);
    assert!(!flows.connections.are_closed() && !flows.connections.has_found());
    assert_eq!(run(&mut flows, &mut calendar), [(MB, 1)]);
    assert!(flows.connections.are_closed() && flows.coming.is_empty());
    // Message numbers are reused.
    send(&mut flows, 2 * MB, &[transfer(1, 0, 2)], &mut calendar);
    assert_eq!((flows.flights.len(), flows.free.len()), (1, 0));
    assert_eq!(run(&mut flows, &mut calendar), [(3 * MB, 1)]);
}

/// Messages with other ends, lanes, weights or priorities share links; messages with the same follow each
/// other.
#[test]
fn a_connection_is_ends_lane_weight_and_priority() {
    let fabric = row();
    let settings = FlowSettings {
        weights: [(Traffic::Collective(CollectiveKind::AllReduce), 3)].into(),
        priority: vec![Traffic::Collective(CollectiveKind::Broadcast)],
        ..FlowSettings::default()
    };
    let of = |kind| Transfer { owner: Owner { kind: Some(kind), ..Owner::UNKNOWN }, ..transfer(1, 0, 1) };
    let ends = |second: Transfer| {
        let (mut flows, mut calendar) = (flows(&fabric, &settings), Calendar::default());
        send(&mut flows, 0, &[transfer(0, 0, 1), second], &mut calendar);
        run(&mut flows, &mut calendar)
    };
    let (in_order, at_once) = ([(MB, 1), (2 * MB, 1)], [(2 * MB, 2)]);
    assert_eq!(ends(transfer(1, 0, 1)), in_order);
    assert_eq!(ends(of(CollectiveKind::AllToAll)), in_order);
    assert_eq!(ends(transfer(1, 0, 2)), at_once);
    assert_eq!(ends(Transfer { lane: 1, ..transfer(1, 0, 1) }), at_once);
    // The heavy connection gets three quarters until it is complete.
    assert_eq!(ends(of(CollectiveKind::AllReduce)), [(MB * 4 / 3 + 1, 1), (2 * MB + 1, 1)]);
    // The second is complete before the first begins.
    let (mut flows, mut calendar) = (flows(&fabric, &settings), Calendar::default());
    send(&mut flows, 0, &[transfer(0, 0, 1), of(CollectiveKind::Broadcast)], &mut calendar);
    flows.call(Time(MB), THROUGH, &mut calendar);
    let delays: Vec<Time> = flows.contention().iter().map(|each| each.delay).collect();
    assert_eq!(delays, [Time(0)], "no message was ahead of it");
}
