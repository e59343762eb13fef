//! Executes the orders of all stages, each turn as early as it can be.

use super::order::{Piece, Turn, all_turns, turns};
use super::rounds::{gpipe, one_forward_one_backward};
use super::{Place, places};
use crate::job::{Job, Schedule};

/// Times of one micro-batch in a chunk, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ChunkTimes {
    /// Forward pass.
    pub forward: f64,
    /// Gradients of inputs, with what is computed again.
    pub input: f64,
    /// Gradients of weights.
    pub weight: f64,
    /// Of the forward and of the backward pass, what computes.
    pub computing: [f64; 2],
    /// Of both, tokens to experts and back, which another chunk's computing can hide.
    pub dispatch: [f64; 2],
}

impl ChunkTimes {
    /// Both passes.
    pub fn seconds(&self) -> f64 {
        self.forward + self.input + self.weight
    }
}

/// Bytes that one micro-batch keeps in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ChunkBytes {
    /// From the forward pass to the gradients of inputs.
    pub forward: f64,
    /// From these to the gradients of weights: inputs of products, and gradients of their outputs.
    pub weight: f64,
}

/// What an execution of a step says.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Executed {
    /// When the last stage has ended, in seconds.
    pub seconds: f64,
    /// Seconds in which each stage works.
    pub busy: Vec<f64>,
    /// Of tokens to experts and back, the seconds that each stage hides.
    pub hidden: Vec<f64>,
}

/// Part of an accelerator's multiprocessors that moves tokens while the others compute: 20 of the 132 of an H800
/// (DeepSeek-V3 report, 3.2.2).
const COMMUNICATING: f64 = 20.0 / 132.0;

/// Micro-batches for each stage after which every schedule repeats itself, and which are executed one by one.
const EXECUTED: u32 = 6;
/// Micro-batches for each stage after which each holds the most that it ever does.
const FILLED: u32 = 4;

/// The most bytes of micro-batches that a stage keeps at once; `chunks` has the bytes of each chunk of the model.
pub fn peak(job: &Job, stage: u32, chunks: &[ChunkBytes]) -> f64 {
    let held: Vec<ChunkBytes> = places(job, stage).map(|place| chunks[place.chunk as usize]).collect();
    let bytes = |piece: Piece| held[piece.local as usize];
    let batches = shortened(job, FILLED);
    let (mut now, mut most) = (0.0_f64, 0.0_f64);
    for turn in turns(job.schedule, job.pipeline, stage, batches) {
        match turn {
            Turn::Forward(piece) => now += bytes(piece).forward,
            Turn::Backward(piece) => now -= bytes(piece).forward,
            Turn::Input(piece) => {
                // Before the gradients of inputs are done, all is kept, and then what those of weights need.
                most = most.max(now);
                now += bytes(piece).weight - bytes(piece).forward;
            }
            Turn::Weight(piece) => now -= bytes(piece).weight,
            Turn::Both { forward, backward } => {
                most = most.max(now + bytes(forward).forward);
                now += bytes(forward).forward - bytes(backward).forward;
            }
        }
        most = most.max(now);
    }
    most
}

/// A step of a pipeline: `chunks` has the times of each chunk of the model, and `message_s` the seconds of a message between two
/// stages, in which both may compute.
///
/// Many micro-batches are not executed one by one: what a few more take is measured when the pipeline is full.
pub fn execute(job: &Job, chunks: &[ChunkTimes], message_s: f64) -> Executed {
    if !job.schedule.is_ordered() {
        let seconds = if job.schedule == Schedule::GPipe {
            gpipe(chunks, job.micro_batches, message_s)
        } else {
            one_forward_one_backward(chunks, job.pipeline, job.micro_batches, message_s)
        };
        let busy = |stage| {
            let held = places(job, stage).map(|place| chunks[place.chunk as usize].seconds());
            held.sum::<f64>() * f64::from(job.micro_batches)
        };
        let busy = (0..job.pipeline).map(busy).collect();
        return Executed { seconds, busy, hidden: vec![0.0; job.pipeline as usize] };
    }
    let few = shortened(job, EXECUTED);
    let mut found = Execution::new(job, chunks, message_s, few).run(|_, _, _, _| ());
    if few < job.micro_batches {
        let before =
            Execution::new(job, chunks, message_s, shortened(job, EXECUTED - 1)).run(|_, _, _, _| ());
        let more = f64::from(job.micro_batches - few) / f64::from(few - shortened(job, EXECUTED - 1));
        // A full pipeline is no faster than its slowest stage.
        let mut longer = found.seconds - before.seconds;
        for stage in 0..found.busy.len() {
            let busy = found.busy[stage] - before.busy[stage];
            longer = longer.max(busy);
            found.busy[stage] += busy * more;
            found.hidden[stage] += (found.hidden[stage] - before.hidden[stage]) * more;
        }
        found.seconds += longer * more;
    }
    found
}

/// Where the time of a pipeline goes, beside what its slowest stage computes.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Pipelined {
    /// The pipeline fills and drains, and the slowest stage waits for others, in seconds.
    pub bubble_s: f64,
    /// Exposed messages between stages, in seconds.
    pub messages_s: f64,
    /// Of tokens to experts and back, what the slowest stage hides behind other passes, in seconds.
    pub hidden_s: f64,
}

/// The time of a pipeline: `chunks` has the times of each chunk of the model, `message_s` the seconds of a message between two
/// stages, of which the sender waits for the part `exposed`. The stage `slowest` computes most.
pub fn pipelined(
    job: &Job,
    chunks: &[ChunkTimes],
    message_s: f64,
    exposed: f64,
    slowest: usize,
) -> Pipelined {
    let wait_s = message_s * exposed;
    let (chunks, late_s) = (waiting(chunks, wait_s), message_s - wait_s);
    let Executed { seconds, busy, hidden } = execute(job, &chunks, late_s);
    let idle = (seconds - busy[slowest]).max(0.0);
    // One message after the other until the first micro-batch has reached the last stage, and until the last one is back.
    let filling = (2.0 * f64::from(job.pipeline - 1) * message_s).min(idle);
    let waits = 2.0 * f64::from(job.micro_batches) * f64::from(job.virtual_stages.max(1));
    Pipelined { bubble_s: idle - filling, messages_s: waits * wait_s + filling, hidden_s: hidden[slowest] }
}

/// The times of chunks whose stage waits `wait_s` for each message that a pass sends.
pub fn waiting(chunks: &[ChunkTimes], wait_s: f64) -> Vec<ChunkTimes> {
    let with = |times: &ChunkTimes| ChunkTimes {
        forward: times.forward + wait_s,
        input: times.input + wait_s,
        ..*times
    };
    chunks.iter().map(with).collect()
}

/// A turn of a stage with its begin and its end, in seconds.
pub type Timed = (Turn, f64, f64);

/// All turns of each stage in a step of any schedule, each as early as it can be.
pub fn timeline(job: &Job, chunks: &[ChunkTimes], message_s: f64) -> Vec<Vec<Timed>> {
    let mut found = vec![Vec::new(); job.pipeline as usize];
    Execution::new(job, chunks, message_s, job.micro_batches)
        .run(|stage, turn, begin, end| found[stage].push((turn, begin, end)));
    found
}

/// The micro-batches of a job, at most `each` for each stage: an even number, as both ways need.
const fn shortened(job: &Job, each: u32) -> u32 {
    let most = 2 * each * job.pipeline.div_ceil(2);
    if job.micro_batches < most { job.micro_batches } else { most + job.micro_batches % 2 }
}

struct Execution<'a> {
    chunks: &'a [ChunkTimes],
    message_s: f64,
    batches: u32,
    orders: Vec<Vec<Turn>>,
    held: Vec<Vec<Place>>,
    /// The stage of each chunk on the first way.
    stages: Vec<u32>,
    /// When forward passes and gradients of inputs are done, by way, chunk and micro-batch; not a number before.
    done: [Vec<f64>; 2],
}

impl<'a> Execution<'a> {
    fn new(job: &Job, chunks: &'a [ChunkTimes], message_s: f64, batches: u32) -> Self {
        let held: Vec<Vec<Place>> = (0..job.pipeline).map(|stage| places(job, stage).collect()).collect();
        let mut stages = vec![0; chunks.len()];
        for (stage, each) in (0..).zip(&held) {
            for place in each.iter().filter(|place| place.way == 0) {
                stages[place.chunk as usize] = stage;
            }
        }
        let orders = (0..job.pipeline.max(1)).map(|stage| all_turns(job, stage, batches)).collect();
        let slots = job.schedule.ways() as usize * chunks.len() * batches as usize;
        let done = [vec![f64::NAN; slots], vec![f64::NAN; slots]];
        Self { chunks, message_s, batches, orders, held, stages, done }
    }

    /// Executes all turns, and shows each with its begin and its end.
    fn run(mut self, mut show: impl FnMut(usize, Turn, f64, f64)) -> Executed {
        let count = self.orders.len();
        let mut found = Executed { seconds: 0.0, busy: vec![0.0; count], hidden: vec![0.0; count] };
        let (mut at, mut free) = (vec![0; count], vec![0.0_f64; count]);
        // Backward passes go from later stages to earlier ones: every second round visits them so.
        let mut moved = true;
        while moved {
            moved = false;
            for stage in (0..count).chain((0..count).rev()) {
                while let Some(&turn) = self.orders[stage].get(at[stage]) {
                    let Some(ready) = self.ready(stage, turn) else { break };
                    let (seconds, hidden) = self.duration(stage, turn);
                    let begin = free[stage].max(ready);
                    let end = begin + seconds;
                    show(stage, turn, begin, end);
                    self.finish(stage, turn, end);
                    free[stage] = end;
                    found.busy[stage] += seconds;
                    found.hidden[stage] += hidden;
                    at[stage] += 1;
                    moved = true;
                }
            }
        }
        found.seconds = free.into_iter().fold(0.0, f64::max);
        found
    }

    fn place(&self, stage: usize, piece: Piece) -> Place {
        self.held[stage][piece.local as usize]
    }

    fn slot(&self, place: Place, micro_batch: u32) -> usize {
        let chunk = place.way as usize * self.chunks.len() + place.chunk as usize;
        chunk * self.batches as usize + micro_batch as usize
    }

    /// When what a turn needs is there; nothing if that is not known yet.
    fn ready(&self, stage: usize, turn: Turn) -> Option<f64> {
        let known = |seconds: f64| (!seconds.is_nan()).then_some(seconds);
        match turn {
            Turn::Forward(piece) => known(self.forward_ready(stage, piece)),
            Turn::Backward(piece) | Turn::Input(piece) => known(self.backward_ready(stage, piece)),
            // The stage's own gradients of inputs come before in its order.
            Turn::Weight(_) => Some(0.0),
            Turn::Both { forward, backward } => {
                let forward = known(self.forward_ready(stage, forward))?;
                known(self.backward_ready(stage, backward)).map(|backward| forward.max(backward))
            }
        }
    }

    fn forward_ready(&self, stage: usize, piece: Piece) -> f64 {
        let place = self.place(stage, piece);
        if place.chunk == 0 {
            return 0.0;
        }
        let before = Place { chunk: place.chunk - 1, ..place };
        self.done[0][self.slot(before, piece.micro_batch)] + self.message(place.chunk - 1)
    }

    fn backward_ready(&self, stage: usize, piece: Piece) -> f64 {
        let place = self.place(stage, piece);
        if place.chunk as usize + 1 == self.chunks.len() {
            return self.done[0][self.slot(place, piece.micro_batch)];
        }
        let after = Place { chunk: place.chunk + 1, ..place };
        self.done[1][self.slot(after, piece.micro_batch)] + self.message(place.chunk)
    }

    /// The seconds of a message between a chunk and the next one: none on one stage.
    fn message(&self, chunk: u32) -> f64 {
        let chunk = chunk as usize;
        if self.stages[chunk] == self.stages[chunk + 1] { 0.0 } else { self.message_s }
    }

    /// The seconds of a turn, and those that it hides.
    fn duration(&self, stage: usize, turn: Turn) -> (f64, f64) {
        let times = |piece| self.chunks[self.place(stage, piece).chunk as usize];
        match turn {
            Turn::Forward(piece) => (times(piece).forward, 0.0),
            Turn::Backward(piece) => (times(piece).input + times(piece).weight, 0.0),
            Turn::Input(piece) => (times(piece).input, 0.0),
            Turn::Weight(piece) => (times(piece).weight, 0.0),
            Turn::Both { forward, backward } => {
                let (first, second) = (times(forward), times(backward));
                let dispatch = first.dispatch[0] + second.dispatch[1];
                let computing = first.computing[0] + second.computing[1];
                let hidden = dispatch.min(computing) * (1.0 - COMMUNICATING);
                (first.forward + second.input + second.weight - hidden, hidden)
            }
        }
    }

    fn finish(&mut self, stage: usize, turn: Turn, end: f64) {
        let (forward, input) = match turn {
            Turn::Forward(piece) => (Some(piece), None),
            Turn::Backward(piece) | Turn::Input(piece) => (None, Some(piece)),
            Turn::Weight(_) => (None, None),
            Turn::Both { forward, backward } => (Some(forward), Some(backward)),
        };
        for (pass, piece) in [(0, forward), (1, input)] {
            if let Some(piece) = piece {
                let slot = self.slot(self.place(stage, piece), piece.micro_batch);
                self.done[pass][slot] = end;
            }
        }
    }
}
