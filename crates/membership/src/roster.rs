//! The ranks that take part in an epoch.

use crate::message::{EpochMember, ListenAddresses};

/// The ranks that take part in an epoch, and where each listens.
#[derive(Debug)]
pub struct Roster {
    /// The number of the epoch.
    pub epoch: u16,
    /// The ranks in ascending order. A rank's seat is its position in this list.
    pub members: Vec<EpochMember>,
}

impl Roster {
    /// The ranks, in ascending order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.rank)
    }

    /// A rank's seat; `None` if the rank does not take part.
    pub fn seat(&self, rank: u32) -> Option<usize> {
        self.members.binary_search_by_key(&rank, |member| member.rank).ok()
    }

    /// Where a rank listens; `None` if the rank does not take part.
    pub fn listens(&self, rank: u32) -> Option<&ListenAddresses> {
        self.seat(rank).map(|seat| &self.members[seat].listens)
    }

    /// The number of members on a rank's machine, and the rank's position among them. `None` if the rank does not
    /// take part, or if its machine has no identifier.
    pub fn neighbours(&self, rank: u32) -> Option<(usize, usize)> {
        let machine = self.listens(rank)?.machine.as_ref()?;
        let here = self.members.iter().filter(|member| member.listens.machine.as_ref() == Some(machine));
        let ranks: Vec<u32> = here.map(|member| member.rank).collect();
        Some((ranks.len(), ranks.iter().position(|&other| other == rank)?))
    }
}
