//! The model behind the engine's network interface, driven by a calendar: times, counters and tables by hand.
//!
//! A full TCP packet carries 1,448 bytes in 1,538 on the wire, an acknowledgement has 90. Links take 80 ps a byte and
//! 0.5 us.

use crate::support::fabric::{BYTE, LATENCY, Said, graph, message, routed, run, send, star};
use syncline_fabric::Routing;
use syncline_net_api::{Calendar, Halt, LinkUse, Measurements, NetworkModel, Sent, Transfer};
use syncline_net_packet::{
    Congestion, ConnectionKey, Marking, PacketSettings, Packets, Parameters, Sharing, Transport,
};
use syncline_timeline::{Data, Table};
use syncline_units::{Bytes, LinkId, NpuId, Rate, Time};

const SEGMENT: u64 = 1_448;
/// Picoseconds of a full packet and of an acknowledgement on a link.
const FULL: u64 = 1_538 * BYTE;
const ACK: u64 = 90 * BYTE;
/// A full packet over two links.
const TRIP: u64 = 2 * (FULL + LATENCY);
/// A second.
const S: u64 = 1_000_000_000_000;

fn settings(all: Parameters) -> PacketSettings {
    PacketSettings { all, ..PacketSettings::default() }
}

fn rdma() -> Parameters {
    Parameters { transport: Transport::Rdma, congestion: Some(Congestion::None), ..Parameters::default() }
}

fn ints(tables: &[Table], table: &str, column: &str) -> Vec<i64> {
    match &column_of(tables, table, column) {
        Data::Int(all) => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn floats(tables: &[Table], table: &str, column: &str) -> Vec<f64> {
    match &column_of(tables, table, column) {
        Data::Float(all) => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn texts(tables: &[Table], table: &str, column: &str) -> Vec<String> {
    match &column_of(tables, table, column) {
        Data::Text(all) => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn column_of(tables: &[Table], table: &str, column: &str) -> Data {
    let table = tables.iter().find(|each| each.name == table).unwrap();
    table.column(column).unwrap_or_else(|| panic!("no column {column}")).data.clone()
}

#[test]
fn a_message_leaves_and_arrives_and_its_links_count_it() {
    let fabric = star(3);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time(7));
    send(&mut network, &mut calendar, &[message(0, 0, 2, SEGMENT)]);
    let said = run(&mut network, &mut calendar, u64::MAX);
    // The endpoint needs 7 ps more.
    assert_eq!(said, Said { left: vec![(FULL, 0)], delivered: vec![(TRIP + 7, 0)] });
    let used = |link| network.link_use(LinkId(link));
    let once = |bytes: u64| LinkUse { bytes, messages: 1, busy: Time(bytes * BYTE), waited: Time::ZERO };
    assert_eq!([used(0), used(5), used(4), used(1)], [once(1_538), once(1_538), once(90), once(90)]);
    assert_eq!([used(2), used(3)], [LinkUse::default(); 2]);
    let counts = network.packets().unwrap();
    assert_eq!((counts.sent, counts.dropped, counts.marked, counts.pauses), (2, 0, 0, 0));
    assert_eq!((counts.retransmissions, counts.timeouts, counts.initial_timeouts), (0, 0, 0));
    // Two packets over two links each, and the timer of the first, for which nobody waits any more.
    assert_eq!((network.events(), network.simulation().events()), (5, 5));
    assert_eq!((network.name(), network.tiers(), network.fabric().npus()), ("packet", 1, 3));
    assert_eq!((network.overbooked(), network.stuck()), (None, None));
}

#[test]
fn a_message_to_oneself_arrives_at_once() {
    let fabric = star(2);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time(7));
    assert_eq!(network.send(Time(5), &message(3, 1, 1, 1_000), &mut calendar), Sent::At(Time(5)));
    assert_eq!(run(&mut network, &mut calendar, u64::MAX).delivered, [(12, 3)]);
    assert_eq!((network.flows().count(), network.events()), (0, 0));
}

#[test]
fn receivers_that_cannot_answer_and_paths_that_are_too_long_are_refused() {
    // 0 reaches 1, but 1 does not reach 0.
    let fabric = graph(3, 1, &[(0, 3), (3, 1), (2, 3), (3, 2)]);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time::ZERO);
    assert_eq!(network.send(Time::ZERO, &message(0, 0, 1, 10), &mut calendar), Sent::NoRoute);
    assert_eq!(network.send(Time::ZERO, &message(0, 1, 0, 10), &mut calendar), Sent::NoRoute);
    assert_eq!(network.flows().count(), 0);
    // A row of switches: 255 links can be counted, 256 cannot.
    for (switches, far) in [(254, false), (255, true)] {
        let row: Vec<u32> = [0].into_iter().chain(2..2 + switches).chain([1]).collect();
        let links: Vec<(u32, u32)> =
            row.windows(2).flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]).collect();
        let fabric = graph(2, switches, &links);
        let mut network =
            Packets::new(&fabric, &settings(Parameters { buffer: None, ..Parameters::default() }));
        let mut calendar = Calendar::new(Time::ZERO);
        let sent = network.send(Time::ZERO, &message(0, 0, 1, 10), &mut calendar);
        assert_eq!(sent, if far { Sent::TooFar } else { Sent::Later });
        if !far {
            // 10 bytes in 100 on the wire, over 255 links.
            let end = 255 * (100 * BYTE + LATENCY);
            assert_eq!(run(&mut network, &mut calendar, u64::MAX).delivered, [(end, 0)]);
        }
    }
}

#[test]
fn connections_belong_to_a_pair_a_lane_and_a_job() {
    let fabric = star(3);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time::ZERO);
    let messages = [
        message(0, 0, 1, 10),
        message(1, 0, 1, 10),
        message(2, 1, 0, 10),
        Transfer { lane: 4, ..message(3, 0, 1, 10) },
        Transfer { job: 2, ..message(4, 0, 1, 10) },
    ];
    send(&mut network, &mut calendar, &messages);
    let flows: Vec<_> = network.flows().collect();
    let key = |from, to, lane, job| ConnectionKey { from, to, lane, job };
    assert_eq!(
        flows,
        [(key(0, 1, 0, 0), 0), (key(0, 1, 0, 2), 3), (key(0, 1, 4, 0), 2), (key(1, 0, 0, 0), 1)]
    );
    let said = run(&mut network, &mut calendar, u64::MAX);
    assert_eq!(said.delivered.len(), 5);
    let tables = network.tables(Time(S));
    assert_eq!(ints(&tables, "flows", "bytes"), [20, 10, 10, 10]);
    assert_eq!(ints(&tables, "flows", "lane"), [0, 0, 4, 0]);
    assert_eq!(ints(&tables, "flows", "job"), [0, 2, 0, 0]);
    let named = |npu: u32| fabric.vertex_name(npu);
    assert_eq!(texts(&tables, "flows", "from"), [named(0), named(0), named(0), named(1)]);
    assert_eq!(texts(&tables, "flows", "to"), [named(1), named(1), named(1), named(0)]);
    assert_eq!(texts(&tables, "flows", "dimension"), ["network"; 4]);
    assert_eq!(ints(&tables, "flows", "paths"), [1; 4]);
}

/// The round trip of a packet that is alone, in the units of time stamps.
fn round_trip(links: u64) -> f64 {
    let exact = links * (FULL + LATENCY) + links * (ACK + LATENCY);
    (exact >> 13 << 13) as f64 / 1e12
}

#[test]
fn round_trips_are_summed_up_by_connection() {
    // NPU 0 to NPU 1 over one, two, three ... seven links.
    let links: Vec<Vec<u32>> =
        (0..7).map(|hops| (0..hops).map(|at| 14 + hops * (hops - 1) / 2 + at).collect()).collect();
    let mut all = Vec::new();
    for (pair, between) in (0..).zip(&links) {
        let row: Vec<u32> =
            [2 * pair].into_iter().chain(between.iter().copied()).chain([2 * pair + 1]).collect();
        all.extend(row.windows(2).flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]));
    }
    let fabric = graph(14, 21, &all);
    let run_with = |count: u32| {
        let mut network = Packets::new(&fabric, &settings(Parameters::default()));
        let mut calendar = Calendar::new(Time::ZERO);
        for pair in 0..count {
            send(&mut network, &mut calendar, &[message(pair, 2 * pair, 2 * pair + 1, SEGMENT)]);
        }
        run(&mut network, &mut calendar, u64::MAX);
        let counts = network.packets().unwrap();
        (
            counts.rtt_mean_s,
            counts.rtt_p50_s,
            counts.rtt_p99_s,
            floats(&network.tables(Time(S)), "flows", "rtt_s"),
        )
    };
    for count in 1..=7u32 {
        let each: Vec<f64> = (1..=u64::from(count)).map(round_trip).collect();
        let (mean, median, most, table) = run_with(count);
        assert_eq!(table, each);
        assert!((mean - each.iter().sum::<f64>() / f64::from(count)).abs() < 1e-15);
        // Nearest rank: the smallest of which at least half, or 99 of 100, are no larger.
        assert_eq!(
            (median, most),
            (each[count.div_ceil(2) as usize - 1], each[count as usize - 1]),
            "{count}"
        );
    }
    let none = Packets::new(&fabric, &settings(Parameters::default())).packets().unwrap();
    assert_eq!((none.rtt_mean_s, none.rtt_p50_s, none.sent), (0.0, 0.0, 0));
}

/// NPUs 0 and 1 send a packet each to NPU 2 at once. Returns what is counted.
fn collide(parameters: Parameters) -> (Said, Vec<Table>, LinkUse) {
    let fabric = star(3);
    let mut network = Packets::new(&fabric, &settings(parameters));
    let mut calendar = Calendar::new(Time::ZERO);
    let segment = parameters.segment();
    send(&mut network, &mut calendar, &[message(0, 0, 2, segment), message(1, 1, 2, segment)]);
    let said = run(&mut network, &mut calendar, u64::MAX);
    let finish = Time(said.delivered.last().unwrap().0);
    (said, network.tables(finish), network.link_use(LinkId(5)))
}

#[test]
fn a_packet_that_waits_for_another_is_a_queue_of_one() {
    for parameters in [
        Parameters::default(),
        Parameters { sharing: Sharing::Dynamic, ..Parameters::default() },
        Parameters { pfc: Some(true), ..Parameters::default() },
        rdma(),
    ] {
        let (said, tables, used) = collide(parameters);
        assert_eq!(said.delivered, [(TRIP, 0), (TRIP + FULL, 1)]);
        assert_eq!((used.messages, used.bytes, used.busy.0, used.waited.0), (2, 2 * 1_538, 2 * FULL, FULL));
        // The link to NPU 2 is the sixth; five have packets, in the order of their numbers.
        assert_eq!(ints(&tables, "ports", "link"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(ints(&tables, "ports", "packets"), [1, 1, 1, 1, 2, 2]);
        assert_eq!(ints(&tables, "ports", "dropped"), [0; 6]);
        assert_eq!(ints(&tables, "ports", "longest_queue_bytes"), [0, 0, 0, 0, 0, 1_538]);
        let mean = 1_538.0 * FULL as f64 / (TRIP + FULL) as f64;
        let means = floats(&tables, "ports", "mean_queue_bytes");
        assert!((means[5] - mean).abs() < 1e-9 && means[0] == 0.0, "{means:?} {mean}");
        // The run has two slices of 2^20 ps. The second packet met the first at the switch: when both had arrived,
        // or, at queues that may be paused, when it was sent.
        let met = FULL + LATENCY;
        let counted = if parameters == Parameters::default() { met } else { met + FULL };
        let slice = (counted >> 20) as usize;
        let means = floats(&tables, "queues", "mean_queue_bytes");
        assert_eq!(means.len(), 2);
        let starts = floats(&tables, "queues", "start_s");
        let ends = floats(&tables, "queues", "end_s");
        assert_eq!((starts[0], starts[1], ends[0]), (0.0, 1_048_576e-12, 1_048_576e-12));
        assert!((ends[1] - (TRIP + FULL) as f64 / 1e12).abs() < 1e-18);
        // All ports of the switch that sent something: three.
        let area = (ends[slice] - starts[slice]) * 1e12 * 3.0;
        let mean = 1_538.0 * FULL as f64 / area;
        assert!((means[slice] - mean).abs() < 1e-6 * mean && means[1 - slice] == 0.0, "{means:?} {mean}");
        assert_eq!(ints(&tables, "queues", "longest_queue_bytes")[(met >> 20) as usize], 1_538);
        assert_eq!(texts(&tables, "queues", "dimension"), ["network"; 2]);
    }
}

/// Ten packets from each of two NPUs to a third, of which the queue holds two: of the twenty, the first two find room,
/// then each slot brings two and frees one.
#[test]
fn a_full_queue_drops_what_comes() {
    for sharing in [Sharing::Even, Sharing::Dynamic] {
        // Three ports; evenly, two packets for each. Dynamically, two packets of four leave two free.
        let buffer = match sharing {
            Sharing::Even => 3 * 2 * 1_538,
            Sharing::Dynamic => 4 * 1_538,
        };
        let parameters = Parameters { buffer: Some(Bytes(buffer)), sharing, ..Parameters::default() };
        let fabric = star(3);
        let mut network = Packets::new(&fabric, &settings(parameters));
        let mut calendar = Calendar::new(Time::ZERO);
        send(&mut network, &mut calendar, &[message(0, 0, 2, 10 * SEGMENT), message(1, 1, 2, 10 * SEGMENT)]);
        // All have reached the switch, and no acknowledgement has come back that could cause more.
        run(&mut network, &mut calendar, LATENCY + 10 * FULL + 1);
        // A queue that may be paused counts the packet that leaves just then as well, which costs another packet in the first slot.
        let dropped = if sharing == Sharing::Even { 9 } else { 10 };
        assert_eq!(network.packets().unwrap().dropped, dropped, "{sharing:?}");
        assert_eq!(network.simulation().count(5).drops, dropped);
        let said = run(&mut network, &mut calendar, u64::MAX);
        assert_eq!(said.delivered.len(), 2);
        let counts = network.packets().unwrap();
        let (first, second) = (network.simulation().met(0), network.simulation().met(1));
        assert_eq!(first.0 + second.0, counts.dropped);
        assert!(counts.retransmissions >= counts.dropped);
        let tables = network.tables(Time(S));
        assert_eq!(ints(&tables, "ports", "dropped").iter().sum::<i64>(), counts.dropped as i64);
        assert_eq!(ints(&tables, "queues", "dropped").iter().sum::<i64>(), counts.dropped as i64);
        assert_eq!(ints(&tables, "flows", "dropped").iter().sum::<i64>(), counts.dropped as i64);
        let again = counts.retransmissions as i64;
        assert_eq!(ints(&tables, "flows", "retransmissions").iter().sum::<i64>(), again);
        assert_eq!(ints(&tables, "queues", "retransmissions").iter().sum::<i64>(), again);
        let recoveries: i64 = ints(&tables, "flows", "recoveries").iter().sum();
        assert!(recoveries > 0 || counts.timeouts > 0);
        assert_eq!(ints(&tables, "queues", "timeouts").iter().sum::<i64>(), counts.timeouts as i64);
        let sent: u64 = (0..3).map(|npu| network.link_use(LinkId(2 * npu)).messages).sum();
        assert_eq!(counts.sent, sent, "NPUs sent all packets, acknowledgements included");
        match column_of(&tables, "ports", "limit_bytes") {
            Data::OptionalFloat(limits) => {
                let own = (sharing == Sharing::Even).then_some(2.0 * 1_538.0);
                assert_eq!(limits, [None, own, None, own, None, own]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn packets_that_meet_a_queue_are_marked_and_counted() {
    for sharing in [Sharing::Even, Sharing::Dynamic] {
        // Of the twenty packets, nineteen meet at least one other.
        let mark = Some(Marking::step(Bytes(1_538)));
        let parameters = Parameters { mark, sharing, ..Parameters::default() };
        let fabric = star(3);
        let mut network = Packets::new(&fabric, &settings(parameters));
        let mut calendar = Calendar::new(Time::ZERO);
        send(&mut network, &mut calendar, &[message(0, 0, 2, 10 * SEGMENT), message(1, 1, 2, 10 * SEGMENT)]);
        run(&mut network, &mut calendar, u64::MAX);
        let counts = network.packets().unwrap();
        assert_eq!((counts.marked, counts.dropped), (19, 0), "{sharing:?}");
        let tables = network.tables(Time(S));
        for table in ["ports", "queues", "flows"] {
            assert_eq!(ints(&tables, table, "marked").iter().sum::<i64>(), 19, "{table}");
        }
        if sharing == Sharing::Dynamic {
            continue;
        }
        // If they are dropped instead, one of the two of each slot is left.
        let drop = Parameters { mark: mark.map(|mark| Marking { drop: true, ..mark }), ..parameters };
        let mut network = Packets::new(&fabric, &settings(drop));
        let mut calendar = Calendar::new(Time::ZERO);
        send(&mut network, &mut calendar, &[message(0, 0, 2, 10 * SEGMENT), message(1, 1, 2, 10 * SEGMENT)]);
        run(&mut network, &mut calendar, LATENCY + 10 * FULL + 1);
        let counts = network.packets().unwrap();
        assert_eq!((counts.marked, counts.dropped), (0, 10), "{sharing:?}");
    }
}

#[test]
fn time_outs_double_and_count_from_when_all_links_were_idle() {
    // No packet fits the buffer.
    let parameters = Parameters { buffer: Some(Bytes(3)), ..Parameters::default() };
    let fabric = star(3);
    let mut network = Packets::new(&fabric, &settings(parameters));
    let mut calendar = Calendar::new(Time::ZERO);
    send(&mut network, &mut calendar, &[message(0, 1, 2, 10 * SEGMENT)]);
    let said = run(&mut network, &mut calendar, 8 * S);
    assert_eq!((said.left, said.delivered), (vec![(10 * FULL, 0)], vec![]));
    // After 1 s, 2 s more and 4 s more.
    let stalls = network.stalls();
    let ends: Vec<u64> = stalls.iter().map(|stall| stall.end.0).collect();
    assert_eq!(ends, [S, 3 * S, 7 * S]);
    let starts: Vec<u64> = stalls.iter().map(|stall| stall.start.0).collect();
    assert_eq!(starts, [0, S, 3 * S]);
    // Ten packets, then one each time.
    let idle: Vec<u64> = stalls.iter().map(|stall| stall.idle_from.0).collect();
    assert_eq!(idle, [10 * FULL, S + FULL, 3 * S + FULL]);
    assert_eq!(stalls.iter().map(|stall| stall.in_a_row).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        stalls
            .iter()
            .all(|stall| stall.initial && (stall.from, stall.to, stall.lane) == (NpuId(1), NpuId(2), 0))
    );
    let counts = network.packets().unwrap();
    assert_eq!((counts.timeouts, counts.initial_timeouts, counts.retransmissions), (3, 3, 3));
    assert_eq!((counts.dropped, counts.sent), (13, 13));
    assert_eq!(ints(&network.tables(Time(8 * S)), "flows", "timeouts"), [3]);
    let inner = network.simulation().stalls();
    assert_eq!(inner[0].idle(), S - 10 * FULL);
}

#[test]
fn rdma_gives_up_after_eight_time_outs() {
    let parameters = Parameters { buffer: Some(Bytes(3)), pfc: Some(false), ..rdma() };
    let fabric = star(3);
    let mut network = Packets::new(&fabric, &settings(parameters));
    let mut calendar = Calendar::new(Time::ZERO);
    send(&mut network, &mut calendar, &[message(0, 1, 2, 10)]);
    let said = run(&mut network, &mut calendar, u64::MAX);
    assert_eq!(said.delivered, []);
    let counts = network.packets().unwrap();
    // The first try and seven more.
    assert_eq!((counts.timeouts, counts.sent, counts.retransmissions, counts.initial_timeouts), (8, 8, 7, 0));
    let stalls = network.stalls();
    assert_eq!(stalls.len(), 8);
    assert_eq!((stalls[7].in_a_row, stalls[7].end.0 - stalls[7].start.0), (8, parameters.min_timeout.0));
    let Halt { why, help } = network.stuck().unwrap();
    let name = |npu| fabric.vertex_name(npu);
    assert_eq!(
        why,
        format!("the connection from {} to {} gave up after 8 time-outs in a row", name(1), name(2))
    );
    assert!(help.contains("network.pfc: true"));
    assert!(network.simulation().is_given_up(0));
}

#[test]
fn a_deadlock_of_pauses_names_the_port_that_holds_most() {
    // Three NPUs, each on a switch of its own; routes go around the ring of switches in one direction, two hops.
    let mut links: Vec<(u32, u32)> = (0..3).flat_map(|npu| [(npu, 3 + npu), (3 + npu, npu)]).collect();
    links.extend((0..3).flat_map(|at| [(3 + at, 3 + (at + 1) % 3), (3 + (at + 1) % 3, 3 + at)]));
    let explicit: Vec<Vec<u32>> =
        (0..3).map(|at| vec![at, 3 + at, 3 + (at + 1) % 3, 3 + (at + 2) % 3, (at + 2) % 3]).collect();
    let fabric = routed(3, 3, &links, Routing::Explicit(explicit));
    let parameters = Parameters { buffer: Some(Bytes(400_000)), ..rdma() };
    let mut network = Packets::new(&fabric, &settings(parameters));
    let mut calendar = Calendar::new(Time::ZERO);
    let messages: Vec<Transfer> = (0..3).map(|at| message(at, at, (at + 2) % 3, 20_000_000)).collect();
    send(&mut network, &mut calendar, &messages);
    let said = run(&mut network, &mut calendar, 10 * S);
    assert_eq!(said.delivered, []);
    let held = network.simulation().stuck();
    let Halt { why, help } = network.stuck().unwrap();
    assert!(why.starts_with(&format!("priority flow control: {} ports were paused", held.len())), "{why}");
    // The port that holds the most is named; of several, the first.
    let most = held.iter().map(|each| each.1).max().unwrap();
    let port = held.iter().find(|each| each.1 == most).unwrap().0;
    let link = fabric.link(LinkId(port));
    let named = format!(
        "from {} to {}, which holds {}",
        fabric.vertex_name(link.from),
        fabric.vertex_name(link.to),
        Bytes(most)
    );
    assert!(why.contains(&named), "{why}\n{named}");
    assert!(help.contains("network.pfc: false"));
    assert!(network.packets().unwrap().pauses > 0);
    let tables = network.tables(Time(S));
    let pauses = network.packets().unwrap().pauses as i64;
    assert_eq!(ints(&tables, "ports", "pauses").iter().sum::<i64>(), pauses);
    assert_eq!(ints(&tables, "queues", "pauses").iter().sum::<i64>(), pauses);
}

#[test]
fn a_run_that_is_cut_counts_what_was_sent_by_then() {
    let fabric = star(2);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time::ZERO);
    send(&mut network, &mut calendar, &[message(0, 0, 1, 10 * SEGMENT)]);
    // The NPU's port has booked ten packets at once.
    assert_eq!(
        (network.link_use(LinkId(0)).busy.0, network.simulation().drained(0).0),
        (10 * FULL, 10 * FULL)
    );
    network.cut(Time(3 * FULL));
    let used = network.link_use(LinkId(0));
    assert_eq!((used.busy.0, used.bytes), (3 * FULL, 3 * 1_538));
    assert_eq!(network.simulation().drained(0), Time(3 * FULL));
    assert_eq!(network.overbooked(), None);
    // Nothing changes if everything was over.
    network.cut(Time(4 * FULL));
    assert_eq!(network.link_use(LinkId(0)).busy.0, 3 * FULL);
    assert_eq!(network.simulation().latency(0), Time(LATENCY));
}

#[test]
fn activity_is_recorded_until_it_is_stopped() {
    let fabric = star(2);
    let mut network = Packets::new(&fabric, &settings(Parameters::default()));
    let mut calendar = Calendar::new(Time::ZERO);
    send(&mut network, &mut calendar, &[message(0, 0, 1, 3 * SEGMENT)]);
    run(&mut network, &mut calendar, u64::MAX);
    assert!(!network.activity().is_stopped());
    network.stop_activity(Time(TRIP + 2 * FULL));
    assert!(network.activity().is_stopped());
    let busy: Vec<u64> = (0..4).map(|link| network.activity().row(link).iter().sum()).collect();
    assert_eq!(busy, [3 * FULL, 3 * ACK, 3 * ACK, 3 * FULL]);
    let more = message(1, 0, 1, SEGMENT);
    assert_eq!(network.send(Time(S), &more, &mut calendar), Sent::Later);
    run(&mut network, &mut calendar, u64::MAX);
    assert_eq!(network.activity().row(0).iter().sum::<u64>(), 3 * FULL);
}

#[test]
fn forwarding_takes_its_time_at_each_switch() {
    let fabric = star(2);
    let parameters = Parameters { forwarding: Time(1_000), ..Parameters::default() };
    let mut network = Packets::new(&fabric, &settings(parameters));
    let mut calendar = Calendar::new(Time::ZERO);
    send(&mut network, &mut calendar, &[message(0, 0, 1, SEGMENT)]);
    assert_eq!(run(&mut network, &mut calendar, u64::MAX).delivered, [(TRIP + 1_000, 0)]);
    assert_eq!([0, 1].map(|port| network.simulation().latency(port).0), [LATENCY + 1_000, LATENCY]);
}

#[test]
fn equal_paths_are_taken_in_turn_by_tcp_alone() {
    // Two switches, and four between them.
    let mut links = vec![(0, 2), (2, 0), (1, 3), (3, 1)];
    links.extend((4..8).flat_map(|middle| [(2, middle), (middle, 2), (3, middle), (middle, 3)]));
    let fabric = graph(2, 6, &links);
    for (parameters, ways) in [
        (Parameters { spray: 3, ..Parameters::default() }, 3),
        (Parameters { spray: 9, ..Parameters::default() }, 4),
        (Parameters::default(), 1),
        (Parameters { spray: 3, ..rdma() }, 1),
    ] {
        let mut network = Packets::new(&fabric, &settings(parameters));
        let mut calendar = Calendar::new(Time::ZERO);
        send(&mut network, &mut calendar, &[message(0, 0, 1, 12 * parameters.segment())]);
        assert_eq!(network.simulation().paths(0), ways);
        run(&mut network, &mut calendar, u64::MAX);
        assert_eq!(ints(&network.tables(Time(S)), "flows", "paths"), [i64::from(ways)]);
        let passed = (4..8)
            .map(|middle| 4 + 4 * (middle - 4))
            .filter(|&link| network.link_use(LinkId(link)).messages > 0);
        assert_eq!(passed.count() as u32, ways);
    }
    assert_eq!(Rate(8_000_000_000_000 / BYTE), fabric.link(LinkId(0)).rate);
}
