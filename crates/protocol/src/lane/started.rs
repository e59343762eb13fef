//! Operations that this rank has begun, and how a lane identifies them.

use crate::memory::Region;
use crate::shape::Shape;
use std::sync::Arc;

/// Bits of a header's sequence that hold the operation's number; those above hold the sender's number of the group.
pub(super) const SEQUENCE_BITS: u32 = 20;

/// Identifies an operation of a group on its lane.
pub const fn key(slot: u32, sequence: u64) -> u64 {
    (slot as u64) << 48 | sequence
}

/// Splits a [key]: the group, by its number on this rank, and the number of the operation in the group.
pub(super) const fn parts(key: u64) -> (u32, u64) {
    ((key >> 48) as u32, key & ((1 << 48) - 1))
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
