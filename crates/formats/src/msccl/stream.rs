//! Converts a stream with at most one peer in each direction to a thread block.
//!
//! Receives are executed at the wait behind them. If a received block is sent on at once, receive and send become one
//! step.

use super::draft::{Dependency, Draft, Part, Reached, Written};
use super::layout::{Expressed, cannot};
use super::program::{Chunks, StepKind};
use std::collections::BTreeMap;
use syncline_plan::custom::{BlocksEntry, OpEntry};

/// A posted receive.
pub(super) struct Pending {
    pub(super) at: u32,
    pub(super) chunks: Chunks,
    pub(super) count: u32,
    pub(super) reduce: bool,
}

/// Converts a stream to one thread block. It must have at most one peer to send to, and one to receive from.
///
/// # Errors
/// Blocks that are not whole chunks.
pub(super) fn write(part: &Part<'_>, ops: &[OpEntry]) -> Expressed<Written> {
    let mut writer = Writer {
        part,
        draft: Draft::default(),
        step_of: vec![None; ops.len()],
        waited: BTreeMap::new(),
        after: BTreeMap::new(),
        pending: Vec::new(),
        waits: Vec::new(),
    };
    writer.draft.block.channel = part.channel;
    writer.stream(ops)?;
    let reached = Reached::Steps { step_of: writer.step_of, waited: writer.waited, after: writer.after };
    Ok(Written { drafts: vec![writer.draft], reached })
}

struct Writer<'a> {
    part: &'a Part<'a>,
    draft: Draft,
    /// The step of each instruction; `None` for instructions without a step.
    step_of: Vec<Option<u32>>,
    /// For each receive, the instruction that waits for it.
    waited: BTreeMap<u32, u32>,
    /// For each dependency, what it waits for.
    after: BTreeMap<u32, Dependency>,
    pending: Vec<Pending>,
    /// Instructions with the dependencies of the next step.
    waits: Vec<u32>,
}

impl Writer<'_> {
    fn stream(&mut self, ops: &[OpEntry]) -> Expressed<()> {
        let mut fused = None;
        for (at, op) in (0u32..).zip(ops) {
            if fused.take() == Some(at) {
                continue;
            }
            match *op {
                OpEntry::Send { to, block, count, of, buffer } => {
                    let (chunks, count) = self.chunks(BlocksEntry { block, count, of, buffer })?;
                    self.draft.block.send = Some(to);
                    self.push(&[at], StepKind::Send, chunks, chunks, count);
                }
                OpEntry::Receive { from, block, count, of, buffer, reduce } => {
                    let (chunks, count) = self.chunks(BlocksEntry { block, count, of, buffer })?;
                    self.draft.block.recv = Some(from);
                    self.pending.push(Pending { at, chunks, count, reduce });
                }
                OpEntry::Copy { from, to, reduce } => {
                    let (source, count) = self.chunks(from)?;
                    let (target, written) = self.chunks(to)?;
                    if count != written {
                        return Err(Box::new(cannot("a copy's source and destination differ in length")));
                    }
                    self.push(
                        &[at],
                        if reduce { StepKind::Reduce } else { StepKind::Copy },
                        source,
                        target,
                        count,
                    );
                }
                OpEntry::Wait {} => {
                    let next = ops.get(at as usize + 1).filter(|_| !self.part.marks.contains(&(at + 1)));
                    if self.receive(at, next)? {
                        fused = Some(at + 1);
                    }
                }
                OpEntry::After { stream, ops } => {
                    self.after.insert(at, Dependency::Passed { stream, ops });
                    self.waits.push(at);
                }
            }
        }
        self.receive(ops.len() as u32, None)?;
        Ok(())
    }

    fn chunks(&self, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        self.part.chunks(entry)
    }

    /// Adds steps for the pending receives. Returns whether `next` sent on the last of them.
    fn receive(&mut self, wait: u32, next: Option<&OpEntry>) -> Expressed<bool> {
        let mut pending = std::mem::take(&mut self.pending).into_iter().peekable();
        while let Some(Pending { at, chunks, count, reduce }) = pending.next() {
            self.waited.insert(at, wait);
            let sent_on = match next {
                Some(&OpEntry::Send { to, block, count: sent, of, buffer }) if pending.peek().is_none() => {
                    let sent = self.chunks(BlocksEntry { block, count: sent, of, buffer })?;
                    (sent == (chunks, count)).then_some(to)
                }
                _ => None,
            };
            let kind = match (reduce, sent_on) {
                (false, None) => StepKind::Receive,
                (true, None) => StepKind::ReceiveReduceCopy,
                (false, Some(_)) => StepKind::ReceiveCopySend,
                (true, Some(_)) => StepKind::ReceiveReduceCopySend,
            };
            match sent_on {
                None => self.push(&[at, wait], kind, chunks, chunks, count),
                Some(to) => {
                    self.draft.block.send = Some(to);
                    self.push(&[at, wait, wait + 1], kind, chunks, chunks, count);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Adds a step for these instructions, with the dependencies before it.
    fn push(&mut self, ops: &[u32], kind: StepKind, source: Chunks, target: Chunks, count: u32) {
        let waits = std::mem::take(&mut self.waits);
        let number = self.draft.block.steps.len() as u32;
        for &at in ops.iter().chain(&waits) {
            if let Some(step_of) = self.step_of.get_mut(at as usize) {
                *step_of = Some(number);
            }
        }
        let after = waits.iter().filter_map(|at| self.after.get(at).copied()).collect();
        self.draft.push(kind, source, target, count, after);
    }
}
