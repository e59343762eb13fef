//! One chunk on its way through the script.

#![allow(unsafe_code)]

use super::started::StartedOperation;
use crate::link::Landing;
use crate::memory::{Buffer, Pool, Region};
use crate::script::{Part, StepAction};
use crate::shape::Shape;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use syncline_plan::Buffer as Storage;
use syncline_units::{CollectiveKind, Extent};

/// An event that lets a chunk continue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// The chunk begins.
    Begin,
    /// A step is done: its message has been written, or has arrived in its destination.
    Done(u32),
    /// The message that a step waits for has arrived and was set aside.
    Arrived(u32),
}

/// A message of a step.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    /// The receiving seat.
    pub to: u32,
    /// Its number among the chunk's messages to that seat.
    pub number: u16,
    pub payload: Region,
    /// The step that sends it.
    pub step: u32,
}

/// The parts of a lane that a chunk uses.
pub(super) struct Context<'a> {
    pub started: &'a Arc<StartedOperation>,
    pub number: u32,
    pub pool: &'a mut Pool,
    /// Parts of the input from before they were overwritten.
    pub saved: &'a mut Vec<(Region, Buffer)>,
    /// Sends a message.
    pub send: &'a mut dyn FnMut(OutgoingMessage),
    /// Takes the message that arrived early from this seat, with this number.
    pub early: &'a mut dyn FnMut(u32, u16) -> Option<Buffer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// A receive whose message may arrive.
    Posted,
    /// A receive whose message is arriving in its destination.
    Landing,
    /// A receive whose message has arrived and waits for its turn.
    Held,
    Done,
}

/// Contributions that are combined in the order of seats.
#[derive(Debug, Default)]
struct Turns {
    arrived: BTreeMap<u32, Buffer>,
    next: u32,
    /// The sum of the contributions that precede the seat's own.
    before: Option<Buffer>,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Bytes of messages of the chunks of its group that began before it.
    pub(super) before: u64,
    elements: u64,
    data: Region,
    output: Region,
    scratch: Region,
    buffers: Vec<Buffer>,
    missing: Vec<u32>,
    state: Vec<State>,
    left: usize,
    turns: Vec<Turns>,
}

/// Whether a chunk is worked on in the caller's own memory.
fn in_place(started: &StartedOperation) -> bool {
    started.shape.cut.contiguous()
        && !started.output.is_empty()
        && started.shape.script.result() == Storage::Data
}

impl Chunk {
    /// Makes a chunk of an operation, before its first step.
    pub(super) fn begin(started: &StartedOperation, number: u32, before: u64, pool: &mut Pool) -> Self {
        let Shape { script, cut, operation, .. } = &*started.shape;
        let width = operation.element.bytes();
        let elements = cut.elements(number);
        let mut buffers = Vec::new();
        let mut room = |buffer| {
            let bytes = script.room(buffer, elements) as usize * width;
            if bytes == 0 {
                return Region::EMPTY;
            }
            let mut buffer = pool.take(bytes);
            // SAFETY: the chunk keeps the buffer and uses it only as this region. It gives the buffer back when it ends,
            // and then no frame uses it any more: each was written, or has a copy of its payload, or was dropped.
            let region = unsafe { buffer.lend() };
            buffers.push(buffer);
            region
        };
        let data = if in_place(started) {
            let run = cut.runs(number).next().expect("a contiguous chunk is one run");
            started.output.part(bytes(run, width))
        } else {
            room(Storage::Data)
        };
        let (output, scratch) = (room(Storage::Output), room(Storage::Scratch));
        let seat = script.seat();
        if seat.index >= seat.ranks && operation.reduces() {
            data.neutral(operation.element, operation.reduction);
        }
        let missing: Vec<u32> = script.steps().iter().map(|step| step.missing).collect();
        let turns = script.groups().iter().map(|_| Turns::default()).collect();
        let (state, left) = (vec![State::Waiting; missing.len()], missing.len());
        Self { before, elements, data, output, scratch, buffers, missing, state, left, turns }
    }

    /// Bytes of the part of the vector that the chunk works on.
    pub(super) fn bytes(&self, started: &StartedOperation) -> usize {
        self.elements as usize * started.shape.operation.element.bytes()
    }

    /// Bytes of the chunk's largest message.
    pub(super) fn message(&self, started: &StartedOperation) -> usize {
        started.shape.cut.largest(self.elements) as usize * started.shape.operation.element.bytes()
    }

    /// Gives the buffers of the chunk back.
    pub(super) fn end(self, pool: &mut Pool) {
        self.buffers.into_iter().for_each(|buffer| pool.give(buffer));
    }

    /// Whether a receive waits for its message.
    pub(super) fn wants(&self, step: u32) -> bool {
        self.state[step as usize] == State::Posted
    }

    /// Whether the message of a step has not been written or has not arrived.
    pub(super) fn lacks(&self, step: u32) -> bool {
        !matches!(self.state[step as usize], State::Held | State::Done)
    }

    /// The destination of the message of a receive, if it can go there directly; none if it must be set aside. An
    /// error if the message has come before.
    pub(super) fn landing(&mut self, shape: &Shape, step: u32) -> Result<Option<Landing>, ()> {
        let state = &mut self.state[step as usize];
        let StepAction::Receive { part, reduce, turn, .. } = shape.script.steps()[step as usize].act else {
            return Err(());
        };
        match *state {
            State::Landing | State::Held | State::Done => Err(()),
            State::Posted if turn.is_none() => {
                *state = State::Landing;
                let place = self.region(shape, part);
                let operation = &shape.operation;
                Ok(Some(if reduce {
                    Landing::Combine { place, element: operation.element, reduction: operation.reduction }
                } else {
                    Landing::Put(place)
                }))
            }
            State::Posted | State::Waiting => Ok(None),
        }
    }

    /// Runs the steps that are possible now. Returns whether the chunk has completed.
    pub(super) fn advance(&mut self, context: &mut Context<'_>, trigger: Trigger) -> bool {
        let shape = Arc::clone(&context.started.shape);
        let mut ready = VecDeque::new();
        match trigger {
            Trigger::Begin => {
                let steps = (0u32..).zip(&self.missing);
                ready.extend(steps.filter(|&(_, &missing)| missing == 0).map(|(step, _)| step));
            }
            Trigger::Done(step) => self.done(&shape, step, &mut ready),
            Trigger::Arrived(step) => self.take_message(context, &shape, step, &mut ready),
        }
        while let Some(step) = ready.pop_front() {
            match shape.script.steps()[step as usize].act {
                StepAction::Fetch => self.fetch(context),
                StepAction::Deliver => self.deliver(context),
                StepAction::Join => {}
                StepAction::Copy { from, to, reduce } => {
                    let (from, to) = (self.region(&shape, from), self.region(&shape, to));
                    let operation = &shape.operation;
                    if reduce {
                        to.combine_from(from, operation.element, operation.reduction);
                    } else {
                        to.copy_from(from);
                    }
                }
                StepAction::Send { .. } | StepAction::Receive { .. }
                    if shape.spares(step, context.number) => {}
                StepAction::Send { to, message, part } => {
                    self.state[step as usize] = State::Posted;
                    let payload = self.region(&shape, part);
                    (context.send)(OutgoingMessage { to, number: message, payload, step });
                    continue;
                }
                StepAction::Receive { .. } => {
                    self.state[step as usize] = State::Posted;
                    self.take_message(context, &shape, step, &mut ready);
                    continue;
                }
            }
            self.done(&shape, step, &mut ready);
        }
        self.left == 0
    }

    /// Marks a step as done, and adds the steps that can run now to `ready`.
    fn done(&mut self, shape: &Shape, step: u32, ready: &mut VecDeque<u32>) {
        debug_assert_ne!(self.state[step as usize], State::Done, "step {step} is done twice");
        self.state[step as usize] = State::Done;
        self.left -= 1;
        for &follower in shape.script.followers(step) {
            let missing = &mut self.missing[follower as usize];
            *missing -= 1;
            if *missing == 0 {
                ready.push_back(follower);
            }
        }
    }

    /// Completes a receive, if its message has arrived.
    fn take_message(
        &mut self,
        context: &mut Context<'_>,
        shape: &Shape,
        step: u32,
        ready: &mut VecDeque<u32>,
    ) {
        let StepAction::Receive { from, message, part, reduce, turn } =
            shape.script.steps()[step as usize].act
        else {
            return;
        };
        let Some(buffer) = (context.early)(from, message) else { return };
        let Some(turn) = turn else {
            let place = self.region(shape, part);
            if reduce {
                place.combine(buffer.as_slice(), shape.operation.element, shape.operation.reduction);
            } else {
                place.write(buffer.as_slice());
            }
            context.pool.give(buffer);
            self.done(shape, step, ready);
            return;
        };
        self.state[step as usize] = State::Held;
        self.turns[turn.group as usize].arrived.insert(turn.place, buffer);
        self.take_turns(context.pool, shape, turn.group, part, ready);
    }

    /// Combines the contributions of a group whose turn has come.
    fn take_turns(
        &mut self,
        pool: &mut Pool,
        shape: &Shape,
        group: u32,
        part: Part,
        ready: &mut VecDeque<u32>,
    ) {
        let place = self.region(shape, part);
        let (element, reduction) = (shape.operation.element, shape.operation.reduction);
        let members = &shape.script.groups()[group as usize];
        loop {
            let turns = &mut self.turns[group as usize];
            let turn = turns.next;
            let Some(buffer) = turns.arrived.remove(&turn) else { return };
            turns.next += 1;
            let steps = if turn < members.before {
                match &mut turns.before {
                    Some(sum) => {
                        sum.combine(&buffer, element, reduction);
                        pool.give(buffer);
                    }
                    None => turns.before = Some(buffer),
                }
                if turns.next < members.before {
                    continue;
                }
                let sum = turns.before.take().expect("put there above");
                place.combine(sum.as_slice(), element, reduction);
                pool.give(sum);
                &members.steps[..members.before as usize]
            } else {
                place.combine(buffer.as_slice(), element, reduction);
                pool.give(buffer);
                &members.steps[turn as usize..=turn as usize]
            };
            steps.iter().for_each(|&step| self.done(shape, step, ready));
        }
    }

    /// Copies the caller's input to where the script works on it.
    fn fetch(&mut self, context: &mut Context<'_>) {
        let StartedOperation { shape, input, output, keep, .. } = &**context.started;
        let width = shape.operation.element.bytes();
        if in_place(context.started) {
            let run = shape.cut.runs(context.number).next().expect("a contiguous chunk is one run");
            let from = input.part(bytes(run, width));
            if !input.same(*output) {
                self.data.copy_from(from);
            } else if *keep {
                let mut saved = context.pool.take(from.len());
                from.read(saved.as_mut_slice());
                context.saved.push((from, saved));
            }
            return;
        }
        let seat = shape.script.seat();
        let mut at = seat.input(Extent::whole(self.elements)).start;
        let mut fetch = |run: Range<u64>| {
            let end = at + (run.end - run.start);
            self.data.part(bytes(at..end, width)).copy_from(input.part(bytes(run, width)));
            at = end;
        };
        match seat.kind {
            CollectiveKind::AllGather => fetch(shape.cut.piece(context.number)),
            _ => shape.cut.runs(context.number).for_each(&mut fetch),
        }
        if at < self.elements && shape.operation.reduces() {
            let rest = self.data.part(bytes(at..self.elements, width));
            rest.neutral(shape.operation.element, shape.operation.reduction);
        }
    }

    /// Copies the result to the caller's output. Saves what that overwrites of an input that must be kept.
    fn deliver(&self, context: &mut Context<'_>) {
        let StartedOperation { shape, input, output, keep, .. } = &**context.started;
        if in_place(context.started) || output.is_empty() {
            return;
        }
        let width = shape.operation.element.bytes();
        let from = if shape.script.result() == Storage::Output { self.output } else { self.data };
        let seat = shape.script.seat();
        let mut at = seat.output(Extent::whole(self.elements)).start;
        let mut deliver = |run: Range<u64>| {
            let end = at + (run.end - run.start);
            let to = output.part(bytes(run, width));
            if *keep && to.overlaps(*input) {
                let mut saved = context.pool.take(to.len());
                to.read(saved.as_mut_slice());
                context.saved.push((to, saved));
            }
            to.copy_from(from.part(bytes(at..end, width)));
            at = end;
        };
        match seat.kind {
            CollectiveKind::ReduceScatter => deliver(shape.cut.piece(context.number)),
            _ => shape.cut.runs(context.number).for_each(deliver),
        }
    }

    /// The memory that a step sends, if no later step has written to it. Its content is then what was sent, unless
    /// somebody else has written to it.
    pub(super) fn untouched(&self, shape: &Shape, send: u32) -> Option<Region> {
        let steps = shape.script.steps();
        let StepAction::Send { part, .. } = steps.get(send as usize)?.act else { return None };
        let sent = self.region(shape, part);
        let (mut later, mut seen) = (vec![send], vec![false; steps.len()]);
        while let Some(step) = later.pop() {
            if std::mem::replace(&mut seen[step as usize], true) {
                continue;
            }
            later.extend(shape.script.followers(step));
            let written = match steps[step as usize].act {
                StepAction::Receive { part, .. } => self.region(shape, part),
                StepAction::Copy { to, .. } => self.region(shape, to),
                _ => continue,
            };
            let begun = !matches!(self.state[step as usize], State::Waiting | State::Posted);
            if begun && written.overlaps(sent) {
                return None;
            }
        }
        Some(sent)
    }

    /// The memory of a part of a buffer.
    fn region(&self, shape: &Shape, part: Part) -> Region {
        let Extent { start, end } = shape.script.extent(part, self.elements);
        let width = shape.operation.element.bytes();
        let buffer = match part.blocks.buffer {
            Storage::Data => self.data,
            Storage::Output => self.output,
            Storage::Scratch => self.scratch,
        };
        buffer.part(bytes(start..end, width))
    }
}

/// The range of bytes of a range of elements.
fn bytes(elements: Range<u64>, width: usize) -> Range<usize> {
    elements.start as usize * width..elements.end as usize * width
}
