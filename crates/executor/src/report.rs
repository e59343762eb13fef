//! Reports to the thread that monitors the lanes.

use syncline_membership::message::PlanProposal;
use syncline_protocol::fault::{Blame, Trouble};

/// A report to the monitor, from a lane's thread or the coordinator. Members are given by their places in the
/// job.
#[derive(Debug)]
pub(super) enum Report {
    /// Something is wrong with a peer.
    Trouble { peer: u32, trouble: Trouble },
    /// The coordinator has decided who is at fault.
    Verdict { blame: Blame, trouble: Trouble },
    /// The coordinator has left, as it announced: this rank decides for itself from now on.
    CoordinatorGone,
    /// This rank proposes new plans.
    ProposePlans(PlanProposal),
    /// The coordinator asks to prepare an edition of plans.
    PreparePlans { edition: u32, proposal: PlanProposal },
    /// The edition is prepared, or cannot be.
    PlansPrepared { edition: u32, group: u64, answer: Result<u64, String> },
    /// This rank itself cannot go on.
    Failed(Trouble),
    /// A group cannot go on, because a member that it needs has left it.
    Deserted { slot: u32, member: u32 },
    /// A lane no longer uses the slot of a group that was left.
    Released { slot: u32 },
    /// A lane has given up, and has restored inputs.
    Aborted,
    /// A lane's thread ends, and has restored inputs. `aborted`: it has sent [`Report::Aborted`] before.
    Stopped { aborted: bool },
}
