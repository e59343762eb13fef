//! Two-level hierarchical aggregation: local masters reduce within a group, global masters between groups.
//!
//! Groups are runs of `g` consecutive ranks (the last may be smaller). For every chunk, one member of each group is
//! the local master (LM), and one of the LMs of all groups is the global master (GM). There are four steps: members
//! send each chunk to their LM; LMs send the group's sum to the GM; the GM sends the total back to the LMs; LMs send
//! it to the members.
//!
//! *Assignment.* The dissertation asks that "each group (or node) has a number of GMs (or LMs) proportional to its
//! cardinality" and solves a partition problem over chunks of unequal keys. With chunks cut evenly, the solution has
//! this closed form. The vector is cut into `g` slots, and each slot into `N` cells. The LM of slot `j` is member `j`
//! in a full group, and member `floor(j r / g)` in a last group of `r` members. In each slot, the GM of the cells of
//! group `q`'s members (`g` of them, or `r`) is in group `q`. So every member of a full group is LM for `S/g`, and a
//! member of the last group for `S/r`, give or take one slot. A group is GM for a share of the vector equal to its
//! share of the ranks. What one rank exchanges with another in a step is contiguous, so it is one message.
//!
//! A rank does its own steps one after another. The overlap of local and global aggregation that the dissertation
//! mentions comes from the schedule's chunks.
//!
//! Source: luo2020 4.1.2, 4.2.2 and Table 4.1.
//!
//! With `G = N/g` full groups, for all-reduce:
//!
//! | rounds | bytes on the wire | between groups | bytes sent by a rank |
//! |---|---|---|---|
//! | 4 (2 where `G = 1` or `g = 1`) | `2 S (N-1)` | `2 S (G-1)` | `2 S (N-1)/N` |

use super::offers_only;
use crate::program::{Algorithm, Blocks, ClosedForm, Op, Refusal, Seat};
use std::num::NonZeroU32;
use syncline_units::CollectiveKind;

/// Two-level hierarchical aggregation (2LHA), sharded and balanced.
#[derive(Clone, Debug)]
pub struct TwoLevel {
    group: NonZeroU32,
    name: String,
}

impl TwoLevel {
    /// The default group size.
    pub const GROUP: NonZeroU32 = NonZeroU32::new(8).expect("not zero");

    /// Uses groups of `group` ranks.
    pub fn new(group: NonZeroU32) -> Self {
        let name =
            if group == Self::GROUP { "two_level".to_owned() } else { format!("two_level(group={group})") };
        Self { group, name }
    }
}

impl Default for TwoLevel {
    fn default() -> Self {
        Self::new(Self::GROUP)
    }
}

impl Algorithm for TwoLevel {
    fn name(&self) -> &str {
        &self.name
    }

    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal> {
        offers_only(&self.name, &[CollectiveKind::AllReduce], kind, ranks)?;
        let size = self.group.get().min(ranks);
        if !ranks.is_multiple_of(size) && ranks.checked_mul(size).is_none() {
            return Err(Refusal(format!(
                "`{}` supports {ranks} ranks only if {size} divides that number",
                self.name
            )));
        }
        Ok(())
    }

    fn closed_form(&self, _: CollectiveKind, ranks: u32) -> Option<ClosedForm> {
        let group = self.group.get().min(ranks);
        let levels = u32::from(group > 1) + u32::from(group < ranks);
        // Groups of unequal size have no simple form.
        ranks.is_multiple_of(group).then_some(())?;
        let n = f64::from(ranks);
        Some(ClosedForm { rounds: 2 * levels, wire: 2.0 * (n - 1.0), sent: 2.0 * (n - 1.0) / n })
    }

    #[inline]
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op> {
        let member = Member::new(self.group.get(), seat);
        let local = member.local_length();
        let global = member.global_length();
        if pc < local {
            return member.local(pc, true);
        }
        let pc = pc - local;
        if pc < global {
            return member.global(pc, true);
        }
        let pc = pc - global;
        if pc < global {
            return member.global(pc, false);
        }
        member.local(pc - global, false)
    }
}

/// A rank as a member of its group.
#[derive(Clone, Copy)]
struct Member {
    ranks: u32,
    /// Number of ranks in a full group.
    full: u32,
    groups: u32,
    group: u32,
    index: u32,
    /// Number of ranks in this group.
    size: u32,
    /// Number of cells of one rank. Cells are no smaller than necessary.
    share: u32,
}

impl Member {
    #[inline]
    fn new(group: u32, seat: &Seat) -> Self {
        let full = group.min(seat.ranks);
        let mut member = Self {
            ranks: seat.ranks,
            full,
            groups: seat.ranks.div_ceil(full),
            group: seat.index / full,
            index: seat.index % full,
            size: full,
            share: if seat.ranks.is_multiple_of(full) { full } else { 1 },
        };
        member.size = member.size_of(member.group);
        member
    }
    #[inline]
    fn size_of(self, group: u32) -> u32 {
        self.full.min(self.ranks - group * self.full)
    }
    /// The first slot that has member `index` of this group as local master.
    #[inline]
    fn first_slot(self, index: u32) -> u32 {
        if self.size == self.full {
            index
        } else {
            (u64::from(index) * u64::from(self.full)).div_ceil(u64::from(self.size)) as u32
        }
    }
    /// The rank in a group that is local master of a slot.
    #[inline]
    fn master(self, slot: u32, group: u32) -> u32 {
        let size = self.size_of(group);
        let index = if size == self.full {
            slot
        } else {
            (u64::from(slot) * u64::from(size) / u64::from(self.full)) as u32
        };
        group * self.full + index
    }
    /// Number of cells in all slots.
    #[inline]
    fn cells(self) -> u32 {
        self.ranks / self.share * self.full
    }
    /// The slots that have member `index` of this group as local master.
    #[inline]
    fn slots(self, index: u32) -> Blocks {
        let (first, end) = (self.first_slot(index), self.first_slot(index + 1));
        let per_slot = self.ranks / self.share;
        Blocks::data(first * per_slot, (end - first) * per_slot, self.cells())
    }
    /// The cells of a slot that have their global master in a group.
    #[inline]
    fn global_share(self, slot: u32, group: u32) -> Blocks {
        let first = slot * (self.ranks / self.share) + group * (self.full / self.share);
        Blocks::data(first, self.size_of(group) / self.share, self.cells())
    }

    #[inline]
    fn local_length(self) -> u32 {
        if self.size > 1 { 2 * (self.size - 1) + 1 } else { 0 }
    }
    /// Steps 1 (`up`) and 4: a send and a receive for every other member, then a wait.
    #[inline]
    fn local(self, pc: u32, up: bool) -> Option<Op> {
        let others = self.size - 1;
        if pc >= 2 * others {
            return (others > 0 && pc == 2 * others).then_some(Op::Wait);
        }
        let by = pc / 2 + 1;
        let base = self.group * self.full;
        Some(if pc.is_multiple_of(2) {
            let other = (self.index + by) % self.size;
            let blocks = self.slots(if up { other } else { self.index });
            Op::Send { to: base + other, blocks }
        } else {
            let other = (self.index + self.size - by) % self.size;
            let blocks = self.slots(if up { self.index } else { other });
            Op::Receive { from: base + other, blocks, reduce: up }
        })
    }

    #[inline]
    fn global_length(self) -> u32 {
        let slots = self.first_slot(self.index + 1) - self.first_slot(self.index);
        if self.groups > 1 { 2 * slots * (self.groups - 1) + 1 } else { 0 }
    }
    /// Steps 2 (`up`) and 3: for every slot of this local master, a send and a receive for every other group.
    #[inline]
    fn global(self, pc: u32, up: bool) -> Option<Op> {
        if pc + 1 == self.global_length() {
            return Some(Op::Wait);
        }
        let others = self.groups - 1;
        let slot = self.first_slot(self.index) + pc / (2 * others);
        let by = pc % (2 * others) / 2 + 1;
        Some(if pc.is_multiple_of(2) {
            let other = (self.group + by) % self.groups;
            let blocks = self.global_share(slot, if up { other } else { self.group });
            Op::Send { to: self.master(slot, other), blocks }
        } else {
            let other = (self.group + self.groups - by) % self.groups;
            let blocks = self.global_share(slot, if up { self.group } else { other });
            Op::Receive { from: self.master(slot, other), blocks, reduce: up }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::{proves, sends};

    fn groups_of(group: u32) -> TwoLevel {
        TwoLevel::new(NonZeroU32::new(group).unwrap())
    }

    #[test]
    fn four_ranks_in_two_groups_send_inside_then_across_then_inside() {
        assert_eq!(
            sends(&groups_of(2), CollectiveKind::AllReduce, 4, 1, 0),
            [(0, 0, 2, 4), (3, 3, 1, 4), (3, 2, 1, 4), (0, 2, 2, 4)]
        );
    }

    #[test]
    fn masters_are_balanced_even_in_a_smaller_last_group() {
        for (ranks, group) in [(14, 8), (17, 8), (63, 8), (9, 4), (64, 8)] {
            let seat =
                |index| Seat { kind: CollectiveKind::AllReduce, ranks, index, stream: 0, reverse: false };
            for index in 0..ranks {
                let member = Member::new(group, &seat(index));
                let slots = member.first_slot(member.index + 1) - member.first_slot(member.index);
                let fair = member.full / member.size;
                assert!(slots == fair || slots == fair + 1);
                for slot in member.first_slot(member.index)..member.first_slot(member.index + 1) {
                    assert_eq!(member.master(slot, member.group), index);
                }
                let masters: u32 =
                    (0..member.full).map(|slot| member.global_share(slot, member.group).count).sum();
                let share = f64::from(masters) / f64::from(member.cells());
                assert!((share - f64::from(member.size) / f64::from(ranks)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn plans_are_proved_for_every_size_of_groups() {
        for group in [1, 2, 3, 5, 8, 100] {
            assert_eq!(proves(&groups_of(group), CollectiveKind::AllReduce, 24), 24);
        }
    }
}
