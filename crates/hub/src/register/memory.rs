//! The share of a hub's memory that a job may use.

use crate::assignment::{HubList, Routes};
use crate::slot::Slot;
use crate::terms::{Contract, LossPolicy};
use syncline_protocol::memory::Pool;
use syncline_protocol::operation::Association;

/// Which of a job's chunks each core of a hub has, and the memory that they need.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The chunks of each core.
    pub chunks: Vec<Vec<u32>>,
    /// Bytes of memory that each core's chunks need.
    pub needs: Vec<u64>,
    /// Bytes of a buffer for the largest chunk.
    pub largest: u64,
}

/// The memory of a hub that a job may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of buffers at each core. A core keeps no unused buffers beyond that.
    pub cores: Vec<usize>,
    /// Bytes that a worker may be ahead of others at a core.
    pub ahead: usize,
}

impl Shares {
    /// Computes the shares of one of the hubs. Takes a while if there are many chunks.
    /// `saves` says that the hub keeps saves of the job.
    pub fn new(contract: &Contract, HubList { hubs, own }: &HubList, saves: bool) -> Self {
        let chunks = Routes::new(contract, hubs).shares(*own);
        let largest =
            chunks.iter().flatten().map(|&chunk| contract.catalogue.bytes(chunk)).max().unwrap_or(0);
        let needs = chunks.iter().map(|chunks| needs(contract, chunks, saves)).collect();
        Self { needs, largest: Pool::capacity(largest as usize) as u64, chunks }
    }

    /// Computes how much of `free` bytes a job of `workers` may use. A worker may be ahead by at least one chunk at
    /// each core, and by at most `most` bytes, plus a chunk in transit; results that it does not read take as much
    /// again. Half of what is left over stays free for later jobs.
    ///
    /// # Errors
    /// The bytes that the job needs at least, if that is more than `free`.
    pub fn fit(&self, workers: u64, free: u64, most: usize) -> Result<MemoryShare, u64> {
        let each = |ahead: u64| workers.saturating_mul(2 * ahead.saturating_add(self.largest));
        let all = |ahead: u64| {
            let needs = self.needs.iter().copied().fold(0, u64::saturating_add);
            needs.saturating_add(each(ahead).saturating_mul(self.needs.len() as u64))
        };
        let least = all(self.largest);
        let Some(spare) = free.checked_sub(least) else { return Err(least) };
        let ways = 2 * workers.max(1) * self.needs.len().max(1) as u64;
        let ahead = (self.largest + spare / 2 / ways).min((most as u64).max(self.largest));
        let core = |needs: &u64| usize::try_from(needs.saturating_add(each(ahead))).unwrap_or(usize::MAX);
        let cores = self.needs.iter().map(core).collect();
        Ok(MemoryShare { bytes: all(ahead), cores, ahead: usize::try_from(ahead).unwrap_or(usize::MAX) })
    }
}

/// Returns the bytes that a hub needs for chunks of the job: the value of each, the contributions to the open step
/// and the next, the state of optimizers, and the state of each worker. A job that combines in the order of workers
/// keeps all contributions until the last has arrived; one that waits for lost workers also keeps the value before;
/// one with racks also keeps the sums of other racks; one that is saved also keeps the state that is being written. Workers that are further ahead or read slowly need more, up
/// to the hub's limit.
fn needs<'a>(contract: &Contract, chunks: impl IntoIterator<Item = &'a u32>, saves: bool) -> u64 {
    let kept = 1 + u64::from(contract.terms.policy == LossPolicy::Wait) + u64::from(saves);
    let workers = u64::from(contract.terms.workers);
    let in_order = contract.association == Association::Seats;
    let pushed = 2 * if in_order { workers } else { 1 } + 2 * u64::from(contract.terms.racks.is_some());
    let of = |&chunk: &u32| {
        let bytes = contract.catalogue.bytes(chunk);
        let remembered = contract.optimizer(chunk).map_or(0, |optimizer| optimizer.vectors()) as u64;
        Pool::capacity(bytes as usize) as u64 * (kept + pushed)
            + bytes * remembered * (1 + u64::from(saves))
            + Slot::bytes_for(workers)
    };
    chunks.into_iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::Cores;
    use crate::optimizer::Optimizers;
    use crate::terms::Terms;

    #[test]
    fn a_job_uses_no_more_memory_than_the_hub_gives_it() {
        // 64 ranks, and vectors of 100 MB in chunks of 32 KiB at 8 cores, on a host of 16 GB whose hub has half of
        // that.
        let text = r#"{"workers": 64, "keys": [{"name": "w", "element": "f32", "elements": 25000000}]}"#;
        let terms: Terms = serde_json::from_str(text).unwrap();
        let contract = terms.contract(&Optimizers::default()).unwrap();
        let shares =
            Shares::new(&contract, &HubList { hubs: vec![Cores { cores: 8, interfaces: 1 }], own: 0 }, false);
        let memory = shares.fit(64, 8_000_000_000, 64 << 20).unwrap();
        assert!(memory.bytes < 8_000_000_000 && memory.ahead > 1 << 20, "{memory:?}");
        // By hand: three vectors; and for each of 64 ranks at 8 cores, what it may be ahead and behind, and two chunks
        // in transit.
        let counted = 3 * 100_000_000 + 64 * 8 * 2 * (memory.ahead as u64 + 32_768);
        // The state of each rank is added, and a smaller last chunk counts as the next power of two.
        assert!((counted..counted + 20_000_000).contains(&memory.bytes), "{counted} {memory:?}");
        assert_eq!(memory.cores.iter().map(|&core| core as u64).sum::<u64>(), memory.bytes);
        // With unlimited memory a rank may be ahead as far as the limit says; with too little, the job is refused.
        assert_eq!(shares.fit(64, u64::MAX, 64 << 20).unwrap().ahead, 64 << 20);
        let least = shares.fit(64, 0, 64 << 20).unwrap_err();
        assert_eq!(shares.fit(64, least, 64 << 20).unwrap().bytes, least);
        assert_eq!(shares.fit(64, least - 1, 64 << 20), Err(least));
    }
}
