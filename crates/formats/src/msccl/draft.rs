//! Thread blocks in the making: their steps wait for instructions of other streams, or for steps of other blocks.

use super::layout::{Expressed, Layout};
use super::program::{Chunks, Gpu, Space, Step, StepKind, ThreadBlock};
use std::collections::{BTreeMap, BTreeSet};
use syncline_plan::custom::BlocksEntry;

/// What a writer knows of its stream.
pub(super) struct Part<'a> {
    pub(super) layout: &'a Layout,
    pub(super) seat: u32,
    pub(super) stream: u32,
    pub(super) channel: u32,
    /// Numbers of instructions that other streams wait for: no step may reach across.
    pub(super) marks: &'a BTreeSet<u32>,
}

impl Part<'_> {
    /// Blocks as chunks, and how many.
    pub(super) fn chunks(&self, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        self.layout.chunks(self.seat, self.stream, entry)
    }
}

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// That a stream has passed its first `ops` instructions.
    Passed {
        /// Which stream of the seat.
        stream: u32,
        /// How many instructions.
        ops: u32,
    },
    /// A step of a thread block of the same stream.
    Step {
        /// Which of the stream's thread blocks.
        block: usize,
        /// Its step.
        step: u32,
    },
}

/// A thread block, with what each step waits for.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) block: ThreadBlock,
    after: Vec<Option<Dependency>>,
}

impl Draft {
    /// How many steps it has.
    pub(super) fn len(&self) -> u32 {
        self.block.steps.len() as u32
    }

    /// Adds a step.
    pub(super) fn push(
        &mut self,
        kind: StepKind,
        source: Chunks,
        target: Chunks,
        count: u32,
        after: Option<Dependency>,
    ) {
        self.block.steps.push(Step { kind, source, target, count, after: None, awaited: false, line: 0 });
        self.after.push(after);
    }

    /// Adds a step that does nothing but wait.
    pub(super) fn idle(&mut self, after: Dependency) {
        let unused = Chunks { buffer: Space::Input, offset: 0 };
        self.push(StepKind::Nop, unused, unused, 0, Some(after));
    }
}

/// By which step a stream has passed its first instructions.
pub(super) enum Reached {
    /// One thread block: the last of the steps to which the instructions belong.
    Steps {
        /// The step of each instruction; `None` for those that are no part of any.
        step_of: Vec<Option<u32>>,
        /// Of each receive, the instruction that waits for it.
        waited: BTreeMap<u32, u32>,
    },
    /// Several: for each number that is waited for, the thread block and the step.
    Fences(BTreeMap<u32, (usize, u32)>),
}

/// A stream's thread blocks.
pub(super) struct Written {
    pub(super) drafts: Vec<Draft>,
    pub(super) reached: Reached,
}

impl Written {
    /// The thread block and the step after which the stream has passed `ops` instructions; `None` where these need
    /// no step.
    fn target(&self, ops: u32) -> Option<(usize, u32)> {
        match &self.reached {
            Reached::Fences(fences) => fences.get(&ops).copied(),
            Reached::Steps { step_of, waited } => {
                // A receive is waited for only where its wait is among the instructions.
                let done = |&at: &u32| waited.get(&at).is_none_or(|&wait| wait < ops);
                let steps = (0..ops.min(step_of.len() as u32)).filter(done);
                steps.filter_map(|at| step_of[at as usize]).max().map(|step| (0, step))
            }
        }
    }
}

/// Turns what steps wait for into steps.
pub(super) fn settle(streams: Vec<Written>) -> Gpu {
    let mut first = Vec::with_capacity(streams.len());
    let mut count = 0;
    for written in &streams {
        first.push(count);
        count += written.drafts.len();
    }
    let mut waits: Vec<((usize, u32), (usize, u32))> = Vec::new();
    for (stream, written) in streams.iter().enumerate() {
        for (block, draft) in written.drafts.iter().enumerate() {
            for (step, after) in (0u32..).zip(&draft.after) {
                let target = match *after {
                    None => None,
                    Some(Dependency::Step { block, step }) => Some((first[stream] + block, step)),
                    Some(Dependency::Passed { stream, ops }) => streams
                        .get(stream as usize)
                        .and_then(|other| other.target(ops))
                        .map(|(block, step)| (first[stream as usize] + block, step)),
                };
                waits.extend(target.map(|target| ((first[stream] + block, step), target)));
            }
        }
    }
    let drafts = streams.into_iter().flat_map(|written| written.drafts);
    let mut blocks: Vec<ThreadBlock> = drafts.map(|draft| draft.block).collect();
    for ((block, step), (other, awaited)) in waits {
        blocks[block].steps[step as usize].after = Some((other as u32, awaited));
        blocks[other].steps[awaited as usize].awaited = true;
    }
    let end = |used: bool, chunks: Chunks, count: u32| match chunks.buffer {
        Space::Scratch if used => chunks.offset.saturating_add(count),
        _ => 0,
    };
    let steps = blocks.iter().flat_map(|block| &block.steps);
    let ends = steps.map(|step| {
        let source = end(step.kind.has_source(), step.source, step.count);
        source.max(end(step.kind.has_target(), step.target, step.count))
    });
    Gpu { scratch: ends.max().unwrap_or(0), blocks }
}
