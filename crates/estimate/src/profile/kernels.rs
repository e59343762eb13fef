//! The kernels of a rank in a step.

use super::computed;
use super::recorded::Recorded;
use crate::adapters::adapted;
use crate::job::{Module, Precision, Recompute};
use crate::layer::{Pass, Setting};
use crate::machine::{AttentionWork, Costs, Product};
use crate::model::Model;
use crate::stages::Block;
use crate::work::{LayerWork, Linear, Part, layer_work};
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
    let mut found: Vec<Kernel> = Vec::new();
    let mut add = |kernel: Kernel| {
        if kernel.each_s <= 0.0 || kernel.times <= 0.0 {
            return;
        }
        let alike = |each: &&mut Kernel| Kernel { times: kernel.times, ..(**each).clone() } == kernel;
        match found.iter_mut().find(alike) {
            Some(each) => each.times += kernel.times,
            None => found.push(kernel),
        }
    };
    let bf16 = job.of_bf16_layers();
    for (block, again) in computed(model, job, stage) {
        match block {
            Block::Embedding => {
                let bytes = (job.tokens() * model.hidden * 10) as f64;
                add(moved("embedding", "forward and backward", batches, setting.costs.memory(bytes), bytes));
            }
            Block::Layer(number) => {
                let recorded = recorded.of_layer(number, bf16.as_ref());
                for kernel in recorded.layer_kernels(number.min(model.layers - 1), again, batches) {
                    add(kernel);
                }
            }
            Block::Output => {
                let times = batches * f64::from(1 + model.prediction_layers);
                let vocab = job.rank_vocab(model);
                let tokens = job.tokens();
                let linear =
                    Linear { tokens, inputs: model.hidden, outputs: vocab, groups: 1, part: Part::Dense };
                for product in PRODUCTS {
                    if product == Product::WeightGradient && job.adapters.is_some() {
                        continue;
                    }
                    let (m, n, k) = linear.sizes(product);
                    let precision = job.output_precision();
                    let each_s = setting.product_of(product, precision, m, n, k);
                    add(multiplied("output layer", product, precision, times, each_s, &linear));
                    let joining = setting.joining();
                    let (times, each_s) =
                        (batches * f64::from(model.prediction_layers), setting.product(product, &joining));
                    add(multiplied("joined tokens", product, job.precision, times, each_s, &joining));
                }
                if job.adapters.is_none() {
                    let each_s = recorded.accumulation(vocab * model.hidden);
                    let bytes = costs.moved.get();
                    add(moved("sums of gradients, output layer", "backward", times, each_s, bytes));
                    let joining = setting.joining();
                    let each_s = recorded.accumulation(joining.inputs * joining.outputs);
                    let (times, bytes) = (times - batches, costs.moved.get());
                    add(moved("sums of gradients, joined tokens", "backward", times, each_s, bytes));
                }
                let bytes = setting.logit_bytes(job.output_precision(), job.tokens(), vocab);
                add(moved(
                    "logits and loss",
                    "forward and backward",
                    times,
                    setting.costs.memory(bytes),
                    bytes,
                ));
            }
        }
    }
    recorded.exchange(recorded.held(), 0.0, 0.0);
    // What the host updates is not among them.
    let bytes = costs.moved.get();
    add(moved("optimizer", "update", 1.0, setting.costs.memory(bytes), bytes));
    found
}

const PRODUCTS: [Product; 3] = [Product::Forward, Product::InputGradient, Product::WeightGradient];

const fn pass(product: Product) -> &'static str {
    match product {
        Product::Forward => "forward",
        Product::InputGradient => "gradients of inputs",
        Product::WeightGradient => "gradients of weights",
    }
}

/// A kernel that only moves bytes.
fn moved(name: &str, pass: &'static str, times: f64, each_s: f64, bytes: f64) -> Kernel {
    Kernel { name: name.to_owned(), pass, precision: None, times, each_s, flop: 0.0, bytes }
}

/// A product of a linear layer. Operands have the bytes of its type, results have 16 bits.
fn multiplied(
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
    /// The kernels of a layer that the backward pass computes `again` or not, each as often as `batches` micro-batches need it.
    fn layer_kernels(&self, number: u32, again: bool, batches: f64) -> Vec<Kernel> {
        let job = self.job;
        let work = layer_work(self.model, job, number);
        let modules = job.modules_again();
        let whole = job.recompute == Recompute::Full && again;
        let operators = job.recompute == Recompute::Operators;
        let twice = |chosen: bool| if whole || chosen { 2.0 } else { 1.0 };
        let mut found = Vec::new();
        for (at, linear) in work.linears.iter().enumerate() {
            let chosen = match linear.part {
                Part::Attention | Part::AttentionOutput => false,
                Part::UpProjection => modules.has(Module::MlaUpProj),
                Part::Dense => modules.has(Module::Mlp),
                Part::Shared => modules.has(Module::SharedExperts) || modules.has(Module::Moe),
                Part::Experts => modules.has(Module::Moe),
            };
            for product in PRODUCTS {
                if product == Product::WeightGradient && job.adapters.is_some() {
                    continue;
                }
                let forward = if operators { 1.5 } else { twice(chosen) };
                let times = if product == Product::Forward { forward * batches } else { batches };
                let each_s = self.product(product, linear);
                let name = linear_name(self.model, &work.linears, at);
                found.push(multiplied(&name, product, job.precision, times, each_s, linear));
            }
        }
        if let Some(shape) = work.attention {
            let attended_in = if shape.fp8 { Precision::Fp8 } else { Precision::Bf16 };
            for backward in [false, true] {
                let forward = twice(modules.has(Module::CoreAttention));
                let (flop, bytes) = attended(AttentionWork { backward, ..shape }, job.context);
                found.push(Kernel {
                    name: if job.fused_attention { "attention" } else { "attention, not fused" }.to_owned(),
                    pass: if backward { "backward" } else { "forward" },
                    precision: Some(attended_in.name()),
                    times: if backward { batches } else { forward * batches },
                    each_s: self.attention(&work, backward),
                    flop,
                    bytes,
                });
            }
        }
        let forward_s = self.element_wise(&work);
        // Beside layers with experts, dense ones move other bytes.
        let dense = self.model.experts.is_some() && work.expert_parameters == 0;
        let kind = if dense { ", dense layers" } else { "" };
        let name = &format!("element-wise operations, norms{kind}");
        let bytes = self.costs.moved.get();
        found.push(moved(name, "forward", twice(operators) * batches, forward_s, bytes));
        let backward_s = self.element_wise_backward(&work);
        let bytes = 2.0 * self.costs.moved.get();
        found.push(moved(name, "backward", batches, backward_s, bytes));
        if job.recompute == Recompute::Selective {
            let each_s = self.parts_again(&work, &Pass::default()).element_wise;
            found.push(moved(name, "recomputed", batches, each_s, self.costs.moved.get()));
        }
        if job.adapters.is_none() {
            let parameters = work.dense_parameters + work.expert_parameters;
            let each_s = self.accumulation(parameters);
            let name = &format!("sums of gradients{kind}");
            found.push(moved(name, "backward", batches, each_s, self.costs.moved.get()));
        }
        found.extend(self.adapter_kernels(&work, if operators { 1.5 } else { twice(false) }, batches));
        found
    }

    /// The kernels of adapters, all of a layer as one for each pass; the forward pass `times` for each micro-batch.
    fn adapter_kernels(&self, work: &LayerWork, times: f64, batches: f64) -> Vec<Kernel> {
        let Some(rank) = self.job.adapters.map(f64::from) else { return Vec::new() };
        let seconds = self.adapters(work);
        let (mut flop, mut bytes, mut added, mut gradients) = (0.0, 0.0, 0.0, 0.0);
        for each in adapted(self.job, work) {
            let (copies, i, o) = (each.copies as f64, each.inputs as f64, each.outputs as f64);
            let t = copies * each.tokens as f64;
            flop += 2.0 * t * rank * (i + o);
            bytes += 2.0 * (t * (i + o + 2.0 * rank) + copies * rank * (i + o));
            added += 6.0 * t * o;
            gradients += 6.0 * t * i;
        }
        let product = |product, times, each_s| Kernel {
            name: "adapters".to_owned(),
            pass: pass(product),
            precision: Some(Precision::Bf16.name()),
            times,
            each_s,
            flop,
            bytes,
        };
        // Every second product is computed again, and all between them.
        let between = if times > 1.0 { 2.0 } else { 1.0 };
        vec![
            product(Product::Forward, times * batches, seconds.forward),
            product(Product::InputGradient, batches, seconds.backward - seconds.weights),
            product(Product::WeightGradient, batches, seconds.weights),
            moved("sums of adapters", "forward", between * batches, seconds.added, added),
            moved("sums of adapters", "backward", batches, seconds.gradients, gradients),
        ]
    }
}

/// Operations and bytes of causal attention on one rank of a sequence: bytes are queries, keys, values and outputs, backward
/// with the gradients of each.
fn attended(work: AttentionWork, context: u32) -> (f64, f64) {
    let AttentionWork { batch, sequence, heads, kv_heads, key_dim, value_dim, backward, fp8, .. } = work;
    let parts = f64::from(context);
    let flop = work.flop() / parts;
    let (key, value) = (key_dim as f64, value_dim as f64);
    let tokens = batch as f64 * sequence as f64 / parts;
    let element = if fp8 { 1.0 } else { 2.0 };
    let once = element * tokens * (heads as f64 * (key + value) + kv_heads as f64 * (key + value) * parts);
    (flop, if backward { 2.0 * once } else { once })
}

/// What a linear layer is called, from its place among those of its layer.
fn linear_name(model: &Model, linears: &[Linear], at: usize) -> String {
    use crate::model::Attention;
    let attention: &[&str] = match model.attention {
        Attention::Full | Attention::Window { .. } => &["queries, keys, values", "output of attention"],
        Attention::Latent(latent) if latent.query_rank > 0 => &[
            "compressed queries",
            "queries",
            "compressed keys and values",
            "keys and values",
            "output of attention",
        ],
        Attention::Latent(_) => {
            &["queries", "compressed keys and values", "keys and values", "output of attention"]
        }
    };
    if let Some(name) = attention.get(at) {
        return (*name).to_owned();
    }
    let part = linears[at].part;
    let block = match part {
        Part::Shared => "shared experts",
        Part::Experts => "experts",
        Part::Attention | Part::AttentionOutput | Part::UpProjection | Part::Dense => "feed-forward",
    };
    let first = linears[..at].iter().all(|linear| linear.part != part);
    format!("{block}, {}", if first { "first" } else { "second" })
}
