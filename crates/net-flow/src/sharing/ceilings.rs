//! Which links may be full, so that their loads are followed.

use super::{Member, NOWHERE, Node, Sharing, UNBOUND};
use crate::sharing::ways::Ways;

/// The ceiling of a rate: the next number above it with four bits that count.
#[inline]
pub(super) fn ceiling(rate: u64) -> u64 {
    let shift = 60u32.saturating_sub(rate.leading_zeros());
    ((rate >> shift) + 1) << shift
}

impl Node {
    /// Whether ceilings find room in its capacity.
    #[inline]
    pub(super) fn has_room(&self, capacity: i64) -> bool {
        self.ceilings <= u128::from(capacity.cast_unsigned())
    }

    /// Whether they will probably find it for some time.
    #[inline]
    fn has_much_room(&self, capacity: i64) -> bool {
        self.ceilings <= u128::from(capacity.cast_unsigned() / 8 * 7)
    }
}

impl Sharing {
    /// A bundle has another ceiling, which may decide whether nodes on its way are followed.
    #[cold]
    pub(super) fn cover(&mut self, member: Member, old: u64, new: u64) {
        let ceiling = |level: u64| if level == 0 { 0 } else { u128::from(ceiling(level)) };
        let (old, new) = (ceiling(old), ceiling(new));
        let bundle = &self.bundles[member.bundle as usize];
        for at in Ways::all(bundle.way, bundle.hops) {
            let number = self.ways.node(at);
            let (share, node) = (&self.shares[number as usize], &mut self.nodes[number as usize]);
            let takes = u128::from(self.ways.usage(at)) * u128::from(bundle.count);
            node.ceilings = node.ceilings + takes * new - takes * old;
            let crosses = if share.followed {
                self.levels[number as usize] == UNBOUND && node.has_much_room(share.capacity)
            } else {
                !node.has_room(share.capacity)
            };
            if crosses && !node.crossed {
                node.crossed = true;
                self.crossed.push(number);
            }
        }
    }

    /// Follows nodes where ceilings find no room any more, and leaves those that hold back nobody and where they do.
    pub(super) fn cross(&mut self) {
        while let Some(number) = self.crossed.pop() {
            let node = &mut self.nodes[number as usize];
            node.crossed = false;
            let share = &self.shares[number as usize];
            if !share.followed {
                if !node.has_room(share.capacity) {
                    self.follow(number);
                    self.check(number);
                }
            } else if node.has_much_room(share.capacity)
                && self.levels[number as usize] == UNBOUND
                && !share.queued
            {
                self.leave(number);
            }
        }
    }

    /// Follows the load of a node from now on.
    pub(super) fn follow(&mut self, number: u32) {
        let (mut load, mut top) = (0, 0);
        for at in 0..self.nodes[number as usize].members.len() {
            let member = self.nodes[number as usize].members[at];
            if member.bottleneck != NOWHERE {
                let has = self.levels[member.bottleneck as usize];
                load += member.takes * has;
                top = top.max(has);
            }
            self.lead(member, true);
        }
        let share = &mut self.shares[number as usize];
        (share.followed, share.load, share.sharers, share.top) = (true, load, 0, top);
    }

    /// Does not follow the load of a node any more.
    fn leave(&mut self, number: u32) {
        self.shares[number as usize].followed = false;
        for at in 0..self.nodes[number as usize].members.len() {
            let member = self.nodes[number as usize].members[at];
            self.lead(member, false);
        }
    }
}
