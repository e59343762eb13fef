//! The service that connections have received, and when messages are complete.

use super::{BIT, NO_NODE, Sharing, UNBOUND};
use crate::tree::NEVER;
use syncline_units::{Bytes, Time};

impl Sharing {
    /// Returns the integral of a node's level up to `now`.
    #[inline]
    pub(super) fn service(&self, node: u32, now: Time) -> u128 {
        let (level, node) = (self.shares.level(node), &self.nodes[node as usize]);
        match level {
            UNBOUND => node.service,
            level => node.service + u128::from(level) * u128::from(now.0 - node.since),
        }
    }

    /// Returns the service that a connection has received by `now`, per unit of weight.
    #[inline]
    pub(super) fn had(&self, number: u32, now: Time) -> u128 {
        let offset = self.connections[number as usize].offset;
        match self.paths.path(number).bottleneck {
            NO_NODE => offset,
            node => self.service(node, now).wrapping_add(offset),
        }
    }

    /// Records the service that a connection has received by `now`.
    pub(super) fn book(&mut self, number: u32, now: Time) {
        let had = self.had(number, now);
        let booked = std::mem::replace(&mut self.connections[number as usize].booked, had);
        let more = had.wrapping_sub(booked);
        for hop in self.paths.hops(number) {
            self.carried[hop.node as usize] += more * u128::from(hop.usage);
        }
    }

    /// Records what all links carried up to `now`; rates have not changed since the last call.
    pub fn book_all(&mut self, now: Time) {
        for number in 0..self.connections.len() as u32 {
            if self.paths.path(number).bottleneck != NO_NODE {
                self.book(number, now);
            }
        }
    }

    /// Returns what connections have sent over `link`, as far as recorded: the integral of their rates, in
    /// units times picoseconds.
    pub fn carried(&self, link: u32) -> u128 {
        let classes = self.shares.classes() as usize;
        self.carried[link as usize * classes..][..classes].iter().sum()
    }

    /// Returns how long `link` takes to carry `bytes`, rounded down.
    pub fn time_of(&self, link: u32, bytes: Bytes) -> Time {
        self.busy(link, u128::from(bytes.0) * 8 * BIT)
    }

    /// Returns how long `link` takes to carry `carried`.
    pub fn busy(&self, link: u32, carried: u128) -> Time {
        let rate = self.shares.capacity(link * self.shares.classes());
        Time(u64::try_from(carried / u128::from(rate.max(1).cast_unsigned())).unwrap_or(u64::MAX))
    }

    /// Makes `to` the bottleneck of a connection from now on.
    pub(super) fn hand_over(&mut self, number: u32, to: u32, now: Time) {
        let from = self.paths.path(number).bottleneck;
        let mut old = 0;
        if from != NO_NODE {
            old = self.service(from, now);
            if self.connections[number as usize].first() == self.nodes[from as usize].next {
                self.shares.marks_mut(from).stale = true;
                self.touch(from);
            }
            self.release(number);
            self.shares.raise_top(from, self.shares.level(to));
        }
        let new = self.service(to, now);
        self.connections[number as usize].hand_over(old, new);
        self.paths.path_mut(number).bottleneck = to;
        for hop in self.paths.followed(number) {
            self.nodes[hop.node as usize].members[hop.place as usize].bottleneck = to;
        }
        self.hold(number, to);
        self.expect(number, to);
    }

    /// Updates a node's next end, which may now be that of the connection's first message.
    #[inline]
    pub(super) fn expect(&mut self, number: u32, node: u32) {
        let first = self.connections[number as usize].first();
        if first < self.nodes[node as usize].next {
            self.nodes[node as usize].next = first;
            self.touch(node);
        }
    }

    /// Finds the first message to be complete among those that a node holds back.
    pub(super) fn renew(&mut self, number: u32) {
        self.shares.marks_mut(number).stale = false;
        let held = &self.nodes[number as usize].members[..self.held[number as usize] as usize];
        let next = held.iter().map(|member| self.connections[member.connection as usize].first()).min();
        self.nodes[number as usize].next = next.unwrap_or(u128::MAX);
    }

    #[inline]
    pub(super) fn touch(&mut self, number: u32) {
        let touched = &mut self.shares.marks_mut(number).touched;
        if !*touched {
            *touched = true;
            self.touched.push(number);
        }
    }

    /// Schedules the next end of a message among those that a node holds back.
    pub(super) fn file(&mut self, number: u32) {
        if self.shares.marks(number).stale {
            self.renew(number);
        }
        let (level, node) = (self.shares.level(number), &self.nodes[number as usize]);
        let time = match level {
            UNBOUND | 0 => NEVER,
            _ if node.next == u128::MAX => NEVER,
            level => {
                let (ahead, level) = (node.next.saturating_sub(node.service), u128::from(level));
                // Rounded up. Dividing such numbers is slow, so divide only once.
                let whole = ahead / level;
                let ahead = whole + u128::from(whole * level < ahead);
                node.since.saturating_add(u64::try_from(ahead).unwrap_or(NEVER))
            }
        };
        self.ends.set(number, time);
    }
}
