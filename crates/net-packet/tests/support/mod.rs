//! A star of hosts, and an all-reduce on it: everybody sends a part to everybody, and then the sum of its own part.

use syncline_net_packet::{Parameters, Simulation, Sink};
use syncline_units::{Rate, Time};

/// What came of messages, in the order in which it did.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) left: Vec<(Time, u32)>,
    pub(crate) delivered: Vec<(Time, u32)>,
}

impl Sink for Told {
    fn left(&mut self, time: Time, id: u32, _: u64) {
        self.left.push((time, id));
    }
    fn delivered(&mut self, time: Time, id: u32, _: u64) {
        self.delivered.push((time, id));
    }
}

/// Hosts around one switch.
pub(crate) struct Star {
    pub(crate) simulation: Simulation,
    pub(crate) hosts: u32,
    /// By sender and receiver.
    flows: Vec<u32>,
}

impl Star {
    /// Links of 100 Gb/s and 0.5 us; the switch's buffer is divided evenly among its ports.
    pub(crate) fn new(hosts: u32, parameters: Parameters) -> Self {
        let mut simulation = Simulation::new(parameters);
        let (rate, latency) = (Rate(100_000_000_000), Time::from_ns(500));
        let buffer = parameters.buffer.map(|buffer| buffer.0 / u64::from(hosts));
        let up: Vec<u32> = (0..hosts).map(|_| simulation.port(rate, latency, None)).collect();
        let down: Vec<u32> = (0..hosts).map(|_| simulation.port(rate, latency, buffer)).collect();
        let pairs = (0..hosts * hosts).map(|pair| (pair / hosts, pair % hosts));
        let way = |from: u32, to: u32| [up[from as usize], down[to as usize]];
        let flows = pairs.map(|(from, to)| simulation.open(&way(from, to), &way(to, from))).collect();
        Self { simulation, hosts, flows }
    }

    pub(crate) fn flow(&self, from: u32, to: u32) -> u32 {
        self.flows[(from * self.hosts + to) as usize]
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self, told: &mut Told) {
        while self.simulation.next_time().is_some() {
            self.simulation.step(Time::MAX, told);
        }
    }

    /// Port of the switch to a host.
    pub(crate) fn down(&self, host: u32) -> u32 {
        self.hosts + host
    }
}

/// An all-reduce of `bytes`, each host sending to those behind it in turn: when it is over.
pub(crate) fn all_reduce(star: &mut Star, bytes: u64) -> Time {
    let hosts = star.hosts;
    let part = |piece: u32| {
        bytes * u64::from(piece + 1) / u64::from(hosts) - bytes * u64::from(piece) / u64::from(hosts)
    };
    let mut told = Told::default();
    let id = |second: bool, from: u32, to: u32| u32::from(second) << 31 | from << 15 | to;
    for from in 0..hosts {
        for to in (1..hosts).map(|away| (from + away) % hosts) {
            star.simulation.write(
                Time::ZERO,
                star.flow(from, to),
                part(to),
                id(false, from, to),
                0,
                &mut told,
            );
        }
    }
    let mut got = vec![0; hosts as usize];
    let (mut seen, mut end) = (0, Time::ZERO);
    while star.simulation.next_time().is_some() {
        star.simulation.step(Time::MAX, &mut told);
        while seen < told.delivered.len() {
            let (time, message) = told.delivered[seen];
            seen += 1;
            end = end.max(time);
            let host = message & 0x7fff;
            if message >> 31 == 0 {
                got[host as usize] += 1;
                if got[host as usize] == hosts - 1 {
                    for to in (1..hosts).map(|away| (host + away) % hosts) {
                        let flow = star.flow(host, to);
                        star.simulation.write(time, flow, part(host), id(true, host, to), 0, &mut told);
                    }
                }
            }
        }
    }
    assert_eq!(told.delivered.len() as u32, 2 * hosts * (hosts - 1), "every message came once");
    end
}
