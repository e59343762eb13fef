//! The collectives of a rank in a step.

use super::computed;
use super::recorded::{Call, Recorded};
use crate::job::{ContextMethod, Module, Recompute};
use crate::layer::{Pass, Setting};
use crate::machine::{Collective, Costs};
use crate::stages::Block;
use crate::work::layer_work;
use serde::Serialize;

/// One kind of communication of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Communication {
    /// The part of the step that it belongs to.
    pub part: &'static str,
    /// The collective; `ring exchange` for keys and values that go around, which take the time of an all-gather.
    pub collective: &'static str,
    /// Its bytes, as those of [`Collective`].
    pub bytes: f64,
    /// Ranks in each NVLink domain.
    pub in_domain: u32,
    /// NVLink domains; more than 1 if it goes through the network.
    pub domains: u32,
    /// How many of these a rank takes part in, in a step.
    pub times: f64,
    /// Seconds of each.
    pub each_s: f64,
}

/// The collectives of a rank of a stage, with what hides behind computing.
pub(super) fn communication<C: Costs>(setting: &Setting<'_, C>, stage: usize) -> Vec<Communication> {
    let recorded = Recorded::of(setting.costs);
    let inner = setting.with(&recorded);
    let (model, job) = (setting.model, setting.job);
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let modules = job.modules_again();
    let mut found: Vec<Communication> = Vec::new();
    let mut add = |part: &'static str, times: &dyn Fn(Collective) -> f64| {
        for Call { collective, bytes, group, seconds: each_s } in recorded.calls.take() {
            let made = Communication {
                part,
                collective: if part == "context" && job.context_method == ContextMethod::Ring {
                    "ring exchange"
                } else {
                    name(collective)
                },
                bytes,
                in_domain: group.in_domain,
                domains: group.domains,
                times: times(collective),
                each_s,
            };
            let alike =
                |each: &&mut Communication| Communication { times: made.times, ..(**each).clone() } == made;
            match found.iter_mut().find(alike) {
                Some(each) => each.times += made.times,
                None => found.push(made),
            }
        }
    };
    for (block, again) in computed(model, job, stage) {
        let number = match block {
            Block::Layer(number) => number,
            Block::Embedding => {
                inner.around_embedding(false);
                inner.around_embedding(true);
                add("tensor", &|_| batches);
                continue;
            }
            Block::Output => {
                inner.around_output(false);
                inner.around_output(true);
                add("tensor", &|_| batches * f64::from(1 + model.prediction_layers));
                continue;
            }
        };
        let work = layer_work(model, job, number.min(model.layers - 1));
        let again = job.recompute == Recompute::Full && again;
        let repeated = |module| if again || modules.has(module) { 2.0 } else { 1.0 };
        // The backward pass has the collectives of the forward pass.
        inner.tensor(&work);
        add("tensor", &|_| batches * if again { 3.0 } else { 2.0 });
        inner.heads(&work, Collective::AllGather);
        add("tensor", &|_| batches * if again { 2.0 } else { 1.0 });
        inner.heads(&work, Collective::ReduceScatter);
        add("tensor", &|_| batches);
        if job.recompute == Recompute::Selective {
            inner.parts_again(&work, &Pass::default());
            add("tensor", &|_| batches);
        }
        inner.context(&work, inner.attention(&work, false), false);
        add("context", &|_| batches * repeated(Module::CoreAttention));
        inner.context(&work, inner.attention(&work, true), true);
        add("context", &|_| batches);
        inner.gathered(&work);
        if let Some((bytes, group, seconds)) = inner.exchanged(&work) {
            let mut calls = recorded.calls.borrow_mut();
            // Dedicated kernels for dispatch make no call of NCCL, so that none was recorded.
            if calls.iter().all(|call| call.collective != Collective::AllToAll) {
                let collective = Collective::AllToAll;
                calls.push(Call { collective, bytes, group, seconds: seconds / 2.0 });
            }
        }
        // Tokens go to experts and come back; where ranks divide an expert, they gather tokens once and sum outputs once.
        add("expert", &|collective| {
            let ways = if collective == Collective::AllToAll { 2.0 } else { 1.0 };
            ways * batches * (1.0 + repeated(Module::Moe))
        });
    }
    if job.pipeline > 1 {
        inner.message_s();
        add("messages", &|_| 2.0 * batches * f64::from(job.virtual_stages.max(1)));
    }
    inner.exchange(inner.held(), 0.0, 0.0);
    let every = f64::from(job.micro_batches);
    add("exchange", &|collective| match (job.zero, job.pipeline, collective) {
        (3, 1, Collective::AllGather) => 2.0 * every,
        (3, 1, Collective::ReduceScatter) | (2, _, Collective::ReduceScatter) => every,
        _ => 1.0,
    });
    found
}

const fn name(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "all-reduce",
        Collective::AllGather => "all-gather",
        Collective::ReduceScatter => "reduce-scatter",
        Collective::AllToAll => "all-to-all",
        Collective::Send => "send",
    }
}
