//! The time of a layer on one rank.

use crate::job::{Graphs, Job, Recompute};
use crate::machine::{Cluster, Collective, Costs, Product, Software};
use crate::model::Model;
use crate::work::{LayerWork, layer_work};

/// Times of one pass of one micro-batch through a layer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Pass {
    /// Matrix products of linear layers.
    pub products: f64,
    /// Attention.
    pub attention: f64,
    /// Element-wise operations and norms.
    pub element_wise: f64,
    /// Exposed collectives of tensor parallelism.
    pub tensor: f64,
    /// Exposed communication among context-parallel ranks.
    pub context: f64,
    /// Exposed dispatch and combine.
    pub expert: f64,
    /// Waiting for kernel launches of the CPU.
    pub launch: f64,
    /// Exposed copies of activations to host memory and back.
    pub offload: f64,
    /// Dispatch and combine that hide behind another micro-batch; no part of the pass.
    pub hidden: f64,
}

impl Pass {
    /// The whole pass, in seconds.
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

    /// Computing alone, in seconds.
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

/// A job with everything that its times depend on.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a, C: Costs> {
    pub(crate) model: &'a Model,
    pub(crate) job: &'a Job,
    pub(crate) cluster: Cluster,
    pub(crate) software: &'a Software,
    pub(crate) costs: &'a C,
}

impl<'a, C: Costs> Setting<'a, C> {
    /// The setting of a layer: with the job `bf16`, if the layer stays in BF16.
    pub(crate) fn of_layer<'b>(&self, number: u32, bf16: Option<&'b Job>) -> Setting<'b, C>
    where
        'a: 'b,
    {
        let job = bf16.filter(|_| self.job.is_bf16(self.model, number)).unwrap_or(self.job);
        Setting { job, ..*self }
    }
}

impl<C: Costs> Setting<'_, C> {
    /// Ranks of this job in an NVLink domain.
    pub(crate) fn domain(&self) -> u32 {
        self.cluster.domain.min(self.job.ranks())
    }

    /// The times of a layer; `again`: the backward pass recomputes the whole layer.
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
                // The outputs of the first linear layer are kept. Nothing needs those of the last one, so the compiler omits it.
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
        // The CPU launches kernels while the accelerator computes, and is late where kernels are short.
        let passes = if again { 4.0 / 3.0 } else { 1.0 };
        let mut least = self.launching(&work) * passes;
        if self.job.pipeline > 1 && self.job.ranks() > self.cluster.domain {
            least += self.software.staged_layer_s * f64::from(self.job.tensor);
        }
        let kernels = forward.seconds() + backward.seconds();
        backward.launch = self.software.late(least, kernels) - kernels;
        Layer { forward, backward, weight_s }
    }

    /// Seconds in which the CPU launches the kernels of a layer, forward and backward.
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

    /// The forward pass.
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

    /// The backward pass, and the seconds of it for gradients of weights and their sums, for which nothing else in the pass waits.
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
}
