//! Low-rank adapters beside frozen linear layers (LoRA; Hu et al. 2021, section 4.1).
//!
//! An adapter of rank `r` beside a layer with `i` inputs and `o` outputs has two matrices, `i x r` and `r x o`, in 16 bits. Its
//! outputs are added to those of the layer, and backward the gradients of their common input; no kernel fuses these sums.

use crate::held::Held;
use crate::job::{Adapted, ExpertAdapters, Job, Precision};
use crate::layer::Setting;
use crate::machine::{Costs, Product};
use crate::model::Model;
use crate::stages::Block;
use crate::work::{LayerWork, Part, layer_work};

/// Adapters beside a linear layer: as many as `copies`, each with tokens of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    pub(crate) tokens: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) copies: u64,
    /// Whether expert-parallel ranks have different ones.
    pub(crate) of_experts: bool,
}

/// Whether linear layers of this part have adapters, if the job has any.
pub(crate) const fn is_adapted(job: &Job, part: Part) -> bool {
    match part {
        Part::Attention | Part::UpProjection => true,
        Part::AttentionOutput => !matches!(job.adapted, Adapted::Qkv),
        Part::Dense | Part::Shared => matches!(job.adapted, Adapted::All),
        Part::Experts => !matches!(job.expert_adapters, ExpertAdapters::None),
    }
}

/// The adapters of a layer.
pub(crate) fn adapted<'a>(job: &'a Job, work: &'a LayerWork) -> impl Iterator<Item = Adapter> + use<'a> {
    work.linears.iter().filter(|linear| is_adapted(job, linear.part)).map(|linear| {
        let one = Adapter {
            tokens: linear.tokens,
            inputs: linear.inputs,
            outputs: linear.outputs,
            copies: 1,
            of_experts: false,
        };
        match (linear.part, job.expert_adapters) {
            (Part::Experts, ExpertAdapters::Each) => {
                Adapter { copies: linear.groups, of_experts: true, ..one }
            }
            (Part::Experts, _) => Adapter { tokens: linear.tokens * linear.groups, ..one },
            _ => one,
        }
    })
}

/// Parameters of adapters in some blocks of a rank; none if the job has no adapters. Adapters that experts share are the same on
/// all ranks.
pub(crate) fn trained(model: &Model, job: &Job, blocks: &[Block]) -> Held {
    let mut held = Held::default();
    let Some(rank) = job.adapters.map(f64::from) else { return held };
    for block in blocks {
        let Block::Layer(number) = *block else { continue };
        let work = layer_work(model, job, number.min(model.layers - 1));
        for Adapter { inputs, outputs, copies, of_experts, .. } in adapted(job, &work) {
            let parameters = rank * (copies * (inputs + outputs)) as f64;
            *if of_experts { &mut held.experts } else { &mut held.dense } += parameters;
        }
    }
    held
}

/// Times of the adapters of a layer for one micro-batch, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct AdapterTimes {
    /// Their matrix products forward.
    pub(crate) forward: f64,
    /// Sums of their outputs and those of the layers.
    pub(crate) added: f64,
    /// Their matrix products backward.
    pub(crate) backward: f64,
    /// Of these, gradients of weights.
    pub(crate) weights: f64,
    /// Sums of the gradients of inputs.
    pub(crate) gradients: f64,
}

impl<C: Costs> Setting<'_, C> {
    pub(crate) fn adapters(&self, work: &LayerWork) -> AdapterTimes {
        let mut times = AdapterTimes::default();
        let Some(rank) = self.job.adapters.map(u64::from) else { return times };
        let product = |product, m, n, k| {
            self.costs.product(product, Precision::Bf16, m, n, k, 1) / self.software.products
        };
        for Adapter { tokens, inputs, outputs, copies, .. } in adapted(self.job, work) {
            // Adapters of several experts run one after the other.
            let each = copies as f64;
            times.forward += each
                * (product(Product::Forward, tokens, rank, inputs)
                    + product(Product::Forward, tokens, outputs, rank));
            let weights = each
                * (product(Product::WeightGradient, rank, inputs, tokens)
                    + product(Product::WeightGradient, outputs, rank, tokens));
            times.weights += weights;
            times.backward += weights
                + each
                    * (product(Product::InputGradient, tokens, inputs, rank)
                        + product(Product::InputGradient, tokens, rank, outputs));
            let tokens = copies * tokens;
            // Two values in 16 bits are read, and one is written.
            times.added += self.costs.memory((6 * tokens * outputs) as f64);
            times.gradients += self.costs.memory((6 * tokens * inputs) as f64);
        }
        times
    }
}
