//! The interface between an executor and the coordinator that decides who is at fault.

use crate::message::{LateOperation, PlanDecision, PlanProposal, Progress};
use std::fmt;
use syncline_protocol::fault::{Blame, Trouble};

/// Decides for a whole job which rank or link is at fault. Without one, each rank decides for itself. It is dropped
/// with the executor's communicator.
pub trait CoordinatorLink: Send {
    /// Reports that something seems to be wrong with a peer. `peer` is its rank.
    fn report(&self, peer: u32, trouble: Trouble);

    /// Reports an operation that takes too long.
    fn late(&self, late: LateOperation);

    /// Proposes new plans for a group.
    fn propose_plans(&self, proposal: PlanProposal);

    /// Answers whether this rank can run the plans of an edition, and up to which operation of the group it goes on
    /// before it knows the decision; or why it cannot run them.
    fn answer_plans(&self, edition: u32, group: u64, answer: Result<u64, String>);
}

/// The executor for which a coordinator decides.
pub trait Executor: fmt::Debug + Send {
    /// Delivers the verdict. The executor ignores later ones.
    fn verdict(&self, blame: Blame, trouble: Trouble);

    /// Tells the executor that the coordinator is gone and that it decides for itself from now on.
    fn coordinator_left(&self);

    /// Returns the progress of a group: how many of its operations have begun, and how many are over. `group` is the
    /// number that all members use for the group; 0 is the whole job. Both are 0 if this rank has not made the group.
    fn progress(&self, group: u64) -> Progress;

    /// Tells the executor to prepare an edition of a group's plan book, and to answer
    /// ([`CoordinatorLink::answer_plans`]).
    fn prepare_plans(&self, edition: u32, proposal: PlanProposal);

    /// Delivers the decision on new plans.
    fn decide_plans(&self, decision: PlanDecision);

    /// Returns the ranks from which some lane has received something recently.
    fn hears(&self) -> Vec<u32>;
}
