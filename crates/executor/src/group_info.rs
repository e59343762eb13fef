//! What does not change about a group.

use super::counters::GroupCounters;
use std::sync::Arc;
use syncline_protocol::plan_book::PlanBook;

/// What does not change about a group.
#[derive(Debug)]
pub(super) struct GroupInfo {
    /// Its number on this rank; 0 for the whole job.
    pub slot: u32,
    /// The number that all its members use for it; 0 for the whole job.
    pub id: u64,
    pub book: Arc<PlanBook>,
    /// The job's members that are in the group, by their places in the group.
    pub members: Vec<u32>,
    pub counters: Arc<GroupCounters>,
}

impl GroupInfo {
    /// The group of all members of a job.
    pub(super) fn of_job(book: Arc<PlanBook>, counters: Arc<GroupCounters>) -> Arc<Self> {
        let members = (0..book.members()).collect();
        Arc::new(Self { slot: 0, id: 0, book, members, counters })
    }

    /// The place in the group of a member of the job.
    pub(super) fn place(&self, member: u32) -> Option<u32> {
        (0..).zip(&self.members).find(|&(_, &each)| each == member).map(|(place, _)| place)
    }

    /// The name of this rank: its rank when the job began.
    pub(super) fn own_name(&self) -> u32 {
        self.book.name(self.book.member())
    }

    /// The names of the group's ranks, by their places in the group.
    pub(super) fn names(&self) -> Vec<u32> {
        (0..self.book.ranks()).map(|place| self.book.name(place)).collect()
    }
}
