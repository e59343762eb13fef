//! Sweeps over all chunks of a job: creates their slots, removes lost workers, lets restarted workers continue, and
//! finds which workers wait.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::{Attempt, Blocked, Joined, Reports, Waits, WaitsReport};
use crate::saved::SavedChunk;
use crate::slot::{OpenStep, Slot};
use std::collections::{BTreeMap, VecDeque};

/// Work on all chunks of a job. There may be millions, so the core does a part at a time, in turn with other jobs. It
/// reads nothing from the job's connections until the sweep is complete.
#[derive(Debug)]
pub(super) enum Sweep {
    /// Creates the slots of these chunks, from what a save has kept of them, if anything. The first `done` exist already.
    Assign { chunks: Vec<u32>, done: usize, saved: BTreeMap<u32, SavedChunk> },
    /// Forgets the requests of a worker whose connection is gone.
    Detach { worker: u32 },
    /// Advances all slots after a worker is lost: the others may go on without it.
    Advance,
    /// Lets a worker continue where it was, and collects the steps that it has completed.
    Resume { worker: u32, attempt: Attempt, steps: BTreeMap<u32, u64> },
    /// Finds which workers block a step of a vector, and which workers wait.
    ReportWaits { worker: u32, key: u32, step: u64, waits: Waits },
}

/// The most chunks of one part of a sweep: about a millisecond's work.
pub(super) const PART: usize = 1 << 11;

/// The sweeps to do for a job, each with the first chunk that it has not reached.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    queue: VecDeque<(Sweep, u32)>,
}

impl Sweeps {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Starts a sweep over all chunks of the job. With few chunks it is complete at once, unless others precede it.
    pub(super) fn start(
        &mut self,
        sweep: Sweep,
        job: &mut ShardJob,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) {
        self.queue.push_back((sweep, 0));
        if self.queue.len() == 1 {
            self.run_part(job, endpoints, reports);
        }
    }

    /// Does a part of the job's first sweep.
    pub(super) fn run_part(&mut self, job: &mut ShardJob, endpoints: &mut Endpoints, reports: &mut Reports) {
        let Some((mut sweep, first)) = self.queue.pop_front() else { return };
        if let Some(next) = sweep.run_part(first, job, endpoints, reports) {
            self.queue.push_front((sweep, next));
        }
    }
}

impl Sweep {
    /// Does the part that begins at chunk `first`. Returns where the next part begins, if there is more to do.
    fn run_part(
        &mut self,
        first: u32,
        job: &mut ShardJob,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) -> Option<u32> {
        if let Self::Assign { chunks, done, saved } = self {
            let more = &chunks[*done..(*done + PART).min(chunks.len())];
            for &chunk in more {
                let mut slot = Slot::new(&job.contract, chunk);
                if let Some(saved) = saved.remove(&chunk) {
                    slot.restore(saved);
                }
                job.slots.insert(chunk, slot);
            }
            *done += more.len();
            job.assigned = *done == chunks.len();
            return (!job.assigned).then_some(0);
        }
        let part: Vec<u32> = job.slots.range(first..).take(PART).map(|(&chunk, _)| chunk).collect();
        let next = part.last().filter(|_| part.len() == PART).map(|last| last + 1);
        match self {
            Self::Assign { .. } => {}
            Self::Detach { worker } => {
                let slots = job.slots.range_mut(first..).take(PART);
                slots.for_each(|(_, slot)| slot.forget_requests(*worker));
            }
            Self::Advance => {
                for chunk in part {
                    job.update(chunk, endpoints, reports, |slot, context| slot.advance(context));
                }
            }
            Self::Resume { worker, attempt, steps } => {
                let slots = job.slots.range_mut(first..).take(PART);
                slots.for_each(|(_, slot)| slot.resume(*worker));
                part.into_iter().for_each(|chunk| job.note_steps(chunk, *worker, steps));
                if next.is_none() {
                    let (worker, attempt, steps) = (*worker, *attempt, std::mem::take(steps));
                    reports.joined.push(Joined { job: job.number, worker, attempt, steps });
                }
            }
            Self::ReportWaits { worker, key, step, waits } => {
                for (&chunk, slot) in job.slots.range(first..).take(PART) {
                    let asked = job.contract.catalogue.piece(chunk).key == *key && slot.version() < *step;
                    if asked && waits.blocked.is_none() {
                        let blocked = slot.blocked(&job.active).filter(|open| !open.missing.is_empty());
                        waits.blocked =
                            blocked.map(|OpenStep { step, missing }| Blocked { chunk, step, missing });
                    }
                    waits.waiting.extend(slot.waiting(&job.active));
                }
                if next.is_none() {
                    let waits = std::mem::take(waits);
                    reports.waits.push(WaitsReport { job: job.number, worker: *worker, waits });
                }
            }
        }
        next
    }
}
