//! The order in which a stage works.

use crate::job::{Job, Schedule};
use std::collections::VecDeque;
use syncline_workload::parallel::Schedule as Simulated;
use syncline_workload::schedule::Pipeline;

/// A micro-batch in a chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The chunk, as [`super::places`] numbers those of a stage.
    pub local: u32,
    /// The micro-batch, counted on its way through the pipeline.
    pub micro_batch: u32,
}

/// One piece of a stage's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The forward pass.
    Forward(Piece),
    /// The whole backward pass.
    Backward(Piece),
    /// Gradients of inputs.
    Input(Piece),
    /// Gradients of weights.
    Weight(Piece),
    /// A forward and a whole backward pass, each of which computes while the other one communicates.
    Both {
        /// Forward.
        forward: Piece,
        /// Backward.
        backward: Piece,
    },
}

/// The turns of a stage in a step of a job, of any schedule, with this number of micro-batches.
pub fn all_turns(job: &Job, stage: u32, micro_batches: u32) -> Vec<Turn> {
    if job.schedule.is_ordered() {
        turns(job.schedule, job.pipeline, stage, micro_batches)
    } else {
        simulated(job, stage, micro_batches)
    }
}

/// The turns by which a simulation executes `GPipe`, 1F1B and interleaving.
///
/// With as many micro-batches as stages, a simulation of interleaving sends all of them forward before any goes backward, as
/// Megatron-LM once did. Estimates have no such exception: so the order is that of twice as many micro-batches, of which those
/// that do not exist are left out, as are those that no multiple of the stages has.
fn simulated(job: &Job, stage: u32, micro_batches: u32) -> Vec<Turn> {
    let chunks = job.virtual_stages.max(1);
    let schedule = match job.schedule {
        Schedule::GPipe => Simulated::GPipe,
        _ if chunks > 1 => Simulated::Interleaved,
        _ => Simulated::OneForwardOneBackward,
    };
    let stages = job.pipeline.max(1);
    let planned =
        if chunks > 1 { micro_batches.max(2 * stages).next_multiple_of(stages) } else { micro_batches };
    let pipeline = Pipeline { schedule, stages, chunks, micro_batches: planned, combined: false };
    let there = pipeline.turns(stage).into_iter().filter(|turn| turn.micro_batch < micro_batches);
    there
        .map(|turn| {
            let piece = Piece { local: turn.chunk, micro_batch: turn.micro_batch };
            if turn.backward { Turn::Backward(piece) } else { Turn::Forward(piece) }
        })
        .collect()
}

/// The turns of a stage in a step, for a schedule that [`Schedule::is_ordered`]; none for others.
pub fn turns(schedule: Schedule, stages: u32, stage: u32, micro_batches: u32) -> Vec<Turn> {
    let mut order = Order::with_capacity(6 * micro_batches as usize);
    match schedule {
        Schedule::GPipe | Schedule::OneForwardOneBackward => {}
        Schedule::ZbH1 => order.zb_h1(stages, stage, micro_batches),
        Schedule::ZbV => order.zb_v(stages, stage, micro_batches),
        Schedule::DualPipe => {
            let (half, from_end) = (stages / 2, stage.min(stages - 1 - stage));
            order.dual_pipe(half, from_end, micro_batches / 2);
        }
        Schedule::DualPipeV => order.dual_pipe(stages, stage, micro_batches),
    }
    order.turns
}

/// The turns so far.
#[derive(Default)]
struct Order {
    turns: Vec<Turn>,
    /// The next micro-batch of each chunk: forward, gradients of inputs, gradients of weights.
    next: [[u32; 3]; 2],
    /// Gradients of weights that are deferred, in the order in which they come.
    deferred: VecDeque<Piece>,
}

impl Order {
    fn with_capacity(turns: usize) -> Self {
        Self { turns: Vec::with_capacity(turns), ..Self::default() }
    }

    /// The next micro-batch of a chunk for a pass: 0 forward, 1 gradients of inputs, 2 gradients of weights.
    const fn take(&mut self, local: u32, pass: usize) -> Piece {
        let next = &mut self.next[local as usize][pass];
        *next += 1;
        Piece { local, micro_batch: *next - 1 }
    }

    fn forward(&mut self, local: u32) {
        let piece = self.take(local, 0);
        self.turns.push(Turn::Forward(piece));
    }

    fn backward(&mut self, local: u32) {
        let piece = self.take(local, 1);
        self.turns.push(Turn::Backward(piece));
    }

    /// Gradients of inputs; those of weights are deferred.
    fn input(&mut self, local: u32) {
        let piece = self.take(local, 1);
        self.turns.push(Turn::Input(piece));
        self.deferred.push_back(piece);
    }

    /// The gradients of weights that were deferred first.
    fn weight(&mut self) {
        if let Some(piece) = self.deferred.pop_front() {
            self.turns.push(Turn::Weight(piece));
        }
    }

    fn both(&mut self, forward: u32, backward: u32) {
        let (forward, backward) = (self.take(forward, 0), self.take(backward, 1));
        self.turns.push(Turn::Both { forward, backward });
    }

    /// As 1F1B, but stage `s` defers the gradients of weights of `s` micro-batches, which fill the bubble at the end: later
    /// stages then send gradients to earlier ones sooner.
    fn zb_h1(&mut self, stages: u32, stage: u32, batches: u32) {
        let ahead = (stages - 1 - stage).min(batches);
        for _ in 0..ahead {
            self.forward(0);
        }
        for done in 0..batches {
            if ahead + done < batches {
                self.forward(0);
            }
            self.input(0);
            if done >= stage || ahead + done >= batches {
                self.weight();
            }
        }
        while !self.deferred.is_empty() {
            self.weight();
        }
    }

    /// Two chunks, so that a micro-batch turns round at the last stage and ends where it began. There are turns for at least
    /// `2 stages - 1` micro-batches, of which those that do not exist are left out.
    fn zb_v(&mut self, stages: u32, stage: u32, batches: u32) {
        let planned = batches.max(2 * stages - 1);
        let both = |order: &mut Self, local| {
            order.input(local);
            // At once: the one that was deferred last.
            if let Some(piece) = order.deferred.pop_back() {
                order.turns.push(Turn::Weight(piece));
            }
        };
        for _ in 0..2 * (stages - stage) - 1 {
            self.forward(0);
        }
        for _ in 0..stage {
            self.forward(1);
            self.forward(0);
        }
        for _ in 0..stages - stage {
            self.forward(1);
            both(self, 1);
        }
        while self.next[1][0] < planned {
            if self.next[0][0] < planned {
                self.forward(0);
            }
            both(self, 0);
            self.forward(1);
            both(self, 1);
        }
        for _ in 0..stage {
            self.input(0);
            self.input(1);
        }
        // The first chunk's gradients of weights come with its last gradients of inputs, then those of the second, then the
        // rest of the first.
        let (mut first, second): (VecDeque<_>, VecDeque<_>) =
            self.deferred.drain(..).partition(|piece| piece.local == 0);
        for _ in 0..stages - stage {
            let piece = self.take(0, 1);
            self.turns.push(Turn::Input(piece));
            first.push_back(piece);
            self.turns.extend(first.pop_front().map(Turn::Weight));
        }
        self.turns.extend(second.into_iter().chain(first).map(Turn::Weight));
        self.turns.retain(|turn| match turn {
            Turn::Forward(piece) | Turn::Backward(piece) | Turn::Input(piece) | Turn::Weight(piece) => {
                piece.micro_batch < batches
            }
            Turn::Both { forward, backward } => forward.micro_batch.max(backward.micro_batch) < batches,
        });
    }

    /// `batches` micro-batches on each of two ways, which meet in the middle; `from_end` is the distance from the nearer end,
    /// of `half` ranks. `DualPipeV` is the same, cut in half: the second way is the way back of the first.
    fn dual_pipe(&mut self, half: u32, from_end: u32, batches: u32) {
        let later = half - 1 - from_end;
        let middle = later == 0;
        for _ in 0..2 * later {
            self.forward(0);
        }
        for _ in 0..=from_end {
            self.forward(0);
            self.forward(1);
        }
        for _ in 0..later {
            self.input(1);
            self.weight();
            self.forward(1);
        }
        for round in 0..(batches + from_end + 1).saturating_sub(2 * half) {
            if round == 0 && middle {
                // Apart, so that the next rank gets its input sooner.
                self.forward(0);
                self.backward(1);
            } else {
                self.both(0, 1);
            }
            self.both(1, 0);
        }
        for _ in 0..later {
            self.backward(1);
            self.both(1, 0);
        }
        // The second half of these passes defers the gradients of weights.
        for piece in 0..2 * (from_end + 1) {
            let local = 1 - piece % 2;
            if piece <= from_end { self.backward(local) } else { self.input(local) }
        }
        for _ in 0..later {
            self.weight();
            self.input(0);
        }
        while !self.deferred.is_empty() {
            self.weight();
        }
    }
}
