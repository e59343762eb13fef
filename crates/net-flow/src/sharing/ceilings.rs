//! Which links may be full, so that their loads must be followed.

use super::members::Member;
use super::paths::Hop;
use super::{Sharing, UNBOUND};

/// Returns the ceiling of a rate: the next number above it with four significant bits.
#[inline]
pub(super) fn ceiling(rate: u64) -> u64 {
    let shift = 60u32.saturating_sub(rate.leading_zeros());
    ((rate >> shift) + 1) << shift
}

/// Whether ceilings fit a capacity.
#[inline]
pub(super) fn has_room(ceilings: u128, capacity: i64) -> bool {
    ceilings <= u128::from(capacity.cast_unsigned())
}

/// Whether they fit with enough room to stay so for some time.
#[inline]
fn has_much_room(ceilings: u128, capacity: i64) -> bool {
    ceilings <= u128::from(capacity.cast_unsigned() / 8 * 7)
}

impl Sharing {
    /// Updates the ceiling of a connection, which may decide whether nodes on its path are followed.
    #[cold]
    pub(super) fn cover(&mut self, number: u32, old: u64, new: u64) {
        let ceiling = |level: u64| if level == 0 { 0 } else { u128::from(ceiling(level)) };
        let (old, new) = (ceiling(old), ceiling(new));
        for &Hop { node, usage, .. } in self.paths.hops(number) {
            let takes = u128::from(usage);
            let ceilings = &mut self.ceilings[node as usize];
            *ceilings = *ceilings + takes * new - takes * old;
            let (ceilings, capacity) = (*ceilings, self.shares.capacity(node));
            let crosses = if self.shares.marks(node).followed {
                has_much_room(ceilings, capacity) && self.shares.level(node) == UNBOUND
            } else {
                !has_room(ceilings, capacity)
            };
            if crosses && !self.shares.marks(node).crossed {
                self.shares.marks_mut(node).crossed = true;
                self.crossed.push(node);
            }
        }
    }

    /// Follows nodes whose ceilings no longer fit, and stops following those that hold none back and whose
    /// ceilings fit.
    pub(super) fn cross(&mut self) {
        while let Some(node) = self.crossed.pop() {
            self.shares.marks_mut(node).crossed = false;
            let (ceilings, capacity) = (self.ceilings[node as usize], self.shares.capacity(node));
            let marks = self.shares.marks(node);
            if !marks.followed {
                if !has_room(ceilings, capacity) {
                    self.follow(node);
                    self.shares.check(node);
                }
            } else if has_much_room(ceilings, capacity) && self.shares.level(node) == UNBOUND && !marks.queued
            {
                self.unfollow(node);
            }
        }
    }

    /// Starts following the load of a node.
    pub(super) fn follow(&mut self, node: u32) {
        let (mut load, mut top) = (0, 0);
        for at in 0..self.nodes[node as usize].members.len() {
            let Member { takes, connection: number, .. } = self.nodes[node as usize].members[at];
            let has = self.has(number);
            load += u64::from(takes) * has;
            top = top.max(has);
            self.lead(number, node, true);
        }
        self.shares.follow(node, load, top);
    }

    /// Stops following the load of a node.
    fn unfollow(&mut self, node: u32) {
        self.shares.marks_mut(node).followed = false;
        for at in 0..self.nodes[node as usize].members.len() {
            self.lead(self.nodes[node as usize].members[at].connection, node, false);
        }
    }
}
