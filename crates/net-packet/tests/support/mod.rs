//! A star of hosts, and an all-reduce on it: every host sends a part to every other, and then the sum of its
//! own part.

pub(crate) mod fabric;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use syncline_net_packet::{Layout, Link, Parameters, Simulation, Sink};
use syncline_units::{Rate, Time};

/// Events of messages, in the order in which they happened.
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
    /// Indexed by sender and receiver.
    flows: Vec<u32>,
}

impl Star {
    /// Links of 100 Gb/s and 0.5 us; the switch's buffer is divided evenly among its ports.
    pub(crate) fn new(hosts: u32, parameters: Parameters) -> Self {
        let (rate, latency) = (Rate(100_000_000_000), Time::from_ns(500));
        let link = |from, to| Link { rate, latency, from, to, set: 0 };
        let up = (0..hosts).map(|_| link(None, Some(0)));
        let down = (0..hosts).map(|_| link(Some(0), None));
        let layout = Layout::new(vec![parameters], &[0], up.chain(down).collect());
        let mut simulation = Simulation::new(&layout);
        let pairs = (0..hosts * hosts).map(|pair| (pair / hosts, pair % hosts));
        let way = |from: u32, to: u32| [from, hosts + to];
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

    /// Returns the switch's port to a host.
    pub(crate) fn down(&self, host: u32) -> u32 {
        self.hosts + host
    }
}

/// The order in which a host serves the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The following hosts, in turn.
    Rotated,
    /// All hosts serve the same one first.
    Same,
    /// A random order for each host.
    Random,
}

/// How an all-reduce is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) order: Order,
    /// Parts that are reduced independently and all start at once.
    pub(crate) chunks: u32,
    /// Each host begins up to this much later than the first.
    pub(crate) jitter: Time,
    pub(crate) seed: u64,
}

/// All start at once, and serve the others in turn.
pub(crate) const IN_STEP: Plan = Plan { order: Order::Rotated, chunks: 1, jitter: Time::ZERO, seed: 0 };

/// A message: its chunk, whether it goes to the host that sums it or comes from there, and its two hosts.
#[derive(Clone, Copy, Debug)]
struct Part {
    chunk: u32,
    sum: bool,
    from: u32,
    to: u32,
}

/// Runs an all-reduce of `bytes`, and returns when it is complete.
pub(crate) fn all_reduce(star: &mut Star, bytes: u64, plan: Plan) -> Time {
    let hosts = star.hosts;
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut order = |from: u32| -> Vec<u32> {
        match plan.order {
            Order::Rotated => (1..hosts).map(|away| (from + away) % hosts).collect(),
            Order::Same => (0..hosts).filter(|&to| to != from).collect(),
            Order::Random => {
                let mut others: Vec<u32> = (0..hosts).filter(|&to| to != from).collect();
                others.shuffle(&mut random);
                others
            }
        }
    };
    let orders: Vec<Vec<u32>> = (0..hosts).map(&mut order).collect();
    let mut starts: Vec<(Time, u32)> =
        (0..hosts).map(|host| (Time(random.random_range(0..=plan.jitter.0)), host)).collect();
    starts.sort_unstable();
    let pieces = u64::from(hosts) * u64::from(plan.chunks);
    let length = |chunk: u32, piece: u32| {
        let at = u64::from(chunk) * u64::from(hosts) + u64::from(piece);
        bytes * (at + 1) / pieces - bytes * at / pieces
    };
    let (mut told, mut sent) = (Told::default(), Vec::new());
    let send = |star: &mut Star, sent: &mut Vec<Part>, told: &mut Told, now: Time, part: Part| {
        let piece = if part.sum { part.from } else { part.to };
        let (flow, id) = (star.flow(part.from, part.to), sent.len() as u32);
        sent.push(part);
        star.simulation.write(now, flow, length(part.chunk, piece), id, 0, told);
    };
    let mut got = vec![0; (hosts * plan.chunks) as usize];
    let mut begun = vec![false; hosts as usize];
    let (mut seen, mut end) = (0, Time::ZERO);
    let mut starts = starts.into_iter().peekable();
    loop {
        let next = star.simulation.next_time();
        // A host that has a part of the sum sends it once it has begun.
        let mut ready = Vec::new();
        match starts.next_if(|&(time, _)| next.is_none_or(|next| time <= next)) {
            Some((time, from)) => {
                for chunk in 0..plan.chunks {
                    for &to in &orders[from as usize] {
                        send(star, &mut sent, &mut told, time, Part { chunk, sum: false, from, to });
                    }
                }
                begun[from as usize] = true;
                let full = |chunk: &u32| got[(chunk * hosts + from) as usize] == hosts - 1;
                ready.extend((0..plan.chunks).filter(full).map(|chunk| (time, chunk, from)));
            }
            None if next.is_none() => break,
            None => {
                star.simulation.step(Time::MAX, &mut told);
            }
        }
        while let Some(&(time, id)) = told.delivered.get(seen) {
            seen += 1;
            end = end.max(time);
            let Part { chunk, sum, to, .. } = sent[id as usize];
            if !sum {
                let count = &mut got[(chunk * hosts + to) as usize];
                *count += 1;
                if *count == hosts - 1 && begun[to as usize] {
                    ready.push((time, chunk, to));
                }
            }
        }
        for (time, chunk, from) in ready {
            for &to in &orders[from as usize] {
                send(star, &mut sent, &mut told, time, Part { chunk, sum: true, from, to });
            }
        }
    }
    assert_eq!(
        told.delivered.len() as u32,
        2 * hosts * (hosts - 1) * plan.chunks,
        "every message arrived once"
    );
    end
}

/// Eight of nine hosts send to the last for 20 ms of a link of 100 Gb/s, which carries 250 MB. Returns the MB
/// that each sent, and their Jain's index.
pub(crate) fn eight_share_a_link(parameters: Parameters) -> ([f64; 8], f64) {
    let mut star = Star::new(9, parameters);
    let mut told = Told::default();
    for from in 0..8 {
        // Messages of 1 MB, so that arrivals can be counted.
        for message in 0..64 {
            let flow = star.flow(from, 8);
            star.simulation.write(Time::ZERO, flow, 1_000_000, from << 8 | message, 0, &mut told);
        }
    }
    let until = Time::from_ns(20_000_000);
    while star.simulation.next_time().is_some_and(|time| time <= until) {
        star.simulation.step(until, &mut told);
    }
    let mut sent = [0.0; 8];
    told.delivered.iter().for_each(|&(_, id)| sent[(id >> 8) as usize] += 1.0);
    let (sum, squares) = (sent.iter().sum::<f64>(), sent.iter().map(|x| x * x).sum::<f64>());
    (sent, sum * sum / (8.0 * squares))
}
