//! One chunk on a hub: what workers have pushed, and what has become of it.
//!
//! A worker pushes a chunk once a step, and steps are counted from 1. What is pushed for a step gathers in its *round*; when
//! the last worker has pushed, the round is combined, the optimizer makes new parameters of it, and whoever asked is
//! answered. A round of the next step may begin meanwhile: it has memory of its own, so that a slow reader of one step's
//! result holds nobody up (luo2020, section 3.2.1).

use super::bridge::Sum;
use super::optimizer::{Optimizer, Update};
use super::terms::{Contract, Pace, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_protocol::operation::Association;
use syncline_reduction::{Element, reduce_tall, scale_into};

/// What a chunk is after a step.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) buffer: Arc<Buffer>,
    /// How many steps it has behind it.
    pub(super) version: u64,
    /// How many workers had a part in the last.
    pub(super) contributors: u16,
}

/// A worker gets a value.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) worker: u32,
    pub(super) value: Value,
}

/// What a slot needs of its shard to go on.
pub(super) struct Setting<'a> {
    pub(super) contract: &'a Contract,
    /// Whether a worker is waited for, by worker.
    pub(super) here: &'a [bool],
    pub(super) pool: &'a mut Pool,
    pub(super) answers: &'a mut Vec<Answer>,
    /// Workers of whom a contribution is no longer ahead of the others.
    pub(super) caught_up: &'a mut Vec<u32>,
    /// Where hubs of other racks have a part in the sum: what this rack has summed.
    pub(super) bridge: Option<&'a mut Option<Sum>>,
}

/// What becomes of something that is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is taken.
    Take,
    /// It is here already, from before the worker was started again: only that it came is of interest.
    Again,
    /// It is not awaited.
    Unknown,
}

/// What has been pushed for a step.
#[derive(Debug, Default)]
struct Round {
    sum: Option<Buffer>,
    /// Contributions that are combined in the order of workers.
    held: BTreeMap<u32, Buffer>,
    who: BTreeSet<u32>,
    asks: Vec<u32>,
}

/// One chunk.
#[derive(Debug)]
pub(super) struct Slot {
    element: Element,
    bytes: usize,
    version: u64,
    value: Option<Value>,
    /// The value before it, where a worker that is started again may need it.
    before: Option<Value>,
    optimizer: Option<Arc<dyn Optimizer>>,
    /// What it remembers, once it has been at work: memory that is laid out for all chunks at once keeps other jobs waiting.
    memory: Vec<Buffer>,
    rounds: BTreeMap<u64, Round>,
    /// Who waits for the sum of all racks, once that of this one has gone to the others.
    away: Option<Vec<u32>>,
    /// Workers that want a value of at least this version.
    pulls: Vec<(u32, u64)>,
    /// The newest step that each worker has pushed.
    pushed: Vec<u64>,
    /// The first step of which each worker is part.
    from: Vec<u64>,
    /// Learning rates other than that of the terms, and from which step on.
    rates: Vec<(u64, f64)>,
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
            memory: Vec::new(),
            rounds: BTreeMap::new(),
            away: None,
            pulls: Vec::new(),
            pushed: vec![0; workers],
            from: vec![1; workers],
            rates: Vec::new(),
        }
    }

    /// Bytes that it takes to keep count of a chunk of so many workers, beside the chunk itself.
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

    /// Whether there ought to be parameters to improve, and are none.
    pub(super) fn lacks_parameters(&self) -> bool {
        self.optimizer.is_some() && self.value.is_none()
    }

    /// Whether what a worker pushes under the lower half of a step's number is awaited. `resumed` says that the worker was
    /// started again.
    pub(super) fn admits(&self, worker: u32, step: u32, pace: Pace, resumed: bool) -> Admission {
        let pushed = self.pushed[worker as usize];
        // Without synchrony steps of workers have nothing to do with each other.
        if pace == Pace::Asynchronous {
            return Admission::Take;
        }
        if step == (pushed + 1) as u32 {
            // Whoever was lost may have been ahead of those that let it in again.
            let before = self.rounds.get(&(pushed + 1)).is_some_and(|round| round.who.contains(&worker));
            return if before { Admission::Again } else { Admission::Take };
        }
        let behind = (pushed as u32).wrapping_sub(step);
        if resumed && u64::from(behind) < pushed { Admission::Again } else { Admission::Unknown }
    }

    /// How many contributions of a worker are beyond the step that is open.
    pub(super) fn ahead(&self, worker: u32) -> u64 {
        self.pushed[worker as usize].saturating_sub(self.version + 1)
    }

    /// A worker pushes its next step; with `asks`, it wants the result.
    pub(super) fn push(&mut self, worker: u32, buffer: Buffer, asks: bool, setting: &mut Setting<'_>) {
        let pushed = &mut self.pushed[worker as usize];
        *pushed += 1;
        let step = *pushed;
        if setting.contract.terms.pace == Pace::Asynchronous {
            self.apply(buffer, 1, setting);
            if asks {
                self.pull(worker, 0, setting);
            }
            return;
        }
        let round = self.rounds.entry(step).or_default();
        round.who.insert(worker);
        if asks {
            round.asks.push(worker);
        }
        match (&mut round.sum, setting.contract.association) {
            (_, Association::Seats) => _ = round.held.insert(worker, buffer),
            (None, Association::Arrival) => round.sum = Some(buffer),
            (Some(sum), Association::Arrival) => {
                sum.combine(&buffer, self.element, setting.contract.reduction);
                setting.pool.give(buffer);
            }
        }
        self.settle(setting);
    }

    /// A worker has pushed a step of which the slot has its part already.
    pub(super) fn skip(&mut self, worker: u32, step: u32, setting: &mut Setting<'_>) {
        let pushed = &mut self.pushed[worker as usize];
        if step == (*pushed + 1) as u32 {
            *pushed += 1;
            self.settle(setting);
        }
    }

    /// A worker wants a value of at least a version.
    pub(super) fn pull(&mut self, worker: u32, version: u64, setting: &mut Setting<'_>) {
        let value = match (&self.before, &self.value) {
            (Some(before), _) if before.version == version => before,
            (_, Some(value)) if value.version >= version => value,
            _ => {
                self.pulls.push((worker, version));
                return;
            }
        };
        setting.answers.push(Answer { worker, value: value.clone() });
    }

    /// The whole version of which a worker gives the lower half.
    pub(super) fn whole(&self, version: u32) -> u64 {
        let ahead = version.wrapping_sub(self.version as u32) as i32;
        self.version.saturating_add_signed(i64::from(ahead))
    }

    /// A value from outside, such as the first parameters, takes the place of what there is.
    pub(super) fn set(&mut self, buffer: Buffer, setting: &mut Setting<'_>) {
        self.replace(buffer, 0, setting);
        self.satisfy(setting);
    }

    /// Goes on as far as the workers that are here let it.
    pub(super) fn settle(&mut self, setting: &mut Setting<'_>) {
        while self.complete(setting) {
            let step = self.version + 1;
            let Round { sum, held, who, asks } = self.rounds.remove(&step).unwrap_or_default();
            let (element, reduction) = (self.element, setting.contract.reduction);
            let sum = sum.unwrap_or_else(|| {
                let mut sum = setting.pool.take(self.bytes);
                let all: Vec<&[u8]> = held.values().map(Buffer::as_slice).collect();
                reduce_tall(element, reduction, sum.as_mut_slice(), &all).expect("checked with the terms");
                sum
            });
            held.into_values().for_each(|buffer| setting.pool.give(buffer));
            let sum = (sum, who.len() as u16);
            match &mut setting.bridge {
                Some(bridge) => {
                    **bridge = Some(sum);
                    self.away = Some(asks);
                }
                None => self.conclude(sum, asks, setting),
            }
        }
    }

    /// The sum of all racks is here.
    pub(super) fn concluded(&mut self, sum: Sum, setting: &mut Setting<'_>) {
        let Some(asks) = self.away.take() else { return };
        self.conclude(sum, asks, setting);
        self.settle(setting);
    }

    /// The open step is over.
    fn conclude(&mut self, (sum, contributors): Sum, asks: Vec<u32>, setting: &mut Setting<'_>) {
        self.apply(sum, contributors, setting);
        let value = self.value.clone().expect("just put there");
        setting.answers.extend(asks.into_iter().map(|worker| Answer { worker, value: value.clone() }));
        if let Some(next) = self.rounds.get(&(self.version + 1)) {
            setting.caught_up.extend(&next.who);
        }
    }

    /// Whether everybody who is waited for has pushed the open step.
    fn complete(&self, setting: &Setting<'_>) -> bool {
        self.rounds.contains_key(&(self.version + 1))
            && self.away.is_none()
            && self.missing(setting.here).next().is_none()
    }

    /// Workers of which the open step still needs something. A part from before a worker was started again is not enough:
    /// no step is over before the worker has come to it.
    fn missing(&self, here: &[bool]) -> impl Iterator<Item = u32> {
        let open = self.version + 1;
        let all = (0u32..).zip(here).zip(self.from.iter().zip(&self.pushed));
        let late = all.filter(move |&((_, &here), (&from, &pushed))| here && from <= open && pushed < open);
        late.map(|((worker, _), _)| worker)
    }

    /// The open step and who holds it up, if somebody waits for it.
    pub(super) fn held_up(&self, here: &[bool]) -> Option<(u64, Vec<u32>)> {
        let open = self.version + 1;
        if self.away.is_some() {
            return None;
        }
        let nobody = Round::default();
        let round = self.rounds.get(&open).unwrap_or(&nobody);
        if round.who.is_empty() && self.pulls.is_empty() {
            return None;
        }
        Some((open, self.missing(here).collect()))
    }

    /// Workers that wait for others.
    pub(super) fn waiting(&self, here: &[bool]) -> impl Iterator<Item = u32> {
        let held_up = self.away.is_none() && self.missing(here).next().is_some();
        let asks = self.rounds.values().flat_map(|round| &round.asks);
        asks.chain(self.pulls.iter().map(|(worker, _)| worker)).filter(move |_| held_up).copied()
    }

    /// One more step: of what was combined becomes a value.
    fn apply(&mut self, mut sum: Buffer, contributors: u16, setting: &mut Setting<'_>) {
        let contract = setting.contract;
        if contract.mean && contributors > 1 {
            let share = 1.0 / f64::from(contributors);
            scale_into(self.element, sum.as_mut_slice(), share).expect("checked with the terms");
        }
        let asynchronous = contract.terms.pace == Pace::Asynchronous;
        self.version += 1;
        let Some(optimizer) = self.optimizer.clone() else {
            // Without synchrony what is pushed adds up.
            if let (true, Some(value)) = (asynchronous, &self.value) {
                sum.combine(&value.buffer, self.element, contract.reduction);
            }
            self.replace(sum, contributors, setting);
            self.satisfy(setting);
            return;
        };
        while self.rates.get(1).is_some_and(|&(from, _)| from <= self.version) {
            self.rates.remove(0);
        }
        let rate = self.rates.first().filter(|&&(from, _)| from <= self.version).map(|&(_, rate)| rate);
        let value = self.value.take().expect("nothing is pushed before parameters are set");
        let keeps = contract.terms.policy == Policy::Wait;
        let mut parameters = if keeps { Err(value.buffer) } else { Arc::try_unwrap(value.buffer) }
            .unwrap_or_else(|buffer| {
                // Whoever still reads it reads what it was.
                let mut copy = setting.pool.take(self.bytes);
                copy.as_mut_slice().copy_from_slice(buffer.as_slice());
                let old = std::mem::replace(&mut self.before, keeps.then_some(Value { buffer, ..value }));
                if let Some(Ok(buffer)) = old.map(|old| Arc::try_unwrap(old.buffer)) {
                    setting.pool.give(buffer);
                }
                copy
            });
        self.memory.resize_with(optimizer.vectors(), || Buffer::new(self.bytes));
        optimizer.update(Update {
            element: self.element,
            parameters: parameters.as_mut_slice(),
            gradient: sum.as_mut_slice(),
            memory: &mut self.memory,
            step: self.version,
            rate,
        });
        setting.pool.give(sum);
        self.value = Some(Value { buffer: Arc::new(parameters), version: self.version, contributors });
        self.satisfy(setting);
    }

    /// Puts a value in the place of what there is.
    fn replace(&mut self, buffer: Buffer, contributors: u16, setting: &mut Setting<'_>) {
        let value = Value { buffer: Arc::new(buffer), version: self.version, contributors };
        let old = self.value.replace(value);
        // What was set anew is not the step before.
        let keeps = setting.contract.terms.policy == Policy::Wait
            && old.as_ref().is_some_and(|old| old.version < self.version);
        let older = if keeps { std::mem::replace(&mut self.before, old) } else { old };
        if let Some(Ok(buffer)) = older.map(|value| Arc::try_unwrap(value.buffer)) {
            setting.pool.give(buffer);
        }
    }

    /// Answers those who have waited for the value that there is.
    fn satisfy(&mut self, setting: &mut Setting<'_>) {
        let Some(value) = &self.value else { return };
        let now = self.pulls.extract_if(.., |&mut (_, version)| version <= value.version);
        setting.answers.extend(now.map(|(worker, _)| Answer { worker, value: value.clone() }));
    }

    /// A worker is lost: nothing that it has asked for is answered.
    pub(super) fn lose(&mut self, worker: u32) {
        self.pulls.retain(|&(who, _)| who != worker);
        self.rounds.values_mut().for_each(|round| round.asks.retain(|&who| who != worker));
        if let Some(asks) = &mut self.away {
            asks.retain(|&who| who != worker);
        }
    }

    /// A worker joins from the next step on that another one pushes.
    pub(super) fn admit(&mut self, worker: u32, leader: u32) {
        let pushed = self.pushed[leader as usize];
        self.pushed[worker as usize] = pushed;
        self.from[worker as usize] = pushed + 1;
    }

    /// Whether a worker has pushed since it was admitted.
    pub(super) fn has_begun(&self, worker: u32) -> bool {
        self.pushed[worker as usize] >= self.from[worker as usize]
    }

    /// A worker takes up where it was, or at the open step, if the others have gone on without it.
    pub(super) fn resume(&mut self, worker: u32) {
        let pushed = &mut self.pushed[worker as usize];
        *pushed = self.version.max(*pushed);
        let from = &mut self.from[worker as usize];
        *from = (*pushed + 1).min(*from);
    }

    /// How many steps a worker has pushed, or others before it was part of the job.
    pub(super) fn pushed(&self, worker: u32) -> u64 {
        self.pushed[worker as usize]
    }

    /// Another learning rate, from the step on that a worker pushes next; without synchrony, at once.
    pub(super) fn set_rate(&mut self, rate: f64, worker: u32, asynchronous: bool) {
        // Nothing would ever make use of it, nor forget it.
        if self.optimizer.is_none() {
            return;
        }
        let from = if asynchronous { 0 } else { self.pushed[worker as usize] + 1 };
        self.rates.retain(|&(known, _)| known < from);
        self.rates.push((from, rate));
    }

    /// Whether a worker waits so often for a value that it may ask no more.
    pub(super) fn owes_answers(&self, worker: u32) -> bool {
        const EACH: usize = 16;
        self.pulls.iter().filter(|&&(who, _)| who == worker).count() >= EACH
    }
}
