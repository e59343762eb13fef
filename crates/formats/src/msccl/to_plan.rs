//! Converts a program to a plan.

use super::program::{Chunks, Program, Space, Step, StepKind};
use crate::astra2::Source;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_plan::custom::{BlocksEntry, MAX_OPS, OpEntry, SeatEntry, StreamEntry};
use syncline_plan::{Buffer, PlanFile};
use syncline_units::CollectiveKind;

/// Most faults reported one by one.
const MAX_PROBLEMS: usize = 20;

/// Converts a program to a plan.
///
/// # Errors
/// `BadMsccl` if steps refer to something that does not exist.
pub fn plan(program: &Program, source: &Source) -> Result<PlanFile> {
    let mut problems = Diagnostics::new();
    let steps: usize = program.gpus.iter().flat_map(|gpu| &gpu.blocks).map(|block| block.steps.len()).sum();
    if steps > MAX_OPS / 5 {
        problems.push(
            Diagnostic::error(Code::BadMsccl, "the program has too many steps")
                .at(source.file(), 0)
                .found(steps.to_string())
                .allowed(format!("at most {}", MAX_OPS / 5)),
        );
        return Err(problems);
    }
    let mut seats = Vec::with_capacity(program.gpus.len());
    for gpu in 0..program.gpus.len() {
        let mut seat = Seat::new(program, gpu, source);
        seats.push(seat.entry());
        problems.extend(seat.problems);
        if problems.0.len() >= MAX_PROBLEMS {
            break;
        }
    }
    problems.into_result()?;
    let out_of_place = !program.in_place && program.kind != CollectiveKind::AllToAll;
    Ok(PlanFile {
        name: program.name.clone(),
        kind: program.kind,
        ranks: program.gpus.len() as u32,
        helpers: 0,
        blocks: program.chunks,
        result: out_of_place.then_some(Buffer::Output),
        split: false,
        msccl: Some(program.entry),
        seats,
    })
}

/// Whether a step touches the output buffer.
fn touches_output(step: &Step) -> bool {
    step.kind.has_source() && step.source.buffer == Space::Output
        || step.kind.has_target() && step.target.buffer == Space::Output
}

struct Seat<'a> {
    program: &'a Program,
    gpu: usize,
    source: &'a Source,
    /// The instruction that completes each step of each thread block.
    ends: Vec<Vec<u32>>,
    /// The next unused slot of scratch.
    free: u32,
    problems: Diagnostics,
}

impl<'a> Seat<'a> {
    fn new(program: &'a Program, gpu: usize, source: &'a Source) -> Self {
        let blocks = &program.gpus[gpu].blocks;
        let used = |step: &Step| {
            let end = |used: bool, chunks: Chunks| match chunks.buffer {
                Space::Scratch if used => chunks.offset.saturating_add(step.count),
                _ => 0,
            };
            end(step.kind.has_source(), step.source).max(end(step.kind.has_target(), step.target))
        };
        Self {
            program,
            gpu,
            source,
            ends: Vec::new(),
            free: blocks.iter().flat_map(|block| &block.steps).map(used).max().unwrap_or(0),
            problems: Diagnostics::new(),
        }
    }

    fn entry(&mut self) -> SeatEntry {
        let program = self.program;
        let blocks = &program.gpus[self.gpu].blocks;
        let mut streams = Vec::with_capacity(blocks.len() + 1);
        let copies = self.copies();
        for (index, block) in blocks.iter().enumerate() {
            let (mut ops, mut ends) = (Vec::new(), Vec::new());
            if !copies.is_empty() && block.steps.iter().any(touches_output) {
                ops.push(OpEntry::After { stream: blocks.len() as u32, ops: 0 });
            }
            // Slots for data that is sent on without being kept.
            let passing = block.steps.iter().filter(|step| step.kind == StepKind::ReceiveReduceSend);
            let slots = self.free;
            self.free = self.free.saturating_add(passing.map(|step| step.count).max().unwrap_or(0));
            for step in &block.steps {
                self.after(index, step, &mut ops);
                self.step(step, block.send, block.recv, slots, &mut ops);
                ends.push(ops.len() as u32);
                if self.problems.0.len() >= MAX_PROBLEMS {
                    break;
                }
            }
            self.ends.push(ends);
            let channel = Some(block.channel).filter(|&channel| channel != index as u32);
            streams.push(StreamEntry { channel, ops });
        }
        if !copies.is_empty() {
            self.ends.push(vec![copies.len() as u32]);
            streams.push(StreamEntry { channel: None, ops: copies });
        }
        // Dependencies count steps so far; convert them to instructions.
        for op in streams.iter_mut().flat_map(|stream| &mut stream.ops) {
            if let OpEntry::After { stream, ops } = op {
                let ends = self.ends.get(*stream as usize);
                *ops = ends.and_then(|ends| ends.get(*ops as usize)).copied().unwrap_or(0);
            }
        }
        SeatEntry { streams }
    }

    /// The copies before any step, except of chunks that are in place already.
    fn copies(&mut self) -> Vec<OpEntry> {
        let mut ops = Vec::new();
        for copy in &self.program.gpus[self.gpu].copies {
            let (from, to) =
                (self.blocks(copy, copy.source, "i_off"), self.blocks(copy, copy.target, "o_off"));
            if let (Some(from), Some(to), true) = (from, to, from != to) {
                ops.push(OpEntry::Copy { from, to, reduce: false });
            }
            if self.problems.0.len() >= MAX_PROBLEMS {
                break;
            }
        }
        ops
    }

    fn wrong(&mut self, step: &Step, message: String) -> &mut Diagnostic {
        let key = format!("gpu {}, step of type {}", self.gpu, step.kind.name());
        self.problems.push(
            Diagnostic::error(Code::BadMsccl, message)
                .in_place(self.source.place(step.line.into(), 0, 0))
                .key(key),
        );
        let last = self.problems.0.len() - 1;
        &mut self.problems.0[last]
    }

    /// Adds the dependency of a step.
    fn after(&mut self, index: usize, step: &Step, ops: &mut Vec<OpEntry>) {
        let Some((block, at)) = step.after else { return };
        if block as usize == index {
            self.wrong(step, "a step waits for its own thread block".to_owned()).help =
                Some("steps of a thread block run in order; write depid -1".to_owned());
            return;
        }
        let blocks = &self.program.gpus[self.gpu].blocks;
        let target = blocks.get(block as usize).and_then(|block| block.steps.get(at as usize));
        let Some(target) = target.copied() else {
            let message = format!("a step waits for step {at} of thread block {block}, which does not exist");
            let count = blocks.len();
            self.wrong(step, message).allowed =
                Some(format!("thread blocks 0 to {}", count.saturating_sub(1)));
            return;
        };
        if !target.awaited {
            let message = format!("step {at} of thread block {block} is waited for, but has hasdep 0");
            self.wrong(step, message).help = Some(format!("write hasdep=\"1\" on line {}", target.line));
            return;
        }
        ops.push(OpEntry::After { stream: block, ops: at });
    }

    fn step(&mut self, step: &Step, to: Option<u32>, from: Option<u32>, slots: u32, ops: &mut Vec<OpEntry>) {
        if step.kind == StepKind::Nop {
            return;
        }
        if step.count == 0 {
            self.wrong(step, "a step moves at least 1 chunk".to_owned()).key = Some("cnt".to_owned());
            return;
        }
        let source = if step.kind.has_source() { self.blocks(step, step.source, "srcoff") } else { None };
        let target = if step.kind.has_target() { self.blocks(step, step.target, "dstoff") } else { None };
        if step.kind.has_source() != source.is_some() || step.kind.has_target() != target.is_some() {
            return;
        }
        if step.kind.sends() && to.is_none() {
            self.wrong(step, "a step sends, but its thread block has send=\"-1\"".to_owned());
            return;
        }
        if step.kind.receives() && from.is_none() {
            self.wrong(step, "a step receives, but its thread block has recv=\"-1\"".to_owned());
            return;
        }
        let slot = BlocksEntry { block: slots, count: step.count, of: None, buffer: Buffer::Scratch };
        let kept = if step.kind == StepKind::ReceiveReduceSend { Some(slot) } else { target };
        // Before a received block is reduced, the data that it is reduced with must be in place.
        let reduces = matches!(
            step.kind,
            StepKind::ReceiveReduceCopy | StepKind::ReceiveReduceCopySend | StepKind::ReceiveReduceSend
        );
        if let (Some(from), Some(to), true) = (source, kept, reduces && source != kept) {
            ops.push(OpEntry::Copy { from, to, reduce: false });
        }
        if let (Some(from), Some(BlocksEntry { block, count, of, buffer }), true) =
            (from, kept, step.kind.receives())
        {
            ops.push(OpEntry::Receive { from, block, count, of, buffer, reduce: reduces });
            ops.push(OpEntry::Wait {});
        }
        if let (Some(from), Some(to), StepKind::Copy | StepKind::Reduce) = (source, target, step.kind) {
            ops.push(OpEntry::Copy { from, to, reduce: step.kind == StepKind::Reduce });
        }
        let sent = if step.kind == StepKind::Send { source } else { kept };
        if let (Some(to), Some(BlocksEntry { block, count, of, buffer }), true) =
            (to, sent, step.kind.sends())
        {
            ops.push(OpEntry::Send { to, block, count, of, buffer });
        }
    }

    /// Converts chunks of a buffer to blocks of the full vector.
    fn blocks(&mut self, step: &Step, chunks: Chunks, key: &str) -> Option<BlocksEntry> {
        let Program { kind, in_place, chunks: whole, .. } = *self.program;
        let ranks = self.program.gpus.len() as u32;
        let share = whole / ranks;
        let own = self.gpu as u32 * share;
        let data = Buffer::Data;
        let output = if in_place { Buffer::Data } else { Buffer::Output };
        let (buffer, base, size) = match (chunks.buffer, kind) {
            (Space::Input, CollectiveKind::AllGather) => (data, own, share),
            (Space::Input, _) => (data, 0, whole),
            (Space::Output, CollectiveKind::ReduceScatter) => (output, own, share),
            (Space::Output, _) => (output, 0, whole),
            (Space::Scratch, _) => (Buffer::Scratch, 0, self.program.gpus[self.gpu].scratch),
        };
        let end = chunks.offset.checked_add(step.count);
        if end.is_none_or(|end| end > size) {
            let message = "a step touches chunks beyond the end of its buffer".to_owned();
            let (offset, count, name) = (chunks.offset, step.count, chunks.buffer.name());
            let found = self.wrong(step, message);
            found.key = Some(key.to_owned());
            found.found = Some(format!("{count} chunks from {offset} on"));
            found.allowed = Some(format!("chunks 0 to {} of buffer {name}", i64::from(size) - 1));
            return None;
        }
        Some(BlocksEntry { block: base + chunks.offset, count: step.count, of: None, buffer })
    }
}
