//! The update of parameters.

use crate::held::Held;
use crate::job::Job;
use crate::layer::Setting;
use crate::machine::Costs;
use crate::offload::HostUpdate;
use crate::parameters::cast_once;

impl<C: Costs> Setting<'_, C> {
    /// The update of a rank with the parameters `held`: Adam reads and writes two moments and the parameters in 32 bits, reads
    /// gradients, and writes parameters, which are then cast to the type in which linear layers multiply.
    pub(crate) fn update(&self, held: Held) -> HostUpdate {
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
