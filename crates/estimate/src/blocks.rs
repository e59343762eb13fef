//! The blocks of a job's chunks, one by one, for simulations: what a rank computes, holds and sends to experts.
//!
//! Kernels of collectives take multiprocessors from those that compute. Of exchanges that overlap, of experts and of units of
//! ZeRO-3, that part of their time counts as computing, as in an estimate.

use crate::activations::Treatment;
use crate::adapters::trained;
use crate::exchange::{Behind, Exchange};
use crate::held::Held;
use crate::job::{Job, Module, Recompute};
use crate::layer::Setting;
use crate::machine::{Cluster, Costs, Product, Software};
use crate::model::Model;
use crate::offload::Copies;
use crate::schedule::places;
use crate::stages::{Block, divide_chunks};
use crate::vocabulary::Vocabulary;
use crate::work::{LayerWork, Part, layer_work};
use serde::Serialize;

/// A job, block by block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// The blocks of each chunk of the model, in the order of the forward pass.
    pub chunks: Vec<Vec<Detailed>>,
    /// The chunks that each stage holds.
    pub stages: Vec<Vec<u32>>,
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
    let message_bytes = if job.pipeline > 1 { setting.message_bytes() } else { 0 };
    let common = Common::new(setting);
    let chunks = divide_chunks(model, job).iter().map(|chunk| common.chunk(chunk)).collect();
    let stages =
        (0..job.pipeline).map(|stage| places(job, stage).map(|place| place.chunk).collect()).collect();
    Blocks { chunks, stages, message_bytes }
}

/// What the blocks of a job have in common.
struct Common<'a, C: Costs> {
    setting: Setting<'a, C>,
    /// The job of layers that stay in BF16, if there are any.
    bf16: Option<Job>,
    vocabulary: Vocabulary,
    /// Losses of a micro-batch: that of the model, and one of each layer for multi-token prediction.
    losses: f64,
    /// Parameters that the fullest stage trains, and the seconds in which it updates them.
    updates: (f64, f64),
    /// Seconds that kernels of collectives take from computing for each parameter, forward and backward.
    lost: [f64; 2],
}

/// What a rank holds of a block.
struct Own {
    parameters: Held,
    trained: Held,
    /// Bytes that ranks gather: without experts, and of experts.
    gathered: (f64, f64),
}

impl<'a, C: Costs> Common<'a, C> {
    fn new(setting: Setting<'a, C>) -> Self {
        let (model, job) = (setting.model, setting.job);
        let held = setting.held();
        let trained = if job.adapters.is_some() { setting.trained().all() } else { held.all() };
        let Exchange { update_s, copies_s, .. } = setting.exchange(held, &Behind::default());
        Self {
            bf16: job.of_bf16_layers(),
            vocabulary: setting.vocabulary(),
            losses: f64::from(1 + model.prediction_layers),
            updates: (trained, update_s + copies_s),
            lost: setting.lost(held),
            setting,
        }
    }

    /// The blocks of a chunk. The last one waits for copies to the host and back that the chunk does not hide.
    fn chunk(&self, blocks: &[Block]) -> Vec<Detailed> {
        let (mut nth, mut copies) = (0, Copies::default());
        let mut detailed: Vec<Detailed> = Vec::with_capacity(blocks.len());
        for &block in blocks {
            detailed.push(match block {
                Block::Embedding => {
                    self.end(block, BlockKind::Embedding, self.vocabulary.embedding.passes(1.0))
                }
                Block::Output => {
                    let output = self.vocabulary.output.passes(self.losses);
                    let joining = self.vocabulary.joining.passes(self.losses - 1.0);
                    self.end(block, BlockKind::Output, [0, 1, 2].map(|at| output[at] + joining[at]))
                }
                Block::Layer(number) => {
                    nth += 1;
                    self.layer(number, Treatment::of(self.setting.job, nth - 1, blocks), &mut copies)
                }
            });
        }
        let turns = blocks.contains(&Block::Output).then(|| {
            let output = self.vocabulary.output;
            let (forward, whole) = (output.forward * self.losses, output.seconds * self.losses);
            (forward, whole - forward)
        });
        let (out_s, back_s) = copies.exposed(self.setting.cluster.host, turns);
        if let Some(last) = detailed.last_mut() {
            last.dense.forward_s += out_s;
            last.dense.input_s += back_s;
        }
        detailed
    }

    /// A table of tokens or an output layer, with the seconds of its forward pass, of both passes and of gradients of weights.
    fn end(&self, block: Block, kind: BlockKind, passes: [f64; 3]) -> Detailed {
        Detailed { kind, layer: None, dense: self.dense(&self.own(block), passes), experts: None }
    }

    /// A layer, whose copies to the host's memory are added to those of its chunk.
    fn layer(&self, number: u32, treatment: Treatment, copies: &mut Copies) -> Detailed {
        let own = self.own(Block::Layer(number));
        let setting = self.setting.of_layer(number, self.bf16.as_ref());
        let like = number.min(setting.model.layers - 1);
        let layer = setting.layer(like, treatment.again);
        let work = layer_work(setting.model, setting.job, like);
        copies.add(&layer, setting.host_bytes(like, treatment));
        let (within, bytes) = setting.sent(&work);
        let repeats = repeats_experts(setting.job, treatment.again);
        let passes = if repeats { 2.0 } else { 1.0 };
        let forward_s = layer.forward.seconds() - layer.forward.expert + within;
        let backward_s = layer.backward.seconds() - layer.backward.expert + passes * within;
        let mut dense = self.dense(&own, [forward_s, forward_s + backward_s, layer.weight_s]);
        let experts = (work.local_experts > 0).then(|| {
            let computed = setting.computed_by_experts(&work, repeats);
            dense.forward_s -= computed.forward_s;
            dense.input_s -= computed.input_s;
            dense.weight_s -= computed.weight_s;
            Experts { share: self.routed(&own, computed), bytes, repeats }
        });
        Detailed { kind: BlockKind::Layer, layer: Some(number), dense, experts }
    }

    /// All of a block but experts, with the seconds of its forward pass, of both passes and of gradients of weights.
    fn dense(&self, own: &Own, [forward_s, seconds, weight_s]: [f64; 3]) -> Share {
        let [out, back] = self.lost.map(|each| each * own.parameters.dense);
        Share {
            forward_s: forward_s + out,
            input_s: (seconds - forward_s - weight_s).max(0.0) + back,
            weight_s,
            update_s: self.updated(own.trained.dense),
            parameters: own.parameters.dense,
            gathered: own.gathered.0,
            trained: own.trained.dense,
        }
    }

    /// The experts of a layer, with the seconds of their products.
    fn routed(&self, own: &Own, computed: Share) -> Share {
        let [out, back] = self.lost.map(|each| each * own.parameters.experts);
        Share {
            forward_s: computed.forward_s + out,
            input_s: computed.input_s + back,
            update_s: self.updated(own.trained.experts),
            parameters: own.parameters.experts,
            gathered: own.gathered.1,
            trained: own.trained.experts,
            ..computed
        }
    }

    /// Seconds in which a rank updates parameters. The fullest stage takes as long as an estimate says, others in proportion.
    fn updated(&self, parameters: f64) -> f64 {
        let (whole, update_s) = self.updates;
        if whole > 0.0 { update_s * parameters / whole } else { 0.0 }
    }

    fn own(&self, block: Block) -> Own {
        let (model, job) = (self.setting.model, self.setting.job);
        let parameters = Held::of(model, job, &[block]);
        let adapters = job.adapters.map(|_| trained(model, job, &[block]));
        // Of adapters beside frozen parameters that are not divided, only these are gathered.
        let gathered = job.gathered_bytes(match adapters {
            Some(adapters) if job.zero < 3 => adapters,
            _ => parameters,
        });
        Own { parameters, trained: adapters.unwrap_or(parameters), gathered }
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
        if job.zero < 3 || job.pipeline > 1 || job.adapters.is_some() || whole <= 0.0 {
            return [0.0; 2];
        }
        let lost = self.software.sharded_exposed() / whole;
        self.slower(lost, self.gathers(held), self.reduces(held))
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
