//! Compares event queues: the radix heap that the model uses, a binary heap, a calendar queue and an ordered
//! map. Hold model (Vaucher and Duval, 1975): a fixed number of events is pending, and each one that comes
//! out puts in another, later by the time that packets take between hosts and a switch of 100 Gb/s; time-outs
//! wait beside them. Prints nanoseconds of CPU time for one event in and out, best of five, and the ratio to
//! the radix heap. `cargo bench -p syncline-net-packet --bench queues`.

use cpu_time::ProcessTime;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use syncline_net_packet::packet::Packet;
use syncline_net_packet::queue::{Event, EventKind, Queue};

/// Number of events that come out of each queue.
const EVENTS: u32 = 2_000_000;

/// A queue of events; events of the same time come out in the order in which they went in.
trait Pending {
    fn put(&mut self, event: Event);
    fn take(&mut self) -> Option<Event>;
}

impl Pending for Queue {
    fn put(&mut self, event: Event) {
        self.push(event);
    }
    fn take(&mut self) -> Option<Event> {
        self.pop(u64::MAX)
    }
}

/// An event in a binary heap: ordered by time, then by when it went in.
struct Numbered(u64, u64, Event);

impl PartialEq for Numbered {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Numbered {}
impl PartialOrd for Numbered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Numbered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

#[derive(Default)]
struct Binary {
    heap: BinaryHeap<Reverse<Numbered>>,
    number: u64,
}

impl Pending for Binary {
    fn put(&mut self, event: Event) {
        self.number += 1;
        self.heap.push(Reverse(Numbered(event.time, self.number, event)));
    }
    fn take(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(Numbered(.., event))| event)
    }
}

#[derive(Default)]
struct Ordered {
    map: BTreeMap<(u64, u64), Event>,
    number: u64,
}

impl Pending for Ordered {
    fn put(&mut self, event: Event) {
        self.number += 1;
        self.map.insert((event.time, self.number), event);
    }
    fn take(&mut self) -> Option<Event> {
        self.map.pop_first().map(|(_, event)| event)
    }
}

/// A calendar queue (Brown, 1988): a year of days of equal length, each with its events in order. The year
/// has as many days as there are events, and a day is three times the mean distance between events.
struct Calendar {
    days: Vec<Vec<Event>>,
    width: u64,
    /// The day in which the search for the next event starts, and when it ends.
    day: usize,
    end: u64,
    count: usize,
}

impl Calendar {
    fn new(days: usize, width: u64) -> Self {
        Self { days: vec![Vec::new(); days], width, day: 0, end: width, count: 0 }
    }

    fn resize(&mut self, days: usize, now: u64) {
        let mut all: Vec<Event> = self.days.iter_mut().flat_map(std::mem::take).collect();
        all.sort_by_key(|event| event.time);
        let near = &all[..all.len().min(64)];
        let span = near.last().map_or(0, |last| last.time) - near.first().map_or(0, |first| first.time);
        let width = (3 * span / near.len().max(1) as u64).max(1);
        *self = Self::new(days, width);
        self.look_from(now);
        all.into_iter().for_each(|event| self.put(event));
    }

    fn look_from(&mut self, now: u64) {
        self.day = (now / self.width) as usize % self.days.len();
        self.end = (now / self.width + 1) * self.width;
    }
}

impl Pending for Calendar {
    fn put(&mut self, event: Event) {
        let number = self.days.len();
        let day = &mut self.days[(event.time / self.width) as usize % number];
        // Latest first, so that the next one is removed at the end.
        let at = day.partition_point(|other| other.time > event.time);
        day.insert(at, event);
        self.count += 1;
        if self.count > 2 * number {
            let now = self.end.saturating_sub(self.width);
            self.resize(2 * number, now);
        }
    }

    fn take(&mut self) -> Option<Event> {
        for _ in 0..self.days.len() {
            let (day, end) = (&mut self.days[self.day], self.end);
            if day.last().is_some_and(|event| event.time < end) {
                self.count -= 1;
                return day.pop();
            }
            self.day = (self.day + 1) % self.days.len();
            self.end += self.width;
        }
        // No event this year.
        let next = self.days.iter().filter_map(|day| day.last()).map(|event| event.time).min()?;
        self.look_from(next);
        self.take()
    }
}

/// Returns how much later a following event happens, in picoseconds: a full packet or an acknowledgement over
/// a link of 500 ns, alone or behind others.
fn later(random: &mut ChaCha8Rng) -> u64 {
    let behind = random.random_range(0..8);
    let packet = if random.random_bool(0.5) { 120_160 } else { 4_320 };
    500_000 + packet * (1 + behind)
}

/// Returns the CPU seconds for all events, and a checksum by which queues are compared.
fn hold(queue: &mut impl Pending, pending: u32) -> (f64, u64) {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let steps: Vec<u64> = (0..4096).map(|_| later(&mut random)).collect();
    let event = |time, port| Event { time, port, kind: EventKind::Arrive, packet: Packet::default() };
    (0..pending).for_each(|port| queue.put(event(steps[port as usize % steps.len()], port)));
    // Time-outs of connections, which wait all the time and rarely fire.
    (0..pending / 4).for_each(|port| queue.put(event(50_000_000_000 + u64::from(port), port)));
    let started = ProcessTime::now();
    let mut sum = 0u64;
    for number in 0..EVENTS {
        let Some(next) = queue.take() else { break };
        sum = sum.wrapping_mul(31).wrapping_add(next.time);
        queue.put(event(next.time + steps[number as usize % steps.len()], next.port));
    }
    (started.elapsed().as_secs_f64(), sum)
}

fn main() {
    for pending in [256, 4_096, 65_536] {
        let best = |run: &dyn Fn() -> (f64, u64)| {
            let runs: Vec<(f64, u64)> = (0..5).map(|_| run()).collect();
            (runs.iter().map(|run| run.0).fold(f64::INFINITY, f64::min), runs[0].1)
        };
        let times = [
            ("radix heap", best(&|| hold(&mut Queue::default(), pending))),
            ("binary heap", best(&|| hold(&mut Binary::default(), pending))),
            ("calendar queue", best(&|| hold(&mut Calendar::new(2, 1_000), pending))),
            ("ordered map", best(&|| hold(&mut Ordered::default(), pending))),
        ];
        let (radix, sum) = times[0].1;
        for (name, (seconds, other)) in times {
            assert_eq!(sum, other, "{name} gives a different order of times");
            let each = seconds * 1e9 / f64::from(EVENTS);
            report(&format!(
                "{pending:6} pending, {name:14}: {each:6.1} ns an event, {:.2} times",
                seconds / radix
            ));
        }
    }
}

#[allow(clippy::print_stdout)]
fn report(line: &str) {
    println!("{line}");
}
