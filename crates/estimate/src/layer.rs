//! The time of a layer on one rank.

use crate::job::{Dispatcher, Graphs, Job, Precision, Recompute};
use crate::machine::{AttentionWork, Cluster, Collective, Costs, Group, Product, Software, TokenKernels};
use crate::model::Model;
use crate::rotation::{self, Rotation};
use crate::work::{LayerWork, Linear, layer_work};
use syncline_kernels::Library;
use syncline_nccl::Exchange;

/// Times of one pass of one micro-batch through a layer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Pass {
    /// Matrix products.
    pub products: f64,
    /// Attention.
    pub attention: f64,
    /// Operations between products.
    pub element_wise: f64,
    /// Exposed collectives of tensor parallelism.
    pub tensor: f64,
    /// Exposed keys and values from other ranks of a sequence.
    pub context: f64,
    /// Tokens to experts on other ranks, and back.
    pub expert: f64,
    /// Waiting for the processor that launches kernels.
    pub launch: f64,
    /// Exposed copies of activations to the host's memory and back.
    pub offload: f64,
    /// Tokens to experts and back that another micro-batch's computing hides; no part of the pass.
    pub hidden: f64,
}

impl Pass {
    /// All parts.
    pub fn seconds(&self) -> f64 {
        self.products
            + self.attention
            + self.element_wise
            + self.tensor
            + self.context
            + self.expert
            + self.launch
            + self.offload
    }

    /// Computing alone.
    pub fn compute(&self) -> f64 {
        self.products + self.attention + self.element_wise
    }
}

impl std::ops::AddAssign for Pass {
    fn add_assign(&mut self, other: Self) {
        self.products += other.products;
        self.attention += other.attention;
        self.element_wise += other.element_wise;
        self.tensor += other.tensor;
        self.context += other.context;
        self.expert += other.expert;
        self.launch += other.launch;
        self.offload += other.offload;
        self.hidden += other.hidden;
    }
}

/// Forward and backward pass of a layer; recomputation counts as backward.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Layer {
    /// Forward pass.
    pub forward: Pass,
    /// Backward pass.
    pub backward: Pass,
    /// Of the backward pass, gradients of weights and their sums, seconds.
    pub weight_s: f64,
}

impl Layer {
    /// Both passes, in seconds.
    pub fn seconds(&self) -> f64 {
        self.forward.seconds() + self.backward.seconds()
    }
}

/// What the time of a layer depends on.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a, C: Costs> {
    pub(crate) model: &'a Model,
    pub(crate) job: &'a Job,
    pub(crate) cluster: Cluster,
    pub(crate) software: &'a Software,
    pub(crate) costs: &'a C,
}

impl<'a, C: Costs> Setting<'a, C> {
    /// That of a layer: with the job `bf16`, if the layer stays in BF16.
    pub(crate) fn of_layer<'b>(&self, number: u32, bf16: Option<&'b Job>) -> Setting<'b, C>
    where
        'a: 'b,
    {
        let job = bf16.filter(|_| self.job.is_bf16(self.model, number)).unwrap_or(self.job);
        Setting { job, ..*self }
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Ranks of an NVLink domain, of which a small job has only some.
    pub(crate) fn domain(&self) -> u32 {
        self.cluster.domain.min(self.job.ranks())
    }

    /// The time of a layer, which the backward pass computes again or not.
    pub(crate) fn layer(&self, number: u32, again: bool) -> Layer {
        let work = layer_work(self.model, self.job, number);
        let mut forward = self.forward(&work);
        let (mut backward, mut weight_s) = self.backward(&work);
        if self.job.adapters.is_some() {
            let adapters = self.adapters(&work);
            forward.products += adapters.forward;
            forward.element_wise += adapters.added;
            backward.products += adapters.backward;
            backward.element_wise += adapters.gradients;
            weight_s += adapters.weights;
        }
        match self.job.recompute {
            Recompute::Full if again => backward += forward,
            Recompute::Selective => backward += self.parts_again(&work, &forward),
            Recompute::ExceptQkv => {
                // The first product of a layer is kept. Nothing needs the outputs of the last one, which a compiler leaves out.
                let ends = [work.linears.first(), work.linears.last()];
                let kept =
                    ends.into_iter().flatten().map(|each| self.product(Product::Forward, each)).sum::<f64>();
                backward += forward;
                backward.products -= kept;
            }
            Recompute::Operators => {
                backward.products += forward.products / 2.0;
                backward.element_wise += forward.element_wise;
            }
            Recompute::None | Recompute::Full => {}
        }
        // The processor launches kernels while the accelerator computes; it is late where kernels are short.
        let passes = if again { 4.0 / 3.0 } else { 1.0 };
        let mut least = self.launching(&work) * passes;
        if self.job.pipeline > 1 && self.job.ranks() > self.cluster.domain {
            least += self.software.staged_layer_s * f64::from(self.job.tensor);
        }
        let kernels = forward.seconds() + backward.seconds();
        backward.launch = self.software.late(least, kernels) - kernels;
        Layer { forward, backward, weight_s }
    }

    /// Time in which the processor launches the kernels of a layer, forward and backward.
    fn launching(&self, work: &LayerWork) -> f64 {
        let software = self.software;
        let experts = if work.local_experts > 0 {
            software.expert_cpu_s + software.each_expert_cpu_s * work.local_experts as f64
        } else {
            0.0
        };
        let each = software.layer_cpu_s + experts;
        match self.job.graphs {
            Graphs::None => each,
            Graphs::Partial => each * software.partial_graphs,
            Graphs::Full => 0.0,
        }
    }

    fn forward(&self, work: &LayerWork) -> Pass {
        let attention = self.attention(work, false);
        let pass = Pass {
            products: work.linears.iter().map(|each| self.product(Product::Forward, each)).sum::<f64>(),
            attention,
            element_wise: self.element_wise(work),
            tensor: self.tensor(work) + self.heads(work, Collective::AllGather),
            context: self.context(work, attention, false),
            ..Pass::default()
        };
        let [expert, hidden] = self.expert(work, pass.compute());
        Pass { expert, hidden, ..pass }
    }

    /// The backward pass, and its seconds for gradients of weights and their sums, for which nothing else waits.
    fn backward(&self, work: &LayerWork) -> (Pass, f64) {
        let (mut products, mut weight_s) = (0.0, 0.0);
        for each in &work.linears {
            products += self.product(Product::InputGradient, each);
            if self.job.adapters.is_none() {
                let weights = self.product(Product::WeightGradient, each);
                products += weights;
                weight_s += weights;
            }
        }
        let attention = self.attention(work, true);
        let mut element_wise = self.element_wise_backward(work);
        if self.job.adapters.is_none() {
            let sums = self.accumulation(work.dense_parameters + work.expert_parameters);
            element_wise += sums;
            weight_s += sums;
        }
        let pass = Pass {
            products,
            attention,
            element_wise,
            tensor: self.tensor(work) + self.heads(work, Collective::ReduceScatter),
            context: self.context(work, attention, true),
            ..Pass::default()
        };
        let [expert, hidden] = self.expert(work, pass.compute());
        (Pass { expert, hidden, ..pass }, weight_s)
    }

    /// The rate of products in a precision over that of the measured kernels.
    pub(crate) fn rate(&self, precision: Precision) -> f64 {
        let Cluster { sustained, clock, .. } = self.cluster;
        let of_software = if precision.casts() {
            self.software.low_precision_products
        } else {
            self.software.products * sustained
        };
        of_software * clock
    }

    /// The product of a linear layer; those of experts one after the other, unless one kernel fuses them.
    ///
    /// Transformer Engine's grouped products take about as long as a single product for each expert, at the rate of single
    /// products on that machine: `SimuMax` measured them on B200 (`group_matmul` in `configs/system/b200_bf16_ceperm.json`).
    /// Fused ones of cuDNN take about as long as one product with the tokens of all experts (`cudnn-experts.csv`).
    pub(crate) fn product(&self, product: Product, linear: &Linear) -> f64 {
        let (m, n, k) = linear.sizes(product);
        let precision = self.job.precision;
        // One kernel for all experts divides their tiles among the multiprocessors as those of one product with all rows.
        let (times, rows) = if self.job.fused_experts { (1, m * linear.groups) } else { (linear.groups, m) };
        let seconds = self.costs.product(product, precision, rows, n, k, 1) / self.rate(precision);
        // However fast software is beside the measured kernels, the accelerator has a peak.
        let seconds = seconds.max(self.costs.least_product(precision, m, n, k, linear.groups / times));
        let of_gate = product == Product::InputGradient && linear.gate;
        times as f64 * seconds.max(if of_gate { self.gate_gradient(linear) } else { 0.0 })
    }

    /// The least time of a kernel that computes gradients of gated activations, and casts them, where they leave the product:
    /// a few threads do so while others multiply.
    fn gate_gradient(&self, linear: &Linear) -> f64 {
        let elements = (linear.tokens * linear.groups * linear.inputs) as f64;
        elements * GATE_S * if self.model.biased_experts { GATE_BIAS } else { 1.0 }
    }

    /// One product of these sizes, alone.
    pub(crate) fn product_of(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64) -> f64 {
        let seconds = self.costs.product(product, precision, m, n, k, 1) / self.rate(precision);
        seconds.max(self.costs.least_product(precision, m, n, k, 1))
    }

    pub(crate) fn attention(&self, work: &LayerWork, backward: bool) -> f64 {
        let Some(attention) = work.attention else { return 0.0 };
        let parts = f64::from(self.job.context);
        if self.job.fused_attention {
            let library = self.job.attention_library.unwrap_or(self.software.attention_library);
            let work = AttentionWork { backward, library, ..attention };
            // Only kernels as fast as cuDNN's draw so much power that the clock falls further than where they were measured.
            let sustained = if library == Library::Cudnn { self.cluster.sustained } else { 1.0 };
            let seconds = self.costs.attention(work) / (self.software.attention * sustained);
            return seconds.max(self.costs.least_attention(work)) / parts;
        }
        // Batched products for scores and for values; two of each in the backward pass. Scores are written, scaled and masked,
        // normalised, dropped out, and read again.
        let AttentionWork { batch, sequence, heads, key_dim, value_dim, .. } = attention;
        let product =
            |n, k| self.costs.product(Product::Forward, Precision::Bf16, sequence, n, k, batch * heads);
        let once = product(sequence, key_dim) + product(value_dim, sequence);
        let times = if backward { 2.0 } else { 1.0 };
        let seconds = times * once / parts + self.costs.memory(SCORE_BYTES * work.scores as f64);
        seconds / self.software.attention
    }

    /// Operations between products in the forward pass.
    pub(crate) fn element_wise(&self, work: &LayerWork) -> f64 {
        let bytes = self.between(work.element_bytes, work.routed_bytes);
        self.costs.memory(bytes + self.rotated(work, false) + self.biased(work.biased_bytes[0]))
    }

    /// The same in the backward pass, which moves twice the bytes in twice the kernels.
    pub(crate) fn element_wise_backward(&self, work: &LayerWork) -> f64 {
        let bytes = 2.0 * self.between(work.element_bytes, work.routed_bytes);
        let bytes = bytes + self.rotated(work, true) + self.biased(work.biased_bytes[1]);
        2.0 * self.costs.memory(bytes / 2.0)
    }

    /// Bytes that operations between products move with this software.
    pub(crate) fn between(&self, bytes: u64, routed: u64) -> f64 {
        let software = self.software;
        let unfused = if self.job.fused_experts { 1.0 } else { software.expert_element_wise };
        software.element_wise * bytes as f64 + unfused * routed as f64
    }

    /// Bytes of kernels that add biases of experts, as many as kernels that memory bounds would move in their time.
    pub(crate) fn biased(&self, bytes: u64) -> f64 {
        if self.software.fused_biases { 0.0 } else { PYTORCH * bytes as f64 }
    }

    /// The same of kernels that rotate positions into queries and keys in a pass.
    pub(crate) fn rotated(&self, work: &LayerWork, backward: bool) -> f64 {
        let Rotation { fused, apart } = work.rotation;
        let passes = if backward { 2.0 } else { 1.0 };
        if rotation::is_fused(self.model, self.job, self.software) {
            self.software.element_wise * passes * fused as f64
        } else {
            PYTORCH * apart[usize::from(backward)] as f64
        }
    }

    /// Adding weight gradients to their sum over micro-batches, beyond what the product itself writes.
    pub(crate) fn accumulation(&self, parameters: u64) -> f64 {
        let sum = f64::from(self.job.gradient_bytes);
        // A product that adds reads the sum and writes it, where the measured one writes 16 bits.
        let bytes = if self.software.fused_accumulation { 2.0 * sum - 2.0 } else { 2.0 + 2.0 * sum };
        self.costs.memory(bytes * parameters as f64)
    }

    /// Tokens to experts and back, in a pass that computes for `compute` seconds: what is exposed, and what is hidden, which
    /// is exposed, too, where no other micro-batch computes.
    pub(crate) fn expert(&self, work: &LayerWork, compute: f64) -> [f64; 2] {
        let whole = self.dispatched(work) + self.gathered(work);
        if !self.job.overlap.experts {
            return [whole, 0.0];
        }
        let exposed = (whole * self.expert_exposed()).max(whole - compute);
        [exposed, whole - exposed]
    }

    /// Part of the time of exchanges that is exposed where they overlap: dedicated kernels take multiprocessors from those that
    /// compute.
    pub(crate) fn expert_exposed(&self) -> f64 {
        match (self.job.dispatcher, self.cluster.token_kernels) {
            (Dispatcher::Fused, Some(kernels)) => {
                f64::from(self.job.dispatch_multiprocessors) / kernels.multiprocessors
            }
            _ => self.software.expert_exposed,
        }
    }

    /// Dispatch and combine.
    fn dispatched(&self, work: &LayerWork) -> f64 {
        self.exchanged(work).map_or(0.0, |(_, _, seconds)| seconds)
    }

    /// Bytes that a rank sends to experts, the ranks among which tokens travel, and the time of dispatch and combine; nothing
    /// if no token travels.
    pub(crate) fn exchanged(&self, work: &LayerWork) -> Option<(f64, Group, f64)> {
        if work.dispatched_bytes == 0 {
            return None;
        }
        let (expert, parts) = (self.job.expert, self.job.expert_tensor);
        // Dedicated kernels send a token to all ranks that divide an expert. By NCCL, each of these ranks sends to those that
        // have the same part of other experts.
        let (ranks, stride) = match self.job.dispatcher {
            Dispatcher::AllToAll => (expert, parts),
            Dispatcher::Fused => (expert * parts, 1),
        };
        let group = Group::strided(ranks, stride, self.domain());
        // One way each.
        let bytes = work.dispatched_bytes as f64 / 2.0;
        let seconds = match (self.job.dispatcher, &self.cluster.token_kernels) {
            (Dispatcher::Fused, Some(kernels)) => self.sent_once(kernels, work, bytes, group),
            _ => 2.0 * self.software.dispatch * self.costs.collective(Collective::AllToAll, bytes, group),
        };
        Some((bytes, group, seconds))
    }

    /// Dispatch and combine of a pass in simulations: the seconds of them that count as computing, and the bytes that a rank
    /// sends one way in the rest, as many as NCCL's all-to-all carries in that time; no bytes if no token travels.
    ///
    /// What the ranks that divide an expert gather and sum stays within the block. Where exchanges overlap, what kernels take
    /// of the multiprocessors counts as computing, and all the rest travels.
    pub(crate) fn sent(&self, work: &LayerWork) -> (f64, f64) {
        let gathered = self.gathered(work);
        let overlaps = self.job.overlap.experts;
        let part = if overlaps { self.expert_exposed().min(1.0) } else { 1.0 };
        let Some((bytes, group, seconds)) = self.exchanged(work) else { return (gathered * part, 0.0) };
        let (within, travels) = if overlaps {
            ((gathered + seconds) * part, (gathered + seconds) * (1.0 - part))
        } else {
            (gathered, seconds)
        };
        (within, self.carried(bytes, group, travels / 2.0))
    }

    /// Bytes that an all-to-all carries in `seconds`, found by bisection from `near`; at least one.
    fn carried(&self, near: f64, group: Group, seconds: f64) -> f64 {
        let takes = |bytes: f64| self.costs.collective(Collective::AllToAll, bytes, group);
        let (mut low, mut high) = (1.0, near.max(1.0));
        while takes(high) < seconds && high < 1e15 {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 0.5 && high / low > 1.0 + 1e-9 {
            let middle = f64::midpoint(low, high);
            if takes(middle) < seconds {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Dispatch and combine by dedicated kernels: a rank sends a token once over NVLink to every rank that holds any of its
    /// experts, `bytes` in all with its own share, and once over the network to every other domain with such a rank, which
    /// passes it on. Both go on at the same time.
    fn sent_once(&self, kernels: &TokenKernels, work: &LayerWork, bytes: f64, group: Group) -> f64 {
        let tokens = work.dispatched_tokens as f64;
        let others = self.model.experts.map_or(0.0, |experts| {
            let domains = u64::from(group.domains);
            let reached = experts.places((experts.count / domains).max(1));
            reached * (domains - 1) as f64 / domains as f64
        });
        let token = (self.model.hidden * 2) as f64;
        let network_s = self.job.expert_load * tokens * others * token / kernels.network_rate;
        let ranks = f64::from(group.ranks());
        let sent = bytes * (ranks - 1.0) / ranks;
        let one_way = |each: Exchange| {
            let start = each.launch_s + tokens * each.token_s;
            start + each.transfer_s(sent, self.job.dispatch_multiprocessors).max(network_s)
        };
        one_way(kernels.dispatch) + one_way(kernels.combine)
    }

    /// Tokens that the ranks gather which divide an expert, and the sums of their outputs.
    pub(crate) fn gathered(&self, work: &LayerWork) -> f64 {
        if work.gathered_bytes == 0 {
            return 0.0;
        }
        let group = Group::strided(self.job.expert_tensor, 1, self.domain());
        let bytes = work.gathered_bytes as f64;
        self.costs.collective(Collective::AllGather, bytes, group)
            + self.costs.collective(Collective::ReduceScatter, bytes, group)
    }
}

/// Time of PyTorch's own kernels over that of their bytes at the rate of kernels that memory bounds: RMSNorm, forward, on
/// GB200, GB300 and H200 (NVIDIA/cudnn-frontend, `benchmark/norms/results`, in `validation/kernels/cudnn-norms.csv`).
const PYTORCH: f64 = 1.32;
/// Time in which a kernel of cuDNN computes the gradients of a gated activation for one element, and casts them, on Blackwell:
/// 32,768 tokens of 4,096 elements take 0.76 ms on GB200 and 0.71 ms on GB300 before the clock falls, a tenth longer than
/// the same product with a simpler activation (NVIDIA/cudnn-frontend, `benchmark/cutedsl_fusion_kernels/results`, in
/// `validation/kernels/cudnn-experts.csv`).
const GATE_S: f64 = 5.5e-12;
/// The same with gradients of biases, over that without: 155.6 and 139.0 us (NVIDIA/cudnn-frontend, pull request 322).
const GATE_BIAS: f64 = 1.12;
/// Bytes that attention moves for each score if it is not fused, in one pass.
const SCORE_BYTES: f64 = 13.0;
