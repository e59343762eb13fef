//! Random networks of switches with arbitrary losses: every message arrives, and every packet that reaches a
//! switch leaves it or is dropped there.

use crate::support::Told;
use proptest::prelude::*;
use std::collections::VecDeque;
use syncline_net_packet::{Congestion, Layout, Link, Marking, Parameters, Sharing, Simulation, Transport};
use syncline_units::{Bytes, Rate, Time};

/// Far more events than any of these cases needs.
const MANY: u64 = 20_000_000;

/// A connected network: a tree of switches with some additional links, and hosts attached to them.
#[derive(Clone, Debug)]
struct Net {
    /// The switch of each host.
    hosts: Vec<u32>,
    /// Cables between switches: from, to, gigabits per second, nanoseconds; each has a link in either
    /// direction.
    links: Vec<(u32, u32, u64, u64)>,
    switches: u32,
}

fn nets() -> impl Strategy<Value = Net> {
    let parents = prop::collection::vec((any::<prop::sample::Index>(), 1u64..200, 0u64..3_000), 0..6);
    let more =
        prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u64..200), 0..4);
    let hosts = prop::collection::vec(any::<prop::sample::Index>(), 2..8);
    (parents, more, hosts).prop_map(|(parents, more, hosts)| {
        let switches = parents.len() as u32 + 1;
        let place = |index: prop::sample::Index| index.index(switches as usize) as u32;
        let tree = (1..)
            .zip(parents)
            .map(|(at, (parent, rate, latency))| (at, parent.index(at as usize) as u32, rate, latency));
        let more = more.into_iter().map(|(from, to, rate)| (place(from), place(to), rate, 500));
        let links = tree.chain(more.filter(|&(from, to, ..)| from != to)).collect();
        Net { hosts: hosts.into_iter().map(place).collect(), links, switches }
    })
}

impl Net {
    /// Returns its links, the hosts' first: up and down for each host, then both directions of each cable
    /// between switches.
    fn layout(&self) -> Vec<Link> {
        let link = |rate, latency, from, to| Link {
            rate: Rate(rate * 1_000_000_000),
            latency: Time::from_ns(latency),
            from,
            to,
            set: 0,
        };
        let ends = self
            .hosts
            .iter()
            .flat_map(|&at| [link(100, 500, None, Some(at)), link(100, 500, Some(at), None)]);
        let between = self.links.iter().flat_map(|&(from, to, rate, latency)| {
            [link(rate, latency, Some(from), Some(to)), link(rate, latency, Some(to), Some(from))]
        });
        ends.chain(between).collect()
    }

    /// Returns the ports of a shortest path between two hosts.
    fn way(&self, from: usize, to: usize) -> Vec<u32> {
        let (start, goal) = (self.hosts[from], self.hosts[to]);
        let mut came: Vec<Option<(u32, u32)>> = vec![None; self.switches as usize];
        let mut next = VecDeque::from([start]);
        while let Some(at) = next.pop_front() {
            for (index, &(a, b, ..)) in (0..).zip(&self.links) {
                for (here, there, port) in [(a, b, 2 * index), (b, a, 2 * index + 1)] {
                    if here == at && there != start && came[there as usize].is_none() {
                        came[there as usize] = Some((at, 2 * self.hosts.len() as u32 + port));
                        next.push_back(there);
                    }
                }
            }
        }
        let mut ports = vec![2 * to as u32 + 1];
        let mut at = goal;
        while at != start {
            let (before, port) = came[at as usize].unwrap();
            ports.push(port);
            at = before;
        }
        ports.push(2 * from as u32);
        ports.reverse();
        ports
    }
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let congestion = prop::sample::select(vec![
        (Transport::Tcp, Congestion::NewReno),
        (Transport::Tcp, Congestion::Cubic),
        (Transport::Tcp, Congestion::Dctcp),
        (Transport::Rdma, Congestion::Dcqcn),
        (Transport::Rdma, Congestion::None),
    ]);
    (congestion, 2u64..60, 1u32..40, any::<bool>(), 1u32..3).prop_map(
        |((transport, congestion), packets, initial_window, dynamic, segments_per_ack)| Parameters {
            transport,
            congestion: Some(congestion),
            // The buffer is shared by at most 21 ports of a switch.
            buffer: Some(Bytes(21 * packets * 1538)),
            sharing: if dynamic { Sharing::Dynamic } else { Sharing::Even },
            mark: Some(Marking::step(Bytes(packets * 500))),
            initial_window,
            min_timeout: Time::from_ns(300_000),
            initial_timeout: Time::from_ns(1_000_000),
            segments_per_ack,
            delayed_ack: Time::from_ns(50_000),
            ..Parameters::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_and_every_packet_is_accounted_for(
        net in nets(),
        parameters in parameters(),
        messages in prop::collection::vec((0usize..8, 1usize..8, 0u64..300_000, 0u64..3_000), 1..30),
    ) {
        let links = net.layout();
        let switches = vec![0; net.switches as usize];
        let mut simulation = Simulation::new(&Layout::new(vec![parameters], &switches, links.clone()));
        let count = net.hosts.len();
        let mut flows = vec![None; count * count];
        let mut told = Told::default();
        let mut now = Time::ZERO;
        for (id, &(from, away, bytes, later)) in (0u32..).zip(&messages) {
            now += Time::from_ns(later);
            while simulation.next_time().is_some_and(|time| time <= now) {
                simulation.step(now, &mut told);
            }
            let from = from % count;
            let to = (from + 1 + (away - 1) % (count - 1)) % count;
            let flow = *flows[from * count + to]
                .get_or_insert_with(|| simulation.open(&net.way(from, to), &net.way(to, from)));
            simulation.write(now, flow, bytes, id, 0, &mut told);
        }
        while simulation.next_time().is_some() {
            simulation.step(Time::MAX, &mut told);
            prop_assert!(simulation.events() < MANY, "the simulation does not end");
        }
        let mut came: Vec<u32> = told.delivered.iter().map(|&(_, id)| id).collect();
        came.sort_unstable();
        prop_assert_eq!(came, (0..messages.len() as u32).collect::<Vec<_>>());
        for switch in 0..net.switches {
            let ports = |side: fn(&Link) -> Option<u32>| {
                (0u32..).zip(&links).filter(move |(_, link)| side(link) == Some(switch)).map(|(port, _)| port)
            };
            let into: u64 = ports(|link| link.to).map(|port| simulation.count(port).packets).sum();
            let leaving = |port| simulation.count(port).packets + simulation.count(port).drops;
            let out: u64 = ports(|link| link.from).map(leaving).sum();
            prop_assert_eq!(into, out, "switch {}", switch);
        }
        let drops: u64 = (0u32..).zip(&links).map(|(port, _)| simulation.count(port).drops).sum();
        let lost: u64 = flows.iter().flatten().map(|&flow| simulation.met(flow).0).sum();
        prop_assert_eq!(lost, drops, "each dropped packet belongs to a connection");
        let recoveries: u64 = simulation.flows().map(|(repairs, _)| repairs.recoveries).sum();
        // Paths keep packets in order, so without losses TCP has nothing to recover from, even if its timer
        // runs out too early.
        let tcp = parameters.transport == Transport::Tcp;
        prop_assert!(!tcp || drops > 0 || recoveries == 0, "{recoveries} recoveries without a loss");
    }
}
