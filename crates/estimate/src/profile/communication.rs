//! The collectives of a rank in a step.

use super::computed;
use super::recorded::{Call, Recorded};
use crate::exchange::Behind;
use crate::job::{ContextMethod, Job, Module, Recompute};
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

/// The collectives of a rank of a stage, hidden or not.
pub(super) fn communication<C: Costs>(setting: &Setting<'_, C>, stage: usize) -> Vec<Communication> {
    let recorded = Recorded::of(setting.costs);
    let inner = setting.with(&recorded);
    let (model, job) = (setting.model, setting.job);
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let mut list = List { recorded: &recorded, job, communication: Vec::new() };
    for (block, again) in computed(model, job, stage) {
        match block {
            Block::Embedding => {
                inner.around_embedding(false);
                inner.around_embedding(true);
                list.add("tensor", |_| batches);
            }
            Block::Layer(number) => list.add_layer(&inner, number.min(model.layers - 1), again, batches),
            Block::Output => {
                inner.around_output(false);
                inner.around_output(true);
                list.add("tensor", |_| batches * f64::from(1 + model.prediction_layers));
            }
        }
    }
    if job.pipeline > 1 {
        inner.message_s();
        list.add("messages", |_| 2.0 * batches * f64::from(job.virtual_stages.max(1)));
    }
    inner.exchange(inner.held(), &Behind::default());
    let every = f64::from(job.micro_batches);
    list.add("exchange", |collective| match (job.zero, job.pipeline, collective) {
        (3, 1, Collective::AllGather) => 2.0 * every,
        (3, 1, Collective::ReduceScatter) | (2, _, Collective::ReduceScatter) => every,
        _ => 1.0,
    });
    list.communication
}

/// Communication of a rank: collectives that costs recorded, each kind once.
struct List<'a, C: Costs> {
    recorded: &'a Recorded<'a, C>,
    job: &'a Job,
    communication: Vec<Communication>,
}

impl<'a, C: Costs> List<'a, C> {
    /// Takes the recorded collectives as a part of the step. A rank takes part in each `times` times.
    fn add(&mut self, part: &'static str, times: impl Fn(Collective) -> f64) {
        for Call { collective, bytes, group, seconds: each_s } in self.recorded.calls.take() {
            let call = Communication {
                part,
                collective: if part == "context" && self.job.context_method == ContextMethod::Ring {
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
                |each: &&mut Communication| Communication { times: call.times, ..(**each).clone() } == call;
            match self.communication.iter_mut().find(alike) {
                Some(each) => each.times += call.times,
                None => self.communication.push(call),
            }
        }
    }

    /// Adds the collectives of a layer that the backward pass computes `again` or not, for `batches` micro-batches.
    fn add_layer(&mut self, inner: &Setting<'_, Recorded<'a, C>>, number: u32, again: bool, batches: f64) {
        let job = self.job;
        let (work, modules) = (layer_work(inner.model, job, number), job.modules_again());
        let again = job.recompute == Recompute::Full && again;
        let repeated = |module| if again || modules.has(module) { 2.0 } else { 1.0 };
        // The backward pass has the collectives of the forward pass.
        inner.tensor(&work);
        self.add("tensor", |_| batches * if again { 3.0 } else { 2.0 });
        inner.heads(&work, Collective::AllGather);
        self.add("tensor", |_| batches * if again { 2.0 } else { 1.0 });
        inner.heads(&work, Collective::ReduceScatter);
        self.add("tensor", |_| batches);
        if job.recompute == Recompute::Selective {
            inner.parts_again(&work, &Pass::default());
            self.add("tensor", |_| batches);
        }
        inner.context(&work, inner.attention(&work, false), false);
        self.add("context", |_| batches * repeated(Module::CoreAttention));
        inner.context(&work, inner.attention(&work, true), true);
        self.add("context", |_| batches);
        inner.gathered(&work);
        if let Some((bytes, group, seconds)) = inner.exchanged(&work) {
            let mut calls = self.recorded.calls.borrow_mut();
            // Dedicated kernels for dispatch make no call of NCCL, so that none was recorded.
            if calls.iter().all(|call| call.collective != Collective::AllToAll) {
                let collective = Collective::AllToAll;
                calls.push(Call { collective, bytes, group, seconds: seconds / 2.0 });
            }
        }
        // Tokens go to experts and come back; where ranks divide an expert, they gather tokens once and sum outputs once.
        self.add("expert", |collective| {
            let ways = if collective == Collective::AllToAll { 2.0 } else { 1.0 };
            ways * batches * (1.0 + repeated(Module::Moe))
        });
    }
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
