//! RDMA at NPUs that forward packets of others: their shares of common links, against closed forms.

use crate::support::Told;
use proptest::prelude::*;
use syncline_net_packet::{Congestion, Layout, Link, Parameters, Simulation, Transport};
use syncline_units::{Rate, Time};

/// A full packet on the wire, and its payload.
const PACKET: (f64, f64) = (1538.0, 1456.0);
/// Bytes that a link of 100 Gb/s sends in a second.
const RATE: f64 = 12.5e9;

/// NPUs in a tree whose root receives what all others send. An NPU sends to `next[npu]`; the root's entry is
/// itself.
struct Tree {
    simulation: Simulation,
    flows: Vec<u32>,
}

impl Tree {
    fn new(next: &[usize]) -> Self {
        let parameters = Parameters {
            transport: Transport::Rdma,
            congestion: Some(Congestion::None),
            // Acknowledgements do not matter here, so use few.
            segments_per_ack: 16,
            ..Parameters::default()
        };
        let link =
            Link { rate: Rate(100_000_000_000), latency: Time::from_ns(500), from: None, to: None, set: 0 };
        // The link from each NPU towards the root, then the links away from it.
        let npus = next.len();
        let mut simulation = Simulation::new(&Layout::new(vec![parameters], &[], vec![link; 2 * npus]));
        let flows = (0..npus).map(|npu| {
            let mut there = vec![npu as u32];
            let mut at = next[npu];
            while next[at] != at {
                there.push(at as u32);
                at = next[at];
            }
            let back: Vec<u32> = there.iter().rev().map(|&port| npus as u32 + port).collect();
            simulation.open(&there, &back)
        });
        Self { flows: flows.collect(), simulation }
    }

    /// Each NPU sends its number of messages of the given bytes, all at once. Returns when its last message
    /// reaches the root, in seconds.
    fn send(&mut self, messages: &[(u32, u64)]) -> Vec<f64> {
        let mut told = Told::default();
        for (npu, &(count, bytes)) in messages.iter().enumerate() {
            for _ in 0..count {
                self.simulation.write(Time::ZERO, self.flows[npu], bytes, npu as u32, 0, &mut told);
            }
        }
        while self.simulation.next_time().is_some() {
            self.simulation.step(Time::MAX, &mut told);
        }
        let last =
            |npu: usize| told.delivered.iter().filter(move |&&(_, id)| id as usize == npu).map(|each| each.0);
        (0..messages.len()).map(|npu| last(npu).max().unwrap_or_default().as_s()).collect()
    }

    /// Returns the seconds that a link takes to send this many full packets.
    fn time(packets: f64) -> f64 {
        packets * PACKET.0 / RATE
    }
}

fn full(packets: u32) -> (u32, u64) {
    (1, u64::from(packets) * PACKET.1 as u64)
}

fn assert_near(found: f64, right: f64, part: f64) {
    assert!((found / right - 1.0).abs() < part, "{found} instead of {right}");
}

/// 2 -> 1 -> 0: while both send, each gets half of the link to the root.
#[test]
fn two_senders_that_merge_get_half_each() {
    let ends = Tree::new(&[0, 0, 1]).send(&[(0, 0), full(10_000), full(20_000)]);
    assert_near(ends[1], Tree::time(20_000.0), 0.005);
    assert_near(ends[2], Tree::time(30_000.0), 0.005);
    let ends = Tree::new(&[0, 0, 1]).send(&[(0, 0), full(20_000), full(10_000)]);
    assert_near(ends[1], Tree::time(30_000.0), 0.005);
    assert_near(ends[2], Tree::time(20_000.0), 0.005);
}

/// A parking lot: half for the NPU next to the root, a quarter for the one behind it, and so on; the last two
/// get the same (Dally and Towles, 2004, section 15.4.1). If each sends in proportion to its share, all end
/// together.
#[test]
fn shares_halve_with_every_merge() {
    let packets = [0, 16_000, 8_000, 4_000, 2_000, 1_000, 1_000];
    let ends = Tree::new(&[0, 0, 1, 2, 3, 4, 5]).send(&packets.map(full));
    for end in &ends[1..] {
        assert_near(*end, Tree::time(32_000.0), 0.01);
    }
}

/// Two links and the NPU itself get a third each.
#[test]
fn every_link_gets_as_much_as_the_npu() {
    let ends = Tree::new(&[0, 0, 1, 1]).send(&[(0, 0), full(10_000), full(10_000), full(20_000)]);
    for (end, packets) in ends[1..].iter().zip([30_000.0, 30_000.0, 40_000.0]) {
        assert_near(*end, Tree::time(packets), 0.005);
    }
}

/// Short packets: turns are counted in bytes on the wire, not in packets.
#[test]
fn turns_are_counted_in_bytes() {
    let short = 100u64;
    // 82 bytes of headers and framing per packet.
    let wire = (short + 82) as f64;
    let (many, few) = (40_000u32, 10_000u32);
    for forwarded_is_short in [true, false] {
        let (own, forwarded) =
            if forwarded_is_short { (full(few), (many, short)) } else { ((many, short), full(few)) };
        let ends = Tree::new(&[0, 0, 1]).send(&[(0, 0), own, forwarded]);
        let (shorts, fulls) = if forwarded_is_short { (ends[2], ends[1]) } else { (ends[1], ends[2]) };
        let bytes = f64::from(many) * wire;
        assert_near(shorts, 2.0 * bytes / RATE, 0.01);
        assert_near(fulls, (bytes + f64::from(few) * PACKET.0) / RATE, 0.01);
    }
}

/// An RDMA connection whose first link is a TCP link begins there as on any other link, and takes turns with
/// forwarded packets.
#[test]
fn rdma_may_begin_with_a_tcp_link() {
    let rdma = Parameters {
        transport: Transport::Rdma,
        congestion: Some(Congestion::None),
        ..Parameters::default()
    };
    let link =
        |set| Link { rate: Rate(100_000_000_000), latency: Time::from_ns(500), from: None, to: None, set };
    // 2 -> 1 -> 0 over TCP links, then an RDMA link; and the same back.
    let links = [0, 0, 1, 1, 0, 0].map(link).to_vec();
    let mut simulation = Simulation::new(&Layout::new(vec![Parameters::default(), rdma], &[], links));
    let ways: [(&[u32], &[u32]); 2] = [(&[1, 2], &[3, 4]), (&[0, 1, 2], &[3, 4, 5])];
    let mut told = Told::default();
    for (id, (there, back)) in (0..).zip(ways) {
        let flow = simulation.open(there, back);
        simulation.write(Time::ZERO, flow, 14_560_000, id, 0, &mut told);
    }
    while simulation.next_time().is_some() {
        simulation.step(Time::MAX, &mut told);
    }
    assert_eq!(told.delivered.len(), 2);
    for (end, _) in told.delivered {
        assert_near(end.as_s(), Tree::time(20_000.0), 0.01);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// For any messages on any tree: everything arrives, and a link with something to send is never idle.
    #[test]
    fn round_robin_loses_nothing_and_never_idles(
        parents in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        sizes in prop::collection::vec((0u32..20, 1u64..20_000), 8),
    ) {
        // All messages pass NPU 1, the only one next to the root.
        let next: Vec<usize> = [0, 0]
            .into_iter()
            .chain((2..).zip(&parents[1..]).map(|(at, parent)| 1 + parent.index(at - 1)))
            .collect();
        let mut tree = Tree::new(&next);
        let messages: Vec<(u32, u64)> =
            (0..next.len()).map(|npu| if npu == 0 { (0, 0) } else { sizes[npu - 1] }).collect();
        let ends = tree.send(&messages);
        let count = tree.simulation.count(1);
        let rest = |bytes: u64| if bytes == 0 { 0 } else { (bytes + 82).max(84) };
        let wire = |&(count, bytes): &(u32, u64)| u64::from(count) * (bytes / 1456 * 1538 + rest(bytes % 1456));
        let wire: u64 = messages.iter().map(wire).sum();
        prop_assert_eq!(count.bytes, wire);
        let end = ends.iter().copied().fold(0.0, f64::max);
        // All begin at once, and no link is faster than that to the root, which waits for the longest path at
        // most.
        let path = next.len() as f64 * (0.5e-6 + PACKET.0 / RATE);
        let busy = wire as f64 / RATE;
        prop_assert!(end >= busy && end <= busy + path, "{end} {busy}");
    }
}
