//! The kernels of a rank in a step.

use super::computed;
use super::recorded::Recorded;
use crate::exchange::Behind;
use crate::job::Precision;
use crate::layer::Setting;
use crate::machine::{Costs, Product};
use crate::stages::Block;
use crate::work::{Linear, Part};
use serde::Serialize;

/// One kernel of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// What it computes.
    pub name: String,
    /// Forward, or which gradient.
    pub pass: &'static str,
    /// The data type whose peak counts; none for kernels that only move bytes.
    pub precision: Option<&'static str>,
    /// How often it runs in a step.
    pub times: f64,
    /// Seconds of each.
    pub each_s: f64,
    /// Floating-point operations of each.
    pub flop: f64,
    /// Bytes between memory and registers, if each operand and result moves once.
    pub bytes: f64,
}

/// The kernels of a rank of a stage: those of its layers, of embedding and output layer, and of the optimizer.
pub(super) fn kernels<C: Costs>(setting: &Setting<'_, C>, stage: usize) -> Vec<Kernel> {
    let costs = Recorded::of(setting.costs);
    let recorded = setting.with(&costs);
    let (model, job) = (setting.model, setting.job);
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let bf16 = job.of_bf16_layers();
    let mut list = List::default();
    for (block, again) in computed(model, job, stage) {
        match block {
            Block::Embedding => {
                let bytes = (job.tokens() * model.hidden * 10) as f64;
                list.add(moved(
                    "embedding",
                    "forward and backward",
                    batches,
                    setting.costs.memory(bytes),
                    bytes,
                ));
            }
            Block::Layer(number) => {
                let recorded = recorded.of_layer(number, bf16.as_ref());
                list.extend(recorded.layer_kernels(number.min(model.layers - 1), again, batches));
            }
            Block::Output => list.extend(recorded.output_kernels(batches)),
        }
    }
    recorded.exchange(recorded.held(), &Behind::default());
    // What the host updates is not among them.
    let bytes = costs.moved.get();
    list.add(moved("optimizer", "update", 1.0, setting.costs.memory(bytes), bytes));
    list.kernels
}

/// Kernels, each kind once.
#[derive(Default)]
struct List {
    kernels: Vec<Kernel>,
}

impl List {
    fn add(&mut self, kernel: Kernel) {
        if kernel.each_s <= 0.0 || kernel.times <= 0.0 {
            return;
        }
        let alike = |each: &&mut Kernel| Kernel { times: kernel.times, ..(**each).clone() } == kernel;
        match self.kernels.iter_mut().find(alike) {
            Some(each) => each.times += kernel.times,
            None => self.kernels.push(kernel),
        }
    }

    fn extend(&mut self, kernels: Vec<Kernel>) {
        for kernel in kernels {
            self.add(kernel);
        }
    }
}

const PRODUCTS: [Product; 3] = [Product::Forward, Product::InputGradient, Product::WeightGradient];

pub(super) const fn pass(product: Product) -> &'static str {
    match product {
        Product::Forward => "forward",
        Product::InputGradient => "gradients of inputs",
        Product::WeightGradient => "gradients of weights",
    }
}

/// A kernel that only moves bytes.
pub(super) fn moved(name: &str, pass: &'static str, times: f64, each_s: f64, bytes: f64) -> Kernel {
    Kernel { name: name.to_owned(), pass, precision: None, times, each_s, flop: 0.0, bytes }
}

/// A product of a linear layer. Operands have the bytes of its type, results have 16 bits.
pub(super) fn multiplied(
    name: &str,
    product: Product,
    precision: Precision,
    times: f64,
    each_s: f64,
    linear: &Linear,
) -> Kernel {
    let (m, n, k) = linear.sizes(product);
    let groups = linear.groups as f64;
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let operands = m * k + k * n;
    Kernel {
        name: name.to_owned(),
        pass: pass(product),
        precision: Some(precision.name()),
        times,
        each_s,
        flop: 2.0 * m * n * k * groups,
        bytes: groups * (precision.bytes() * operands + 2.0 * m * n),
    }
}

impl<C: Costs> Setting<'_, Recorded<'_, C>> {
    /// The kernels of output layer and loss, and the product in front of layers of multi-token prediction.
    fn output_kernels(&self, batches: f64) -> Vec<Kernel> {
        let (model, job) = (self.model, self.job);
        let predicted = batches * f64::from(model.prediction_layers);
        let times = batches * f64::from(1 + model.prediction_layers);
        let (vocab, tokens, precision) = (job.rank_vocab(model), job.tokens(), job.output_precision());
        let linear = Linear {
            tokens,
            inputs: model.hidden,
            outputs: vocab,
            groups: 1,
            part: Part::Dense,
            gate: false,
        };
        let joining = self.joining();
        let mut found = Vec::new();
        for product in self.products() {
            let (m, n, k) = linear.sizes(product);
            let each_s = self.product_of(product, precision, m, n, k);
            found.push(multiplied("output layer", product, precision, times, each_s, &linear));
            let each_s = self.product(product, &joining);
            found.push(multiplied("joined tokens", product, job.precision, predicted, each_s, &joining));
        }
        if job.adapters.is_none() {
            let each_s = self.accumulation(vocab * model.hidden);
            let bytes = self.costs.moved.get();
            found.push(moved("sums of gradients, output layer", "backward", times, each_s, bytes));
            let each_s = self.accumulation(joining.inputs * joining.outputs);
            let (times, bytes) = (times - batches, self.costs.moved.get());
            found.push(moved("sums of gradients, joined tokens", "backward", times, each_s, bytes));
        }
        let bytes = self.logit_bytes(precision, tokens, vocab);
        let each_s = self.costs.memory(bytes);
        found.push(moved("logits and loss", "forward and backward", times, each_s, bytes));
        found
    }

    /// The products of a linear layer in a step. Frozen weights have no gradients.
    pub(super) fn products(&self) -> impl Iterator<Item = Product> {
        let frozen = self.job.adapters.is_some();
        PRODUCTS.into_iter().filter(move |&product| !frozen || product != Product::WeightGradient)
    }
}
