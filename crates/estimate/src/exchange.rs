//! Gradients and parameters among data-parallel ranks.

use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::model::Model;
use crate::offload::HostUpdate;
use crate::stages::Block;

/// Times of exchanges in a step, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Exchange {
    /// Gradients and parameters, if nothing were hidden.
    pub whole_s: f64,
    /// What is not hidden.
    pub exposed_s: f64,
    /// The update of parameters.
    pub update_s: f64,
    /// Its copies from and to the host that are not hidden.
    pub copies_s: f64,
}

/// Parameters on one rank of the stage that has most of them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Held {
    /// Those that tensor-parallel ranks divide.
    pub dense: f64,
    /// Those of experts.
    pub experts: f64,
}

impl Held {
    /// Parameters of a stage with these blocks.
    pub fn of(model: &Model, job: &Job, blocks: &[Block]) -> Self {
        let tensor = f64::from(job.tensor);
        let mut held = Self::default();
        for block in blocks {
            match *block {
                Block::Embedding => held.dense += model.table_parameters() as f64 / tensor,
                // Tied tables on one stage are one table.
                Block::Output if model.tied && job.pipeline == 1 => {}
                Block::Output => held.dense += model.table_parameters() as f64 / tensor,
                Block::Layer(number) => {
                    let experts = model.has_experts(number.min(model.layers - 1));
                    held.dense += model.rank_parameters(experts, u64::from(job.tensor)) as f64;
                    if experts {
                        held.experts +=
                            model.expert_parameters() as f64 / f64::from(job.expert * job.expert_tensor);
                    }
                }
            }
        }
        held
    }
}

impl<C: Costs> Setting<'_, C> {
    /// The exchanges of a step whose micro-batches take `backward_s` in the backward pass and `step_s` in all.
    pub(crate) fn exchange(&self, held: Held, backward_s: f64, step_s: f64) -> Exchange {
        let job = self.job;
        let dense = self.replicas();
        let experts = Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.domain());
        let gradient = f64::from(job.gradient_bytes);
        let parameter = 2.0;
        let both = |collective, bytes: f64, groups: (Group, Group)| {
            self.collective(collective, held.dense * bytes, groups.0)
                + self.collective(collective, held.experts * bytes, groups.1)
        };
        let exposed = |overlaps: bool| if overlaps { self.software.data_exposed } else { 1.0 };
        // What is not hidden of an exchange that hides behind `behind` seconds of computing.
        let hide = |seconds: f64, overlaps: bool, behind: f64| {
            (seconds * exposed(overlaps)).max(if overlaps { seconds - behind } else { 0.0 })
        };
        if job.adapters.is_some() {
            // Frozen parameters have no gradients and no update; ZeRO-3 gathers them all the same.
            if job.zero < 3 {
                return Exchange::default();
            }
            let gathered = both(Collective::AllGather, parameter, (self.shards(), experts));
            let whole_s = 2.0 * gathered * f64::from(job.micro_batches);
            let exposed_s = hide(whole_s, job.overlap.parameters, step_s);
            return Exchange { whole_s, exposed_s, ..Exchange::default() };
        }
        let HostUpdate { update_s, copies_s } = self.update(held);
        if job.zero >= 3 {
            // Every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3). In a
            // pipeline, parameters stay gathered, and gradients are reduced once.
            let groups = (self.shards(), experts);
            let gathers = both(Collective::AllGather, parameter, groups);
            let reduces = both(Collective::ReduceScatter, gradient, groups);
            let (gathered, times) =
                if job.pipeline > 1 { (gathers, 1.0) } else { (2.0 * gathers, f64::from(job.micro_batches)) };
            // Ranks that hold the same part sum its gradients (HSDP).
            let across = if self.hybrid() {
                let part = held.dense * gradient / f64::from(job.shard_group.max(1));
                self.collective(Collective::AllReduce, part, self.across_shards())
            } else {
                0.0
            };
            let (gathered, reduced) = (gathered * times, reduces * times + across);
            let whole_s = gathered + reduced;
            // The next layers' parameters come while a layer is computed; the first ones have nothing to hide behind.
            let least = whole_s / times / f64::from(self.model.layers.max(1));
            let exposed_s =
                gathered * exposed(job.overlap.parameters) + reduced * exposed(job.overlap.gradients);
            let overlaps = job.overlap.parameters && job.overlap.gradients;
            let beyond = if overlaps { whole_s - step_s } else { 0.0 };
            return Exchange { whole_s, exposed_s: exposed_s.max(beyond).max(least), update_s, copies_s };
        }
        if job.zero == 0 {
            let whole_s = both(Collective::AllReduce, gradient, (dense, experts));
            let exposed_s = hide(whole_s, job.overlap.gradients, backward_s);
            return Exchange { whole_s, exposed_s, update_s, copies_s };
        }
        // ZeRO-2 keeps only its part of the sum of gradients, so every micro-batch reduces its own.
        let times = if job.zero == 2 { f64::from(job.micro_batches) } else { 1.0 };
        let gradients = times * both(Collective::ReduceScatter, gradient, (dense, experts));
        let parameters = both(Collective::AllGather, parameter, (self.shards(), experts));
        Exchange {
            whole_s: gradients + parameters,
            exposed_s: hide(gradients, job.overlap.gradients, backward_s * times)
                + hide(parameters, job.overlap.parameters, backward_s / 2.0),
            update_s,
            copies_s,
        }
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        if group.ranks() < 2 || bytes <= 0.0 {
            return 0.0;
        }
        self.costs.collective(collective, bytes, group)
    }

    /// Ranks that sum the same gradients.
    fn replicas(&self) -> Group {
        Group::strided(self.job.replicas(), self.job.tensor, self.domain())
    }

    /// Whether fewer ranks than have copies divide one of them.
    fn hybrid(&self) -> bool {
        self.job.shard_group < self.job.replicas()
    }

    /// Ranks that divide what ZeRO divides.
    fn shards(&self) -> Group {
        Group::strided(self.job.shard_group.min(self.job.replicas()), self.job.tensor, self.domain())
    }

    /// Ranks that hold the same part.
    fn across_shards(&self) -> Group {
        let parts = self.job.shard_group.max(1);
        Group::strided(self.job.replicas().div_ceil(parts), self.job.tensor * parts, self.domain())
    }

    /// The optimizer reads and writes its states, reads gradients, and writes parameters: Adam has two moments, and a copy of
    /// the parameters in 32 bits.
    fn update(&self, held: Held) -> HostUpdate {
        let job: &Job = self.job;
        let states = 2.0 * (2.0 * f64::from(job.moment_bytes) + 4.0) + 2.0 + f64::from(job.gradient_bytes);
        let (dense, experts) = if job.zero >= 1 {
            (f64::from(job.shard_group.min(job.replicas())), f64::from(job.expert_replicas()))
        } else {
            (1.0, 1.0)
        };
        let updated = held.dense / dense.max(1.0) + held.experts / experts.max(1.0);
        // Gradients are set to zero for the next step; those that a rank updates are read for their norm before.
        let held = if job.zero >= 2 { updated } else { held.dense + held.experts };
        let here = updated * (1.0 - job.offload.optimizer);
        let device_s = self.costs.memory(here * states + (held + updated) * f64::from(job.gradient_bytes));
        self.host_update(updated, device_s)
    }
}
