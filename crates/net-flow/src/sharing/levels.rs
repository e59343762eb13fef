//! Levels: how they are found, and which connections they affect.

use super::ceilings::ceiling;
use super::members::Member;
use super::paths::Hop;
use super::{Cap, NO_NODE, NO_RATE, Sharing, UNBOUND};
use syncline_units::Time;

/// Returns the rate that belongs to a level.
#[inline]
fn rate(level: u64) -> u64 {
    if level == NO_RATE { 0 } else { level }
}

impl Sharing {
    /// Changes a connection's rate from level `was` to level `is`; [`NO_RATE`] means no rate. Queues the nodes
    /// on its path whose level becomes wrong.
    pub(super) fn change(&mut self, number: u32, was: u64, is: u64) {
        self.change_but(number, was, is, NO_NODE);
    }

    /// Does the same for a member of a node, except at that node, which updates its own sums.
    fn change_elsewhere(&mut self, member: &Member, was: u64, is: u64, node: u32) {
        if !member.is_plain() {
            return self.change_but(member.connection, was, is, node);
        }
        self.cover_if(member.connection, was, is);
        for other in member.others() {
            self.shares.tell(other, u64::from(member.takes), (was, rate(was)), (is, rate(is)));
        }
    }

    /// Does the same at all nodes on a connection's path except `but`.
    fn change_but(&mut self, number: u32, was: u64, is: u64, but: u32) {
        self.cover_if(number, was, is);
        for &Hop { node, usage, .. } in self.paths.followed(number) {
            if node != but {
                self.shares.tell(node, u64::from(usage), (was, rate(was)), (is, rate(is)));
            }
        }
    }

    /// Updates a connection's ceiling if its rate change requires it.
    #[inline]
    fn cover_if(&mut self, number: u32, was: u64, is: u64) {
        if self.covers(was, is) {
            self.cover(number, rate(was), rate(is));
        }
    }

    /// Whether a rate change requires another ceiling.
    #[inline]
    fn covers(&self, was: u64, is: u64) -> bool {
        self.shares.classes() == 1 && ceiling(rate(was)) != ceiling(rate(is))
    }

    /// Returns the level that a node needs next, and whether all its connections were considered.
    ///
    /// If connections stay held back where they are now, this is a division. A higher level may release some;
    /// this shows when they are updated, and the node is examined again. A lower level may hold back more. If
    /// that is possible, all connections are considered, including those without a rate.
    fn next_level(&mut self, number: u32) -> (u64, bool) {
        self.looks += 1;
        match self.shares.simple_level(number) {
            Some(level) => (level, false),
            None => (self.fair(number), true),
        }
    }

    /// Returns the fair share at a node of what the connections held back elsewhere leave.
    fn fair(&mut self, number: u32) -> u64 {
        self.caps.clear();
        let (node, held) = (&self.nodes[number as usize], self.held[number as usize] as usize);
        let (mut sharers, mut top) = (0, 0);
        for (at, member) in node.members.iter().enumerate() {
            let takes = u64::from(member.takes);
            sharers += takes;
            // Those that it holds back share at any level.
            if at < held {
                continue;
            }
            let level = if member.bottleneck == NO_NODE {
                self.lowest_but(member, number)
            } else {
                let level = self.shares.level(member.bottleneck);
                top = top.max(level);
                level
            };
            self.caps.push(Cap { level, takes });
        }
        self.shares.set_top(number, top);
        let mut left = self.shares.capacity(number).max(0).cast_unsigned();
        loop {
            if sharers == 0 {
                return UNBOUND;
            }
            let level = left / sharers;
            let before = sharers;
            self.caps.retain(|cap| {
                let held_back = cap.level < level;
                if held_back {
                    left -= cap.level * cap.takes;
                    sharers -= cap.takes;
                }
                !held_back
            });
            if sharers == before {
                return level;
            }
        }
    }

    /// Restores all levels after messages were sent or became complete at `now`. Closes connections without
    /// messages and passes them to `closed`; their numbers are reused.
    pub fn settle(&mut self, now: Time, closed: impl FnMut(u32)) {
        self.close_idle(now, closed);
        let mut opened = std::mem::take(&mut self.opened);
        opened.drain(..).for_each(|number| self.seek(number));
        self.opened = opened;
        self.cross();
        while let Some(number) = self.shares.next() {
            let (level, asked) = self.next_level(number);
            if self.shares.is_due(number, level) {
                self.set(number, level, asked, now);
                self.cross();
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        for node in touched.drain(..) {
            self.shares.marks_mut(node).touched = false;
            self.file(node);
        }
        self.touched = touched;
    }

    /// Sets the level of a node and the rates of its connections; with `asked`, also of those that have no
    /// rate.
    fn set(&mut self, number: u32, level: u64, asked: bool, now: Time) {
        let service = self.service(number, now);
        let node = &mut self.nodes[number as usize];
        (node.service, node.since) = (service, now.0);
        let old = self.shares.set_level(number, level);
        self.shares.marks_mut(number).fresh &= !asked;
        // Do other connections have its level, or does it now hold back more?
        let others = asked || self.shares.top(number) >= level;
        let (mut sharers, mut more) = self.set_held(number, old, level, now);
        let passing = if others { self.held[number as usize] as usize } else { usize::MAX };
        for at in passing..self.nodes[number as usize].members.len() {
            let member = self.nodes[number as usize].members[at];
            let unplaced = member.bottleneck == NO_NODE;
            let had = if unplaced { NO_RATE } else { self.shares.level(member.bottleneck) };
            if !unplaced && had < level || unplaced && !asked {
                continue;
            }
            let (lowest, bottleneck) = if unplaced { self.lowest(&member, number) } else { (level, number) };
            let takes = u64::from(member.takes);
            if lowest == level {
                sharers += takes;
            }
            if bottleneck != number {
                self.shares.raise_top(number, lowest);
            }
            if unplaced || had > level {
                more = more.wrapping_add(takes.wrapping_mul(lowest.wrapping_sub(rate(had))));
                self.change_elsewhere(&member, had, lowest, number);
                self.hand_over(member.connection, bottleneck, now);
            }
        }
        self.shares.share(number, sharers, more);
        self.touch(number);
        self.shares.check(number);
    }

    /// Moves the connections that a node holds back from level `old` to `level`. Returns what connections at
    /// the new level take, and how much more the old ones take now.
    fn set_held(&mut self, number: u32, old: u64, level: u64, now: Time) -> (u64, u64) {
        let step = level.wrapping_sub(old);
        let members = &self.nodes[number as usize].members[..self.held[number as usize] as usize];
        let (mut sharers, highest) = (0, level.max(old));
        self.moving.clear();
        if self.covers(old, level) {
            self.moving.extend(0..members.len() as u32);
        } else {
            for (at, member) in (0..).zip(members) {
                if self.shares.shift(member, step, level, highest) {
                    sharers += u64::from(member.takes);
                } else {
                    self.moving.push(at);
                }
            }
        }
        let mut more = sharers.wrapping_mul(step);
        // A connection that leaves swaps places with one before it, so go backwards.
        for at in (0..self.moving.len()).rev() {
            let member = self.nodes[number as usize].members[self.moving[at] as usize];
            let (lowest, bottleneck) = self.lowest(&member, number);
            let takes = u64::from(member.takes);
            more = more.wrapping_add(takes.wrapping_mul(lowest.wrapping_sub(old)));
            if lowest != old {
                self.change_elsewhere(&member, old, lowest, number);
            }
            if bottleneck == number {
                sharers += takes;
            } else {
                self.hand_over(member.connection, bottleneck, now);
            }
        }
        (sharers, more)
    }

    /// Returns the lowest level on a member's path, and its node; ties go to the node `number`.
    #[inline]
    fn lowest(&self, member: &Member, number: u32) -> (u64, u32) {
        let mut lowest = (self.shares.level(number), number);
        for other in self.elsewhere(member) {
            let level = self.shares.level(other);
            if level < lowest.0 {
                lowest = (level, other);
            }
        }
        lowest
    }

    /// Returns the lowest level on a member's path, excluding the node `number`.
    #[inline]
    fn lowest_but(&self, member: &Member, number: u32) -> u64 {
        let others = self.elsewhere(member).filter(|&other| other != number);
        others.map(|other| self.shares.level(other)).min().unwrap_or(UNBOUND)
    }
}
