//! What an executor and the arbiter of its faults ask of each other.

use crate::message::Progress;
use std::fmt;
use syncline_protocol::fault::{Blame, Trouble};

/// Decides for a whole job which rank or link is at fault. Without one, each rank decides for itself. It is dropped with the
/// executor's communicator.
pub trait Arbiter: Send {
    /// Reports what seems to be wrong with a peer, by its rank.
    fn report(&self, peer: u32, trouble: Trouble);

    /// Reports an operation that takes too long: its group's number and ranks, and its number in the group; 0 where it has
    /// none.
    fn late(&self, group: (u64, Vec<u32>), sequence: u64, trouble: Trouble);
}

/// The executor that an arbiter decides for.
pub trait Executor: fmt::Debug + Send {
    /// Delivers the verdict. Later ones are ignored.
    fn verdict(&self, blame: Blame, trouble: Trouble);

    /// The arbiter is gone: the executor decides for itself from now on.
    fn alone(&self);

    /// Operations of a group that have begun and that are over, by the number that all its members have for it; 0 is the
    /// whole job. Zeros where this rank has not made the group.
    fn progress(&self, group: u64) -> Progress;

    /// Ranks that some lane has received something from lately.
    fn hears(&self) -> Vec<u32>;
}
