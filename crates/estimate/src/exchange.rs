//! Gradients and parameters among data-parallel ranks.

use crate::adapters::trained;
use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::model::Model;
use crate::offload::HostUpdate;
use crate::parameters::converted_once;
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

/// Parameters on one rank of the stage that has most of them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Held {
    /// Those without experts.
    pub dense: f64,
    /// Those of experts.
    pub experts: f64,
    /// Of those without experts, the ones of linear layers whose products have 8 or 4 bits.
    pub narrow: f64,
    /// The same of those of experts.
    pub narrow_experts: f64,
}

impl Held {
    /// All of them.
    pub(crate) fn all(&self) -> f64 {
        self.dense + self.experts
    }

    /// Parameters of a stage with these blocks.
    pub fn of(model: &Model, job: &Job, blocks: &[Block]) -> Self {
        let tensor = f64::from(job.tensor);
        let narrow = job.precision.converts();
        let mut held = Self::default();
        for block in blocks {
            match *block {
                Block::Embedding => held.dense += job.rank_table(model) as f64,
                Block::Output => {
                    // Tied tables on one stage are one table.
                    if !(model.tied && (job.pipeline == 1 || blocks.contains(&Block::Embedding))) {
                        held.dense += job.rank_table(model) as f64;
                    }
                    let joining = model.joining_parameters() as f64 / tensor;
                    held.add(f64::from(model.prediction_layers) * joining, 0.0, narrow);
                }
                Block::Layer(number) => {
                    let experts = model.has_experts(number.min(model.layers - 1));
                    let router = if experts { model.router_parameters() } else { 0 };
                    let linear = model.rank_parameters(experts, u64::from(job.tensor)) - router;
                    let routed = if experts {
                        model.expert_parameters() as f64 / f64::from(job.expert * job.expert_tensor)
                    } else {
                        0.0
                    };
                    held.dense += router as f64;
                    held.add(linear as f64, routed, narrow && !job.is_wide(model, number));
                }
            }
        }
        held
    }

    /// That of two with more parameters; the first of equal ones.
    pub(crate) fn larger(self, other: Self) -> Self {
        if other.all() > self.all() { other } else { self }
    }

    /// Adds parameters of linear layers.
    fn add(&mut self, dense: f64, experts: f64, narrow: bool) {
        self.dense += dense;
        self.experts += experts;
        if narrow {
            self.narrow += dense;
            self.narrow_experts += experts;
        }
    }
}

impl<C: Costs> Setting<'_, C> {
    /// The exchanges of a step whose micro-batches take `backward_s` in the backward pass and `step_s` in all.
    pub(crate) fn exchange(&self, held: Held, backward_s: f64, step_s: f64) -> Exchange {
        let job = self.job;
        let held = if job.adapters.is_some() && job.zero < 3 { self.trained() } else { held };
        let dense = self.replicas();
        let experts = Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.domain());
        let gradient = f64::from(job.gradient_bytes);
        let both = |collective, bytes: f64, groups: (Group, Group)| {
            self.collective(collective, held.dense * bytes, groups.0)
                + self.collective(collective, held.experts * bytes, groups.1)
        };
        let gather = |groups: (Group, Group)| {
            let (dense, experts) = job.gathered_bytes(held);
            self.collective(Collective::AllGather, dense, groups.0)
                + self.collective(Collective::AllGather, experts, groups.1)
        };
        let exposed = |overlaps: bool| if overlaps { self.software.data_exposed } else { 1.0 };
        // What is exposed of an exchange that hides behind `behind` seconds of computing.
        let hide = |seconds: f64, overlaps: bool, behind: f64| {
            (seconds * exposed(overlaps)).max(if overlaps { seconds - behind } else { 0.0 })
        };
        if job.adapters.is_some() && job.zero >= 3 {
            // Frozen parameters have no gradients and no update; ZeRO-3 gathers them all the same.
            // In a pipeline, parameters stay gathered, and gradients are reduced once.
            let (every, gathers) =
                if job.pipeline > 1 { (1.0, 1.0) } else { (f64::from(job.micro_batches), 2.0) };
            let gathered = gathers * every * gather((self.shards(), experts));
            let adapters = self.trained();
            let reduced = every
                * (self.collective(Collective::ReduceScatter, adapters.dense * gradient, self.shards())
                    + self.collective(Collective::ReduceScatter, adapters.experts * gradient, experts));
            let HostUpdate { update_s, copies_s } = self.update(adapters);
            return Exchange {
                whole_s: gathered + reduced,
                exposed_s: hide(gathered, job.overlap.parameters, step_s)
                    + hide(reduced, job.overlap.gradients, backward_s * every),
                update_s,
                copies_s,
            };
        }
        let HostUpdate { update_s, copies_s } = self.update(held);
        let shared_s = self.shared_table();
        if job.zero >= 3 {
            // Every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3). In a
            // pipeline, parameters stay gathered, and gradients are reduced once.
            let [gathers, reduces] = self.of_units(held);
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
            let [gathers, reduces] =
                [of(job.overlap.parameters, gathered), of(job.overlap.gradients, reduced)];
            let [overlapping, apart] = [0, 1].map(|at| gathers[at] + reduces[at]);
            // Computing hides no more than it takes.
            let beyond = apart + (overlapping - step_s).max(0.0);
            let exposed_s = (overlapping * part + apart).max(beyond).max(least) + shared_s;
            return Exchange { whole_s: whole_s + shared_s, exposed_s, update_s, copies_s };
        }
        if job.zero == 0 {
            let whole_s = both(Collective::AllReduce, gradient, (dense, experts));
            let exposed_s = hide(whole_s, job.overlap.gradients, backward_s) + shared_s;
            return Exchange { whole_s: whole_s + shared_s, exposed_s, update_s, copies_s };
        }
        // ZeRO-2 keeps only its part of the sum of gradients, so every micro-batch reduces its own.
        let times = if job.zero == 2 { f64::from(job.micro_batches) } else { 1.0 };
        let reduces = both(Collective::ReduceScatter, gradient, (self.shards(), experts));
        let gradients = times * (reduces + self.sums_of_parts(held));
        let parameters = gather((self.shards(), experts));
        Exchange {
            whole_s: gradients + parameters + shared_s,
            exposed_s: hide(gradients, job.overlap.gradients, backward_s * times)
                + hide(parameters, job.overlap.parameters, backward_s / 2.0)
                + shared_s,
            update_s,
            copies_s,
        }
    }

    /// Seconds in which the units of ZeRO-3 are gathered once, and in which their gradients are reduced once.
    pub(crate) fn of_units(&self, held: Held) -> [f64; 2] {
        let job = self.job;
        let experts = Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.domain());
        let of = |collective, dense: f64, routed: f64| {
            self.collective(collective, dense, self.shards()) + self.collective(collective, routed, experts)
        };
        let (dense, routed) = job.gathered_bytes(held);
        let gradient = f64::from(job.gradient_bytes);
        [
            of(Collective::AllGather, dense, routed),
            of(Collective::ReduceScatter, held.dense * gradient, held.experts * gradient),
        ]
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
    /// the parameters in 32 bits. Weights are then converted for their products.
    fn update(&self, held: Held) -> HostUpdate {
        let job: &Job = self.job;
        let states = 2.0 * (2.0 * f64::from(job.moment_bytes) + 4.0) + f64::from(job.gradient_bytes);
        let (dense, experts) = if job.zero >= 1 {
            (f64::from(job.shard_group.min(job.replicas())), f64::from(job.expert_replicas()))
        } else {
            (1.0, 1.0)
        };
        let updated = held.dense / dense.max(1.0) + held.experts / experts.max(1.0);
        let (dense_bytes, expert_bytes) = job.gathered_bytes(held);
        let written = dense_bytes / dense.max(1.0) + expert_bytes / experts.max(1.0);
        let converted = converted_once(job, &self.software.memory, held);
        // Gradients are set to zero for the next step; those that a rank updates are read for their norm before.
        let held = if job.zero >= 2 { updated } else { held.all() };
        let here = 1.0 - job.offload.optimizer;
        let gradients = (held + updated) * f64::from(job.gradient_bytes);
        let device_s = self.costs.memory(here * (updated * states + written) + gradients + converted);
        self.host_update(updated, device_s)
    }
}
