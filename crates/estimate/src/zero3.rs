//! ZeRO-3: gathers of parameters and reductions of gradients, unit by unit.

use crate::exchange::{Behind, Computing, Traffic};
use crate::held::Held;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};
use crate::stages::Block;
use crate::units::{Hidden, Unit, seconds};

impl<C: Costs> Setting<'_, C> {
    /// Every micro-batch gathers parameters forward and backward, and reduces gradients (ZeRO, section 5.3). Without `blocks`,
    /// nothing is hidden.
    pub(crate) fn units(&self, held: Held, blocks: &[Computing]) -> Traffic {
        let (job, batches) = (self.job, f64::from(self.job.micro_batches));
        let gathers = self.parts(Collective::AllGather, job.gathered_bytes(held), self.divisions());
        let reduces = self.parts(Collective::ReduceScatter, self.gradient_bytes(held), self.divisions());
        // Ranks that hold the same shard sum its gradients (HSDP).
        let across = self.sums_of_parts(held);
        let whole_s = batches * (2.0 * (gathers.0 + gathers.1) + reduces.0 + reduces.1) + across;
        if blocks.is_empty() {
            return Traffic { whole_s, exposed_s: whole_s };
        }
        let hidden = Hidden { gathers: job.overlap.parameters, reductions: job.overlap.gradients };
        let (lost, shares) = (self.software.sharded_exposed(), self.shares_links());
        let (mut units, mut computing) = (Vec::with_capacity(blocks.len()), 0.0);
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mut last: Option<((bool, bool), [f64; 2])> = None;
        for block in blocks {
            // Layers of a kind have as many parameters.
            let kind = match block.block {
                Block::Layer(number) => {
                    let experts = self.model.has_experts(number.min(self.model.layers.max(1) - 1));
                    Some((experts, job.is_bf16(self.model, number)))
                }
                _ => None,
            };
            let parts = match last {
                Some((same, parts)) if kind == Some(same) => parts,
                _ => {
                    let own = Held::of(self.model, job, &[block.block]);
                    [of(own.dense, held.dense), of(own.experts, held.experts)]
                }
            };
            last = kind.map(|kind| (kind, parts)).or(last);
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

    /// Seconds by which a unit computes longer, forward and backward, because kernels of its all-gathers and its reduce-scatter
    /// take the part `lost` of the multiprocessors.
    pub(crate) fn slower(&self, lost: f64, gather: f64, reduce: f64) -> [f64; 2] {
        let gathers = if self.job.overlap.parameters { lost * gather } else { 0.0 };
        [gathers, gathers + if self.job.overlap.gradients { lost * reduce } else { 0.0 }]
    }

    /// Whether dispatch and combine use the same links as gathers and reductions: the network, or NVLink for both.
    fn shares_links(&self) -> bool {
        let job = self.job;
        let experts = Group::strided(job.expert * job.expert_tensor, 1, self.domain());
        let (dense, own) = self.divisions();
        let exchanged = if own.ranks() > 1 { own } else { dense };
        (experts.domains > 1) == (exchanged.domains > 1)
    }

    /// With LoRA: frozen parameters are gathered like others, and only adapters have gradients.
    pub(crate) fn frozen_units(&self, held: Held, adapters: Held, behind: &Behind) -> Traffic {
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
}
