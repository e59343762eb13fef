//! A step of training, and where its time goes.

use crate::exchange::{Behind, Exchange};
use crate::held::Held;
use crate::job::Job;
use crate::layer::{Pass, Setting};
use crate::machine::{Cluster, Costs, Software};
use crate::micro_batch::{ChunkTimer, MicroBatch};
use crate::model::Model;
use crate::schedule::places;
use crate::schedule::run::{Pipelined, pipelined};
use crate::stages::{divide, divide_chunks};

/// The time of a step. All parts together are the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What the slowest stage does with all micro-batches.
    pub stage: Pass,
    /// Embedding, output layer and loss in that stage, seconds.
    pub ends_s: f64,
    /// Waiting while the pipeline fills and drains, and for the slowest stage, seconds.
    pub bubble_s: f64,
    /// Exposed messages between stages, seconds.
    pub messages_s: f64,
    /// Exposed gradients and parameters, seconds.
    pub exchange_s: f64,
    /// The update of parameters, seconds.
    pub update_s: f64,
    /// Its exposed copies from and to the host, seconds.
    pub copies_s: f64,
    /// Seconds of a micro-batch in each stage.
    pub stages_s: Vec<f64>,
    /// Gradients and parameters, hidden or not, seconds.
    pub whole_exchange_s: f64,
    /// What an accelerator computes with all micro-batches, without the update: the mean over stages, seconds.
    pub computing_s: f64,
}

impl Step {
    /// The whole step, in seconds.
    pub fn seconds(&self) -> f64 {
        self.stage.seconds()
            + self.ends_s
            + self.bubble_s
            + self.messages_s
            + self.exchange_s
            + self.update_s
            + self.copies_s
    }

    /// The stage that computes most, from 0; of equal ones, the last.
    pub fn slowest(&self) -> usize {
        slowest(&self.stages_s)
    }

    /// Seconds in which accelerators compute, the mean over stages, plus `waiting` for each second in which they do not:
    /// with the part of its power that an accelerator draws while it waits, what a step takes of energy.
    pub fn weighted(&self, waiting: f64) -> f64 {
        let computing = self.computing_s + self.update_s;
        computing + waiting * (self.seconds() - computing)
    }
}

/// Estimates a step. The job must be one that [`crate::check::check`] accepts.
pub fn estimate<C: Costs>(
    model: &Model,
    job: &Job,
    cluster: Cluster,
    software: &Software,
    costs: &C,
) -> Step {
    let setting = Setting { model, job, cluster, software, costs };
    let chunks = divide_chunks(model, job);
    let mut timer = ChunkTimer::of(&setting);
    let stages: Vec<MicroBatch> = (0..job.pipeline.max(1))
        .map(|stage| timer.micro_batch(places(job, stage).map(|place| &chunks[place.chunk as usize])))
        .collect();
    let stages_s: Vec<f64> = stages.iter().map(MicroBatch::seconds).collect();
    let computing = stages.iter().map(|stage| stage.pass.compute() + stage.vocabulary.seconds).sum::<f64>()
        / stages.len() as f64;
    let slowest = slowest(&stages_s);
    let MicroBatch { pass, forward_s, vocabulary, .. } = stages[slowest];
    // A stage has each micro-batch in one of its chunks if these are on different ways.
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let mut stage = scaled(pass, batches);
    let Pipelined { bubble_s, messages_s, hidden_s } = if job.pipeline > 1 {
        let exposed = if job.overlap.pipeline { software.pipeline_exposed } else { 1.0 };
        pipelined(job, &timer.chunks(&chunks), setting.message_s(), exposed, slowest)
    } else {
        Pipelined::default()
    };
    stage.expert -= hidden_s;
    let alone = exposed_alone(job, &pass);
    stage.expert += alone * f64::from(passes_alone(job));
    let bubble_s = bubble_s + alone * f64::from(job.pipeline.max(1) - 1);
    let backward_s = stages_s[slowest] - forward_s;
    let behind = Behind {
        backward_s,
        step_s: batches * stages_s[slowest],
        units: if job.zero >= 3 && job.pipeline == 1 && job.adapters.is_none() {
            timer.computing(&chunks[0])
        } else {
            Vec::new()
        },
    };
    let Exchange { whole_s, exposed_s, update_s, copies_s } = setting.exchange(setting.held(), &behind);
    Step {
        stage,
        ends_s: vocabulary.seconds * batches,
        bubble_s,
        messages_s,
        exchange_s: exposed_s,
        update_s,
        copies_s,
        stages_s,
        whole_exchange_s: whole_s,
        computing_s: computing * batches,
    }
}

fn slowest(stages_s: &[f64]) -> usize {
    (0..stages_s.len()).max_by(|&a, &b| stages_s[a].total_cmp(&stages_s[b])).unwrap_or(0)
}

/// Seconds of dispatch and combine of one chunk that nothing hides in a pass without another micro-batch beside it, though they
/// overlap in others.
///
/// Tokens of a forward pass hide behind a backward pass of another micro-batch, and the reverse. Passes before the first
/// backward pass of the last stage have none to hide behind, nor have as many at the end; nor has one in the bubble, on every
/// other stage.
fn exposed_alone(job: &Job, pass: &Pass) -> f64 {
    if job.schedule.is_ordered() { 0.0 } else { pass.hidden / f64::from(job.virtual_stages.max(1)) }
}

/// Forward passes of chunks of the last stage that come before its first backward pass: with several chunks a stage, as many
/// micro-batches as stages go through all chunks but the last one first (Narayanan et al. 2021, 2.2).
fn passes_alone(job: &Job) -> u32 {
    let (stages, chunks) = (job.pipeline.max(1), job.virtual_stages.max(1));
    if chunks > 1 && job.micro_batches == stages {
        job.micro_batches * chunks
    } else {
        (chunks - 1) * stages + 1
    }
}

fn scaled(pass: Pass, by: f64) -> Pass {
    Pass {
        products: pass.products * by,
        attention: pass.attention * by,
        element_wise: pass.element_wise * by,
        tensor: pass.tensor * by,
        context: pass.context * by,
        expert: pass.expert * by,
        launch: pass.launch * by,
        offload: pass.offload * by,
        hidden: pass.hidden * by,
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Parameters of the stage that has most of them.
    pub(crate) fn held(&self) -> Held {
        let blocks = divide(self.model, self.job);
        let stages = blocks.iter().map(|stage| Held::of(self.model, self.job, stage));
        stages.fold(Held::default(), Held::larger)
    }
}
