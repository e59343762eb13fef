//! The kernels of a layer.

use super::kernels::{Kernel, moved, multiplied, pass};
use super::recorded::Recorded;
use crate::adapters::adapted;
use crate::job::{Module, Precision, Recompute};
use crate::layer::{Pass, Setting};
use crate::machine::{AttentionWork, Costs, Product};
use crate::model::{Attention, Model};
use crate::work::{LayerWork, Linear, Part, layer_work};

impl<C: Costs> Setting<'_, Recorded<'_, C>> {
    /// The kernels of a layer that the backward pass computes `again` or not, each as often as `batches` micro-batches need it.
    pub(super) fn layer_kernels(&self, number: u32, again: bool, batches: f64) -> Vec<Kernel> {
        let work = layer_work(self.model, self.job, number);
        let whole = self.job.recompute == Recompute::Full && again;
        let mut found = self.linear_kernels(&work, whole, batches);
        found.extend(self.attention_kernels(&work, whole, batches));
        found.extend(self.element_wise_kernels(&work, whole, batches));
        let operators = self.job.recompute == Recompute::Operators;
        found.extend(self.adapter_kernels(&work, if operators { 1.5 } else { twice(whole) }, batches));
        found
    }

    /// The products of a layer's linear layers; `whole`: the backward pass computes the whole layer again.
    fn linear_kernels(&self, work: &LayerWork, whole: bool, batches: f64) -> Vec<Kernel> {
        let (job, modules) = (self.job, self.job.modules_again());
        let mut found = Vec::new();
        for (at, linear) in work.linears.iter().enumerate() {
            let again = whole
                || match linear.part {
                    Part::Attention | Part::AttentionOutput => false,
                    Part::UpProjection => modules.has(Module::MlaUpProj),
                    Part::Dense => modules.has(Module::Mlp),
                    Part::Shared => modules.has(Module::SharedExperts) || modules.has(Module::Moe),
                    Part::Experts => modules.has(Module::Moe),
                };
            let forward = if job.recompute == Recompute::Operators { 1.5 } else { twice(again) };
            for product in self.products() {
                let times = if product == Product::Forward { forward * batches } else { batches };
                let each_s = self.product(product, linear);
                let name = linear_name(self.model, &work.linears, at);
                found.push(multiplied(&name, product, job.precision, times, each_s, linear));
            }
        }
        found
    }

    /// Attention of a layer, forward and backward.
    fn attention_kernels(&self, work: &LayerWork, whole: bool, batches: f64) -> Vec<Kernel> {
        let Some(shape) = work.attention else { return Vec::new() };
        let job = self.job;
        let precision = if shape.fp8 { Precision::Fp8 } else { Precision::Bf16 };
        let forward = twice(whole || job.modules_again().has(Module::CoreAttention));
        let kernel = |backward| {
            let (flop, bytes) = attended(AttentionWork { backward, ..shape }, job.context);
            Kernel {
                name: if job.fused_attention { "attention" } else { "attention, not fused" }.to_owned(),
                pass: if backward { "backward" } else { "forward" },
                precision: Some(precision.name()),
                times: if backward { batches } else { forward * batches },
                each_s: self.attention(work, backward),
                flop,
                bytes,
            }
        };
        vec![kernel(false), kernel(true)]
    }

    /// Kernels of a layer that only move bytes.
    fn element_wise_kernels(&self, work: &LayerWork, whole: bool, batches: f64) -> Vec<Kernel> {
        let job = self.job;
        let again = whole || job.recompute == Recompute::Operators;
        let mut found = Vec::new();
        let forward_s = self.element_wise(work);
        // Beside layers with experts, dense ones move other bytes.
        let dense = self.model.experts.is_some() && work.expert_parameters == 0;
        let kind = if dense { ", dense layers" } else { "" };
        let name = &format!("element-wise operations, norms{kind}");
        let bytes = self.costs.moved.get();
        found.push(moved(name, "forward", twice(again) * batches, forward_s, bytes));
        let backward_s = self.element_wise_backward(work);
        let bytes = 2.0 * self.costs.moved.get();
        found.push(moved(name, "backward", batches, backward_s, bytes));
        if job.recompute == Recompute::Selective {
            let each_s = self.parts_again(work, &Pass::default()).element_wise;
            found.push(moved(name, "recomputed", batches, each_s, self.costs.moved.get()));
        }
        if job.adapters.is_none() {
            let parameters = work.dense_parameters + work.expert_parameters;
            let each_s = self.accumulation(parameters);
            let name = &format!("sums of gradients{kind}");
            found.push(moved(name, "backward", batches, each_s, self.costs.moved.get()));
        }
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

/// How often a forward kernel runs for a micro-batch: twice if the backward pass computes it again.
const fn twice(again: bool) -> f64 {
    if again { 2.0 } else { 1.0 }
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
