//! Activations that a layer keeps for its backward pass.
//!
//! Korthikanti et al. (2022), equations 1 to 4, for a GPT layer: `s b h (34 + 5 a s / h) / t` bytes with sequence
//! parallelism. The same tensors are counted here one by one, so that gated feed-forward blocks, grouped keys, latent
//! attention, experts and fused attention, which keeps no scores, count what they have.

mod token;

use crate::job::{ELEMENT, Job, Recompute, RecomputeMethod, Set};
use crate::memory_software::MemorySoftware;
use crate::model::Model;
use crate::stages::{Block, is_last};
use crate::work::layer_work;
use token::{Token, parts};

/// Bytes of one micro-batch in a layer on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Activations {
    /// Kept from forward to backward pass.
    pub kept: f64,
    /// Exists only while the layer computes backward: gradients between operations, gathered inputs, and recomputed
    /// activations.
    pub working: f64,
    /// Kept from the gradients of inputs to the gradients of weights, in schedules that separate these: inputs of linear layers,
    /// and gradients of their outputs.
    pub weights: f64,
    /// Kept in host memory from forward to backward pass.
    pub host: f64,
}

/// How a layer's activations are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Treatment {
    /// Whether the backward pass recomputes the whole layer.
    pub(crate) again: bool,
    /// Whether some are in host memory.
    pub(crate) offloaded: bool,
}

impl Treatment {
    /// The treatment of the `nth` layer among the blocks of a chunk.
    pub(crate) fn of(job: &Job, nth: u32, blocks: &[Block]) -> Self {
        let last = !job.offload.modules.is_empty() && is_last(blocks, nth);
        Self { again: job.computes_again(nth), offloaded: job.offloads(nth, last) }
    }
}

/// Activations of `layer` for one micro-batch on one rank, as the first layer of its chunk.
pub fn activations(model: &Model, job: &Job, software: &MemorySoftware, layer: u32) -> Activations {
    layer_activations(model, job, software, layer, Treatment::of(job, 0, &[]))
}

/// The same for a layer with this treatment.
pub(crate) fn layer_activations(
    model: &Model,
    job: &Job,
    software: &MemorySoftware,
    layer: u32,
    treatment: Treatment,
) -> Activations {
    let found = kept_activations(model, job, software, layer, treatment.again);
    if !treatment.offloaded {
        return found;
    }
    let host = if job.offload.modules.is_empty() {
        found.kept
    } else {
        let token = Token { model, job, software, recomputed: job.modules_again() };
        job.tokens() as f64 * token.offloaded(model.has_experts(layer))
    };
    // The activations of one layer are in transit: those copied last, or needed next.
    Activations { kept: found.kept - host, working: found.working + host, host, ..found }
}

fn kept_activations(
    model: &Model,
    job: &Job,
    software: &MemorySoftware,
    layer: u32,
    again: bool,
) -> Activations {
    let tokens = job.tokens() as f64;
    let token = Token { model, job, software, recomputed: Set::default() };
    let experts = model.has_experts(layer);
    let whole = tokens * (token.attention() + token.feed_forward(experts));
    let working = tokens * token.working(experts);
    let input = tokens * token.between();
    let weights =
        if job.schedule.is_ordered() { token.products(&layer_work(model, job, layer)) } else { 0.0 };
    let kept = match job.recompute {
        Recompute::Full if again => {
            // A group of layers keeps its input; its recomputed activations all exist at once.
            let grouped = job.recompute_method == Some(RecomputeMethod::Uniform);
            let group = if grouped { f64::from(job.recompute_layers.max(1)) } else { 1.0 };
            return Activations { kept: input / group, working: working + group * whole, weights, host: 0.0 };
        }
        Recompute::None | Recompute::Full => whole,
        Recompute::Selective => {
            let token = Token { recomputed: job.modules_again(), ..token };
            tokens * (token.attention() + token.feed_forward(experts))
        }
        Recompute::ExceptQkv => {
            let first =
                layer_work(model, job, layer).linears.first().map_or(0, |each| each.tokens * each.outputs);
            (input + ELEMENT * first as f64).min(whole)
        }
        Recompute::Operators => {
            let products: u64 = layer_work(model, job, layer)
                .linears
                .iter()
                .map(|linear| linear.tokens * linear.outputs * linear.groups)
                .sum();
            let kept = input + tokens * token.attention_output() + ELEMENT * products as f64 / 2.0;
            kept.min(whole)
        }
    };
    Activations { kept, working: working + (whole - kept), weights, host: 0.0 }
}

/// Bytes that the output layer keeps: the input of the last norm, and its output, which the output layer multiplies.
pub(crate) fn output_layer(model: &Model, job: &Job) -> f64 {
    2.0 * job.tokens() as f64 * ELEMENT * model.hidden as f64 / parts(job)
}

/// Bytes that the weight gradients of the output layer need: its input, and the gradients of logits.
pub(crate) fn output_weights(model: &Model, job: &Job) -> f64 {
    let vocab = job.rank_vocab(model) as f64;
    job.tokens() as f64 * ELEMENT * (model.hidden as f64 / parts(job) + vocab)
}

/// Bytes that the weight gradients of the embedding need: the gradients of its outputs.
pub(crate) fn embedding_weights(model: &Model, job: &Job) -> f64 {
    job.tokens() as f64 * ELEMENT * model.hidden as f64 / parts(job)
}

/// Bytes of the mask of the dropout that follows the embedding.
pub(crate) fn embedding(model: &Model, job: &Job) -> f64 {
    if model.dropout { job.tokens() as f64 * model.hidden as f64 / parts(job) } else { 0.0 }
}
