//! Schedules of a pipeline.
//!
//! The order of each stage is written down ([`order`]), and executed as early as it can be ([`run`]): chunks with different
//! layers, the output layer, and messages between stages then count as they are. GPipe, 1F1B and interleaving, which searches
//! estimate thousands of times, need no list of turns: [`rounds`] finds when their last stage ends.
//!
//! Sources: Qi et al., "Zero Bubble Pipeline Parallelism" (2024), for ZB-H1; Qi et al., "Pipeline Parallelism with Controllable
//! Memory" (2024), and PyTorch's `ScheduleZBVZeroBubble`, for ZB-V; DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), 3.2.1,
//! and its released schedules, for `DualPipe` and `DualPipeV`.

pub mod order;
pub mod rounds;
pub mod run;

use crate::job::{Job, Schedule};

/// Where a stage's chunk is: on which way through the pipeline, and how many chunks come before it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// 0, or 1 for the way back of `DualPipe`, which begins at the last stage.
    pub way: u32,
    /// The chunk of the model, in the order of the forward pass.
    pub chunk: u32,
}

impl Schedule {
    /// Whether each stage has an order of its own: the schedule divides the backward pass, or sends micro-batches both ways.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, Self::GPipe | Self::OneForwardOneBackward)
    }

    /// Ways through the pipeline.
    pub const fn ways(self) -> u32 {
        if matches!(self, Self::DualPipe) { 2 } else { 1 }
    }

    /// Chunks of a stage, for a schedule that fixes their number: `virtual_stages` of the job.
    pub const fn chunks(self) -> Option<u32> {
        match self {
            Self::OneForwardOneBackward => None,
            Self::GPipe | Self::ZbH1 | Self::DualPipe => Some(1),
            Self::ZbV | Self::DualPipeV => Some(2),
        }
    }
}

/// The chunks that a stage holds, in the order in which its turns number them.
pub fn places(job: &Job, stage: u32) -> impl Iterator<Item = Place> + use<> {
    let stages = job.pipeline.max(1);
    let (schedule, chunks) = (job.schedule, job.virtual_stages.max(1));
    let held = if schedule.ways() == 2 { 2 } else { chunks };
    (0..held).map(move |number| match schedule {
        // A stage of the second half begins with the way that begins at the last stage.
        Schedule::DualPipe => {
            let way = number ^ u32::from(stage >= stages.div_ceil(2));
            Place { way, chunk: if way == 0 { stage } else { stages - 1 - stage } }
        }
        // Forth and back: the first stage has the first and the last chunk.
        Schedule::ZbV | Schedule::DualPipeV if number % 2 == 1 => {
            Place { way: 0, chunk: stages * (number + 1) - 1 - stage }
        }
        _ => Place { way: 0, chunk: stages * number + stage },
    })
}
