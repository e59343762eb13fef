//! What a frame of a lane belongs to, which the lane learns again once the frame is written.

use super::started::OperationId;

/// What a frame of a lane belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameOwner {
    /// A step of a plan.
    Step { operation: OperationId, chunk: u32, step: u32 },
    /// A transfer.
    Piece(Piece),
    /// The close of a group, by its number on this rank.
    Close { slot: u32 },
}

/// A piece of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the transfer.
    pub number: u32,
    /// Index among the pieces of the transfer.
    pub index: u32,
    /// Whether it is the last piece of the transfer.
    pub last: bool,
    /// Whether the receiver has asked for it.
    pub asked: bool,
}
