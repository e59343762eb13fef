//! Thread blocks under construction: their steps wait for instructions of other streams, or for steps of other
//! blocks.

use super::layout::{Expressed, Layout};
use super::program::{Chunks, Gpu, Space, Step, StepKind, ThreadBlock};
use std::collections::{BTreeMap, BTreeSet};
use syncline_plan::custom::BlocksEntry;

/// What the writer of a stream needs to know.
pub(super) struct Part<'a> {
    pub(super) layout: &'a Layout,
    pub(super) seat: u32,
    pub(super) stream: u32,
    pub(super) channel: u32,
    /// Numbers of instructions that other streams wait for; no step may extend across one.
    pub(super) marks: &'a BTreeSet<u32>,
}

impl Part<'_> {
    /// Blocks converted to chunks, and their number.
    pub(super) fn chunks(&self, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        self.layout.chunks(self.seat, self.stream, entry)
    }
}

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// A stream has passed its first `ops` instructions.
    Passed {
        /// The stream of the seat.
        stream: u32,
        /// Number of instructions.
        ops: u32,
    },
    /// A step of a thread block of the same stream.
    Step {
        /// The thread block of the stream.
        block: usize,
        /// The step of the thread block.
        step: u32,
    },
}

/// A thread block, with the dependencies of each step.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) block: ThreadBlock,
    after: Vec<Vec<Dependency>>,
}

impl Draft {
    /// Number of steps.
    pub(super) fn len(&self) -> u32 {
        self.block.steps.len() as u32
    }

    /// Adds a step that waits for all of `after`.
    pub(super) fn push(
        &mut self,
        kind: StepKind,
        source: Chunks,
        target: Chunks,
        count: u32,
        after: Vec<Dependency>,
    ) {
        self.block.steps.push(Step { kind, source, target, count, after: None, awaited: false, line: 0 });
        self.after.push(after);
    }
}

/// What must be done for a stream to have passed its first instructions.
pub(super) enum Reached {
    /// For one thread block: the last of the steps that the instructions belong to.
    Steps {
        /// The step of each instruction; `None` for instructions without a step.
        step_of: Vec<Option<u32>>,
        /// For each receive, the instruction that waits for it.
        waited: BTreeMap<u32, u32>,
        /// For each [`OpEntry::After`](syncline_plan::custom::OpEntry), what it waits for.
        after: BTreeMap<u32, Dependency>,
    },
    /// For several thread blocks: for each awaited number of instructions, everything that must be done.
    Fences(BTreeMap<u32, Vec<Dependency>>),
}

/// A stream's thread blocks.
pub(super) struct Written {
    pub(super) drafts: Vec<Draft>,
    pub(super) reached: Reached,
}

impl Written {
    /// What must be done for the stream to have passed `ops` instructions.
    fn targets(&self, ops: u32) -> Vec<Dependency> {
        match &self.reached {
            Reached::Fences(fences) => fences.get(&ops).cloned().unwrap_or_default(),
            Reached::Steps { step_of, waited, after } => {
                // A receive counts only if its wait is among the instructions.
                let done = |&at: &u32| waited.get(&at).is_none_or(|&wait| wait < ops);
                let steps = (0..ops.min(step_of.len() as u32)).filter(done);
                let last = steps.filter_map(|at| step_of[at as usize]).max();
                // A dependency that only a later step waits for must be awaited separately.
                let open = after.range(..ops).filter(|&(&at, _)| {
                    step_of.get(at as usize).copied().flatten().is_none_or(|step| Some(step) > last)
                });
                let open = open.map(|(_, &dependency)| dependency);
                last.map(|step| Dependency::Step { block: 0, step }).into_iter().chain(open).collect()
            }
        }
    }
}

/// The thread blocks of all streams, numbered consecutively.
struct Blocks<'a> {
    streams: &'a [Written],
    /// For each stream, the number of its first thread block.
    first: Vec<usize>,
}

impl Blocks<'_> {
    /// Finds the last step of each thread block that `dependency` of `stream` refers to.
    fn steps(&self, stream: usize, dependency: Dependency, found: &mut BTreeMap<usize, u32>) {
        match dependency {
            Dependency::Step { block, step } => {
                let last = found.entry(self.first[stream] + block).or_insert(step);
                *last = step.max(*last);
            }
            Dependency::Passed { stream, ops } => {
                let stream = stream as usize;
                for dependency in self.streams.get(stream).map(|other| other.targets(ops)).unwrap_or_default()
                {
                    self.steps(stream, dependency, found);
                }
            }
        }
    }
}

/// Converts dependencies to steps. A step can have only one dependency. If it needs more, steps before it that do
/// nothing (`nop`) have the others. No step waits for a `nop`, because the runtimes do not count these as done.
pub(super) fn settle(streams: Vec<Written>) -> Gpu {
    let mut first = Vec::with_capacity(streams.len());
    let mut count = 0;
    for written in &streams {
        first.push(count);
        count += written.drafts.len();
    }
    // For each step of each thread block, the steps that it waits for.
    let blocks = Blocks { streams: &streams, first };
    let mut waits: Vec<Vec<BTreeMap<usize, u32>>> = Vec::with_capacity(count);
    for (stream, written) in streams.iter().enumerate() {
        for draft in &written.drafts {
            let number = waits.len();
            let of_step = draft.after.iter().map(|after| {
                let mut found = BTreeMap::new();
                after.iter().for_each(|&dependency| blocks.steps(stream, dependency, &mut found));
                found.remove(&number);
                found
            });
            waits.push(of_step.collect());
        }
    }
    // Position of each step once the `nop` steps are inserted before it.
    let places: Vec<Vec<u32>> = waits
        .iter()
        .map(|steps| {
            let mut next = 0;
            let place = |waits: &BTreeMap<usize, u32>| {
                next += waits.len().max(1) as u32;
                next - 1
            };
            steps.iter().map(place).collect()
        })
        .collect();
    let drafts = streams.into_iter().flat_map(|written| written.drafts);
    let mut blocks: Vec<ThreadBlock> = drafts.map(|draft| draft.block).collect();
    let mut awaited = BTreeSet::new();
    for (block, waits) in blocks.iter_mut().zip(&waits) {
        let unused = Chunks { buffer: Space::Input, offset: 0 };
        let nop = Step {
            kind: StepKind::Nop,
            source: unused,
            target: unused,
            count: 0,
            after: None,
            awaited: false,
            line: 0,
        };
        for (step, waits) in std::mem::take(&mut block.steps).into_iter().zip(waits) {
            let mut after = waits.iter().map(|(&other, &step)| (other, places[other][step as usize])).rev();
            let own = after.next();
            awaited.extend(own);
            for (other, place) in after.rev() {
                awaited.insert((other, place));
                block.steps.push(Step { after: Some((other as u32, place)), ..nop });
            }
            block.steps.push(Step { after: own.map(|(other, place)| (other as u32, place)), ..step });
        }
    }
    for (block, step) in awaited {
        blocks[block].steps[step as usize].awaited = true;
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
    Gpu { scratch: ends.max().unwrap_or(0), copies: Vec::new(), blocks }
}
