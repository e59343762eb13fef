//! Operations that this rank has begun, and how a lane identifies them.

use crate::fault::ProtocolError;
use crate::memory::Region;
use crate::shape::Shape;
use std::sync::Arc;

/// Bits of a header's sequence that hold the operation's number; those above hold the sender's number of the group.
pub(super) const SEQUENCE_BITS: u32 = 20;

/// Identifies an operation on its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId {
    /// The operation's group, by its number on this rank.
    pub group: u32,
    /// The operation's number in its group, the same on all ranks.
    pub sequence: u64,
}

/// A collective that this rank has begun, with its input and output.
#[derive(Clone, Debug)]
pub struct StartedOperation {
    /// The operation's number in its group, the same on all ranks.
    pub sequence: u64,
    /// How the operation is run.
    pub shape: Arc<Shape>,
    /// What this rank contributes (see [`crate::operation::Operation`]); empty if it contributes nothing.
    pub input: Region,
    /// Where the result goes, which may be the input; empty if this rank gets none.
    pub output: Region,
    /// Whether the input is restored if the operation fails. That takes a copy; without it, the content of the input is
    /// undefined after a failure.
    pub keep: bool,
}

/// What a peer did wrong.
#[derive(Debug)]
pub struct PeerError {
    /// The peer's rank.
    pub rank: u32,
    /// What is wrong.
    pub error: ProtocolError,
}
