//! A step in detail, for a report.
//!
//! An estimate adds up what a step takes. A profile says the same of one job piece by piece, from the same times:
//!
//! - this module: the pipeline turn by turn. Turns are executed one by one ([`crate::schedule::run::timeline`]), each as early
//!   as it can be, so that the end of the last one checks the estimate of the pipeline;
//! - `memory`: the memory of each stage over the step, whose peak checks the estimate of memory;
//! - `communication`: the collectives of a rank of the slowest stage;
//! - `kernels`: the kernels of such a rank, and `layer_kernels`: those of its layers;
//! - `recorded`: costs that record what they are asked for, from which the last two take their calls.

mod communication;
mod kernels;
mod layer_kernels;
mod memory;
mod recorded;

pub use communication::Communication;
pub use kernels::Kernel;
pub use memory::{Peak, Point, StageMemory};

use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Cluster, Costs, Software};
use crate::memory_software::MemorySoftware;
use crate::model::Model;
use crate::schedule::order::{Piece, Turn};
use crate::schedule::places;
use crate::schedule::run::{ChunkTimes, Timed, timeline, waiting};
use crate::stages::{Block, divide_chunks};
use crate::step::estimate;
use serde::Serialize;

/// A step in detail.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Seconds of the step, by the estimate.
    pub step_s: f64,
    /// Seconds until the last stage has done its last turn.
    pub pipeline_s: f64,
    /// Seconds of exposed gradients and parameters after that.
    pub exchange_s: f64,
    /// Seconds of the optimizer after that, and of its exposed copies from and to the host.
    pub update_s: f64,
    /// The stage that computes most.
    pub slowest: usize,
    /// All turns, by stage and time.
    pub spans: Vec<Span>,
    /// The memory of each stage.
    pub memory: Vec<StageMemory>,
    /// Communication of a rank of the slowest stage, by axis.
    pub communication: Vec<Communication>,
    /// Kernels of a rank of the slowest stage.
    pub kernels: Vec<Kernel>,
}

/// What a stage does in a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The stage.
    pub stage: usize,
    /// What it does.
    pub kind: SpanKind,
    /// The micro-batch, from 0; of two at once, that of the forward pass.
    pub micro_batch: u32,
    /// The chunk of the stage.
    pub chunk: u32,
    /// Begin, in seconds.
    pub begin_s: f64,
    /// End, in seconds.
    pub end_s: f64,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A forward pass.
    Forward,
    /// A backward pass.
    Backward,
    /// Gradients of inputs alone.
    Input,
    /// Gradients of weights alone.
    Weight,
    /// A forward and a backward pass at once.
    Both,
    /// An exposed message.
    Message,
}

/// A step in detail. The job must be one that [`crate::check::check`] accepts.
pub fn profile<C: Costs>(
    model: &Model,
    job: &Job,
    cluster: Cluster,
    software: &Software,
    memory: &MemorySoftware,
    costs: &C,
) -> Profile {
    let setting = Setting { model, job, cluster, software, costs };
    let step = estimate(model, job, cluster, software, costs);
    let chunks = setting.chunk_times();
    let slowest = step.slowest();
    let exposed = if job.overlap.pipeline { software.pipeline_exposed } else { 1.0 };
    let message_s = setting.message_s();
    let wait_s = exposed * message_s;
    let turns = executed(job, &chunks, wait_s, message_s - wait_s);
    let pipeline_s = turns.iter().flatten().map(|(_, _, end)| *end).fold(0.0, f64::max);
    Profile {
        step_s: step.seconds(),
        pipeline_s,
        exchange_s: step.exchange_s,
        update_s: step.update_s + step.copies_s,
        slowest,
        spans: spans(&turns, wait_s),
        memory: memory::over_time(model, job, memory, &turns),
        communication: communication::communication(&setting, slowest),
        kernels: kernels::kernels(&setting, slowest),
    }
}

/// The turns of each stage: each waits for its message for `wait_s` after it has computed, and the next stage has it
/// `late_s` later.
fn executed(job: &Job, chunks: &[ChunkTimes], wait_s: f64, late_s: f64) -> Vec<Vec<Timed>> {
    timeline(job, &waiting(chunks, wait_s), late_s)
}

/// The turns as spans, each followed by the message that it waits for.
fn spans(turns: &[Vec<Timed>], wait_s: f64) -> Vec<Span> {
    let mut found = Vec::new();
    for (stage, turns) in turns.iter().enumerate() {
        for &(turn, begin, end) in turns {
            let (kind, Piece { local, micro_batch }, waits) = match turn {
                Turn::Forward(piece) => (SpanKind::Forward, piece, 1.0),
                Turn::Backward(piece) => (SpanKind::Backward, piece, 1.0),
                Turn::Input(piece) => (SpanKind::Input, piece, 1.0),
                Turn::Weight(piece) => (SpanKind::Weight, piece, 0.0),
                Turn::Both { forward, .. } => (SpanKind::Both, forward, 2.0),
            };
            let until = (end - waits * wait_s).max(begin);
            let span = |kind, begin_s, end_s| Span { stage, kind, micro_batch, chunk: local, begin_s, end_s };
            found.push(span(kind, begin, until));
            if end > until {
                found.push(span(SpanKind::Message, until, end));
            }
        }
    }
    found
}

/// The blocks of a stage, and whether the backward pass computes each of its layers again.
fn computed(model: &Model, job: &Job, stage: usize) -> Vec<(Block, bool)> {
    let chunks = divide_chunks(model, job);
    let mut found = Vec::new();
    for place in places(job, stage as u32) {
        let mut nth = 0;
        for &block in &chunks[place.chunk as usize] {
            let layer = matches!(block, Block::Layer(_));
            found.push((block, layer && job.computes_again(nth)));
            nth += u32::from(layer);
        }
    }
    found
}
