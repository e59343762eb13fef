//! Gradients and parameters among data-parallel ranks.

use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::model::Model;
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
                    held.dense += model.dense_parameters(experts) as f64 / tensor;
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
        if job.adapters.is_some() {
            return Exchange::default();
        }
        let dense = self.replicas();
        let experts =
            Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.cluster.domain);
        let gradient = f64::from(job.gradient_bytes);
        let parameter = 2.0;
        let both = |collective, bytes: f64, groups: (Group, Group)| {
            self.collective(collective, held.dense * bytes, groups.0)
                + self.collective(collective, held.experts * bytes, groups.1)
        };
        let update_s = self.update(held);
        let exposed = |overlaps: bool| if overlaps { self.software.data_exposed } else { 1.0 };
        if job.zero >= 3 {
            // Every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3).
            let groups = (self.shards(), experts);
            let once = 2.0 * both(Collective::AllGather, parameter, groups)
                + both(Collective::ReduceScatter, gradient, groups);
            let whole_s = once * f64::from(job.micro_batches);
            // The next layers' parameters come while a layer is computed; the first ones have nothing to hide behind.
            let least = once / f64::from(self.model.layers.max(1));
            let hidden = (1.0 - exposed(job.overlap.parameters)) * step_s;
            let mut exposed_s = (whole_s - hidden).max(least);
            if self.hybrid() {
                exposed_s +=
                    self.collective(Collective::AllReduce, held.dense * gradient, self.across_shards())
                        / f64::from(job.shard_group);
            }
            return Exchange { whole_s, exposed_s, update_s };
        }
        if job.zero == 0 {
            let whole_s = both(Collective::AllReduce, gradient, (dense, experts));
            let hidden = if job.overlap.gradients { backward_s } else { 0.0 };
            let exposed_s = (whole_s * exposed(job.overlap.gradients)).max(whole_s - hidden);
            return Exchange { whole_s, exposed_s, update_s };
        }
        let gradients = both(Collective::ReduceScatter, gradient, (dense, experts));
        let parameters = both(Collective::AllGather, parameter, (self.shards(), experts));
        let hide = |seconds: f64, overlaps: bool, behind: f64| {
            (seconds * exposed(overlaps)).max(if overlaps { seconds - behind } else { 0.0 })
        };
        Exchange {
            whole_s: gradients + parameters,
            exposed_s: hide(gradients, job.overlap.gradients, backward_s)
                + hide(parameters, job.overlap.parameters, backward_s / 2.0),
            update_s,
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
        Group::strided(self.job.replicas(), self.job.tensor, self.cluster.domain)
    }

    /// Whether fewer ranks than have copies divide one of them.
    fn hybrid(&self) -> bool {
        self.job.shard_group < self.job.replicas()
    }

    /// Ranks that divide what ZeRO divides.
    fn shards(&self) -> Group {
        Group::strided(self.job.shard_group.min(self.job.replicas()), self.job.tensor, self.cluster.domain)
    }

    /// Ranks that hold the same part.
    fn across_shards(&self) -> Group {
        let parts = self.job.shard_group.max(1);
        Group::strided(self.job.replicas().div_ceil(parts), self.job.tensor * parts, self.cluster.domain)
    }

    /// The optimizer reads and writes its states, reads gradients, and writes parameters: Adam has two moments and a copy of
    /// the parameters, in 32 bits.
    fn update(&self, held: Held) -> f64 {
        let job: &Job = self.job;
        let states = 2.0 * 3.0 * 4.0 + 2.0 + f64::from(job.gradient_bytes);
        let (dense, experts) = if job.zero >= 1 {
            (f64::from(job.shard_group.min(job.replicas())), f64::from(job.expert_replicas()))
        } else {
            (1.0, 1.0)
        };
        let updated = held.dense / dense.max(1.0) + held.experts / experts.max(1.0);
        // Gradients are set to zero for the next step, and their norm is computed before.
        let swept = (held.dense + held.experts) * f64::from(job.gradient_bytes);
        let divided = if job.zero >= 2 { dense.max(1.0) } else { 1.0 };
        self.costs.memory(updated * states + swept / divided)
    }
}
