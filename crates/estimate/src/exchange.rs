//! Gradients and parameters among data-parallel ranks.

use crate::adapters::trained;
use crate::held::Held;
use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::offload::HostUpdate;
use crate::parameters::cast_once;
use crate::stages::{Block, divide};

/// Times of exchanges in a step, in seconds.
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

/// Times of the collectives of a step alone, in seconds.
struct Traffic {
    /// If all were exposed.
    whole_s: f64,
    /// What is exposed.
    exposed_s: f64,
}

impl<C: Costs> Setting<'_, C> {
    /// The exchanges of a step whose micro-batches take `backward_s` in the backward pass and `step_s` in all, on a rank with
    /// the parameters `held`.
    pub(crate) fn exchange(&self, held: Held, backward_s: f64, step_s: f64) -> Exchange {
        let adapters = self.job.adapters.is_some();
        let trained = if adapters { self.trained() } else { held };
        let shared_s = self.shared_table();
        let Traffic { whole_s, exposed_s } = match self.job.zero {
            0 => self.summed(trained, backward_s),
            1 | 2 => self.divided(trained, backward_s),
            _ if adapters => self.frozen_units(held, trained, backward_s, step_s),
            _ => self.units(held, step_s),
        };
        let HostUpdate { update_s, copies_s } = self.update(trained);
        Exchange { whole_s: whole_s + shared_s, exposed_s: exposed_s + shared_s, update_s, copies_s }
    }

    /// Without ZeRO: all ranks sum all gradients.
    fn summed(&self, held: Held, backward_s: f64) -> Traffic {
        let gradients = self.gradient_bytes(held);
        let whole_s = self.both(Collective::AllReduce, gradients, (self.replicas(), self.expert_replicas()));
        Traffic { whole_s, exposed_s: self.exposed(whole_s, self.job.overlap.gradients, backward_s) }
    }

    /// ZeRO-1 and ZeRO-2: each rank gets its part of the sum of gradients, and all gather the updated parameters.
    fn divided(&self, held: Held, backward_s: f64) -> Traffic {
        let job = self.job;
        // ZeRO-2 keeps only its part of the sum of gradients, so every micro-batch reduces its own.
        let times = if job.zero == 2 { f64::from(job.micro_batches) } else { 1.0 };
        let gradients = times * (self.reduces(held) + self.sums_of_parts(held));
        let parameters = self.gathers(held);
        Traffic {
            whole_s: gradients + parameters,
            exposed_s: self.exposed(gradients, job.overlap.gradients, backward_s * times)
                + self.exposed(parameters, job.overlap.parameters, backward_s / 2.0),
        }
    }

    /// ZeRO-3: every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3). In a
    /// pipeline, parameters stay gathered, and gradients are reduced once.
    fn units(&self, held: Held, step_s: f64) -> Traffic {
        let job = self.job;
        let (gathers, reduces) = (self.gathers(held), self.reduces(held));
        let (gathered, times) =
            if job.pipeline > 1 { (gathers, 1.0) } else { (2.0 * gathers, f64::from(job.micro_batches)) };
        // Ranks that hold the same part sum its gradients (HSDP).
        let across = self.sums_of_parts(held);
        let (gathered, reduced) = (gathered * times, reduces * times + across);
        let whole_s = gathered + reduced;
        // The next layers' parameters come while a layer is computed; the first ones have nothing to hide behind.
        let least = whole_s / times / f64::from(self.model.layers.max(1));
        let part = self.software.sharded_exposed.unwrap_or(self.software.data_exposed);
        let of = |overlaps: bool, seconds: f64| if overlaps { [seconds, 0.0] } else { [0.0, seconds] };
        let [gathers, reduces] = [of(job.overlap.parameters, gathered), of(job.overlap.gradients, reduced)];
        let [overlapping, apart] = [0, 1].map(|at| gathers[at] + reduces[at]);
        // Computing hides no more than it takes.
        let beyond = apart + (overlapping - step_s).max(0.0);
        Traffic { whole_s, exposed_s: (overlapping * part + apart).max(beyond).max(least) }
    }

    /// ZeRO-3 of frozen parameters, which are gathered all the same, with adapters, which alone have gradients.
    fn frozen_units(&self, held: Held, adapters: Held, backward_s: f64, step_s: f64) -> Traffic {
        let job = self.job;
        // In a pipeline, parameters stay gathered, and gradients are reduced once.
        let (every, times) = if job.pipeline > 1 { (1.0, 1.0) } else { (f64::from(job.micro_batches), 2.0) };
        let (gathered, reduced) = (times * every * self.gathers(held), every * self.reduces(adapters));
        Traffic {
            whole_s: gathered + reduced,
            exposed_s: self.exposed(gathered, job.overlap.parameters, step_s)
                + self.exposed(reduced, job.overlap.gradients, backward_s * every),
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
    fn gradient_bytes(&self, held: Held) -> (f64, f64) {
        let each = f64::from(self.job.gradient_bytes);
        (held.dense * each, held.experts * each)
    }

    /// What is exposed of an exchange that takes `seconds`, if it overlaps with `behind` seconds of computing.
    fn exposed(&self, seconds: f64, overlaps: bool, behind: f64) -> f64 {
        if overlaps { (seconds * self.software.data_exposed).max(seconds - behind) } else { seconds }
    }

    /// Seconds of a collective of all but experts, and of one of experts.
    fn both(&self, collective: Collective, bytes: (f64, f64), groups: (Group, Group)) -> f64 {
        self.collective(collective, bytes.0, groups.0) + self.collective(collective, bytes.1, groups.1)
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        if group.ranks() < 2 || bytes <= 0.0 {
            return 0.0;
        }
        self.costs.collective(collective, bytes, group)
    }

    /// Ranks that hold the same part of what ZeRO divides sum its gradients, if fewer ranks than have copies divide one.
    fn sums_of_parts(&self, held: Held) -> f64 {
        if !self.hybrid() {
            return 0.0;
        }
        let bytes = f64::from(self.job.gradient_bytes) / f64::from(self.job.shard_group.max(1));
        self.collective(Collective::AllReduce, held.dense * bytes, self.across_shards())
    }

    /// The first and the last stage sum the gradients of a table that both have (Narayanan et al. 2021): after all others, so
    /// that nothing hides it.
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

    /// Ranks that sum the same gradients.
    fn replicas(&self) -> Group {
        Group::strided(self.job.replicas(), self.job.tensor, self.domain())
    }

    /// Ranks that hold the same experts.
    fn expert_replicas(&self) -> Group {
        let job = self.job;
        Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.domain())
    }

    /// Whether fewer ranks than have copies divide one of them.
    fn hybrid(&self) -> bool {
        self.job.shard_group < self.job.replicas()
    }

    /// Ranks that divide what ZeRO divides.
    fn shards(&self) -> Group {
        Group::strided(self.job.shard_group.min(self.job.replicas()), self.job.tensor, self.domain())
    }

    /// The same, and ranks that divide what ZeRO divides of experts.
    fn divisions(&self) -> (Group, Group) {
        (self.shards(), self.expert_replicas())
    }

    /// Ranks that hold the same part.
    fn across_shards(&self) -> Group {
        let parts = self.job.shard_group.max(1);
        Group::strided(self.job.replicas().div_ceil(parts), self.job.tensor * parts, self.domain())
    }

    /// The optimizer reads and writes its states, reads gradients, and writes parameters: Adam has two moments, and a copy of
    /// the parameters in 32 bits. Weights are then cast for their products.
    fn update(&self, held: Held) -> HostUpdate {
        let job: &Job = self.job;
        let states = 2.0 * (2.0 * f64::from(job.moment_bytes) + 4.0) + f64::from(job.gradient_bytes);
        let updated = held.divided(job).all();
        let ((dense_bytes, expert_bytes), (dense, experts)) = (job.gathered_bytes(held), job.shares());
        let written = dense_bytes / dense + expert_bytes / experts;
        let cast = cast_once(job, &self.software.memory, held);
        // Gradients are set to zero for the next step; those that a rank updates are read for their norm before.
        let held = if job.zero >= 2 { updated } else { held.all() };
        let here = 1.0 - job.offload.optimizer;
        let gradients = (held + updated) * f64::from(job.gradient_bytes);
        let device_s = self.costs.memory(here * (updated * states + written) + gradients + cast);
        self.host_update(updated, device_s)
    }
}
