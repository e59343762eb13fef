//! Converts a stream with several peers to several thread blocks, one for each peer.
//!
//! Dependencies keep the order of the stream:
//!
//! - a wait is a *fence*: everything behind it waits for all steps before it;
//! - between two fences, steps of different thread blocks that touch the same chunks keep their order if one of them
//!   writes. So receives that reduce into the same chunks follow each other, because thread blocks do not add
//!   atomically.
//!
//! Behind a fence, the first step of each thread block waits for the last step of every other thread block before the
//! fence.

use super::draft::{Dependency, Draft, Part, Reached, Written};
use super::layout::{Expressed, cannot};
use super::program::{Chunks, Space, StepKind};
use super::stream::Pending;
use std::collections::{BTreeMap, BTreeSet};
use syncline_plan::custom::{BlocksEntry, OpEntry};

/// Most chunks that the steps of a stream touch, counted once per touch.
const MAX_TOUCHED: u64 = 1 << 24;

/// A thread block and one of its steps.
type At = (usize, u32);

/// Converts the stream.
///
/// # Errors
/// Blocks that are not whole chunks, or too many chunks.
pub(super) fn write(part: &Part<'_>, ops: &[OpEntry]) -> Expressed<Written> {
    let mut spread = Spread {
        part,
        drafts: Vec::new(),
        of_peer: BTreeMap::new(),
        behind: Vec::new(),
        latest: 0,
        fence: Vec::new(),
        moved: BTreeSet::new(),
        touched: BTreeMap::new(),
        budget: MAX_TOUCHED,
        pending: Vec::new(),
        waits: Vec::new(),
    };
    let mut fences = BTreeMap::new();
    for (at, op) in (0u32..).zip(ops) {
        if part.marks.contains(&at) {
            fences.insert(at, spread.settle());
        }
        spread.op(op)?;
    }
    spread.receive()?;
    for &mark in part.marks.range(ops.len() as u32..) {
        fences.insert(mark, spread.settle());
    }
    Ok(Written { drafts: spread.drafts, reached: Reached::Fences(fences) })
}

/// The steps that touched a chunk since the last fence.
#[derive(Default)]
struct Touch {
    wrote: Option<At>,
    /// Since it was written.
    read: Vec<At>,
}

struct Spread<'a> {
    part: &'a Part<'a>,
    drafts: Vec<Draft>,
    of_peer: BTreeMap<u32, usize>,
    /// For each thread block, whether its next step is behind the fence without further dependencies.
    behind: Vec<bool>,
    /// The thread block with the latest step.
    latest: usize,
    /// The dependencies of everything that follows.
    fence: Vec<Dependency>,
    /// Thread blocks with steps since the fence.
    moved: BTreeSet<usize>,
    touched: BTreeMap<(u8, u32), Touch>,
    budget: u64,
    pending: Vec<(u32, Pending)>,
    /// What other streams must have passed before the next step.
    waits: Vec<Dependency>,
}

impl Spread<'_> {
    fn op(&mut self, op: &OpEntry) -> Expressed<()> {
        match *op {
            OpEntry::Send { to, block, count, of, buffer } => {
                let (chunks, count) = self.part.chunks(BlocksEntry { block, count, of, buffer })?;
                let at = self.block(to);
                self.drafts[at].block.send = Some(to);
                self.push(at, StepKind::Send, chunks, chunks, count)
            }
            OpEntry::Receive { from, block, count, of, buffer, reduce } => {
                let (chunks, count) = self.part.chunks(BlocksEntry { block, count, of, buffer })?;
                self.pending.push((from, Pending { at: 0, chunks, count, reduce }));
                Ok(())
            }
            OpEntry::Copy { from, to, reduce } => {
                let (source, count) = self.part.chunks(from)?;
                let (target, written) = self.part.chunks(to)?;
                if count != written {
                    return Err(Box::new(cannot("a copy's source and destination differ in length")));
                }
                let kind = if reduce { StepKind::Reduce } else { StepKind::Copy };
                let at = self.any();
                self.push(at, kind, source, target, count)
            }
            OpEntry::Wait {} => {
                self.receive()?;
                self.close();
                Ok(())
            }
            OpEntry::After { stream, ops } => {
                self.waits.push(Dependency::Passed { stream, ops });
                Ok(())
            }
        }
    }

    /// Adds steps for the pending receives.
    fn receive(&mut self) -> Expressed<()> {
        for (from, Pending { chunks, count, reduce, .. }) in std::mem::take(&mut self.pending) {
            let at = self.block(from);
            self.drafts[at].block.recv = Some(from);
            let kind = if reduce { StepKind::ReceiveReduceCopy } else { StepKind::Receive };
            self.push(at, kind, chunks, chunks, count)?;
        }
        Ok(())
    }

    /// The thread block for a peer. A thread block that has only copied so far gets the first peer.
    fn block(&mut self, peer: u32) -> usize {
        if let Some(&at) = self.of_peer.get(&peer) {
            return at;
        }
        let at = if self.of_peer.is_empty() { self.any() } else { self.add() };
        self.of_peer.insert(peer, at);
        at
    }

    /// A thread block for steps without a peer.
    fn any(&mut self) -> usize {
        if self.drafts.is_empty() { self.add() } else { self.latest }
    }

    fn add(&mut self) -> usize {
        let mut draft = Draft::default();
        draft.block.channel = self.part.channel;
        self.drafts.push(draft);
        self.behind.push(self.fence.is_empty());
        self.drafts.len() - 1
    }

    /// Adds a step to a thread block, behind the fence and behind all steps that must be done first.
    fn push(
        &mut self,
        at: usize,
        kind: StepKind,
        source: Chunks,
        target: Chunks,
        count: u32,
    ) -> Expressed<()> {
        self.obey();
        let mut after = if self.behind[at] { Vec::new() } else { self.fence.clone() };
        let mut needs: BTreeMap<usize, u32> = BTreeMap::new();
        let mut need = |(block, step): At| {
            if block != at {
                let known = needs.entry(block).or_insert(step);
                *known = step.max(*known);
            }
        };
        let reads = kind.has_source().then_some(source);
        let writes = kind.has_target().then_some(target);
        let cost = u64::from(count) * (u64::from(reads.is_some()) + u64::from(writes.is_some()));
        self.budget = self.budget.checked_sub(cost).ok_or_else(|| {
            Box::new(cannot(
                "a stream with several peers touches too many chunks to be spread over thread blocks",
            ))
        })?;
        for chunk in reads.into_iter().flat_map(|chunks| keys(chunks, count)) {
            self.touched.get(&chunk).and_then(|touch| touch.wrote).into_iter().for_each(&mut need);
        }
        for chunk in writes.into_iter().flat_map(|chunks| keys(chunks, count)) {
            let Some(touch) = self.touched.get(&chunk) else { continue };
            touch.wrote.into_iter().chain(touch.read.iter().copied()).for_each(&mut need);
        }
        after.extend(needs.into_iter().map(|(block, step)| Dependency::Step { block, step }));
        let step = self.drafts[at].len();
        self.drafts[at].push(kind, source, target, count, after);
        for chunk in reads.into_iter().flat_map(|chunks| keys(chunks, count)) {
            self.touched.entry(chunk).or_default().read.push((at, step));
        }
        for chunk in writes.into_iter().flat_map(|chunks| keys(chunks, count)) {
            self.touched.insert(chunk, Touch { wrote: Some((at, step)), read: Vec::new() });
        }
        self.note(at);
        Ok(())
    }

    /// Notes that a step was added to a thread block.
    fn note(&mut self, at: usize) {
        self.behind[at] = true;
        self.latest = at;
        self.moved.insert(at);
    }

    /// Makes the last steps since the fence the new fence, if there are any. All of them are behind the old fence.
    fn close(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() {
            return;
        }
        let last = |block: usize| Dependency::Step { block, step: self.drafts[block].len() - 1 };
        self.fence = moved.iter().map(|&block| last(block)).collect();
        self.behind =
            (0..self.drafts.len()).map(|block| moved.len() == 1 && moved.contains(&block)).collect();
        self.touched.clear();
    }

    /// Makes everything that follows wait for what other streams must have passed.
    fn obey(&mut self) {
        let waits = std::mem::take(&mut self.waits);
        if waits.is_empty() {
            return;
        }
        self.close();
        self.fence.extend(waits);
        self.behind.fill(false);
    }

    /// The dependencies that ensure that all instructions so far are done. Receives without their wait do not count.
    fn settle(&mut self) -> Vec<Dependency> {
        self.obey();
        self.close();
        self.fence.clone()
    }
}

/// The chunks of a range, as keys.
fn keys(chunks: Chunks, count: u32) -> impl Iterator<Item = (u8, u32)> {
    let space = match chunks.buffer {
        Space::Input => 0,
        Space::Output => 1,
        Space::Scratch => 2,
    };
    (0..count).map(move |index| (space, chunks.offset.saturating_add(index)))
}
