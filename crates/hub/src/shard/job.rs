//! A job's chunks on one core, with what the core knows about the job's workers and racks.

use super::report::{Attempt, Counters, Reports, SavedShare};
use crate::bridge::Bridge;
use crate::saved::{SavedChunk, SavedRate};
use crate::slot::Slot;
use crate::terms::{Contract, StepMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_protocol::memory::{Buffer, Pool};
use syncline_protocol::wire::Header;

/// The memory of a core that a job may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that a worker may be ahead of others before the core stops reading from it.
    pub ahead: usize,
    /// Bytes of buffers. The core keeps no unused buffers beyond that.
    pub buffers: usize,
}

/// The connection to a rack, and the frames that wait until there is one.
#[derive(Debug, Default)]
pub(super) struct RackPath {
    pub(super) connection: Option<u32>,
    pub(super) waiting: Vec<(Header, Arc<Buffer>)>,
    /// Whether the rack has finished the job and closed its connection.
    pub(super) left: bool,
}

/// A job's chunks on this core.
#[derive(Debug)]
pub(super) struct ShardJob {
    pub(super) number: u32,
    pub(super) contract: Arc<Contract>,
    pub(super) epoch: u16,
    pub(super) slots: BTreeMap<u32, Slot>,
    /// Whether all slots of this core's chunks exist. Until then the core reads nothing from the job's connections.
    pub(super) assigned: bool,
    /// Bytes that a worker may be ahead before the core stops reading from it.
    pub(super) ahead: usize,
    pub(super) pool: Pool,
    /// Whether this rack's workers have finished. Sums that other racks need are still sent.
    pub(super) retiring: bool,
    /// Present if there are hubs in other racks.
    pub(super) bridge: Option<Bridge>,
    /// The connection to each rack.
    pub(super) racks: Vec<RackPath>,
    /// Whether the open step waits for each worker.
    pub(super) active: Vec<bool>,
    /// Workers that have left or are lost.
    pub(super) gone: BTreeSet<u32>,
    /// The connection of each worker.
    pub(super) worker_connections: Vec<Option<u32>>,
    /// Restarted workers that continue where they were.
    pub(super) resumed: BTreeSet<u32>,
    /// Restarted workers that another worker must announce, with their attempt.
    pub(super) expected: BTreeMap<u32, Attempt>,
    pub(super) counters: Counters,
    /// The learning rates that a worker has set for a vector since its last push of it.
    pub(super) set_rates: BTreeMap<(u32, u32), SavedRate>,
    /// The save that waits for chunks to complete their step.
    pub(super) saving: Option<SavedShare>,
}

impl ShardJob {
    /// Creates a job without chunks.
    pub(super) fn new(number: u32, contract: Arc<Contract>, epoch: u16) -> Self {
        let workers = contract.terms.workers as usize;
        Self {
            number,
            contract,
            epoch,
            slots: BTreeMap::new(),
            assigned: false,
            ahead: 0,
            pool: Pool::default(),
            retiring: false,
            bridge: None,
            racks: Vec::new(),
            active: vec![true; workers],
            gone: BTreeSet::new(),
            worker_connections: vec![None; workers],
            resumed: BTreeSet::new(),
            expected: BTreeMap::new(),
            counters: Counters::default(),
            set_rates: BTreeMap::new(),
            saving: None,
        }
    }

    /// Begins a save that a worker has announced. It replaces one that waits for chunks. Two workers may announce saves
    /// with the same number; each core reports both or the later one, and never chunks of both together.
    pub(super) fn save(&mut self, leader: u32, number: u64, reports: &mut Reports) {
        if self.saving.as_ref().is_some_and(|saving| (saving.number, saving.leader) == (number, leader)) {
            return;
        }
        let asynchronous = self.contract.terms.step_mode == StepMode::Asynchronous;
        let mut chunks = BTreeMap::new();
        for (&chunk, slot) in &mut self.slots {
            let key = self.contract.catalogue.piece(chunk).key;
            slot.save(leader, asynchronous, self.set_rates.get(&(leader, key)).copied());
            chunks.extend(slot.take_captured().map(|saved| (chunk, saved)));
        }
        self.saving = Some(SavedShare { job: self.number, number, leader, chunks });
        self.report_save(reports);
    }

    /// Adds a chunk to the save that waits for it.
    pub(super) fn add_to_save(&mut self, chunk: u32, saved: SavedChunk, reports: &mut Reports) {
        if let Some(saving) = &mut self.saving {
            saving.chunks.insert(chunk, saved);
            self.report_save(reports);
        }
    }

    /// Reports the save once it has all chunks.
    fn report_save(&mut self, reports: &mut Reports) {
        let all = self.slots.len();
        reports.saved.extend(self.saving.take_if(|saving| saving.chunks.len() == all));
    }

    /// Sets the memory that the job may use, and the rack of this hub, if the job has racks.
    pub(super) fn set_up(&mut self, rack: Option<u32>, bounds: Bounds) {
        if let (Some(racks), Some(rack)) = (&self.contract.terms.racks, rack) {
            let mut workers = vec![0; racks.hubs.len()];
            racks.rack_of_worker.iter().for_each(|&of| workers[of as usize] += 1);
            self.racks = workers.iter().map(|_| RackPath::default()).collect();
            self.bridge = Some(Bridge::new(racks.exchange, rack, workers));
            for (active, &of) in self.active.iter_mut().zip(&racks.rack_of_worker) {
                *active = of == rack;
            }
        }
        self.ahead = bounds.ahead;
        self.pool = Pool::of(bounds.buffers);
    }

    /// Lowers the entry of a chunk's vector in `steps` to the number of steps of the chunk that a worker has pushed.
    pub(super) fn note_steps(&self, chunk: u32, worker: u32, steps: &mut BTreeMap<u32, u64>) {
        let Some(slot) = self.slots.get(&chunk) else { return };
        let (key, pushed) = (self.contract.catalogue.piece(chunk).key, slot.pushed(worker));
        steps.entry(key).and_modify(|least| *least = pushed.min(*least)).or_insert(pushed);
    }
}
