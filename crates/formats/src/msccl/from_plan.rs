//! A plan as a program.
//!
//! Streams become thread blocks. Receives are done at the wait behind them; a receive whose blocks are sent on at once is
//! one step with that send. Blocks are counted in the least common multiple of all numbers of blocks that occur.

use super::program::{COLLECTIVES, Chunks, Gpu, Program, Space, Step, StepKind, ThreadBlock};
use super::xml::{MAX_CHUNKS, MAX_GPUS};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::custom::{BlocksEntry, OpEntry};
use syncline_plan::{Buffer, Custom, PlanFile};
use syncline_units::CollectiveKind;

/// The program of a plan, which is proved before.
///
/// # Errors
/// `NotMsccl` where MSCCL cannot express it; what is wrong with the plan itself.
pub fn program(plan: &PlanFile) -> Result<Program> {
    Custom::new(plan)?;
    let layout = Layout::new(plan)?;
    let mut gpus = Vec::with_capacity(plan.seats.len());
    for seat in 0..plan.seats.len() {
        gpus.push(gpu(plan, seat, &layout)?);
    }
    Ok(Program {
        name: plan.name.clone(),
        proto: "Simple".to_owned(),
        kind: plan.kind,
        in_place: layout.in_place,
        chunks: layout.chunks,
        gpus,
    })
}

fn cannot(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::NotMsccl, message)
}

type Expressed<T> = std::result::Result<T, Box<Diagnostic>>;

/// How blocks become chunks.
struct Layout {
    kind: CollectiveKind,
    in_place: bool,
    chunks: u32,
    /// Chunks of one GPU's share.
    share: u32,
    /// Where streams have parts of their own: how many.
    parts: u32,
    /// What [`BlocksEntry::of`] is where it is absent.
    blocks: u32,
}

impl Layout {
    fn new(plan: &PlanFile) -> Result<Self> {
        let kind = plan.kind;
        if COLLECTIVES.iter().all(|(known, _)| *known != kind) {
            let names: Vec<&str> = COLLECTIVES.iter().map(|(kind, _)| kind.name()).collect();
            return Err(cannot(format!("MSCCL has no {kind}")).key("kind").allowed(names.join(", ")).into());
        }
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
            return Err(cannot("the parts of an all-to-all's streams are no runs of chunks")
                .key("split")
                .into());
        }
        let mut counts = BTreeSet::from([plan.blocks]);
        if kind != CollectiveKind::AllReduce {
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

    /// Blocks of a stream of a seat as chunks, and how many.
    fn chunks(&self, seat: u32, stream: u32, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        let too_far = || Box::new(cannot("a block lies beyond all chunks"));
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
                    "the plan uses {what} beyond rank {seat}'s own block, which MSCCL does not have"
                )))
            })
        };
        let (buffer, offset) = match (entry.buffer, self.kind) {
            (Buffer::Scratch, _) => (Space::Scratch, first),
            (Buffer::Data, CollectiveKind::AllGather) if self.in_place => (Space::Output, first),
            (Buffer::Data, CollectiveKind::AllGather) => (Space::Input, within("the input")?),
            (Buffer::Data, _) => (Space::Input, first),
            (Buffer::Output, _) if self.in_place => {
                return Err(Box::new(cannot("the plan works in place and uses the output buffer besides")));
            }
            (Buffer::Output, CollectiveKind::ReduceScatter) => (Space::Output, within("the output")?),
            (Buffer::Output, _) => (Space::Output, first),
        };
        Ok((Chunks { buffer, offset }, count))
    }
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// A thread block, with dependencies counted in instructions.
#[derive(Default)]
struct Draft {
    block: ThreadBlock,
    /// Of each step, the stream and how many of its instructions it waits for.
    after: Vec<Option<(u32, u32)>>,
    /// The step that each instruction belongs to; `None` for those that are no part of any.
    step_of: Vec<Option<u32>>,
    /// Of each receive, the instruction that waits for it.
    waited: BTreeMap<u32, u32>,
}

fn gpu(plan: &PlanFile, seat: usize, layout: &Layout) -> Result<Gpu> {
    let streams = &plan.seats[seat].streams;
    // Instructions behind which other streams wait: no step may reach across.
    let mut marks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for op in streams.iter().flat_map(|stream| &stream.ops) {
        if let OpEntry::After { stream, ops } = *op {
            marks.entry(stream).or_default().insert(ops);
        }
    }
    let none = BTreeSet::new();
    let mut drafts = Vec::with_capacity(streams.len());
    for (index, stream) in (0..).zip(streams) {
        let mut writer = Writer {
            layout,
            seat: seat as u32,
            stream: index,
            marks: marks.get(&index).unwrap_or(&none),
            draft: Draft { step_of: vec![None; stream.ops.len()], ..Draft::default() },
            pending: Vec::new(),
            waits: Vec::new(),
        };
        writer.draft.block.channel = stream.channel.unwrap_or(index);
        let written = writer.stream(&stream.ops);
        written.map_err(|found| found.key(format!("seat {seat}, stream {index}")))?;
        drafts.push(writer.draft);
    }
    Ok(settle(drafts))
}

/// Turns instructions that are waited for into steps.
fn settle(mut drafts: Vec<Draft>) -> Gpu {
    let target = |drafts: &[Draft], stream: u32, ops: u32| {
        let draft = drafts.get(stream as usize)?;
        // A receive is waited for only where its wait is among the instructions.
        let done = |&at: &u32| draft.waited.get(&at).is_none_or(|&wait| wait < ops);
        let steps = (0..ops.min(draft.step_of.len() as u32)).filter(done);
        steps.filter_map(|at| draft.step_of[at as usize]).max()
    };
    for index in 0..drafts.len() {
        for at in 0..drafts[index].block.steps.len() {
            let Some((stream, ops)) = drafts[index].after[at] else { continue };
            let Some(step) = target(&drafts, stream, ops) else { continue };
            drafts[index].block.steps[at].after = Some((stream, step));
            drafts[stream as usize].block.steps[step as usize].awaited = true;
        }
    }
    let blocks: Vec<ThreadBlock> = drafts.into_iter().map(|draft| draft.block).collect();
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

/// A receive that was posted.
struct Pending {
    at: u32,
    chunks: Chunks,
    count: u32,
    reduce: bool,
}

/// Writes one stream.
struct Writer<'a> {
    layout: &'a Layout,
    seat: u32,
    stream: u32,
    marks: &'a BTreeSet<u32>,
    draft: Draft,
    pending: Vec<Pending>,
    /// Dependencies that the next step has, with their instructions.
    waits: Vec<(u32, u32, u32)>,
}

impl Writer<'_> {
    fn stream(&mut self, ops: &[OpEntry]) -> Expressed<()> {
        let mut fused = None;
        for (at, op) in (0u32..).zip(ops) {
            if self.marks.contains(&at) {
                self.idle();
            }
            if fused.take() == Some(at) {
                continue;
            }
            match *op {
                OpEntry::Send { to, block, count, of, buffer } => {
                    let (chunks, count) = self.chunks(BlocksEntry { block, count, of, buffer })?;
                    self.peer(to, true)?;
                    self.push(&[at], StepKind::Send, chunks, chunks, count);
                }
                OpEntry::Receive { from, block, count, of, buffer, reduce } => {
                    let (chunks, count) = self.chunks(BlocksEntry { block, count, of, buffer })?;
                    self.peer(from, false)?;
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
                    let next = ops.get(at as usize + 1).filter(|_| !self.marks.contains(&(at + 1)));
                    if self.receive(at, next)? {
                        fused = Some(at + 1);
                    }
                }
                OpEntry::After { stream, ops } => self.waits.push((at, stream, ops)),
            }
        }
        self.receive(ops.len() as u32, None)?;
        self.idle();
        Ok(())
    }

    fn chunks(&self, entry: BlocksEntry) -> Expressed<(Chunks, u32)> {
        self.layout.chunks(self.seat, self.stream, entry)
    }

    /// Receives what is pending; whether the last of it was sent on by `next`.
    fn receive(&mut self, wait: u32, next: Option<&OpEntry>) -> Expressed<bool> {
        let mut pending = std::mem::take(&mut self.pending).into_iter().peekable();
        while let Some(Pending { at, chunks, count, reduce }) = pending.next() {
            self.draft.waited.insert(at, wait);
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
                    self.peer(to, true)?;
                    self.push(&[at, wait, wait + 1], kind, chunks, chunks, count);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Notes whom the thread block talks to.
    fn peer(&mut self, peer: u32, sends: bool) -> Expressed<()> {
        let block = &mut self.draft.block;
        let known = if sends { &mut block.send } else { &mut block.recv };
        if *known.get_or_insert(peer) == peer {
            return Ok(());
        }
        let verb = if sends { "sends to" } else { "receives from" };
        let first = known.unwrap_or(peer);
        let error = cannot(format!(
            "a stream {verb} rank {first} and rank {peer}; an MSCCL thread block has one such peer"
        ));
        Err(Box::new(error.help("give each peer a stream of its own")))
    }

    /// A step for some instructions, with the last of the dependencies before it; the others get steps of their own.
    fn push(&mut self, ops: &[u32], kind: StepKind, source: Chunks, target: Chunks, count: u32) {
        let last = self.waits.pop();
        self.idle();
        let number = self.draft.block.steps.len() as u32;
        for &at in ops.iter().chain(last.iter().map(|(at, ..)| at)) {
            if let Some(step_of) = self.draft.step_of.get_mut(at as usize) {
                *step_of = Some(number);
            }
        }
        self.draft.block.steps.push(Step {
            kind,
            source,
            target,
            count,
            after: None,
            awaited: false,
            line: 0,
        });
        self.draft.after.push(last.map(|(_, stream, ops)| (stream, ops)));
    }

    /// Steps that do nothing but wait, for the dependencies so far.
    fn idle(&mut self) {
        let unused = Chunks { buffer: Space::Input, offset: 0 };
        for (at, stream, ops) in std::mem::take(&mut self.waits) {
            self.draft.step_of[at as usize] = Some(self.draft.block.steps.len() as u32);
            self.draft.block.steps.push(Step {
                kind: StepKind::Nop,
                source: unused,
                target: unused,
                count: 0,
                after: None,
                awaited: false,
                line: 0,
            });
            self.draft.after.push(Some((stream, ops)));
        }
    }
}
