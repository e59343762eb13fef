//! Remote memory: a latency and a rate. A shared memory serves one transaction at a time, first come, first
//! served.
//! ASTRA-sim 2, `AnalyticalRemoteMemory.cc`.

use crate::network::whole_ns;
use crate::system::timers::Timer;
use crate::world::World;
use std::collections::VecDeque;
use syncline_formats::astra2::{Memory, MemoryKind};

/// A waiting transaction: rank, node, bytes.
type Waiting = (u32, u32, u64);

/// The remote memories.
pub(crate) struct RemoteMemory {
    kind: MemoryKind,
    latency: u64,
    bytes_per_s: f64,
    /// For each shared memory: whether it is busy, and the waiting transactions.
    shared: Vec<(bool, VecDeque<Waiting>)>,
}

impl RemoteMemory {
    pub(crate) fn new(memory: &Memory) -> Self {
        let shared = match memory.kind {
            MemoryKind::None | MemoryKind::PerNpu => 0,
            MemoryKind::PerNode { nodes, .. } => nodes as usize,
            MemoryKind::Pool => 1,
        };
        Self {
            kind: memory.kind,
            latency: memory.latency,
            bytes_per_s: memory.bandwidth * 1e9,
            shared: vec![(false, VecDeque::new()); shared],
        }
    }
    /// Returns the number of a rank's shared memory.
    fn of(&self, rank: u32) -> Option<u32> {
        match self.kind {
            MemoryKind::None | MemoryKind::PerNpu => None,
            MemoryKind::PerNode { npus_per_node, .. } => Some(rank / npus_per_node),
            MemoryKind::Pool => Some(0),
        }
    }
    fn time(&self, bytes: u64) -> u64 {
        self.latency.saturating_add(whole_ns(bytes as f64 / self.bytes_per_s * 1e9))
    }
}

impl World<'_> {
    /// Starts a transaction, or queues it.
    pub(crate) fn access_memory(&mut self, rank: u32, node: u32, bytes: u64) {
        let shared = self.memory.of(rank);
        if let Some((busy, waiting)) = shared.and_then(|number| self.memory.shared.get_mut(number as usize)) {
            if *busy {
                waiting.push_back((rank, node, bytes));
                return;
            }
            *busy = true;
        }
        self.transact(rank, node, bytes, shared);
    }

    /// Called when a shared memory is free again: starts the next waiting transaction.
    pub(crate) fn memory_free(&mut self, number: u32) {
        let Some((busy, waiting)) = self.memory.shared.get_mut(number as usize) else { return };
        match waiting.pop_front() {
            Some((rank, node, bytes)) => self.transact(rank, node, bytes, Some(number)),
            None => *busy = false,
        }
    }

    fn transact(&mut self, rank: u32, node: u32, bytes: u64, shared: Option<u32>) {
        let time = self.memory.time(bytes);
        self.set_timer(rank, time, Timer::Node(node));
        if let Some(number) = shared {
            self.set_timer(rank, time, Timer::MemoryFree(number));
        }
    }
}
