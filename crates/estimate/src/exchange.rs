//! Gradients and parameters among data-parallel ranks.

use crate::adapters::trained;
use crate::held::Held;
use crate::job::Job;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::offload::HostUpdate;
use crate::parameters::cast_once;
use crate::stages::{Block, divide};
use crate::units::{Hidden, Unit, seconds};

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

/// What exchanges of a step can hide behind.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Behind {
    /// Seconds of a micro-batch in the backward pass, on the slowest stage.
    pub backward_s: f64,
    /// Seconds of all micro-batches there.
    pub step_s: f64,
    /// The blocks of the model, if each is a unit of ZeRO-3; else none.
    pub units: Vec<Computing>,
}

/// What a block computes in a micro-batch, in seconds, forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Computing {
    /// The block.
    pub block: Block,
    /// All but tokens to experts and back.
    pub seconds: [f64; 2],
    /// Tokens to experts and back, as far as they are exposed.
    pub tokens: [f64; 2],
}

/// Times of the collectives of a step alone, in seconds.
struct Traffic {
    /// If all were exposed.
    whole_s: f64,
    /// What is exposed.
    exposed_s: f64,
}

impl<C: Costs> Setting<'_, C> {
    /// The exchanges of a step, on a rank with the parameters `held`.
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

    /// Without ZeRO: all ranks sum all gradients.
    fn summed(&self, held: Held, backward_s: f64) -> Traffic {
        let gradients = self.gradient_bytes(held);
        let whole_s = self.both(Collective::AllReduce, gradients, (self.replicas(), self.expert_replicas()));
        Traffic { whole_s, exposed_s: self.exposed(whole_s, self.job.overlap.gradients, backward_s, true) }
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
            exposed_s: self.exposed(gradients, job.overlap.gradients, backward_s * times, job.zero != 2)
                + self.exposed(parameters, job.overlap.parameters, backward_s / 2.0, true),
        }
    }

    /// ZeRO-3: every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3). Without
    /// `blocks`, nothing is hidden.
    fn units(&self, held: Held, blocks: &[Computing]) -> Traffic {
        let (job, batches) = (self.job, f64::from(self.job.micro_batches));
        let gathers = self.parts(Collective::AllGather, job.gathered_bytes(held), self.divisions());
        let reduces = self.parts(Collective::ReduceScatter, self.gradient_bytes(held), self.divisions());
        // Ranks that hold the same part sum its gradients (HSDP).
        let across = self.sums_of_parts(held);
        let whole_s = batches * (2.0 * (gathers.0 + gathers.1) + reduces.0 + reduces.1) + across;
        if blocks.is_empty() {
            return Traffic { whole_s, exposed_s: whole_s };
        }
        let hidden = Hidden { gathers: job.overlap.parameters, reductions: job.overlap.gradients };
        let (lost, shares) = (self.software.sharded_exposed(), self.shares_links());
        let (mut units, mut computing) = (Vec::with_capacity(blocks.len()), 0.0);
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mut last: Option<(bool, bool, [f64; 2])> = None;
        for block in blocks {
            // Layers that are alike hold as much.
            let alike = match block.block {
                Block::Layer(number) => {
                    let experts = self.model.has_experts(number.min(self.model.layers.max(1) - 1));
                    Some((experts, job.is_bf16(self.model, number)))
                }
                _ => None,
            };
            let parts = match (alike, last) {
                (Some((experts, bf16)), Some(found)) if (experts, bf16) == (found.0, found.1) => found.2,
                _ => {
                    let own = Held::of(self.model, job, &[block.block]);
                    [of(own.dense, held.dense), of(own.experts, held.experts)]
                }
            };
            last = alike.map(|(experts, bf16)| (experts, bf16, parts)).or(last);
            let [dense, experts] = parts;
            let gather = gathers.0 * dense + gathers.1 * experts;
            let reduce = reduces.0 * dense + reduces.1 * experts;
            let slower = self.slower(lost, gather, reduce);
            let [forward, backward] = block.seconds;
            let [out, back] = block.tokens;
            computing += forward + backward + out + back;
            let (forward, backward) = (forward + slower[0], backward + slower[1]);
            let (inside, tokens) = if shares { ([0.0; 2], block.tokens) } else { (block.tokens, [0.0; 2]) };
            units.push(Unit {
                computing: [forward + inside[0], backward + inside[1]],
                tokens,
                gather,
                reduce,
                sum: across * dense,
            });
        }
        let step_s = seconds(&units, job.micro_batches, hidden);
        Traffic { whole_s, exposed_s: (step_s - batches * computing).clamp(0.0, whole_s) }
    }

    /// Seconds by which a unit computes longer, forward and backward, because kernels of its gathers and its reduction take the
    /// part `lost` of the multiprocessors.
    pub(crate) fn slower(&self, lost: f64, gather: f64, reduce: f64) -> [f64; 2] {
        let gathers = if self.job.overlap.parameters { lost * gather } else { 0.0 };
        [gathers, gathers + if self.job.overlap.gradients { lost * reduce } else { 0.0 }]
    }

    /// Whether tokens to experts travel on the links of gathers and reductions: those between domains, or all within one.
    fn shares_links(&self) -> bool {
        let job = self.job;
        let experts = Group::strided(job.expert * job.expert_tensor, 1, self.domain());
        let (dense, own) = self.divisions();
        let exchanged = if own.ranks() > 1 { own } else { dense };
        (experts.domains > 1) == (exchanged.domains > 1)
    }

    /// ZeRO-3 of frozen parameters, which are gathered all the same, with adapters, which alone have gradients.
    fn frozen_units(&self, held: Held, adapters: Held, behind: &Behind) -> Traffic {
        let (job, backward_s) = (self.job, behind.backward_s);
        // In a pipeline, parameters stay gathered, and gradients are reduced once.
        let (every, times) = if job.pipeline > 1 { (1.0, 1.0) } else { (f64::from(job.micro_batches), 2.0) };
        let (gathered, reduced) = (times * every * self.gathers(held), every * self.reduces(adapters));
        Traffic {
            whole_s: gathered + reduced,
            exposed_s: self.exposed(gathered, job.overlap.parameters, behind.step_s, false)
                + self.exposed(reduced, job.overlap.gradients, backward_s * every, false),
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

    /// What is exposed of an exchange that takes `seconds`, if it overlaps with `behind` seconds of computing of a micro-batch.
    ///
    /// An interleaved pipeline exchanges chunk by chunk if it does so `once` a step: as many micro-batches as stages are in one
    /// chunk after the other. So gradients of the last chunk, which goes backward first, are reduced while all others go backward
    /// for all these micro-batches, and only those of the first one behind a single micro-batch. Parameters are gathered the
    /// other way round.
    fn exposed(&self, seconds: f64, overlaps: bool, behind: f64, once: bool) -> f64 {
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

    /// Both of them.
    fn parts(&self, collective: Collective, bytes: (f64, f64), groups: (Group, Group)) -> (f64, f64) {
        (self.collective(collective, bytes.0, groups.0), self.collective(collective, bytes.1, groups.1))
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
