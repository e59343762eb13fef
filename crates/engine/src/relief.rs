//! Prevents limits on chunks from making ranks wait for each other forever.
//!
//! Limits on running chunks are local to a rank. A rank may use up its limit with chunks of a collective that other
//! ranks have not reached yet, while the chunks that those ranks need to get there wait behind the same limit at both
//! of their ends. No rank has begun those chunks, so no rank is made to begin them (see `sets`). So when no event is
//! left, chunks that wait only for limits begin regardless: of the collectives that all of their ranks have issued,
//! the one with the lowest number begins, on every rank.

use crate::Engine;
use crate::slab::{Id, Life, Status};
use crate::state::{ChunkRun, ChunkStage, CollectiveSet, Instance, QueuedRun, QueuedSet};
use std::cmp::Reverse;
use syncline_net_api::NetworkModel;

/// What begins despite a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Begins {
    /// A run that waits in a queue.
    Run(Id<ChunkRun>),
    /// The next chunk of a set in a ready queue.
    Chunk(Id<CollectiveSet>),
    /// A set that waits for the limit on concurrent sets.
    Set(Id<CollectiveSet>),
}

impl<N: NetworkModel> Engine<'_, N> {
    /// Begins chunks that only limits hold back. Returns false if there are none.
    pub(crate) fn relieve(&mut self) -> bool {
        let mut first: Option<(u64, u32, u8)> = None;
        let mut begin: Vec<Begins> = Vec::new();
        let mut offer = |key: (u64, u32, u8), what: Begins| {
            if first.is_none_or(|first| key < first) {
                first = Some(key);
                begin.clear();
            }
            if first == Some(key) {
                begin.push(what);
            }
        };
        for rank in &self.ranks {
            let schedulers = &rank.schedulers;
            let waiting =
                schedulers.iter().flat_map(|scheduler| &scheduler.queues).flat_map(|queue| &queue.waiting);
            for &QueuedRun { chunk, run, .. } in waiting {
                let of = &self.runs[run];
                if let Some(number) = self.number_if_complete(of.instance) {
                    offer((number, chunk, of.phase), Begins::Run(run));
                }
            }
            for &Reverse(QueuedSet { set, .. }) in schedulers.iter().flat_map(|scheduler| &scheduler.ready) {
                let of = &self.sets[set];
                if let Some(number) = self.number_if_complete(of.instance) {
                    offer((number, of.next_chunk, 0), Begins::Chunk(set));
                }
            }
            for &Reverse(QueuedSet { set, .. }) in &rank.held {
                if let Some(number) = self.number_if_complete(self.sets[set].instance) {
                    offer((number, 0, 0), Begins::Set(set));
                }
            }
        }
        for &what in &begin {
            match what {
                Begins::Run(run) => {
                    // An earlier entry may have started this run already.
                    if self.runs[run].stage == ChunkStage::Waiting {
                        self.start_waiting(run);
                    }
                }
                Begins::Chunk(set) => self.issue_first(set),
                Begins::Set(set) => {
                    let rank = self.sets[set].rank.index();
                    self.ranks[rank].held.retain(|Reverse(held)| held.set != set);
                    self.activate(set);
                }
            }
        }
        !begin.is_empty()
    }

    /// The number of the collective, if all of its ranks have issued it.
    fn number_if_complete(&self, instance: Id<Instance>) -> Option<u64> {
        let instance = &self.instances[instance];
        instance.sets.iter().all(|&set| self.has_issued(set)).then_some(instance.number)
    }

    /// Whether a rank has issued its set of a collective.
    pub(crate) fn has_issued(&self, set: Life<CollectiveSet>) -> bool {
        match set.status() {
            Status::NotBegun => false,
            Status::UnderWay(set) => self.sets[set].issued.is_some(),
            Status::Over => true,
        }
    }
}
