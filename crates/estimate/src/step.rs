//! A step of training, and where its time goes.

use crate::exchange::{Exchange, Held};
use crate::job::{Job, Precision};
use crate::layer::{Layer, Pass, Setting};
use crate::machine::{Cluster, Collective, Costs, Group, Product, Software};
use crate::model::Model;
use crate::stages::{Block, Schedule, divide, schedule};

/// The time of a step. All parts together are the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What the slowest stage does with all micro-batches.
    pub stage: Pass,
    /// Embedding, output layer and loss in that stage, seconds.
    pub ends_s: f64,
    /// Waiting while the pipeline fills and drains, and for the slowest stage, seconds.
    pub bubble_s: f64,
    /// Messages between stages that are not hidden, seconds.
    pub messages_s: f64,
    /// Gradients and parameters that are not hidden, seconds.
    pub exchange_s: f64,
    /// The update of parameters, seconds.
    pub update_s: f64,
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
        self.stage.seconds() + self.ends_s + self.bubble_s + self.messages_s + self.exchange_s + self.update_s
    }

    /// Seconds in which accelerators compute, the mean over stages, plus `waiting` for each second in which they do not:
    /// with the part of its power that an accelerator draws while it waits, what a step takes of energy.
    pub fn weighted(&self, waiting: f64) -> f64 {
        let computing = self.computing_s + self.update_s;
        computing + waiting * (self.seconds() - computing)
    }
}

/// Times of embedding and output, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ends {
    embedding: f64,
    output: f64,
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
    let blocks = divide(model, job);
    let mut kinds: Vec<(Kind, Layer)> = Vec::with_capacity(3);
    let mut layer = |number: u32| {
        // Layers of multi-token prediction are like the last layer.
        let number = number.min(model.layers - 1);
        let kind = (model.has_experts(number), model.window(number));
        if let Some((_, found)) = kinds.iter().find(|(each, _)| *each == kind) {
            return *found;
        }
        let found = setting.layer(number);
        kinds.push((kind, found));
        found
    };
    let ends = setting.ends();
    let losses = f64::from(1 + model.prediction_layers);
    let mut stages = Vec::with_capacity(blocks.len());
    for stage in &blocks {
        let mut pass = Pass::default();
        let (mut forward, mut end) = (0.0, 0.0);
        for block in stage {
            match *block {
                Block::Embedding => end += ends.embedding,
                Block::Output => end += ends.output * losses,
                Block::Layer(number) => {
                    let found = layer(number);
                    forward += found.forward.seconds();
                    pass += found.forward;
                    pass += found.backward;
                }
            }
        }
        stages.push((pass, end, forward));
    }
    let stages_s: Vec<f64> = stages.iter().map(|(pass, end, _)| pass.seconds() + end).collect();
    let computing =
        stages.iter().map(|(pass, end, _)| pass.compute() + end).sum::<f64>() / stages.len() as f64;
    let slowest = (0..stages.len()).max_by(|&a, &b| stages_s[a].total_cmp(&stages_s[b])).unwrap_or(0);
    let exposed = if job.overlap.pipeline { software.pipeline_exposed } else { 1.0 };
    let Schedule { bubble_s, messages_s, .. } =
        schedule(&stages_s, job.micro_batches, job.virtual_stages, setting.message_s(), exposed);
    let (once, end, forward) = stages[slowest];
    let batches = f64::from(job.micro_batches);
    let held = blocks.iter().map(|stage| Held::of(model, job, stage)).fold(Held::default(), |most, each| {
        if each.dense + each.experts > most.dense + most.experts { each } else { most }
    });
    let backward_s = stages_s[slowest] - forward;
    let Exchange { whole_s, exposed_s, update_s } =
        setting.exchange(held, backward_s, batches * stages_s[slowest]);
    Step {
        stage: scaled(once, batches),
        ends_s: end * batches,
        bubble_s,
        messages_s,
        exchange_s: exposed_s,
        update_s,
        stages_s,
        whole_exchange_s: whole_s,
        computing_s: computing * batches,
    }
}

/// What the time of a layer depends on: experts, and the window of attention.
type Kind = (bool, Option<u64>);

fn scaled(pass: Pass, by: f64) -> Pass {
    Pass {
        products: pass.products * by,
        attention: pass.attention * by,
        element_wise: pass.element_wise * by,
        tensor: pass.tensor * by,
        context: pass.context * by,
        expert: pass.expert * by,
        launch: pass.launch * by,
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Embedding and output of a micro-batch, forward and backward.
    fn ends(&self) -> Ends {
        let (job, tokens) = (self.job, self.job.tokens());
        let vocab = self.model.vocab.div_ceil(u64::from(job.tensor));
        let hidden = self.model.hidden;
        let product = |product, m, n, k| {
            self.costs.product(product, Precision::Bf16, m, n, k, 1) / self.software.products
        };
        let logits = self.costs.memory(self.software.logit_bytes * (tokens * vocab) as f64);
        let mut output = logits
            + product(Product::Forward, tokens, vocab, hidden)
            + product(Product::InputGradient, tokens, hidden, vocab);
        if job.adapters.is_none() {
            output +=
                product(Product::WeightGradient, vocab, hidden, tokens) + self.accumulation(vocab * hidden);
        }
        // Rows of the table are read and written forward; their gradients are read and added backward.
        Ends { embedding: self.costs.memory((tokens * hidden * 10) as f64), output }
    }

    /// A message of one micro-batch to the next stage.
    fn message_s(&self) -> f64 {
        let job = self.job;
        if job.pipeline < 2 {
            return 0.0;
        }
        let parts = if job.sequence_parallel { u64::from(job.tensor) } else { 1 };
        let bytes = (job.tokens() * self.model.hidden * 2 / parts) as f64;
        // The slowest message counts: if stages lie in several domains, one between two of them.
        let (stride, domain) = (job.tensor * job.replicas(), self.domain());
        let group = if stride * job.pipeline > domain {
            Group { in_domain: 1, domains: 2, concurrent: stride.min(domain) }
        } else {
            Group::strided(2, stride, domain)
        };
        self.costs.collective(Collective::Send, bytes, group)
    }
}
