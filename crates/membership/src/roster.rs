//! The ranks that take part in an epoch.

use crate::message::ListenAddresses;

/// The ranks that take part in an epoch, and where each listens.
#[derive(Debug)]
pub struct Roster {
    /// The number of the epoch.
    pub epoch: u16,
    /// The ranks in ascending order, and where each listens. A rank's seat is its position in this list.
    pub members: Vec<(u32, ListenAddresses)>,
}

impl Roster {
    /// The ranks, in ascending order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|&(rank, _)| rank)
    }

    /// A rank's seat; `None` if the rank does not take part.
    pub fn seat(&self, rank: u32) -> Option<usize> {
        self.members.binary_search_by_key(&rank, |&(rank, _)| rank).ok()
    }

    /// Where a rank listens; `None` if the rank does not take part.
    pub fn listens(&self, rank: u32) -> Option<&ListenAddresses> {
        self.seat(rank).map(|seat| &self.members[seat].1)
    }

    /// The number of members on a rank's machine, and the rank's position among them. `None` if the rank does not
    /// take part, or if its machine has no identifier.
    pub fn neighbours(&self, rank: u32) -> Option<(usize, usize)> {
        let machine = self.listens(rank)?.machine.as_ref()?;
        let here = self.members.iter().filter(|(_, listens)| listens.machine.as_ref() == Some(machine));
        let ranks: Vec<u32> = here.map(|&(rank, _)| rank).collect();
        Some((ranks.len(), ranks.iter().position(|&other| other == rank)?))
    }
}
