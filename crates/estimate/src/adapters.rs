//! Adapters of low rank beside frozen products (LoRA; Hu et al. 2021, section 4.1).
//!
//! An adapter of rank `r` of a product with `i` inputs and `o` outputs has two of its own, `i x r` and `r x o`, in 16 bits. Its
//! outputs are added to those of the product, which no kernel fuses; backward, the gradients of their common input.

use crate::job::{Adapted, Job, Precision};
use crate::layer::Setting;
use crate::machine::{Costs, Product};
use crate::model::Model;
use crate::stages::Block;
use crate::work::{LayerWork, Linear, Part, layer_work};

/// The products of a layer that have adapters.
pub(crate) fn adapted<'a>(job: &Job, work: &'a LayerWork) -> impl Iterator<Item = &'a Linear> + use<'a> {
    let which = job.adapted;
    work.linears.iter().filter(move |linear| match linear.part {
        Part::Attention | Part::UpProjection => true,
        Part::AttentionOutput => which != Adapted::Qkv,
        Part::Dense | Part::Shared => which == Adapted::All,
        Part::Experts => false,
    })
}

/// Parameters of adapters in some blocks of a rank: two matrices for each product that has one (Hu et al. 2021, section 4.1).
/// 0 if the job has none.
pub(crate) fn trained(model: &Model, job: &Job, blocks: &[Block]) -> f64 {
    let Some(rank) = job.adapters else { return 0.0 };
    let layer = |number: u32| -> u64 {
        let work = layer_work(model, job, number.min(model.layers - 1));
        adapted(job, &work).map(|linear| linear.inputs + linear.outputs).sum()
    };
    let layers = blocks.iter().map(|block| match *block {
        Block::Layer(number) => layer(number),
        Block::Embedding | Block::Output => 0,
    });
    f64::from(rank) * layers.sum::<u64>() as f64
}

/// What adapters of a layer take for one micro-batch, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct AdapterTimes {
    /// Their products forward.
    pub(crate) forward: f64,
    /// Adding their outputs.
    pub(crate) added: f64,
    /// Their products backward.
    pub(crate) backward: f64,
    /// Of these, gradients of weights.
    pub(crate) weights: f64,
    /// Adding gradients of their inputs.
    pub(crate) gradients: f64,
}

impl<C: Costs> Setting<'_, C> {
    pub(crate) fn adapters(&self, work: &LayerWork) -> AdapterTimes {
        let mut times = AdapterTimes::default();
        let Some(rank) = self.job.adapters.map(u64::from) else { return times };
        let product = |product, m, n, k| {
            self.costs.product(product, Precision::Bf16, m, n, k, 1) / self.software.products
        };
        for &Linear { tokens, inputs, outputs, .. } in adapted(self.job, work) {
            times.forward += product(Product::Forward, tokens, rank, inputs)
                + product(Product::Forward, tokens, outputs, rank);
            let weights = product(Product::WeightGradient, rank, inputs, tokens)
                + product(Product::WeightGradient, outputs, rank, tokens);
            times.weights += weights;
            times.backward += weights
                + product(Product::InputGradient, tokens, inputs, rank)
                + product(Product::InputGradient, tokens, rank, outputs);
            // Two are read and one is written, of 16 bits.
            times.added += self.costs.memory((6 * tokens * outputs) as f64);
            times.gradients += self.costs.memory((6 * tokens * inputs) as f64);
        }
        times
    }
}
