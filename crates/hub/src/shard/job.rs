//! A job's chunks on one core, with what the core knows about the job's workers and racks.

use super::report::{Attempt, Counters};
use crate::bridge::Bridge;
use crate::slot::Slot;
use crate::terms::Contract;
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
        }
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
