//! Data-parallel collectives of a step: gradients and parameters.

use crate::adapters::trained;
use crate::held::Held;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::offload::HostUpdate;
use crate::stages::{Block, divide};

/// Times of data-parallel collectives and of the update in a step, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Exchange {
    /// Gradients and parameters, if all were exposed.
    pub whole_s: f64,
    /// What is exposed.
    pub exposed_s: f64,
    /// The update of parameters.
    pub update_s: f64,
    /// Its exposed copies from and to the host.
    pub copies_s: f64,
}

/// Computing behind which data-parallel collectives can hide.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Behind {
    /// Seconds of a micro-batch in the backward pass, on the slowest stage.
    pub backward_s: f64,
    /// Seconds of all micro-batches there.
    pub step_s: f64,
    /// The blocks of the model, if each is a unit of ZeRO-3; else none.
    pub units: Vec<Computing>,
}

/// Computing of a block for a micro-batch, in seconds, forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Computing {
    /// The block.
    pub block: Block,
    /// All but dispatch and combine.
    pub seconds: [f64; 2],
    /// Exposed dispatch and combine.
    pub tokens: [f64; 2],
}

/// Times of the collectives of a step alone, in seconds.
pub(crate) struct Traffic {
    /// If all were exposed.
    pub(crate) whole_s: f64,
    /// What is exposed.
    pub(crate) exposed_s: f64,
}

impl<C: Costs> Setting<'_, C> {
    /// The collectives and the update of a step, on a rank with the parameters `held`.
    pub(crate) fn exchange(&self, held: Held, behind: &Behind) -> Exchange {
        let adapters = self.job.adapters.is_some();
        let trained = if adapters { self.trained() } else { held };
        let shared_s = self.shared_table();
        let Traffic { whole_s, exposed_s } = match self.job.zero {
            0 => self.summed(trained, behind.backward_s),
            1 | 2 => self.divided(trained, behind.backward_s),
            _ if adapters => self.frozen_units(held, trained, behind),
            // In a pipeline, parameters stay gathered, and gradients are reduced once.
            _ if self.job.pipeline > 1 => self.divided(held, behind.backward_s),
            _ => self.units(held, &behind.units),
        };
        let HostUpdate { update_s, copies_s } = self.update(trained);
        Exchange { whole_s: whole_s + shared_s, exposed_s: exposed_s + shared_s, update_s, copies_s }
    }

    /// Without ZeRO: all-reduces of all gradients.
    fn summed(&self, held: Held, backward_s: f64) -> Traffic {
        let gradients = self.gradient_bytes(held);
        let whole_s = self.both(Collective::AllReduce, gradients, (self.replicas(), self.expert_replicas()));
        Traffic { whole_s, exposed_s: self.exposed(whole_s, self.job.overlap.gradients, backward_s, true) }
    }

    /// ZeRO-1 and ZeRO-2: reduce-scatters of gradients, and all-gathers of updated parameters.
    fn divided(&self, held: Held, backward_s: f64) -> Traffic {
        let job = self.job;
        // ZeRO-2 keeps only its part of the sum of gradients, so every micro-batch reduces its own.
        let times = if job.zero == 2 { f64::from(job.micro_batches) } else { 1.0 };
        let gradients = times * (self.reduces(held) + self.sums_of_parts(held));
        let parameters = self.gathers(held);
        Traffic {
            whole_s: gradients + parameters,
            exposed_s: self.exposed(gradients, job.overlap.gradients, backward_s * times, job.zero != 2)
                + self.exposed(parameters, job.overlap.parameters, backward_s / 2.0, true),
        }
    }

    /// Seconds in which the ranks that divide parameters gather them once.
    pub(crate) fn gathers(&self, held: Held) -> f64 {
        self.both(Collective::AllGather, self.job.gathered_bytes(held), self.divisions())
    }

    /// Seconds in which they reduce gradients once, so that each has the sum of its part.
    pub(crate) fn reduces(&self, held: Held) -> f64 {
        self.both(Collective::ReduceScatter, self.gradient_bytes(held), self.divisions())
    }

    /// Bytes of gradients: without experts, and of experts.
    pub(crate) fn gradient_bytes(&self, held: Held) -> (f64, f64) {
        let each = f64::from(self.job.gradient_bytes);
        (held.dense * each, held.experts * each)
    }

    /// Exposed seconds of collectives that take `seconds`, if they overlap with `behind` seconds of computing of a micro-batch.
    ///
    /// An interleaved pipeline exchanges chunk by chunk if it does so `once` a step: as many micro-batches as stages are in one
    /// chunk after the other. So gradients of the last chunk, which goes backward first, are reduced while all others go backward
    /// for all these micro-batches, and only those of the first one behind a single micro-batch. Parameters are gathered the
    /// other way round.
    pub(crate) fn exposed(&self, seconds: f64, overlaps: bool, behind: f64, once: bool) -> f64 {
        if !overlaps {
            return seconds;
        }
        let job = self.job;
        let chunks =
            if once && !job.schedule.is_ordered() { f64::from(job.virtual_stages.max(1)) } else { 1.0 };
        let together = f64::from(job.pipeline.min(job.micro_batches).max(1));
        // Of the first chunks, one or all of them, which are exchanged last; of numbers between, none leaves more exposed.
        let first = (seconds - behind) / chunks;
        let all = seconds - ((chunks - 1.0) * together + 1.0) * behind / chunks;
        (seconds * self.software.data_exposed).max(first).max(all)
    }

    /// Seconds of a collective of all but experts, and of one of experts.
    fn both(&self, collective: Collective, bytes: (f64, f64), groups: (Group, Group)) -> f64 {
        let (dense, experts) = self.parts(collective, bytes, groups);
        dense + experts
    }

    /// Seconds of both, apart.
    pub(crate) fn parts(
        &self,
        collective: Collective,
        bytes: (f64, f64),
        groups: (Group, Group),
    ) -> (f64, f64) {
        (self.collective(collective, bytes.0, groups.0), self.collective(collective, bytes.1, groups.1))
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        if group.ranks() < 2 || bytes <= 0.0 {
            return 0.0;
        }
        self.costs.collective(collective, bytes, group)
    }

    /// Seconds in which ranks that hold the same shard sum its gradients (HSDP); 0 if all replicas share one set of shards.
    pub(crate) fn sums_of_parts(&self, held: Held) -> f64 {
        if !self.hybrid() {
            return 0.0;
        }
        let bytes = f64::from(self.job.gradient_bytes) / f64::from(self.job.shard_group.max(1));
        self.collective(Collective::AllReduce, held.dense * bytes, self.across_shards())
    }

    /// Seconds in which the first and the last stage sum the gradients of tied embeddings (Narayanan et al. 2021): after all others,
    /// so that nothing hides it.
    fn shared_table(&self) -> f64 {
        let (model, job) = (self.model, self.job);
        if !model.tied || job.pipeline < 2 || job.adapters.is_some() {
            return 0.0;
        }
        let stages = divide(model, job);
        let of = |end: Block| stages.iter().position(|blocks| blocks.contains(&end));
        let (Some(first), Some(last)) = (of(Block::Embedding), of(Block::Output)) else { return 0.0 };
        if stages[first].contains(&Block::Output) {
            return 0.0;
        }
        let bytes = job.rank_table(model) as f64 * f64::from(job.gradient_bytes);
        self.collective(Collective::AllReduce, bytes, self.two_stages(first.abs_diff(last) as u32))
    }

    /// Parameters of adapters, of the stage that has most of them.
    pub(crate) fn trained(&self) -> Held {
        let stages = divide(self.model, self.job);
        let stages = stages.iter().map(|blocks| trained(self.model, self.job, blocks));
        stages.fold(Held::default(), Held::larger)
    }
}
