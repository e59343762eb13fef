//! What flows have had, and when they are through.

use super::{Sharing, UNBOUND};
use crate::sharing::ways::Ways;
use crate::tree::NEVER;
use syncline_units::{Bytes, Time};

use super::BIT;

impl Sharing {
    /// The integral of a node's level up to `now`.
    #[inline]
    pub(super) fn service(&self, node: u32, now: Time) -> u128 {
        let (level, node) = (self.levels[node as usize], &self.nodes[node as usize]);
        match level {
            UNBOUND => node.service,
            level => node.service + u128::from(level) * u128::from(now.0 - node.since),
        }
    }

    /// Books what a bundle has had up to `now`.
    pub(super) fn book(&mut self, number: u32, now: Time) {
        let bundle = &self.bundles[number as usize];
        let had = self.service(bundle.bottleneck, now).wrapping_add(bundle.offset);
        let bundle = &mut self.bundles[number as usize];
        let each = had.wrapping_sub(std::mem::replace(&mut bundle.booked, had)) * u128::from(bundle.count);
        for at in Ways::all(bundle.way, bundle.hops) {
            self.nodes[self.ways.node(at) as usize].carried += each * u128::from(self.ways.usage(at));
        }
    }

    /// Books what all links carried up to `now`, since which rates have not changed.
    pub fn book_all(&mut self, now: Time) {
        for number in 0..self.bundles.len() as u32 {
            if self.bundles[number as usize].count > 0 {
                self.book(number, now);
            }
        }
    }

    /// What flows have sent over `link`, as far as it is booked: the integral of their rates, in units times picoseconds.
    pub fn carried(&self, link: u32) -> u128 {
        let first = (link * self.classes) as usize;
        self.nodes[first..first + self.classes as usize].iter().map(|node| node.carried).sum()
    }

    /// How long `link` takes to carry so many bytes, rounded down.
    pub fn time_of(&self, link: u32, bytes: Bytes) -> Time {
        self.busy(link, u128::from(bytes.0) * 8 * BIT)
    }

    /// How long `link` takes to carry so much.
    pub fn busy(&self, link: u32, carried: u128) -> Time {
        let rate = self.shares[(link * self.classes) as usize].capacity;
        Time(u64::try_from(carried / u128::from(rate.max(1).cast_unsigned())).unwrap_or(u64::MAX))
    }

    /// A bundle is held back by another node from now on.
    pub(super) fn hand_over(&mut self, number: u32, to: u32, now: Time) {
        let from = self.bundles[number as usize].bottleneck;
        let (mut old, mut expected) = (0, false);
        if from != super::NOWHERE {
            old = self.service(from, now);
            expected = self.bundles[number as usize].first() == self.nodes[from as usize].next;
            self.release(number);
            let level = self.levels[to as usize];
            let share = &mut self.shares[from as usize];
            share.top = share.top.max(level);
        }
        let new = self.service(to, now);
        let bundle = &mut self.bundles[number as usize];
        bundle.offset = bundle.offset.wrapping_add(old).wrapping_sub(new);
        let first = bundle.first();
        self.set_bottleneck(number, to);
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
        let node = &self.nodes[number as usize];
        let held = &node.members[..node.held as usize];
        let next = held.iter().map(|member| self.bundles[member.bundle as usize].first()).min();
        self.nodes[number as usize].next = next.unwrap_or(u128::MAX);
        self.touch(number);
    }

    #[inline]
    pub(super) fn touch(&mut self, number: u32) {
        let share = &mut self.shares[number as usize];
        if !share.touched {
            share.touched = true;
            self.touched.push(number);
        }
    }

    /// Files when the first of those that a node holds back is through.
    pub(super) fn file(&mut self, number: u32) {
        let (level, node) = (self.levels[number as usize], &self.nodes[number as usize]);
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
