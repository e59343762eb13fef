//! The blocks of a job's chunks, one by one, for simulations: what a rank computes, holds and sends to experts.
//!
//! Kernels of collectives take multiprocessors from those that compute. Of exchanges that overlap, of experts and of units of
//! ZeRO-3, that part of their time counts as computing, as in an estimate.

use crate::activations::Treatment;
use crate::adapters::trained;
use crate::exchange::{Exchange, Held};
use crate::job::{Job, Module, Recompute};
use crate::layer::{Layer, Setting};
use crate::machine::{Cluster, Costs, Product, Software};
use crate::model::Model;
use crate::offload::Copies;
use crate::stages::{Block, divide_chunks};
use crate::work::{LayerWork, Part, layer_work};
use serde::Serialize;

/// A job, block by block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// The blocks of each chunk of the model, in the order of the forward pass.
    pub chunks: Vec<Vec<Detailed>>,
    /// Bytes of the message of one micro-batch from a rank of a stage to one of the next.
    pub message_bytes: u64,
}

/// A block of one micro-batch on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Detailed {
    /// What it is.
    pub kind: BlockKind,
    /// The layer, from 0.
    pub layer: Option<u32>,
    /// All but experts.
    pub dense: Share,
    /// Experts, if the block has some.
    pub experts: Option<Experts>,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// The table of tokens.
    Embedding,
    /// A layer.
    Layer,
    /// Output layer and loss.
    Output,
}

/// What a rank computes in a part of a block, and holds. Communication that stays within the block, of tensor-parallel ranks
/// and of keys and values, counts as computing, as far as it is exposed. So do copies to the host's memory and back, in the
/// last block of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Share {
    /// The forward pass, seconds.
    pub forward_s: f64,
    /// Gradients of inputs, and what the backward pass computes again, seconds.
    pub input_s: f64,
    /// Gradients of weights, and their sums, seconds.
    pub weight_s: f64,
    /// The update of parameters, once a step, seconds.
    pub update_s: f64,
    /// Parameters.
    pub parameters: f64,
    /// Bytes of these, as ranks gather them.
    pub gathered: f64,
    /// Of these, or of adapters, those that are trained: whose gradients are summed, and which are updated.
    pub trained: f64,
}

/// The experts of a block, and the exchanges of their tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Experts {
    /// What the rank's experts compute and hold.
    pub share: Share,
    /// Bytes that a rank sends in each exchange of tokens: one before experts and one after them. 0 if all experts are on each
    /// rank.
    pub bytes: f64,
    /// Whether the backward pass repeats both exchanges of the forward pass before its own two.
    pub repeats: bool,
}

/// The blocks of a job. The job must be one that [`crate::check::check`] accepts.
pub fn blocks<C: Costs>(
    model: &Model,
    job: &Job,
    cluster: Cluster,
    software: &Software,
    costs: &C,
) -> Blocks {
    let setting = Setting { model, job, cluster, software, costs };
    let (ends, wide) = (setting.ends(), job.of_wide_layers());
    let losses = f64::from(1 + model.prediction_layers);
    let held = setting.held();
    let whole = if job.adapters.is_some() { setting.trained().all() } else { held.all() };
    let lost = setting.lost(held);
    // The stage that holds most updates its parameters in this time; others in proportion.
    let Exchange { update_s, copies_s, .. } = setting.exchange(held, 0.0, 0.0);
    let update_s = update_s + copies_s;
    let updated = |parameters: f64| if whole > 0.0 { update_s * parameters / whole } else { 0.0 };
    let one = |block: Block, treatment: Treatment, copies: &mut Copies| {
        let again = treatment.again;
        let own = Held::of(model, job, &[block]);
        let of_adapters = job.adapters.map(|_| trained(model, job, &[block]));
        // Of adapters beside frozen parameters that are not divided, only these are gathered.
        let (dense_bytes, expert_bytes) = job.gathered_bytes(match of_adapters {
            Some(adapters) if job.zero < 3 => adapters,
            _ => own,
        });
        let share = |forward_s: f64, seconds: f64, weight_s: f64| {
            let trained = of_adapters.unwrap_or(own).dense;
            let [out, back] = lost.map(|each| each * own.dense);
            Share {
                forward_s: forward_s + out,
                input_s: (seconds - forward_s - weight_s).max(0.0) + back,
                weight_s,
                update_s: updated(trained),
                parameters: own.dense,
                gathered: dense_bytes,
                trained,
            }
        };
        match block {
            Block::Embedding => {
                let [forward_s, seconds, weight_s] = ends.embedding.passes(1.0);
                let dense = share(forward_s, seconds, weight_s);
                Detailed { kind: BlockKind::Embedding, layer: None, dense, experts: None }
            }
            Block::Output => {
                let [output, joining] = [ends.output.passes(losses), ends.joining.passes(losses - 1.0)];
                let [forward_s, seconds, weight_s] = [0, 1, 2].map(|at| output[at] + joining[at]);
                let dense = share(forward_s, seconds, weight_s);
                Detailed { kind: BlockKind::Output, layer: None, dense, experts: None }
            }
            Block::Layer(number) => {
                let setting = setting.of_layer(number, wide.as_ref());
                let job = setting.job;
                let like = number.min(model.layers - 1);
                let (layer, work) = (setting.layer(like, again), layer_work(model, job, like));
                copies.add(&layer, setting.host_bytes(like, treatment));
                let (within, sent_bytes) = setting.sent(&work);
                let passes = if repeats_experts(job, again) { 2.0 } else { 1.0 };
                let forward_s = layer.forward.seconds() - layer.forward.expert + within;
                let backward_s = layer.backward.seconds() - layer.backward.expert + passes * within;
                let Layer { weight_s, .. } = layer;
                let mut dense = share(forward_s, forward_s + backward_s, weight_s);
                let experts = (work.local_experts > 0).then(|| {
                    let computed = setting.computed_by_experts(&work, repeats_experts(job, again));
                    dense.forward_s -= computed.forward_s;
                    dense.input_s -= computed.input_s;
                    dense.weight_s -= computed.weight_s;
                    let experts = of_adapters.unwrap_or(own).experts;
                    let [out, back] = lost.map(|each| each * own.experts);
                    Experts {
                        share: Share {
                            forward_s: computed.forward_s + out,
                            input_s: computed.input_s + back,
                            update_s: updated(experts),
                            parameters: own.experts,
                            gathered: expert_bytes,
                            trained: experts,
                            ..computed
                        },
                        bytes: sent_bytes,
                        repeats: repeats_experts(job, again),
                    }
                });
                Detailed { kind: BlockKind::Layer, layer: Some(number), dense, experts }
            }
        }
    };
    let chunks = divide_chunks(model, job).into_iter().map(|chunk| {
        let (mut nth, mut copies) = (0, Copies::default());
        let mut detailed: Vec<Detailed> = Vec::with_capacity(chunk.len());
        for &block in &chunk {
            detailed.push(one(block, Treatment::of(job, nth, &chunk), &mut copies));
            nth += u32::from(matches!(block, Block::Layer(_)));
        }
        let turns = chunk.contains(&Block::Output).then(|| {
            let (forward, whole) = (ends.output.forward * losses, ends.output.seconds * losses);
            (forward, whole - forward)
        });
        let (out_s, back_s) = copies.exposed(cluster.host, turns);
        if let Some(last) = detailed.last_mut() {
            // The chunk waits for copies to the host and back that it does not hide.
            last.dense.forward_s += out_s;
            last.dense.input_s += back_s;
        }
        detailed
    });
    Blocks {
        chunks: chunks.collect(),
        message_bytes: if job.pipeline > 1 { setting.message_bytes() } else { 0 },
    }
}

/// Whether the backward pass computes experts again, and so sends their tokens again.
fn repeats_experts(job: &Job, again: bool) -> bool {
    match job.recompute {
        Recompute::Full => again,
        Recompute::ExceptQkv => true,
        Recompute::Selective => job.modules_again().has(Module::Moe),
        Recompute::None | Recompute::Operators => false,
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Seconds of computing, forward and backward, that kernels of collectives take for each parameter, where every
    /// micro-batch gathers the parameters of a unit and reduces its gradients (ZeRO-3).
    fn lost(&self, held: Held) -> [f64; 2] {
        let (job, whole) = (self.job, held.all());
        let Some(part) = self.software.sharded_exposed else { return [0.0; 2] };
        if job.zero < 3 || job.pipeline > 1 || job.adapters.is_some() || whole <= 0.0 {
            return [0.0; 2];
        }
        let [gathers, reduces] = self.of_units(held).map(|seconds| part * seconds / whole);
        let gathers = if job.overlap.parameters { gathers } else { 0.0 };
        [gathers, gathers + if job.overlap.gradients { reduces } else { 0.0 }]
    }

    /// The products of a rank's experts, with the sums of their gradients: those of a layer whose backward pass computes them
    /// `again` or not.
    fn computed_by_experts(&self, work: &LayerWork, again: bool) -> Share {
        let products = |product| work.of(Part::Experts).map(|each| self.product(product, each)).sum::<f64>();
        let forward_s = products(Product::Forward);
        let input_s = products(Product::InputGradient) + if again { forward_s } else { 0.0 };
        let weight_s = if self.job.adapters.is_none() {
            // The sums of all gradients of a layer are one kernel here; those of experts are their part of it.
            let all = work.dense_parameters + work.expert_parameters;
            let part = work.expert_parameters as f64 / all.max(1) as f64;
            products(Product::WeightGradient) + part * self.accumulation(all)
        } else {
            0.0
        };
        Share { forward_s, input_s, weight_s, ..Share::default() }
    }
}
