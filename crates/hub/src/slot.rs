//! One chunk on a hub: what workers have pushed, and its value.
//!
//! A worker pushes a chunk once per step, and steps are counted from 1. Contributions to a step gather in its *round*.
//! When the last worker has pushed, the slot combines the round, the optimizer updates the parameters, and the slot
//! replies to the workers that asked for the result. The next step's round may begin before that. It has its own
//! memory, so that a slow reader of one step's result does not block other workers (luo2020, section 3.2.1).

use super::bridge::Sum;
use super::optimizer::{Optimizer, Update};
use super::saved::{SavedChunk, SavedRate};
use super::terms::{Contract, LossPolicy, StepMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_protocol::operation::Association;
use syncline_reduction::{Element, reduce_tall, scale_into};

/// The value of a chunk after a step.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) buffer: Arc<Buffer>,
    /// The number of steps that the value includes.
    pub(super) version: u64,
    /// How many workers contributed to the last step.
    pub(super) contributors: u16,
}

/// A value to send to a worker.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) worker: u32,
    pub(super) value: Value,
}

/// What a slot uses of its shard.
pub(super) struct Context<'a> {
    pub(super) contract: &'a Contract,
    /// Whether steps wait for each worker.
    pub(super) active: &'a [bool],
    pub(super) pool: &'a mut Pool,
    pub(super) replies: &'a mut Vec<Reply>,
    /// Workers with a contribution to the step that is open now: it is no longer ahead.
    pub(super) caught_up: &'a mut Vec<u32>,
    /// Present if other racks contribute, too: takes this rack's sum.
    pub(super) bridge: Option<&'a mut Option<Sum>>,
}

/// How to treat a contribution that a worker is about to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// It is the worker's next step.
    New,
    /// It was received before the worker was restarted: count the step, but ignore the data.
    Again,
    /// It breaks the protocol.
    Unexpected,
}

/// The contributions to a step.
#[derive(Debug, Default)]
struct Round {
    /// The sum so far, if contributions are combined as they arrive.
    sum: Option<Buffer>,
    /// Contributions that wait to be combined in the order of workers.
    held: BTreeMap<u32, Buffer>,
    contributors: BTreeSet<u32>,
    /// Workers that want the result.
    askers: Vec<u32>,
}

/// A worker that waits for a value.
#[derive(Clone, Copy, Debug)]
struct WaitingPull {
    worker: u32,
    /// The least version.
    version: u64,
}

/// A change of the learning rate.
#[derive(Clone, Copy, Debug)]
struct RateChange {
    /// The first step where it holds.
    from: u64,
    rate: f64,
}

/// A save that waits for the slot to complete a step.
#[derive(Debug)]
struct AwaitedSave {
    /// The step after which it keeps the state.
    at: u64,
    /// A learning rate for later steps that its leader had set before it announced the save. Those of other workers reach
    /// some cores before the save and others after it, so the save has none of them.
    later: Option<SavedRate>,
}

/// An open step for which workers wait.
#[derive(Debug)]
pub(super) struct OpenStep {
    pub(super) step: u64,
    /// Workers that have not pushed it.
    pub(super) missing: Vec<u32>,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct Slot {
    element: Element,
    bytes: usize,
    /// The number of complete steps.
    version: u64,
    value: Option<Value>,
    /// The value before that, if a restarted worker may need it.
    before: Option<Value>,
    optimizer: Option<Arc<dyn Optimizer>>,
    /// The optimizer's state. Allocated at the first step: allocating it for all chunks at once would block other jobs.
    /// A save that is being written may share it: the next step then works on a copy.
    memory: Arc<Vec<Buffer>>,
    rounds: BTreeMap<u64, Round>,
    /// Present while this rack's sum is exchanged with other racks: the workers that want the result.
    exchanging: Option<Vec<u32>>,
    /// Requests for values that do not exist yet.
    pulls: Vec<WaitingPull>,
    /// The newest step that each worker has pushed.
    pushed: Vec<u64>,
    /// The first step in which each worker takes part.
    from: Vec<u64>,
    /// Learning rates that replace the one of the terms, in the order of steps.
    rates: Vec<RateChange>,
    /// The save that waits for a step here.
    awaited_save: Option<AwaitedSave>,
    /// The state for a save, until the job takes it.
    captured: Option<SavedChunk>,
}

impl Slot {
    pub(super) fn new(contract: &Contract, chunk: u32) -> Self {
        let workers = contract.terms.workers as usize;
        let bytes = contract.catalogue.bytes(chunk) as usize;
        let optimizer = contract.optimizer(chunk).cloned();
        Self {
            element: contract.element(chunk),
            bytes,
            version: 0,
            value: None,
            before: None,
            optimizer,
            memory: Arc::default(),
            rounds: BTreeMap::new(),
            exchanging: None,
            pulls: Vec::new(),
            pushed: vec![0; workers],
            from: vec![1; workers],
            rates: Vec::new(),
            awaited_save: None,
            captured: None,
        }
    }

    /// Continues from the state that a save has kept: all workers have pushed its step, and none has pushed more.
    pub(super) fn restore(&mut self, saved: SavedChunk) {
        let SavedChunk { step, contributors, value, memory, rates } = saved;
        self.version = step;
        self.value = value.map(|buffer| Value { buffer, version: step, contributors });
        self.memory = memory;
        self.pushed.fill(step);
        self.from.fill(step + 1);
        self.rates = rates.into_iter().map(|SavedRate { from, rate }| RateChange { from, rate }).collect();
    }

    /// Keeps the state for a save, once the slot has completed the steps that `leader` has pushed so far; in an
    /// asynchronous job, at once. `set` is the learning rate that the leader has set since its last push. Copies nothing: a
    /// later step leaves what the save shares as it is.
    pub(super) fn save(&mut self, leader: u32, asynchronous: bool, set: Option<SavedRate>) {
        let at = if asynchronous { self.version } else { self.pushed[leader as usize] };
        let later = set.filter(|set| set.from > at && self.optimizer.is_some());
        (self.awaited_save, self.captured) = (Some(AwaitedSave { at, later }), None);
        self.capture_if_due();
    }

    /// Takes the state for a save, once.
    pub(super) fn take_captured(&mut self) -> Option<SavedChunk> {
        self.captured.take()
    }

    fn capture_if_due(&mut self) {
        let Some(AwaitedSave { at, later }) = self.awaited_save.take_if(|save| save.at == self.version)
        else {
            return;
        };
        let holding = self.rates.iter().filter(|change| change.from <= at);
        let holding = holding.map(|&RateChange { from, rate }| SavedRate { from, rate });
        let rates = holding.chain(later).collect();
        let value = self.value.as_ref();
        self.captured = Some(SavedChunk {
            step: self.version,
            contributors: value.map_or(0, |value| value.contributors),
            value: value.map(|value| Arc::clone(&value.buffer)),
            memory: Arc::clone(&self.memory),
            rates,
        });
    }

    /// Returns the bytes of a slot's own state, without buffers.
    pub(super) fn bytes_for(workers: u64) -> u64 {
        2 * size_of::<u64>() as u64 * workers + size_of::<Self>() as u64
    }

    pub(super) fn element(&self) -> Element {
        self.element
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether there is an optimizer and no parameters are set yet.
    pub(super) fn lacks_parameters(&self) -> bool {
        self.optimizer.is_some() && self.value.is_none()
    }

    /// Decides how to treat a contribution. `step` is the lower half of its step's number; `resumed` says that the
    /// worker was restarted and continues where it was.
    pub(super) fn expects(&self, worker: u32, step: u32, step_mode: StepMode, resumed: bool) -> Expectation {
        let pushed = self.pushed[worker as usize];
        // In an asynchronous job, the steps of workers are independent.
        if step_mode == StepMode::Asynchronous {
            return Expectation::New;
        }
        if step == (pushed + 1) as u32 {
            // A worker that was lost may have been ahead of the leader that announced it.
            let before =
                self.rounds.get(&(pushed + 1)).is_some_and(|round| round.contributors.contains(&worker));
            return if before { Expectation::Again } else { Expectation::New };
        }
        let behind = (pushed as u32).wrapping_sub(step);
        if resumed && u64::from(behind) < pushed { Expectation::Again } else { Expectation::Unexpected }
    }

    /// Returns how many contributions of a worker are beyond the open step.
    pub(super) fn ahead(&self, worker: u32) -> u64 {
        self.pushed[worker as usize].saturating_sub(self.version + 1)
    }

    /// Takes a worker's contribution to its next step. With `asks`, the worker wants the result.
    pub(super) fn push(&mut self, worker: u32, buffer: Buffer, asks: bool, context: &mut Context<'_>) {
        let pushed = &mut self.pushed[worker as usize];
        *pushed += 1;
        let step = *pushed;
        if context.contract.terms.step_mode == StepMode::Asynchronous {
            self.apply(buffer, 1, context);
            if asks {
                self.pull(worker, 0, context);
            }
            return;
        }
        let round = self.rounds.entry(step).or_default();
        round.contributors.insert(worker);
        if asks {
            round.askers.push(worker);
        }
        match (&mut round.sum, context.contract.association) {
            (_, Association::Seats) => _ = round.held.insert(worker, buffer),
            (None, Association::Arrival) => round.sum = Some(buffer),
            (Some(sum), Association::Arrival) => {
                sum.combine(&buffer, self.element, context.contract.reduction);
                context.pool.give(buffer);
            }
        }
        self.advance(context);
    }

    /// Counts a step that a restarted worker has pushed again. Its contribution was received before.
    pub(super) fn push_again(&mut self, worker: u32, step: u32, context: &mut Context<'_>) {
        let pushed = &mut self.pushed[worker as usize];
        if step == (*pushed + 1) as u32 {
            *pushed += 1;
            self.advance(context);
        }
    }

    /// Replies with a value of at least a version, now or once there is one.
    pub(super) fn pull(&mut self, worker: u32, version: u64, context: &mut Context<'_>) {
        let value = match (&self.before, &self.value) {
            (Some(before), _) if before.version == version => before,
            (_, Some(value)) if value.version >= version => value,
            _ => {
                self.pulls.push(WaitingPull { worker, version });
                return;
            }
        };
        context.replies.push(Reply { worker, value: value.clone() });
    }

    /// Returns the version, near the current one, of which `version` is the lower half.
    pub(super) fn full_version(&self, version: u32) -> u64 {
        let ahead = version.wrapping_sub(self.version as u32) as i32;
        self.version.saturating_add_signed(i64::from(ahead))
    }

    /// Replaces the value by one from outside, such as the first parameters.
    pub(super) fn set(&mut self, buffer: Buffer, context: &mut Context<'_>) {
        self.replace(buffer, 0, context);
        self.reply_to_pulls(context);
    }

    /// Completes steps to which all active workers have contributed.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) {
        while self.is_complete(context) {
            let step = self.version + 1;
            let Round { sum, held, contributors, askers } = self.rounds.remove(&step).unwrap_or_default();
            let (element, reduction) = (self.element, context.contract.reduction);
            let sum = sum.unwrap_or_else(|| {
                let mut sum = context.pool.take(self.bytes);
                let all: Vec<&[u8]> = held.values().map(Buffer::as_slice).collect();
                reduce_tall(element, reduction, sum.as_mut_slice(), &all).expect("checked with the terms");
                sum
            });
            held.into_values().for_each(|buffer| context.pool.give(buffer));
            let sum = Sum { buffer: sum, contributors: contributors.len() as u16 };
            match &mut context.bridge {
                Some(bridge) => {
                    **bridge = Some(sum);
                    self.exchanging = Some(askers);
                }
                None => self.complete_step(sum, askers, context),
            }
        }
    }

    /// Takes the sum of all racks.
    pub(super) fn take_total(&mut self, sum: Sum, context: &mut Context<'_>) {
        let Some(askers) = self.exchanging.take() else { return };
        self.complete_step(sum, askers, context);
        self.advance(context);
    }

    /// Completes the open step.
    fn complete_step(&mut self, sum: Sum, askers: Vec<u32>, context: &mut Context<'_>) {
        self.apply(sum.buffer, sum.contributors, context);
        let value = self.value.clone().expect("just put there");
        context.replies.extend(askers.into_iter().map(|worker| Reply { worker, value: value.clone() }));
        if let Some(next) = self.rounds.get(&(self.version + 1)) {
            context.caught_up.extend(&next.contributors);
        }
    }

    /// Returns whether all active workers have pushed the open step.
    fn is_complete(&self, context: &Context<'_>) -> bool {
        self.rounds.contains_key(&(self.version + 1))
            && self.exchanging.is_none()
            && self.missing(context.active).next().is_none()
    }

    /// Returns the active workers that have not pushed the open step. A contribution from before a restart does not
    /// count: a step is complete only once the restarted worker has reached it.
    fn missing(&self, active: &[bool]) -> impl Iterator<Item = u32> {
        let open = self.version + 1;
        let all = (0u32..).zip(active).zip(self.from.iter().zip(&self.pushed));
        let late =
            all.filter(move |&((_, &active), (&from, &pushed))| active && from <= open && pushed < open);
        late.map(|((worker, _), _)| worker)
    }

    /// Returns the open step and the workers that block it, if some worker waits for it.
    pub(super) fn blocked(&self, active: &[bool]) -> Option<OpenStep> {
        let open = self.version + 1;
        if self.exchanging.is_some() {
            return None;
        }
        let empty = Round::default();
        let round = self.rounds.get(&open).unwrap_or(&empty);
        if round.contributors.is_empty() && self.pulls.is_empty() {
            return None;
        }
        Some(OpenStep { step: open, missing: self.missing(active).collect() })
    }

    /// Returns the workers that wait for others.
    pub(super) fn waiting(&self, active: &[bool]) -> impl Iterator<Item = u32> {
        let blocked = self.exchanging.is_none() && self.missing(active).next().is_some();
        let askers = self.rounds.values().flat_map(|round| &round.askers);
        askers.chain(self.pulls.iter().map(|pull| &pull.worker)).filter(move |_| blocked).copied()
    }

    /// Makes the next value from the combined contributions of a step.
    fn apply(&mut self, mut sum: Buffer, contributors: u16, context: &mut Context<'_>) {
        let contract = context.contract;
        if contract.mean && contributors > 1 {
            let share = 1.0 / f64::from(contributors);
            scale_into(self.element, sum.as_mut_slice(), share).expect("checked with the terms");
        }
        let asynchronous = contract.terms.step_mode == StepMode::Asynchronous;
        self.version += 1;
        let Some(optimizer) = self.optimizer.clone() else {
            // In an asynchronous job, contributions accumulate.
            if let (true, Some(value)) = (asynchronous, &self.value) {
                sum.combine(&value.buffer, self.element, contract.reduction);
            }
            self.replace(sum, contributors, context);
            self.capture_if_due();
            self.reply_to_pulls(context);
            return;
        };
        while self.rates.get(1).is_some_and(|change| change.from <= self.version) {
            self.rates.remove(0);
        }
        let change = self.rates.first().filter(|change| change.from <= self.version);
        let rate = change.map(|change| change.rate);
        let value = self.value.take().expect("nothing is pushed before parameters are set");
        let keeps = contract.terms.policy == LossPolicy::Wait;
        let mut parameters = if keeps { Err(value.buffer) } else { Arc::try_unwrap(value.buffer) }
            .unwrap_or_else(|buffer| {
                // Connections that still send the old value need it unchanged.
                let mut copy = context.pool.take(self.bytes);
                copy.as_mut_slice().copy_from_slice(buffer.as_slice());
                let old = std::mem::replace(&mut self.before, keeps.then_some(Value { buffer, ..value }));
                if let Some(Ok(buffer)) = old.map(|old| Arc::try_unwrap(old.buffer)) {
                    context.pool.give(buffer);
                }
                copy
            });
        if Arc::get_mut(&mut self.memory).is_none() {
            // A save still needs the state as it is.
            self.memory = Arc::new(self.memory.iter().map(Buffer::copy).collect());
        }
        let memory = Arc::get_mut(&mut self.memory).expect("no other owner is left");
        memory.resize_with(optimizer.vectors(), || Buffer::new(self.bytes));
        optimizer.update(Update {
            element: self.element,
            parameters: parameters.as_mut_slice(),
            gradient: sum.as_mut_slice(),
            memory,
            step: self.version,
            rate,
        });
        context.pool.give(sum);
        self.value = Some(Value { buffer: Arc::new(parameters), version: self.version, contributors });
        self.capture_if_due();
        self.reply_to_pulls(context);
    }

    /// Replaces the value.
    fn replace(&mut self, buffer: Buffer, contributors: u16, context: &mut Context<'_>) {
        let value = Value { buffer: Arc::new(buffer), version: self.version, contributors };
        let old = self.value.replace(value);
        // A value that was set replaces one of the same step, which is not the value before.
        let keeps = context.contract.terms.policy == LossPolicy::Wait
            && old.as_ref().is_some_and(|old| old.version < self.version);
        let older = if keeps { std::mem::replace(&mut self.before, old) } else { old };
        if let Some(Ok(buffer)) = older.map(|value| Arc::try_unwrap(value.buffer)) {
            context.pool.give(buffer);
        }
    }

    /// Replies to workers that have waited for the current value.
    fn reply_to_pulls(&mut self, context: &mut Context<'_>) {
        let Some(value) = &self.value else { return };
        let now = self.pulls.extract_if(.., |pull| pull.version <= value.version);
        context.replies.extend(now.map(|pull| Reply { worker: pull.worker, value: value.clone() }));
    }

    /// Forgets what a worker has asked for: its connection is gone.
    pub(super) fn forget_requests(&mut self, worker: u32) {
        self.pulls.retain(|pull| pull.worker != worker);
        self.rounds.values_mut().for_each(|round| round.askers.retain(|&asker| asker != worker));
        if let Some(askers) = &mut self.exchanging {
            askers.retain(|&asker| asker != worker);
        }
    }

    /// Lets a worker take part from the next step on that its leader pushes.
    pub(super) fn admit(&mut self, worker: u32, leader: u32) {
        let pushed = self.pushed[leader as usize];
        self.pushed[worker as usize] = pushed;
        self.from[worker as usize] = pushed + 1;
    }

    /// Returns whether a worker has pushed since it was admitted.
    pub(super) fn has_begun(&self, worker: u32) -> bool {
        self.pushed[worker as usize] >= self.from[worker as usize]
    }

    /// Lets a restarted worker continue where it was, or at the open step if the others have gone on without it.
    pub(super) fn resume(&mut self, worker: u32) {
        let pushed = &mut self.pushed[worker as usize];
        *pushed = self.version.max(*pushed);
        let from = &mut self.from[worker as usize];
        *from = (*pushed + 1).min(*from);
    }

    /// Returns how many steps a worker has pushed. Steps before it took part count.
    pub(super) fn pushed(&self, worker: u32) -> u64 {
        self.pushed[worker as usize]
    }

    /// Changes the learning rate from a step on. Returns whether that is news: racks may hear of a change several times.
    pub(super) fn set_rate(&mut self, rate: f64, from: u64) -> bool {
        // Without an optimizer, entries would never be used or removed.
        let replaced = |known: &RateChange| known.from > from && known.from <= self.version;
        if self.optimizer.is_none() || self.rates.iter().any(replaced) {
            return false;
        }
        let place = self.rates.partition_point(|known| known.from < from);
        match self.rates.get_mut(place).filter(|known| known.from == from) {
            Some(known) if known.rate == rate => return false,
            Some(known) => known.rate = rate,
            None => self.rates.insert(place, RateChange { from, rate }),
        }
        true
    }

    /// Returns whether a worker already waits for the most values that one worker may ask for at a time.
    pub(super) fn has_too_many_pulls(&self, worker: u32) -> bool {
        const MAX_PULLS: usize = 16;
        self.pulls.iter().filter(|pull| pull.worker == worker).count() >= MAX_PULLS
    }
}
