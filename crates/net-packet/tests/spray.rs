//! Packet spraying: the packets of a connection take several paths in turn.

use crate::support::Told;
use proptest::prelude::*;
use syncline_net_packet::{Congestion, Layout, Link, Parameters, Sharing, Simulation};
use syncline_units::{Bytes, Rate, Time};

/// Far more events than any of these cases needs.
const MANY: u64 = 5_000_000;

/// Two hosts on one switch each, and links of 100 Gb/s between the switches, each with its own latency.
struct Pair {
    simulation: Simulation,
    /// Number of links between the switches in one direction.
    middle: u32,
    flow: u32,
}

impl Pair {
    fn new(parameters: Parameters, latencies: &[u64]) -> Self {
        let link = |latency, from, to| Link {
            rate: Rate(100_000_000_000),
            latency: Time::from_ns(latency),
            from,
            to,
            set: 0,
        };
        let between = |from, to| latencies.iter().map(move |&latency| link(latency, Some(from), Some(to)));
        let ends = [
            link(500, None, Some(0)),
            link(500, Some(1), None),
            link(500, None, Some(1)),
            link(500, Some(0), None),
        ];
        let links = ends.into_iter().chain(between(0, 1)).chain(between(1, 0)).collect();
        let mut simulation = Simulation::new(&Layout::new(vec![parameters], &[0, 0], links));
        let middle = latencies.len() as u32;
        let there: Vec<[u32; 3]> = (0..middle).map(|way| [0, 4 + way, 1]).collect();
        let back: Vec<[u32; 3]> = (0..middle).map(|way| [2, 4 + middle + way, 3]).collect();
        let flow = simulation.open_several(&there, &back);
        assert_eq!(simulation.paths(flow), middle);
        Self { simulation, middle, flow }
    }

    /// Writes messages and runs to the end. Returns when each of them left and arrived.
    fn run(&mut self, messages: &[u64]) -> Vec<(Time, Time)> {
        let mut told = Told::default();
        for (id, &bytes) in (0..).zip(messages) {
            self.simulation.write(Time::ZERO, self.flow, bytes, id, 0, &mut told);
        }
        while self.simulation.next_time().is_some() {
            self.simulation.step(Time::MAX, &mut told);
            assert!(self.simulation.events() < MANY, "the simulation does not end");
        }
        // All arrive once, in the order in which they were written.
        let ids = |told: &[(Time, u32)]| told.iter().map(|&(_, id)| id).collect::<Vec<_>>();
        let all: Vec<u32> = (0..messages.len() as u32).collect();
        assert_eq!((ids(&told.left), ids(&told.delivered)), (all.clone(), all));
        told.left.iter().zip(&told.delivered).map(|(left, came)| (left.0, came.0)).collect()
    }

    /// Returns the packets that took each path, in either direction.
    fn packets(&self) -> (Vec<u64>, Vec<u64>) {
        let count = |port| self.simulation.count(port).packets;
        let back = 4 + self.middle;
        ((4..back).map(count).collect(), (back..back + self.middle).map(count).collect())
    }

    /// Returns the number of segments sent again and of fast recoveries.
    fn repairs(&self) -> (u64, u64) {
        let (repairs, _) = self.simulation.flows().next().unwrap();
        (repairs.retransmissions, repairs.recoveries)
    }
}

#[test]
fn packets_take_the_paths_in_turn() {
    for sharing in [Sharing::Even, Sharing::Dynamic] {
        let parameters = Parameters { sharing, ..Parameters::default() };
        let mut pair = Pair::new(parameters, &[1_000; 5]);
        let bytes = 1_000 * parameters.segment();
        let times = pair.run(&[bytes]);
        let (there, back) = pair.packets();
        assert_eq!(there, [200; 5]);
        assert!(back.iter().max().unwrap() - back.iter().min().unwrap() <= 1, "{back:?}");
        // Equal paths keep packets in order, so nothing is mistaken for lost and the host's link is never
        // idle.
        assert_eq!(pair.repairs(), (0, 0));
        let rate = Rate(100_000_000_000);
        let line = rate.transfer_time(Bytes(1_000 * parameters.wire())).unwrap();
        assert!(times[0].0 >= line && times[0].1.as_s() < 1.2 * line.as_s() + 10e-6, "{times:?}");
    }
}

/// A packet that overtakes more than two others looks like a loss to TCP (RFC 6675).
#[test]
fn paths_of_different_latency_cost_repairs_but_no_data() {
    let repaired = |further: u64| {
        let mut pair = Pair::new(Parameters::default(), &[1_000, 1_000 + further]);
        pair.run(&[5_000_000]);
        pair.repairs()
    };
    // A packet takes 120 ns: a path longer by 100 ns changes nothing, one longer by 2 us changes much.
    assert_eq!(repaired(100), (0, 0));
    let (again, recoveries) = repaired(2_000);
    assert!(again > 0 && recoveries > 0, "{again} {recoveries}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every message leaves and arrives once, in order, whatever the paths and losses.
    #[test]
    fn every_message_arrives_once_and_in_order(
        latencies in prop::collection::vec(0u64..4_000, 1..8),
        messages in prop::collection::vec(0u64..300_000, 1..12),
        congestion in prop::sample::select(vec![Congestion::NewReno, Congestion::Cubic]),
        buffer in 2u64..60,
        (dynamic, segments_per_ack, window) in (any::<bool>(), 1u32..3, 2u64..200),
    ) {
        let parameters = Parameters {
            congestion: Some(congestion),
            sharing: if dynamic { Sharing::Dynamic } else { Sharing::Even },
            buffer: Some(Bytes(buffer * 8 * 1538)),
            window: Some(Bytes(window * 1448)),
            min_timeout: Time::from_ns(200_000),
            initial_timeout: Time::from_ns(1_000_000),
            segments_per_ack,
            delayed_ack: Time::from_ns(50_000),
            ..Parameters::default()
        };
        let mut pair = Pair::new(parameters, &latencies);
        for (left, came) in pair.run(&messages) {
            prop_assert!(left <= came);
        }
        // Each path was offered as many packets as the others.
        let offered = |port| pair.simulation.count(port).packets + pair.simulation.count(port).drops;
        let offered: Vec<u64> = (4..4 + pair.middle).map(offered).collect();
        prop_assert!(offered.iter().max().unwrap() - offered.iter().min().unwrap() <= 1, "{:?}", offered);
    }
}
