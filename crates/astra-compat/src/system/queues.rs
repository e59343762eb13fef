//! Decides which chunk runs when. Every dimension has one or more queues. Each runs a number of streams at a
//! time; the others wait by priority, then first come, first served. ASTRA-sim 2, `QueueLevels.cc`,
//! `QueueLevelHandler.cc`, `Sys.cc:insert_stream`, `SchedulerUnit`.

use super::plan::Pool;
use std::collections::VecDeque;

/// One queue: running streams come first, then waiting ones.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    streams: VecDeque<(u32, i64)>,
    running: usize,
    /// How many at the front were started; this exceeds `running` while one of them changes its phase.
    started: usize,
}

impl Queue {
    /// Queues a stream behind those of equal or higher priority.
    pub(crate) fn wait(&mut self, stream: u32, priority: i64) {
        let at = match self.streams.back() {
            Some(&(_, last)) if self.streams.len() > self.started && last < priority => {
                let waiting = self.streams.iter().skip(self.started);
                self.started + waiting.take_while(|&&(_, other)| other >= priority).count()
            }
            _ => self.streams.len(),
        };
        self.streams.insert(at, (stream, priority));
    }
    /// Removes a running stream from the list. It keeps its slot until [`Self::ended`].
    pub(crate) fn remove(&mut self, stream: u32) {
        if let Some(at) = self.streams.iter().position(|&(other, _)| other == stream) {
            self.streams.remove(at);
            self.started = self.started.saturating_sub(usize::from(at < self.started));
        }
    }
    /// Frees the slot of a removed stream.
    pub(crate) const fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
    /// Returns the next stream to start, if one may start.
    pub(crate) fn start(&mut self, limit: usize) -> Option<u32> {
        if self.running >= limit {
            return None;
        }
        let &(stream, _) = self.streams.get(self.running)?;
        self.running += 1;
        self.started = self.started.max(self.running);
        Some(stream)
    }
}

/// The queues of one rank.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) queues: Vec<Queue>,
    /// Queues per dimension.
    per_dim: u32,
    /// Round-robin positions by dimension: over all queues, over the first half, over the second half.
    turns: Vec<[u32; 3]>,
}

impl Queues {
    pub(crate) fn new(dims: usize, per_dim: u32) -> Self {
        Self {
            queues: (0..dims * per_dim as usize).map(|_| Queue::default()).collect(),
            per_dim,
            turns: vec![[0, 0, per_dim / 2]; dims],
        }
    }
    /// Returns the queue of a phase in `dim`, the next one of its pool, and whether it goes forward.
    pub(crate) fn pick(&mut self, dim: u32, pool: Pool) -> (u32, bool) {
        let count = self.per_dim;
        let half = count / 2;
        let [any, first, last] = &mut self.turns[dim as usize];
        let (queue, forward) = match pool {
            Pool::Any => {
                let queue = *any;
                *any = (queue + 1) % count;
                (queue, count == 1 || queue < half)
            }
            Pool::First => {
                let queue = *first;
                *first = if queue + 1 < half { queue + 1 } else { 0 };
                (queue, true)
            }
            Pool::Last => {
                let queue = *last;
                *last = if queue + 1 < count { queue + 1 } else { half };
                (queue, false)
            }
        };
        (dim * count + queue, forward)
    }
}
