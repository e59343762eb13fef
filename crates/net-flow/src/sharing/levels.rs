//! Levels: which are wrong, what they should be, and whom they concern.

use super::ceilings::ceiling;
use super::{Look, Member, NONE, NOWHERE, Sharing, UNBOUND};
use std::cmp::Reverse;
use syncline_units::Time;

/// A node's entry in the queue.
#[inline]
fn look(class: u32, level: u64, number: u32) -> Look {
    u128::from(class) << 96 | u128::from(level) << 32 | u128::from(number)
}

impl Sharing {
    /// The rate of a bundle changes from level `was` to level `is`, or it had none or has none any more ([`NONE`]). Nodes on
    /// its way are looked at again where that makes their level wrong, but for node `but`, whose sharers the caller counts.
    pub(super) fn change(&mut self, member: Member, was: u64, is: u64, but: u32) {
        let level = |level| if level == NONE { 0 } else { level };
        let (old, new) = (level(was), level(is));
        if ceiling(old) != ceiling(new) && self.classes == 1 {
            self.cover(member, old, new);
        }
        self.tell(member, (was, old), (is, new), but);
    }

    /// Tells the nodes on a bundle's way of its change, each level with what counts for it as a rate.
    #[inline]
    fn tell(&mut self, member: Member, (was, old): (u64, u64), (is, new): (u64, u64), but: u32) {
        let even = self.ways.is_even(member.way);
        for at in self.ways.followed(member.way) {
            let node = self.ways.node(at);
            let takes = if even { member.takes } else { self.takes(member.bundle, at) };
            let level = self.levels[node as usize];
            let share = &mut self.shares[node as usize];
            let before = share.load;
            // What is too much for the moment wraps, and comes back.
            share.load = before.wrapping_add(takes.wrapping_mul(new.wrapping_sub(old)));
            if node != but {
                if was == level {
                    share.sharers -= takes;
                }
                if is == level {
                    share.sharers += takes;
                }
                share.top = share.top.max(new);
                if !share.queued && share.may_be_wrong(level) {
                    self.check(node);
                }
            }
            if self.classes > 1 {
                let after = self.shares[node as usize].load;
                self.yield_to(node, before, after);
            }
        }
    }

    /// What the flows of a bundle take together at a place of its way.
    #[cold]
    fn takes(&self, bundle: u32, at: usize) -> u64 {
        u64::from(self.ways.usage(at)) * u64::from(self.bundles[bundle as usize].count)
    }

    /// What a class takes, lower ones do not have.
    #[cold]
    fn yield_to(&mut self, node: u32, before: u64, after: u64) {
        let end = (node / self.classes + 1) * self.classes;
        for lower in node + 1..end {
            let capacity = &mut self.shares[lower as usize].capacity;
            *capacity = capacity.saturating_add_unsigned(before).saturating_sub_unsigned(after);
            self.check(lower);
        }
    }

    /// Has a node looked at again if its level is not right any more.
    pub(super) fn check(&mut self, number: u32) {
        let (share, level) = (&self.shares[number as usize], self.levels[number as usize]);
        if share.queued || !share.may_be_wrong(level) {
            return;
        }
        let left = share.left();
        let level = match level {
            // It is not known how many more will come: all are asked at once.
            UNBOUND => 0,
            level if share.sharers == 0 => level,
            level => {
                if left.unsigned_abs() <= (level >> self.precision) * share.sharers {
                    return;
                }
                // Levels are rounded down.
                if left >= 0 {
                    level
                } else {
                    level.saturating_sub(left.unsigned_abs().div_ceil(share.sharers))
                }
            }
        };
        self.look(number, level);
    }

    /// Has a node looked at again.
    #[inline]
    pub(super) fn look(&mut self, number: u32, level: u64) {
        let share = &mut self.shares[number as usize];
        if !share.queued {
            share.queued = true;
            let class = if self.classes == 1 { 0 } else { number % self.classes };
            self.queue.push(Reverse(look(class, level, number)));
        }
    }

    /// The level that a node needs next.
    ///
    /// If its flows were held back here and elsewhere as they are now, that is a division. A higher level may let go of some,
    /// which is found out when they are told, and the node is looked at again. With a lower level, it may come to hold back
    /// others: if there may be any, all are asked, and so are those that have no rate yet. Whether all were asked is returned.
    fn next_level(&mut self, number: u32) -> (u64, bool) {
        self.looks += 1;
        let (share, level) = (&self.shares[number as usize], self.levels[number as usize]);
        if level == UNBOUND || share.sharers == 0 || share.fresh {
            return (self.fair(number), true);
        }
        let left = share.left();
        if left >= 0 {
            return (level + left.cast_unsigned() / share.sharers, false);
        }
        let level = level.saturating_sub(left.unsigned_abs().div_ceil(share.sharers));
        if share.top > level { (self.fair(number), true) } else { (level, false) }
    }

    /// The fair share at a node, of what is left by flows that are held back elsewhere.
    fn fair(&mut self, number: u32) -> u64 {
        self.caps.clear();
        let node = &self.nodes[number as usize];
        let (mut sharers, mut top) = (0, 0);
        for (at, member) in node.members.iter().enumerate() {
            let cap = if at < node.held as usize || member.bottleneck == NOWHERE {
                let others = self.ways.nodes(member.way).iter().filter(|&&other| other != number);
                others.map(|&other| self.levels[other as usize]).min().unwrap_or(UNBOUND)
            } else {
                let level = self.levels[member.bottleneck as usize];
                top = top.max(level);
                level
            };
            sharers += member.takes;
            self.caps.push((cap, member.takes));
        }
        let share = &mut self.shares[number as usize];
        share.top = top;
        let mut left = share.capacity.max(0).cast_unsigned();
        loop {
            if sharers == 0 {
                return UNBOUND;
            }
            let level = left / sharers;
            let before = sharers;
            self.caps.retain(|&(cap, takes)| {
                let held_back = cap < level;
                if held_back {
                    left -= cap * takes;
                    sharers -= takes;
                }
                !held_back
            });
            if sharers == before {
                return level;
            }
        }
    }

    /// Makes levels right again after flows came or went at `now`.
    pub fn settle(&mut self, now: Time) {
        self.cross();
        while let Some(Reverse(entry)) = self.queue.pop() {
            let (class, number) = ((entry >> 96) as u32, entry as u32);
            let (level, asked) = self.next_level(number);
            // From the lower of both on something changes. What is lower than that comes first: it may change this level.
            let from = look(class, level.min(self.levels[number as usize]), number);
            if self.queue.peek().is_some_and(|Reverse(other)| other >> 32 < from >> 32) {
                self.queue.push(Reverse(from));
                continue;
            }
            self.shares[number as usize].queued = false;
            self.set(number, level, asked, now);
            self.cross();
        }
        let mut touched = std::mem::take(&mut self.touched);
        for node in touched.drain(..) {
            self.shares[node as usize].touched = false;
            self.file(node);
        }
        self.touched = touched;
    }

    /// Gives a node another level, and the flows on it their rate; with `asked` those that have none, too.
    fn set(&mut self, number: u32, level: u64, asked: bool, now: Time) {
        let service = self.service(number, now);
        let node = &mut self.nodes[number as usize];
        (node.service, node.since) = (service, now.0);
        let old = std::mem::replace(&mut self.levels[number as usize], level);
        let share = &mut self.shares[number as usize];
        share.fresh &= !asked;
        // Are there others that have its level, or are to be held back by it?
        let others = asked || share.top >= level;
        let mut sharers = 0;
        let covers = self.classes == 1 && ceiling(old) != ceiling(level);
        // Those that leave change places with some that come before them here.
        for at in (0..self.nodes[number as usize].held as usize).rev() {
            let member = self.nodes[number as usize].members[at];
            let (rate, bottleneck) = self.lowest(&member, number);
            if bottleneck != number {
                if rate != old {
                    self.change(member, old, rate, number);
                }
                self.hand_over(member.bundle, bottleneck, now);
                continue;
            }
            sharers += member.takes;
            if level != old {
                if covers {
                    self.cover(member, old, level);
                }
                self.tell(member, (old, old), (level, level), number);
            }
        }
        let passing = if others { self.nodes[number as usize].held as usize } else { usize::MAX };
        for at in passing..self.nodes[number as usize].members.len() {
            let member = self.nodes[number as usize].members[at];
            let homeless = member.bottleneck == NOWHERE;
            let had = if homeless { NONE } else { self.levels[member.bottleneck as usize] };
            if !homeless && had < level || homeless && !asked {
                continue;
            }
            let (rate, bottleneck) = if homeless { self.lowest(&member, number) } else { (level, number) };
            if rate == level {
                sharers += member.takes;
            }
            if bottleneck != number {
                let share = &mut self.shares[number as usize];
                share.top = share.top.max(rate);
            }
            if homeless || had > level {
                self.change(member, had, rate, number);
                self.hand_over(member.bundle, bottleneck, now);
            }
        }
        self.shares[number as usize].sharers = sharers;
        self.touch(number);
        self.check(number);
    }

    /// The lowest level on a way, and where it is; at `number` where that is among the lowest.
    #[inline]
    fn lowest(&self, member: &Member, number: u32) -> (u64, u32) {
        let mut lowest = (self.levels[number as usize], number);
        for &other in self.ways.nodes(member.way) {
            let level = self.levels[other as usize];
            if level < lowest.0 {
                lowest = (level, other);
            }
        }
        lowest
    }
}
