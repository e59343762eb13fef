//! The share of each class in each link, and the queue of shares whose level may be wrong.

use super::UNBOUND;
use super::members::Member;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sharers of a node without a level: so large that only an overload makes it wrong.
const UNSHARED: u64 = 1 << 63;

/// The data read whenever a connection on a node changes its rate.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Share {
    /// The fair share, if it holds any connection back.
    level: u64,
    /// Unused capacity, if the load is followed; negative if overloaded. It may wrap temporarily.
    left: i64,
    /// Sum of the uses of connections whose rate is the level; [`UNSHARED`] if there is no level.
    sharers: u64,
    /// No connection held back elsewhere has a higher rate.
    top: u64,
}

impl Share {
    /// Whether connections take more than the capacity, or could take more than they do.
    #[inline]
    fn may_be_wrong(&self) -> bool {
        self.left.cast_unsigned() >= self.sharers
    }
}

/// Flags of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Whether its load is followed.
    pub(super) followed: bool,
    /// Whether it must find rates for connections that have none.
    pub(super) fresh: bool,
    /// Whether it is queued to be examined.
    pub(super) queued: bool,
    /// Whether the next end of a message must be scheduled again.
    pub(super) touched: bool,
    /// Whether the next end must be searched among all connections that it holds back.
    pub(super) stale: bool,
    /// Whether it may have to start or stop being followed.
    pub(super) crossed: bool,
}

/// A node to examine. From the highest bits: its class, the lowest level at which something may change, and
/// its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look(u128);

impl Look {
    #[inline]
    fn new(class: u32, level: u64, number: u32) -> Self {
        Self(u128::from(class) << 96 | u128::from(level) << 32 | u128::from(number))
    }

    #[inline]
    pub(super) fn node(self) -> u32 {
        self.0 as u32
    }

    /// Whether something changes there before anything changes at `other`.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        self.0 >> 32 < other.0 >> 32
    }
}

/// Shares of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    list: Vec<Share>,
    marks: Vec<Marks>,
    /// Total capacity for the connections of each node: the link's, minus what higher classes take. While
    /// levels are still being found, it may differ from what is really there.
    capacities: Vec<i64>,
    classes: u32,
    /// A level is kept if it is wrong by no more than this fraction, as a power of one half.
    precision: u32,
    /// Nodes to examine, by class and level.
    queue: BinaryHeap<Reverse<Look>>,
}

impl Shares {
    /// Idle nodes with these capacities.
    pub(super) fn new(capacities: Vec<i64>, classes: u32, precision: Option<u32>) -> Self {
        let share = |&left: &i64| Share { level: UNBOUND, left, sharers: UNSHARED, top: 0 };
        Self {
            list: capacities.iter().map(share).collect(),
            marks: vec![Marks { followed: classes > 1, ..Marks::default() }; capacities.len()],
            capacities,
            classes,
            precision: precision.map_or(63, |bits| bits.min(63)),
            queue: BinaryHeap::new(),
        }
    }

    #[inline]
    pub(super) fn classes(&self) -> u32 {
        self.classes
    }

    #[inline]
    pub(super) fn level(&self, node: u32) -> u64 {
        self.list[node as usize].level
    }

    #[inline]
    pub(super) fn left(&self, node: u32) -> i64 {
        self.list[node as usize].left
    }

    #[inline]
    pub(super) fn capacity(&self, node: u32) -> i64 {
        self.capacities[node as usize]
    }

    #[inline]
    pub(super) fn top(&self, node: u32) -> u64 {
        self.list[node as usize].top
    }

    /// Notes the rate of a connection that is held back elsewhere.
    #[inline]
    pub(super) fn raise_top(&mut self, node: u32, rate: u64) {
        let top = &mut self.list[node as usize].top;
        *top = rate.max(*top);
    }

    /// Notes that no connection held back elsewhere has a higher rate.
    #[inline]
    pub(super) fn set_top(&mut self, node: u32, rate: u64) {
        self.list[node as usize].top = rate;
    }

    #[inline]
    pub(super) fn marks(&self, node: u32) -> &Marks {
        &self.marks[node as usize]
    }

    #[inline]
    pub(super) fn marks_mut(&mut self, node: u32) -> &mut Marks {
        &mut self.marks[node as usize]
    }

    /// Starts following a node whose load is `load`. It has no level.
    pub(super) fn follow(&mut self, node: u32, load: u64, top: u64) {
        self.marks[node as usize].followed = true;
        let left = self.capacities[node as usize].wrapping_sub_unsigned(load);
        self.list[node as usize] = Share { level: UNBOUND, left, sharers: UNSHARED, top };
    }

    /// Sets a node's level and returns the old one. [`Shares::share`] then sets its sharers.
    #[inline]
    pub(super) fn set_level(&mut self, node: u32, level: u64) -> u64 {
        std::mem::replace(&mut self.list[node as usize].level, level)
    }

    /// Sets what the connections at a node's level take, and adds `more` to its load.
    #[inline]
    pub(super) fn share(&mut self, node: u32, sharers: u64, more: u64) {
        let share = &mut self.list[node as usize];
        share.sharers = if share.level == UNBOUND { UNSHARED } else { sharers };
        share.left = share.left.wrapping_sub_unsigned(more);
        if self.classes > 1 {
            self.yield_to(node, more);
        }
    }

    /// Raises the rate of a member by `step` at all its other nodes, if it takes the same of each. Returns
    /// false, and does nothing, if the level of another of its nodes is at or below `highest`, the higher of
    /// the two rates.
    #[inline]
    pub(super) fn shift(&mut self, member: &Member, step: u64, new: u64, highest: u64) -> bool {
        if !member.is_plain() || member.others().any(|other| self.list[other as usize].level <= highest) {
            return false;
        }
        let more = u64::from(member.takes).wrapping_mul(step);
        for other in member.others() {
            self.load(other, more, new);
        }
        true
    }

    /// Adds `more` to a node's load, by a connection at rate `new`.
    #[inline]
    fn load(&mut self, node: u32, more: u64, new: u64) {
        let share = &mut self.list[node as usize];
        share.left = share.left.wrapping_sub_unsigned(more);
        share.top = share.top.max(new);
        if share.may_be_wrong() && !self.marks[node as usize].queued {
            self.check(node);
        }
        if self.classes > 1 {
            self.yield_to(node, more);
        }
    }

    /// Updates a node for a connection whose rate changes from level `was` to level `is`; `old` and `new` are
    /// these as rates.
    #[inline]
    pub(super) fn tell(&mut self, node: u32, takes: u64, (was, old): (u64, u64), (is, new): (u64, u64)) {
        let share = &mut self.list[node as usize];
        if was == share.level {
            share.sharers -= takes;
        }
        if is == share.level {
            share.sharers += takes;
        }
        self.load(node, takes.wrapping_mul(new.wrapping_sub(old)), new);
    }

    /// Subtracts what a class takes from the capacity of lower classes.
    #[cold]
    fn yield_to(&mut self, node: u32, more: u64) {
        let end = (node / self.classes + 1) * self.classes;
        for lower in node + 1..end {
            let capacity = &mut self.capacities[lower as usize];
            *capacity = capacity.wrapping_sub_unsigned(more);
            let left = &mut self.list[lower as usize].left;
            *left = left.wrapping_sub_unsigned(more);
            self.check(lower);
        }
    }

    /// Queues a node if its level is no longer right.
    pub(super) fn check(&mut self, node: u32) {
        let share = &self.list[node as usize];
        if self.marks[node as usize].queued || !share.may_be_wrong() {
            return;
        }
        let Share { level, left, sharers, .. } = *share;
        let level = match level {
            // Any number of connections may follow, so all are considered at once.
            UNBOUND => 0,
            level if sharers == 0 => level,
            level => {
                if left.unsigned_abs() <= (level >> self.precision) * sharers {
                    return;
                }
                // Levels are rounded down.
                if left >= 0 { level } else { level.saturating_sub(left.unsigned_abs().div_ceil(sharers)) }
            }
        };
        self.look(node, level);
    }

    /// Queues a node to be examined.
    #[inline]
    pub(super) fn look(&mut self, node: u32, level: u64) {
        let queued = &mut self.marks[node as usize].queued;
        if !*queued {
            *queued = true;
            self.queue.push(Reverse(self.entry(node, level)));
        }
    }

    #[inline]
    fn entry(&self, node: u32, level: u64) -> Look {
        Look::new(if self.classes == 1 { 0 } else { node % self.classes }, level, node)
    }

    /// Removes and returns the next node to examine.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        self.queue.pop().map(|Reverse(look)| look.node())
    }

    /// Whether a node may get this level now. Its change takes effect from the lower of the old and new
    /// levels up. A change queued at a lower level comes first, because it may change this level; the node is
    /// then queued again.
    #[inline]
    pub(super) fn is_due(&mut self, node: u32, level: u64) -> bool {
        let from = self.entry(node, level.min(self.level(node)));
        let waits = self.queue.peek().is_some_and(|Reverse(first)| first.is_before(from));
        if waits {
            self.queue.push(Reverse(from));
        } else {
            self.marks[node as usize].queued = false;
        }
        !waits
    }

    /// Returns the level that a node should have if connections stay held back where they are now; `None` if
    /// that is not enough, because it has no level, or because a lower one may hold back others.
    #[inline]
    pub(super) fn simple_level(&self, node: u32) -> Option<u64> {
        let Share { level, left, sharers, top } = self.list[node as usize];
        if level == UNBOUND || sharers == 0 || self.marks[node as usize].fresh {
            return None;
        }
        if left >= 0 {
            return Some(level + left.cast_unsigned() / sharers);
        }
        let level = level.saturating_sub(left.unsigned_abs().div_ceil(sharers));
        (top <= level).then_some(level)
    }

    /// Returns the sums over connections on a node: unused capacity, and sharers.
    #[cfg(test)]
    pub(super) fn counted(&self, node: u32) -> (i64, u64) {
        let Share { left, sharers, .. } = self.list[node as usize];
        (left, if sharers == UNSHARED { 0 } else { sharers })
    }
}
