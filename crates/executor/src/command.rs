//! Commands to the threads of lanes.

use super::group_info::GroupInfo;
use super::pending::Completion;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;
use syncline_protocol::fault::{Task, Trouble};
use syncline_protocol::lane::transfers::{Label, Transfer};
use syncline_protocol::lane::{Opening, OperationId, StartedOperation};
use syncline_transport::Connection;
use syncline_transport::connections::Traffic;
use syncline_transport::lane_status::LaneStatus;
use syncline_transport::lane_waker::LaneWaker;

/// A command to a lane's thread. A group is given by its slot, the group's number on this rank.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an operation of a group.
    Start { slot: u32, job: Arc<StartedOperation>, completion: Arc<Completion> },
    /// Drop the saved input of an operation.
    Forget(OperationId),
    /// Take part in a group.
    Open(Opening),
    /// Leave a group, because the member `lost` has left it and is needed, or for another reason. Drop `done`
    /// once no operation or transfer of the group uses callers' memory.
    Close { slot: u32, lost: Option<u32>, done: Sender<()> },
    /// Begin a transfer.
    Transfer(Box<LaneTransfer>),
    /// Cancel a receive, unless part of the message has arrived.
    Withdraw { label: Label, number: u64 },
    /// Use this connection with a peer.
    Connected { peer: u32, connection: Connection },
    /// A peer that is needed could not be reached.
    Unreachable { peer: u32, trouble: Trouble },
    /// Answer with the traffic with each peer.
    Traffic(Sender<(u32, Vec<Traffic>)>),
    /// Give up all operations and transfers: restore inputs, then report [`Report::Aborted`](super::report::Report::Aborted).
    Abort,
    /// Leave the job, and end the thread.
    Stop,
}

/// Sends commands to a lane's thread, wakes it, and shows what it knows about its peers.
#[derive(Clone, Debug)]
pub(super) struct LaneHandle {
    pub commands: Sender<Command>,
    pub waker: Arc<LaneWaker>,
    pub status: Arc<LaneStatus>,
}

impl LaneHandle {
    /// Sends a command. Does nothing if the thread has ended.
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }
}

/// A transfer, as its lane's thread keeps it.
#[derive(Debug)]
pub(super) struct LaneTransfer {
    pub sends: bool,
    pub transfer: Transfer,
    pub completion: Arc<Completion>,
    pub task: Task,
    pub began: Instant,
    pub group: Arc<GroupInfo>,
}
