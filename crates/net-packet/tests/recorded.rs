//! Runs of drawn networks, parameters and messages, beside what earlier versions computed for them.
//!
//! Other tests say why a number is right. This one notices when any number changes: a line of `recorded.txt` is a run, with
//! its main counts and a digest of all its events and tables. `UPDATE=1` writes the file anew; look at what changed.
//! Logarithms and roots of other platforms may differ in their last bit.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support::fabric::{message, routed};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;
use syncline_fabric::Routing;
use syncline_net_api::calendar::{CALL, CALL_LAST, DELIVER};
use syncline_net_api::{Calendar, Call, Measurements, NetworkModel, Trail};
use syncline_net_packet::{
    Congestion, Dcqcn, Framing, Marking, PacketSettings, Packets, Parameters, Sharing, Transport,
};
use syncline_units::{Bytes, LinkId, Time};

const RUNS: u64 = 300;
/// A kind of event that no network model uses: a message is sent.
const SEND: u8 = 9;
/// One second, after which nothing happens any more.
const END: u64 = 1_000_000_000_000;

fn parameters(draw: &mut ChaCha8Rng) -> Parameters {
    let rdma = draw.random_bool(0.5);
    let mtu = *[576u64, 1500, 4096, 9000].choose(draw).unwrap();
    let congestion = if rdma {
        *[Congestion::Dcqcn, Congestion::None].choose(draw).unwrap()
    } else {
        *[Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp].choose(draw).unwrap()
    };
    let pfc = draw.random_bool(if rdma { 0.7 } else { 0.1 });
    // Large enough for what pauses cannot stop, small enough for packets to be lost without them.
    let buffer =
        if rdma { draw.random_range(400_000..2_000_000) } else { draw.random_range(30_000..400_000) };
    let from = Bytes(draw.random_range(2..30) * mtu);
    let marking = Marking {
        from,
        to: Bytes(from.0 + draw.random_range(1..20) * mtu),
        probability: draw.random_range(0.05..1.0),
        weight: *[0.002, 0.1, 1.0].choose(draw).unwrap(),
        drop: congestion != Congestion::Dctcp && !rdma && draw.random_bool(0.3),
    };
    let mark = match draw.random_range(0..3) {
        0 if !congestion.needs_marks() => None,
        1 => Some(Marking::step(from)),
        _ => Some(marking),
    };
    Parameters {
        mtu: Bytes(mtu),
        headers: draw.random_bool(0.2).then_some(Bytes(48)),
        framing: if draw.random_bool(0.8) { Framing::Ethernet } else { Framing::PointToPoint },
        buffer: (pfc || draw.random_bool(0.9)).then_some(Bytes(buffer)),
        sharing: if draw.random_bool(0.5) { Sharing::Dynamic } else { Sharing::Even },
        alpha: draw.random_range(0.5..4.0),
        forwarding: Time::from_ns(draw.random_range(0..800)),
        mark,
        pfc: Some(pfc),
        transport: if rdma { Transport::Rdma } else { Transport::Tcp },
        congestion: Some(congestion),
        handshake: draw.random_bool(0.5),
        initial_window: draw.random_range(1..20),
        window: draw.random_bool(0.6).then(|| Bytes(draw.random_range(2..200) * mtu)),
        min_timeout: Time::from_ns(draw.random_range(100_000..1_000_000)),
        initial_timeout: Time::from_ns(1_000_000),
        segments_per_ack: draw.random_range(1..3),
        delayed_ack: Time::from_ns(draw.random_range(10_000..100_000)),
        restart: draw.random_bool(0.5),
        spray: if draw.random_bool(0.3) { 2 } else { 1 },
        dcqcn: Dcqcn {
            cnp_interval: Time::from_ns(draw.random_range(2_000..50_000)),
            alpha_timer: Time::from_ns(draw.random_range(5_000..60_000)),
            rate_timer: Time::from_ns(draw.random_range(5_000..60_000)),
            bytes: Bytes(draw.random_range(20_000..500_000)),
            stages: draw.random_range(1..6),
            gain: draw.random_range(0.004..0.5),
            ..Dcqcn::default()
        },
        seed: draw.random_bool(0.5).then_some(7),
    }
}

/// NPUs at two leaves, which one or two spines join.
fn links(npus: u32, spines: u32) -> Vec<(u32, u32)> {
    let leaf = |npu: u32| npus + npu % 2;
    let down = (0..npus).flat_map(|npu| [(npu, leaf(npu)), (leaf(npu), npu)]);
    let up = (0..spines).flat_map(|spine| {
        let spine = npus + 2 + spine;
        [(npus, spine), (spine, npus), (npus + 1, spine), (spine, npus + 1)]
    });
    down.chain(up).collect()
}

/// 64 bits that depend on every byte (FNV-1a).
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A line that describes a run.
fn line(seed: u64) -> String {
    let draw = &mut ChaCha8Rng::seed_from_u64(seed);
    let parameters = parameters(draw);
    let (npus, spines) = (draw.random_range(2..9), draw.random_range(1..3));
    let links = links(npus, spines);
    let routing = if draw.random_bool(0.5) { Routing::Shortest } else { Routing::Ecmp { seed: seed % 3 } };
    let fabric = routed(npus, 2 + spines, &links, routing);
    let settings = PacketSettings { all: parameters, ..PacketSettings::default() }.seeded(seed);
    let found = settings.check(&fabric);
    if found.has_errors() {
        return format!("{seed} refused: {}\n", found.0[0].message);
    }
    let mut network = Packets::new(&fabric, &settings);
    let mut calendar = Calendar::new(Time(7));
    // Many send to the first NPU, at first and later again.
    let mut messages = Vec::new();
    let mut now = 0;
    for _ in 0..draw.random_range(1..4) {
        for _ in 0..draw.random_range(1..12) {
            let to = if draw.random_bool(0.5) { 0 } else { draw.random_range(0..npus) };
            let from = (to + draw.random_range(1..npus)) % npus;
            let bytes = if draw.random_bool(0.1) { 0 } else { draw.random_range(1..400_000) };
            let mut message = message(messages.len() as u32, from, to, bytes);
            message.lane = draw.random_range(0..2);
            calendar.at(Time(now), SEND, 0, message.id, 0);
            messages.push(message);
        }
        now += draw.random_range(10_000_000..3_000_000_000);
    }
    calendar.limit = Time(END);
    if draw.random_bool(0.5) {
        calendar.trail = Trail::writing(network.tiers());
    }
    let mut said = Vec::new();
    while calendar.next_time().is_some_and(|time| time.0 <= END) {
        let event = calendar.pop().unwrap();
        match event.kind() {
            SEND => {
                network.send(event.time, &messages[event.subject as usize], &mut calendar);
            }
            CALL | CALL_LAST => {
                let call = Call { subject: event.subject, detail: event.detail };
                network.call(event.time, call, &mut calendar);
            }
            kind => said.push((event.time.0, kind, event.subject)),
        }
    }
    let last = said.iter().map(|each| each.0).max().unwrap_or_default();
    let delivered = said.iter().filter(|each| each.1 == DELIVER).count();
    let simulation = network.simulation();
    let count = |of: &dyn Fn(u32) -> u64| -> u64 { (0..fabric.links()).map(of).sum() };
    let at = |link| simulation.count(link);
    let (drops, marks) = (count(&|link| at(link).drops), count(&|link| at(link).marks));
    let (pauses, paused) = (count(&|link| at(link).pauses), count(&|link| at(link).paused));
    let longest = count(&|link| at(link).longest);
    let repairs = simulation
        .flows()
        .map(|(repairs, _)| repairs)
        .fold([0; 3], |[a, b, c], each| [a + each.retransmissions, b + each.timeouts, c + each.recoveries]);
    let events = simulation.events();
    let stuck = network.stuck().map(|halt| format!("{halt:?}"));
    let mut all = format!("{said:?} {:?} {:?} {stuck:?}", calendar.trail, network.overbooked());
    let stalls: Vec<String> = network
        .stalls()
        .into_iter()
        .map(|stall| format!("{:?} {:?} {:?}", stall.start, stall.end, stall.in_a_row))
        .collect();
    write!(all, "{stalls:?} {:?}", network.packets().map(|counts| format!("{counts:?}"))).unwrap();
    for link in 0..fabric.links() {
        write!(all, "{:?}", network.link_use(LinkId(link))).unwrap();
    }
    for table in network.tables(Time(last)) {
        for column in &table.columns {
            // Floats to their last digit.
            write!(all, "{} {} {:?}", table.name, column.name, column.data).unwrap();
        }
    }
    let [again, timeouts, recoveries] = repairs;
    format!(
        "{seed} delivered={delivered} last_ps={last} events={events} drops={drops} marks={marks} pauses={pauses} \
         paused_ps={paused} longest_ps={longest} retransmissions={again} timeouts={timeouts} \
         recoveries={recoveries} digest={:016x}\n",
        digest(&all)
    )
}

#[test]
fn every_number_is_what_it_was() {
    let found: String = (0..RUNS).map(line).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let recorded = std::fs::read_to_string(path).unwrap();
    for (now, before) in found.lines().zip(recorded.lines()) {
        assert_eq!(now, before, "a number changed; if it was to change, UPDATE=1 writes them anew");
    }
    assert_eq!(found.lines().count(), recorded.lines().count());
    // Without all of these the file would notice little.
    for what in ["drops", "marks", "pauses", "retransmissions", "timeouts", "recoveries"] {
        let some = recorded.lines().filter(|line| !line.contains(&format!(" {what}=0 "))).count();
        assert!(some >= 10, "{what} in {some} runs");
    }
}
