//! What flows have had, and when they are through.

use super::{Sharing, UNBOUND};
use crate::tree::NEVER;
use syncline_units::{Bytes, Time};

use super::BIT;

impl Sharing {
    /// The integral of a node's level up to `now`.
    #[inline]
    pub(super) fn service(&self, node: u32, now: Time) -> u128 {
        let (level, node) = (self.shares.level(node), &self.nodes[node as usize]);
        match level {
            UNBOUND => node.service,
            level => node.service + u128::from(level) * u128::from(now.0 - node.since),
        }
    }

    /// Books what a bundle has had up to `now`.
    pub(super) fn book(&mut self, number: u32, now: Time) {
        let way = self.ways.way(number);
        let had = self.service(way.bottleneck, now).wrapping_add(self.bundles[number as usize].offset);
        let booked = std::mem::replace(&mut self.bundles[number as usize].booked, had);
        let all = had.wrapping_sub(booked) * u128::from(way.count);
        for hop in self.ways.hops(number) {
            self.carried[hop.node as usize] += all * u128::from(hop.usage);
        }
    }

    /// Books what all links carried up to `now`, since which rates have not changed.
    pub fn book_all(&mut self, now: Time) {
        for number in 0..self.bundles.len() as u32 {
            if self.ways.way(number).count > 0 {
                self.book(number, now);
            }
        }
    }

    /// What flows have sent over `link`, as far as it is booked: the integral of their rates, in units times picoseconds.
    pub fn carried(&self, link: u32) -> u128 {
        let classes = self.shares.classes() as usize;
        self.carried[link as usize * classes..][..classes].iter().sum()
    }

    /// How long `link` takes to carry so many bytes, rounded down.
    pub fn time_of(&self, link: u32, bytes: Bytes) -> Time {
        self.busy(link, u128::from(bytes.0) * 8 * BIT)
    }

    /// How long `link` takes to carry so much.
    pub fn busy(&self, link: u32, carried: u128) -> Time {
        let rate = self.shares.capacity(link * self.shares.classes());
        Time(u64::try_from(carried / u128::from(rate.max(1).cast_unsigned())).unwrap_or(u64::MAX))
    }

    /// A bundle is held back by another node from now on.
    pub(super) fn hand_over(&mut self, number: u32, to: u32, now: Time) {
        let from = self.ways.way(number).bottleneck;
        let (mut old, mut expected) = (0, false);
        if from != super::NOWHERE {
            old = self.service(from, now);
            expected = self.bundles[number as usize].first() == self.nodes[from as usize].next;
            self.release(number);
            self.shares.raise_top(from, self.shares.level(to));
        }
        let new = self.service(to, now);
        let bundle = &mut self.bundles[number as usize];
        bundle.offset = bundle.offset.wrapping_add(old).wrapping_sub(new);
        let first = bundle.first();
        self.ways.way_mut(number).bottleneck = to;
        self.write(number);
        self.hold(number, to);
        if first < self.nodes[to as usize].next {
            self.nodes[to as usize].next = first;
            self.touch(to);
        }
        if expected {
            self.renew(from);
        }
    }

    /// Looks which of those that a node holds back is through first.
    pub(super) fn renew(&mut self, number: u32) {
        let held = &self.nodes[number as usize].members[..self.held[number as usize] as usize];
        let next = held.iter().map(|member| self.bundles[member.bundle as usize].first()).min();
        self.nodes[number as usize].next = next.unwrap_or(u128::MAX);
        self.touch(number);
    }

    #[inline]
    pub(super) fn touch(&mut self, number: u32) {
        let touched = &mut self.shares.marks_mut(number).touched;
        if !*touched {
            *touched = true;
            self.touched.push(number);
        }
    }

    /// Files when the first of those that a node holds back is through.
    pub(super) fn file(&mut self, number: u32) {
        let (level, node) = (self.shares.level(number), &self.nodes[number as usize]);
        let time = match level {
            UNBOUND | 0 => NEVER,
            _ if node.next == u128::MAX => NEVER,
            level => {
                let (ahead, level) = (node.next.saturating_sub(node.service), u128::from(level));
                // Rounded up; one division of such numbers is slow enough.
                let whole = ahead / level;
                let ahead = whole + u128::from(whole * level < ahead);
                node.since.saturating_add(u64::try_from(ahead).unwrap_or(NEVER))
            }
        };
        self.ends.set(number, time);
    }
}
