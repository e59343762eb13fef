//! Converts blocks of a plan to chunks of a program.
//!
//! Blocks are converted to the least common multiple of all numbers of blocks that occur.

use super::program::{Chunks, Space};
use super::xml::{MAX_CHUNKS, MAX_GPUS};
use std::collections::BTreeSet;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::custom::{BlocksEntry, OpEntry};
use syncline_plan::{Buffer, PlanFile};
use syncline_units::{CollectiveKind, lcm};

/// The error for something that MSCCL cannot express.
pub(super) fn cannot(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::NotMsccl, message)
}

/// A value, or why MSCCL cannot express it.
pub(super) type Expressed<T> = std::result::Result<T, Box<Diagnostic>>;

/// How blocks are converted to chunks.
pub(super) struct Layout {
    kind: CollectiveKind,
    /// Whether input and output are one buffer.
    pub(super) in_place: bool,
    /// Number of chunks of the full vector.
    pub(super) chunks: u32,
    /// Number of chunks of one GPU's share.
    share: u32,
    /// Number of parts of the vector, if streams have their own parts.
    parts: u32,
    /// The value of an absent [`BlocksEntry::of`].
    blocks: u32,
}

impl Layout {
    /// Finds a layout for all instructions of a plan.
    ///
    /// # Errors
    /// `NotMsccl` for seats that are not ranks, too many GPUs or chunks, and an all-to-all whose streams have their
    /// own parts.
    pub(super) fn new(plan: &PlanFile) -> Result<Self> {
        let kind = plan.kind;
        if plan.helpers > 0 {
            return Err(cannot("MSCCL has no seats that are not ranks").key("helpers").into());
        }
        if plan.ranks > MAX_GPUS {
            let found = plan.ranks.to_string();
            return Err(cannot("too many GPUs").found(found).allowed(format!("at most {MAX_GPUS}")).into());
        }
        let streams = plan.seats.iter().map(|seat| seat.streams.len()).max().unwrap_or(1).max(1) as u32;
        let parts = if plan.split { streams } else { 1 };
        if parts > 1 && kind == CollectiveKind::AllToAll {
            return Err(cannot("the parts of an all-to-all's streams are not consecutive chunks")
                .key("split")
                .into());
        }
        let mut counts = BTreeSet::from([plan.blocks]);
        if kind.has_blocks() {
            counts.insert(plan.ranks);
        }
        let ops = plan.seats.iter().flat_map(|seat| &seat.streams).flat_map(|stream| &stream.ops);
        for op in ops {
            match *op {
                OpEntry::Send { of, .. } | OpEntry::Receive { of, .. } => counts.extend(of),
                OpEntry::Copy { from, to, .. } => counts.extend(from.of.into_iter().chain(to.of)),
                OpEntry::Wait {} | OpEntry::After { .. } => {}
            }
        }
        let mut chunks = 1u64;
        for count in counts {
            chunks = lcm(chunks, count.max(1).into());
            if chunks > u64::from(MAX_CHUNKS) {
                break;
            }
        }
        let chunks = chunks.saturating_mul(parts.into());
        let Some(chunks) = u32::try_from(chunks).ok().filter(|&chunks| chunks <= MAX_CHUNKS) else {
            let message = "the numbers of blocks that the plan uses have no small common multiple";
            return Err(cannot(message).allowed(format!("at most {MAX_CHUNKS} chunks")).into());
        };
        let in_place =
            kind != CollectiveKind::AllToAll && plan.result.is_none_or(|result| result == Buffer::Data);
        Ok(Self { kind, in_place, chunks, share: chunks / plan.ranks.max(1), parts, blocks: plan.blocks })
    }

    /// Converts blocks of a stream of a seat to chunks. Returns the first chunk and the number of chunks.
    pub(super) fn chunks(&self, seat: u32, stream: u32, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        let too_far = || Box::new(cannot("a block lies beyond the last chunk"));
        let parts = self.parts;
        let scale = self.chunks / (entry.of.unwrap_or(self.blocks).max(1) * parts).max(1);
        let count = entry.count.checked_mul(scale).ok_or_else(too_far)?;
        let first = entry.block.checked_mul(scale).ok_or_else(too_far)?;
        let first = first
            .checked_add(if parts > 1 { stream * (self.chunks / parts) } else { 0 })
            .ok_or_else(too_far)?;
        let own = seat * self.share;
        let within = |what: &str| {
            let inside = first >= own && first.saturating_add(count) <= own + self.share;
            inside.then(|| first - own).ok_or_else(|| {
                Box::new(cannot(format!(
                    "the plan uses {what} outside rank {seat}'s own block, which MSCCL cannot express"
                )))
            })
        };
        let (buffer, offset) = match (entry.buffer, self.kind) {
            (Buffer::Scratch, _) => (Space::Scratch, first),
            (Buffer::Data, CollectiveKind::AllGather) if self.in_place => (Space::Output, first),
            (Buffer::Data, CollectiveKind::AllGather) => (Space::Input, within("the input")?),
            (Buffer::Data, _) => (Space::Input, first),
            (Buffer::Output, _) if self.in_place => {
                return Err(Box::new(cannot("the plan works in place but also uses the output buffer")));
            }
            (Buffer::Output, CollectiveKind::ReduceScatter) => (Space::Output, within("the output")?),
            (Buffer::Output, _) => (Space::Output, first),
        };
        Ok((Chunks { buffer, offset }, count))
    }
}
