//! Messages between the stages of a pipeline.

use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group};

impl<C: Costs> Setting<'_, C> {
    /// Bytes of a message of one micro-batch from a rank to the next stage.
    ///
    /// Each tensor-parallel rank sends its part: with sequence parallelism it has no more, and without, the receivers gather the
    /// parts (scatter and gather, SC21, 4.1; DeepSpeed's pipelines do the same).
    pub(crate) const fn message_bytes(&self) -> u64 {
        self.job.tokens() * self.model.hidden * 2 / self.job.tensor as u64
    }

    /// A message of one micro-batch to the next stage.
    pub(crate) fn message_s(&self) -> f64 {
        let job = self.job;
        if job.pipeline < 2 {
            return 0.0;
        }
        let bytes = self.message_bytes() as f64;
        let gathered = if job.sequence_parallel || job.tensor < 2 {
            0.0
        } else {
            let whole = bytes * f64::from(job.tensor);
            self.costs.collective(Collective::AllGather, whole, Group::strided(job.tensor, 1, self.domain()))
        };
        gathered + self.costs.collective(Collective::Send, bytes, self.two_stages(1))
    }

    /// A rank and that which is `apart` stages away. The slowest message counts: if stages lie in several domains, one between
    /// two of them.
    pub(crate) fn two_stages(&self, apart: u32) -> Group {
        let (stride, domain) = (self.job.stage_ranks(), self.domain());
        if stride * self.job.pipeline > domain {
            Group { in_domain: 1, domains: 2, concurrent: stride.min(domain) }
        } else {
            Group::strided(2, stride * apart, domain)
        }
    }
}
