//! What each class has of each link, and which shares are to be looked at again because their level may be wrong.

use super::UNBOUND;
use super::members::Member;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sharers of a node without a level: so many that only too high a load makes it wrong.
const UNSHARED: u64 = 1 << 63;

/// What is read whenever a connection on a node changes its rate.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Share {
    /// The fair share, if it holds anybody back.
    level: u64,
    /// What is left of it, where that is followed; less than nothing where it is overloaded. What is too much for the moment
    /// wraps, and comes back.
    left: i64,
    /// Sum of the uses of connections whose rate is the level; [`UNSHARED`] where there is none.
    sharers: u64,
    /// No connection that is held back elsewhere has a higher rate.
    top: u64,
}

impl Share {
    /// Whether connections have more than there is, or could have more than they have.
    #[inline]
    fn may_be_wrong(&self) -> bool {
        self.left.cast_unsigned() >= self.sharers
    }
}

/// What is known of a node besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Whether its load is followed.
    pub(super) followed: bool,
    /// Whether it is to find rates of connections that have none.
    pub(super) fresh: bool,
    /// Whether it is to be looked at again.
    pub(super) queued: bool,
    /// Whether its next end of a message is to be filed.
    pub(super) touched: bool,
    /// Whether its next end is to be looked for among all that it holds back.
    pub(super) stale: bool,
    /// Whether it may have to be followed, or not.
    pub(super) crossed: bool,
}

/// A node to be looked at: its class, the level from which on something may change, and its number, from the highest bits on.
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

    /// Whether something changes there before anything changes at the other.
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
    /// What connections of each node can have together: the link's, less what higher classes take; while these still share, that may
    /// be more than there is.
    capacities: Vec<i64>,
    classes: u32,
    /// A level is left as it is where it is wrong by no more than this part of it, in powers of one half.
    precision: u32,
    /// Nodes to be looked at, by class and level.
    queue: BinaryHeap<Reverse<Look>>,
}

impl Shares {
    /// Idle nodes of these capacities.
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

    /// A connection that is held back elsewhere has this rate.
    #[inline]
    pub(super) fn raise_top(&mut self, node: u32, rate: u64) {
        let top = &mut self.list[node as usize].top;
        *top = rate.max(*top);
    }

    /// None that is held back elsewhere has a higher rate.
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

    /// Follows the load of a node, which is this much, from now on. It has no level.
    pub(super) fn follow(&mut self, node: u32, load: u64, top: u64) {
        self.marks[node as usize].followed = true;
        let left = self.capacities[node as usize].wrapping_sub_unsigned(load);
        self.list[node as usize] = Share { level: UNBOUND, left, sharers: UNSHARED, top };
    }

    /// Gives a node another level, and returns the one that it had. Its sharers follow with [`Shares::share`].
    #[inline]
    pub(super) fn set_level(&mut self, node: u32, level: u64) -> u64 {
        std::mem::replace(&mut self.list[node as usize].level, level)
    }

    /// Says how much the connections take whose rate is the level of a node, and what its connections have more than before.
    #[inline]
    pub(super) fn share(&mut self, node: u32, sharers: u64, more: u64) {
        let share = &mut self.list[node as usize];
        share.sharers = if share.level == UNBOUND { UNSHARED } else { sharers };
        share.left = share.left.wrapping_sub_unsigned(more);
        if self.classes > 1 {
            self.yield_to(node, more);
        }
    }

    /// Flows that take as much of all their nodes get another rate, `step` more than they had. Returns whether that was all
    /// that is to be done: neither rate may be as high as the level of another of their nodes, or higher, which is `highest`.
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

    /// Flows have so much more of a node, at this rate.
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

    /// The rate of connections on a node changes from level `was` to level `is`, each with what counts for it as a rate.
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

    /// What a class takes, lower ones do not have.
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

    /// Has a node looked at again if its level is not right any more.
    pub(super) fn check(&mut self, node: u32) {
        let share = &self.list[node as usize];
        if self.marks[node as usize].queued || !share.may_be_wrong() {
            return;
        }
        let Share { level, left, sharers, .. } = *share;
        let level = match level {
            // It is not known how many more will come: all are asked at once.
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

    /// Has a node looked at again.
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

    /// The next node to be looked at.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        self.queue.pop().map(|Reverse(look)| look.node())
    }

    /// Whether a node may get this level now. From the lower of it and the one that it has something changes; what changes
    /// before that comes first, because it may change this level, and the node has to wait.
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

    /// What the level of a node should be if its connections were held back here and elsewhere as they are now; none where that does
    /// not tell, because it has no level, or because a lower one may hold back others.
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

    /// What is counted of the connections on a node: what is left, and sharers.
    #[cfg(test)]
    pub(super) fn counted(&self, node: u32) -> (i64, u64) {
        let Share { left, sharers, .. } = self.list[node as usize];
        (left, if sharers == UNSHARED { 0 } else { sharers })
    }
}
