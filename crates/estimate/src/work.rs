//! The kernels of a layer on one rank.

use crate::job::{Dispatcher, ELEMENT, ELEMENT_BYTES, Job, Precision};
use crate::machine::{AttentionWork, Product};
use crate::model::{Attention, Model};
use crate::rotation::Rotation;

/// A linear layer on one rank: `tokens` x `inputs` times `inputs` x `outputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// Rows: tokens.
    pub tokens: u64,
    /// Elements of an input.
    pub inputs: u64,
    /// Elements of an output.
    pub outputs: u64,
    /// Number of such layers that one kernel computes, each with tokens of its own.
    pub groups: u64,
    /// What it is a part of.
    pub part: Part,
    /// Whether the kernel for gradients of its inputs also computes those of the gated activation before it, and casts them.
    pub gate: bool,
}

impl Linear {
    /// The product `m` x `k` times `k` x `n` of a pass, as `(m, n, k)`.
    pub(crate) const fn sizes(&self, product: Product) -> (u64, u64, u64) {
        let Self { tokens, inputs, outputs, .. } = *self;
        match product {
            Product::Forward => (tokens, outputs, inputs),
            Product::InputGradient => (tokens, inputs, outputs),
            Product::WeightGradient => (outputs, inputs, tokens),
        }
    }
}

/// The part of a layer that a product belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Queries, keys and values of attention, or their compressed forms.
    Attention,
    /// The outputs of attention.
    AttentionOutput,
    /// Queries, keys and values from their compressed forms.
    UpProjection,
    /// The dense feed-forward block.
    Dense,
    /// The one beside experts.
    Shared,
    /// Experts.
    Experts,
}

/// What a rank computes in a layer, for one micro-batch.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LayerWork {
    /// Linear layers.
    pub linears: Vec<Linear>,
    /// Attention of the whole sequence; with context parallelism, of which a rank computes an equal part.
    pub attention: Option<AttentionWork>,
    /// Scores of attention that is not fused; 0 if it is.
    pub scores: u64,
    /// Bytes that operations between products move in the forward pass, if all of them are fused that can be.
    pub element_bytes: u64,
    /// The same for routing, for the order of tokens, and for activations of experts.
    pub routed_bytes: u64,
    /// Of these, bytes in which tokens are copied into the order of experts and back, and weighted.
    pub ordered_bytes: u64,
    /// What rotates positions into queries and keys, beside `element_bytes`.
    pub rotation: Rotation,
    /// Bytes of kernels that each compute one operation of biased experts, in the forward pass and in the backward pass.
    pub biased_bytes: [u64; 2],
    /// Experts of the rank.
    pub local_experts: u64,
    /// Parameters of the rank, without those of experts.
    pub dense_parameters: u64,
    /// Parameters of experts.
    pub expert_parameters: u64,
    /// Bytes that a rank sends to experts of others, and receives back; 0 without experts on other ranks.
    pub dispatched_bytes: u64,
    /// Tokens that a rank sends to experts, before they are copied.
    pub dispatched_tokens: u64,
    /// Bytes of the tokens that the ranks gather which divide an expert, and whose outputs they sum; 0 if none divide it.
    pub gathered_bytes: u64,
    /// Bytes of queries, keys and values that tensor-parallel ranks gather; 0 where each has heads of keys of its own.
    pub heads_bytes: u64,
}

/// The work of a layer.
pub fn layer_work(model: &Model, job: &Job, layer: u32) -> LayerWork {
    let mut work = LayerWork::default();
    attention(model, job, layer, &mut work);
    let experts = model.has_experts(layer);
    let tensor = u64::from(job.tensor);
    match model.experts {
        Some(found) if experts => {
            if found.shared_ffn > 0 {
                work.element_bytes += feed_forward(
                    model,
                    job,
                    [job.tokens(), found.shared_ffn / tensor, 1],
                    Part::Shared,
                    &mut work,
                );
            }
            routed(model, job, &mut work);
        }
        _ => {
            work.element_bytes +=
                feed_forward(model, job, [job.tokens(), model.ffn / tensor, 1], Part::Dense, &mut work);
        }
    }
    if job.precision.casts() {
        let of = |experts: bool| {
            let chosen = work.linears.iter().filter(|each| (each.part == Part::Experts) == experts);
            chosen.map(|each| linear_casts(model, job, each)).sum::<u64>()
        };
        let (dense, routed) = (of(false), of(true));
        work.element_bytes += dense;
        work.routed_bytes += routed;
    }
    let between = if job.sequence_parallel { tensor } else { 1 };
    // Two norms read and write a token each, and two residuals read two and write one; dropout reads and writes one, and
    // keeps a mask.
    let dropout = if model.dropout { 2 * 5 } else { 0 };
    work.element_bytes += job.tokens() * model.hidden * (ELEMENT_BYTES * (2 * 2 + 2 * 3) + dropout) / between;
    work.dense_parameters = model.rank_parameters(experts, tensor);
    work
}

fn attention(model: &Model, job: &Job, layer: u32, work: &mut LayerWork) {
    let (tokens, hidden, tensor) = (job.tokens(), model.hidden, u64::from(job.tensor));
    let heads = (model.heads / tensor).max(1);
    let (kv_heads, key_dim, value_dim) = match model.attention {
        Attention::Latent(latent) => {
            let key = latent.nope_dim + latent.rope_dim;
            // Tensor-parallel ranks have copies of the compressing layers, and with sequence parallelism equal parts of the
            // tokens there.
            let part = if job.sequence_parallel { tokens / tensor } else { tokens };
            if latent.query_rank > 0 {
                work.linear(part, hidden, latent.query_rank, Part::Attention);
                work.linear(tokens, latent.query_rank, heads * key, Part::UpProjection);
            } else {
                work.linear(tokens, hidden, heads * key, Part::Attention);
            }
            work.linear(part, hidden, latent.kv_rank + latent.rope_dim, Part::Attention);
            let expanded = heads * (latent.nope_dim + latent.value_dim);
            work.linear(tokens, latent.kv_rank, expanded, Part::UpProjection);
            work.linear(tokens, heads * latent.value_dim, hidden, Part::AttentionOutput);
            work.rotation = Rotation::latent(latent, tokens * heads);
            (heads, key, latent.value_dim)
        }
        Attention::Full | Attention::Window { .. } => {
            // Ranks beyond the number of key heads divide the product of one between them, gather what it gives, and have copies
            // of its keys and values (`num_query_groups` below the ranks in Megatron Core).
            let kv_heads = (model.kv_heads / tensor).max(1);
            let (queries, keys) = (heads * model.head_dim, kv_heads * model.head_dim);
            let outputs = (model.heads + 2 * model.kv_heads) * model.head_dim;
            work.linear(tokens, hidden, outputs / tensor, Part::Attention);
            if model.kv_heads < tensor {
                work.heads_bytes = tokens * outputs * ELEMENT_BYTES;
            }
            work.linear(tokens, queries, hidden, Part::AttentionOutput);
            if model.rotary {
                work.rotation = Rotation::whole(tokens * (queries + keys));
            }
            (kv_heads, model.head_dim, model.head_dim)
        }
    };
    work.attention = Some(AttentionWork {
        batch: u64::from(job.micro_batch),
        sequence: job.sequence,
        heads,
        kv_heads,
        key_dim,
        value_dim,
        window: model.window(layer).unwrap_or(0),
        backward: false,
        library: job.attention_library.unwrap_or_default(),
        fp8: job.fp8_attention,
    });
    if job.fp8_attention {
        work.element_bytes += cast_heads(tokens, heads, kv_heads, key_dim, value_dim);
    }
    if !job.fused_attention {
        work.scores =
            u64::from(job.micro_batch) * heads * job.sequence * job.sequence / u64::from(job.context);
    }
}

/// Bytes in which inputs of a linear layer are cast in the forward pass and gradients of its outputs in the backward
/// pass, as a third of both together. A kernel that fuses experts casts what is between their two products.
fn linear_casts(model: &Model, job: &Job, linear: &Linear) -> u64 {
    let fused = job.fused_experts && linear.part == Part::Experts;
    let elements = if fused { model.hidden } else { linear.inputs + linear.outputs };
    (cast_bytes(job) * (linear.tokens * linear.groups * elements) as f64 / 3.0) as u64
}

/// Bytes that a cast of an element moves: 16 bits are read, and 8 or 4 are written twice, for products along both sides, or
/// once, where weights have no gradients.
///
/// Tensors of NVFP4 are read once more before: for the largest element, of rows, and of what Hadamard transforms of 16 elements
/// make of columns, which the second kernel repeats in registers (`NVFP4Quantizer::quantize_impl` of Transformer Engine).
pub(crate) fn cast_bytes(job: &Job) -> f64 {
    let sides = if job.adapters.is_some() { 1.0 } else { 2.0 };
    match job.precision {
        Precision::Nvfp4 => 2.0 * ELEMENT + sides * Precision::Nvfp4.bytes(),
        _ => ELEMENT + sides,
    }
}

/// Bytes in which queries, keys and values are cast for attention of 8 bits in the forward pass, and in the backward
/// pass gradients of outputs, and those of queries, keys and values back, as a third of both together: each reads 16 bits
/// and writes 8, or the other way round. The kernel writes its outputs in 16 bits, and nothing is transposed.
const fn cast_heads(tokens: u64, heads: u64, kv_heads: u64, key_dim: u64, value_dim: u64) -> u64 {
    let inputs = heads * key_dim + kv_heads * (key_dim + value_dim);
    (ELEMENT_BYTES + 1) * tokens * (2 * inputs + heads * value_dim) / 3
}

/// Bytes of kernels of PyTorch that add the biases of experts to `outputs` elements, and limit the `inputs` elements of
/// activations, in the forward pass and in the backward pass; [`limited`] are those of the limits, forward.
///
/// Megatron Core multiplies a bias by the 32-bit probability of each token (4 bytes written), adds that to outputs of 16
/// bits (2 + 4 + 4), puts experts together (4 + 4), and casts (4 + 2). Backward it casts (2 + 4), and back to 16 bits
/// (4 + 2); gradients of probabilities are products (4 + 4) that are summed (4), and so are those of biases.
const fn biased(outputs: u64, inputs: u64) -> [u64; 2] {
    // Limits: gradients and inputs are read and gradients written (6), and both halves put together (4).
    [28 * outputs + limited(inputs), 36 * outputs + 10 * inputs]
}

/// Bytes in which two halves of inputs are limited each (2 + 2), and put together (2 + 2).
pub(crate) const fn limited(inputs: u64) -> u64 {
    8 * inputs
}

/// A feed-forward block for `tokens` tokens, of which one rank has `ffn` elements. Returns the bytes that its activation
/// moves.
fn feed_forward(
    model: &Model,
    job: &Job,
    [tokens, ffn, groups]: [u64; 3],
    part: Part,
    work: &mut LayerWork,
) -> u64 {
    let first = if model.gated { 2 * ffn } else { ffn };
    let gate = model.gated && job.fused_experts && part == Part::Experts;
    work.linears.push(Linear { tokens, inputs: model.hidden, outputs: first, groups, part, gate: false });
    work.linears.push(Linear { tokens, inputs: ffn, outputs: model.hidden, groups, part, gate });
    work.activated(part)
}

/// Copies of tokens that the fullest rank has, where `copies` are those of equal parts. All others wait for it.
fn loaded(job: &Job, copies: u64) -> u64 {
    (job.expert_load * copies as f64).round() as u64
}

/// Experts: a rank's tokens go to `top_k` of them, and it computes those that come to its own.
fn routed(model: &Model, job: &Job, work: &mut LayerWork) {
    let Some(experts) = model.experts else { return };
    let (tensor, parts) = (u64::from(job.tensor), u64::from(job.expert_tensor.max(1)));
    let local = (experts.count / u64::from(job.expert.max(1))).max(1);
    // Tensor-parallel ranks divide the tokens before they send them.
    let sent = loaded(job, job.tokens() * experts.top_k / tensor);
    let computed = sent * parts;
    let each = (computed / local).max(1);
    let activated = feed_forward(model, job, [each, experts.ffn / parts, local], Part::Experts, work);
    // The router's scores are sorted.
    work.routed_bytes = job.tokens() / tensor * experts.count * 4 * 6;
    if !job.fused_experts {
        // A kernel of its own computes the activation: else the first product does.
        work.routed_bytes += activated;
    }
    if model.biased_experts && !job.fused_experts {
        work.biased_bytes = biased(computed * model.hidden, computed * 2 * experts.ffn / parts);
    }
    work.local_experts = local;
    work.expert_parameters = model.ffn_matrices() * model.hidden * experts.ffn * local / parts;
    // Megatron Core's dispatchers send activations in 16 bits, before they are cast, and bring back 16 bits.
    let token = model.hidden * ELEMENT_BYTES;
    work.dispatched_tokens = job.tokens() / tensor;
    match job.dispatcher {
        Dispatcher::AllToAll => {
            // Each copy is put into the order of ranks, in that of experts as it arrives, and back; each time it is read and
            // written, but for the first reading and the last writing, which are one for all copies of a token.
            work.ordered_bytes = 6 * computed * token;
            if job.expert > 1 {
                work.dispatched_bytes = 2 * sent * token;
            }
            if parts > 1 {
                work.gathered_bytes = computed * token;
            }
        }
        Dispatcher::Fused => {
            let ranks = experts.places(local, job.routing);
            let copies = job.expert_load * job.tokens() as f64 / tensor as f64 * ranks * parts as f64;
            // A token that arrives is read once and written for each of its experts, and back.
            work.ordered_bytes = 2 * (copies as u64 + computed) * token;
            if job.expert * job.expert_tensor > 1 {
                work.dispatched_bytes = (copies * (2 * token) as f64) as u64;
            }
        }
    }
    work.routed_bytes += work.ordered_bytes;
}

/// The number of ranks that hold any of the `chosen` experts of a token, which are equally likely to be any of `experts`, of
/// which each rank has `local`.
pub fn ranks_of(experts: u64, local: u64, chosen: u64) -> f64 {
    // None of a rank's experts is chosen: the first choice is another rank's, and so is the next of those that are left.
    let others = experts - local;
    let none: f64 =
        (0..chosen).map(|each| (others.saturating_sub(each)) as f64 / (experts - each) as f64).product();
    (experts / local) as f64 * (1.0 - none)
}

impl LayerWork {
    fn linear(&mut self, tokens: u64, inputs: u64, outputs: u64, part: Part) {
        self.linears.push(Linear { tokens, inputs, outputs, groups: 1, part, gate: false });
    }

    /// Products of a part.
    pub fn of(&self, part: Part) -> impl Iterator<Item = &Linear> {
        self.linears.iter().filter(move |linear| linear.part == part)
    }

    /// Bytes of the activation between the two products of a block: it reads the outputs of the first and writes the inputs
    /// of the second. 0 if the layer has no such block.
    pub(crate) fn activated(&self, part: Part) -> u64 {
        let mut products = self.of(part);
        match (products.next(), products.next()) {
            (Some(first), Some(second)) => {
                first.tokens * first.groups * (first.outputs + second.inputs) * ELEMENT_BYTES
            }
            _ => 0,
        }
    }
}
