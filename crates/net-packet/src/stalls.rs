//! What retransmission time-outs cost: how long connections stood still before their timers ran out.

use crate::simulation::Simulation;
use std::cmp::Reverse;

/// Most stalls that are kept: the longest ones.
const KEPT: usize = 1 << 16;

/// A connection stood still until its retransmission timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Number of the connection.
    pub flow: u32,
    /// When the timer was last started, in picoseconds.
    pub start: u64,
    /// When it ran out.
    pub end: u64,
    /// From when on no link on its paths, in either direction, sent anything: at most `end`.
    pub idle_from: u64,
    /// Whether the time-out was the initial one: no round trip had been measured (RFC 6298, 2.1).
    pub initial: bool,
    /// Time-outs since a round trip was last measured or data was last acknowledged, this one included.
    pub in_a_row: u32,
}

impl Stall {
    /// Returns how long every link on its paths was idle before the timer ran out.
    pub fn idle(&self) -> u64 {
        self.end - self.idle_from
    }

    /// Sorts the longest first; no two stalls of a run compare equal.
    fn order(&self) -> (Reverse<u64>, u64, u32) {
        (Reverse(self.idle()), self.end, self.flow)
    }
}

/// The longest stalls of a run.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    kept: Vec<Stall>,
    /// Number of initial time-outs, including stalls that are not kept.
    pub(crate) initial: u64,
}

impl Stalls {
    fn add(&mut self, stall: Stall) {
        self.initial += u64::from(stall.initial);
        self.kept.push(stall);
        if self.kept.len() == 2 * KEPT {
            self.kept.select_nth_unstable_by_key(KEPT, Stall::order);
            self.kept.truncate(KEPT);
        }
    }

    /// Returns the longest stalls in the order of time.
    pub(crate) fn longest(&self) -> Vec<Stall> {
        let mut longest = self.kept.clone();
        longest.sort_unstable_by_key(Stall::order);
        longest.truncate(KEPT);
        longest.sort_unstable_by_key(|stall| (stall.end, stall.flow));
        longest
    }
}

impl Simulation {
    /// Records that the timer of a flow, started at `start`, has run out.
    #[cold]
    pub(crate) fn stalled(&mut self, flow: u32, start: u64, initial: bool, in_a_row: u32) {
        let state = &self.flows[flow as usize];
        let ports = self.paths.ports(&state.there).chain(self.paths.ports(&state.back));
        let drained = ports.map(|port| self.ports[port as usize].drained()).max().unwrap_or(0);
        let idle_from = drained.max(start).min(self.now);
        self.stalls.add(Stall { flow, start, end: self.now, idle_from, initial, in_a_row });
    }

    /// Returns the longest stalls so far, at most 65,536, in the order in which they ended.
    pub fn stalls(&self) -> Vec<Stall> {
        self.stalls.longest()
    }

    /// Returns the number of time-outs before a round trip was measured.
    pub fn initial_timeouts(&self) -> u64 {
        self.stalls.initial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stalls_are_kept_in_order_of_time() {
        let stall = |flow: u32, idle: u64| Stall {
            flow,
            start: 0,
            end: 1_000_000 - u64::from(flow),
            idle_from: 1_000_000 - u64::from(flow) - idle,
            initial: flow.is_multiple_of(2),
            in_a_row: 1,
        };
        let mut stalls = Stalls::default();
        let count = 5 * KEPT as u32;
        for flow in 0..count {
            stalls.add(stall(flow, u64::from(flow) * 7919 % u64::from(count)));
        }
        let longest = stalls.longest();
        assert_eq!((longest.len(), stalls.initial), (KEPT, u64::from(count).div_ceil(2)));
        // 7919 and the count are coprime, so every length occurs once.
        let shortest = longest.iter().map(Stall::idle).min().unwrap();
        assert_eq!(shortest, u64::from(count) - KEPT as u64);
        assert!(longest.windows(2).all(|pair| pair[0].end < pair[1].end));
    }
}
