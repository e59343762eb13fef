//! Groups of data-parallel ranks.

use crate::layer::Setting;
use crate::machine::{Costs, Group};

impl<C: Costs> Setting<'_, C> {
    /// Ranks that hold the same parameters, and sum their gradients.
    pub(crate) fn replicas(&self) -> Group {
        Group::strided(self.job.replicas(), self.job.tensor, self.domain())
    }

    /// Ranks that hold the same experts.
    pub(crate) fn expert_replicas(&self) -> Group {
        let job = self.job;
        Group::strided(job.expert_replicas(), job.expert * job.expert_tensor, self.domain())
    }

    /// Whether ZeRO shards within smaller groups than all replicas (HSDP).
    pub(crate) fn hybrid(&self) -> bool {
        self.job.shard_group < self.job.replicas()
    }

    /// Ranks among which ZeRO shards all but experts.
    pub(crate) fn shards(&self) -> Group {
        Group::strided(self.job.shard_group.min(self.job.replicas()), self.job.tensor, self.domain())
    }

    /// Ranks among which ZeRO shards all but experts, and experts.
    pub(crate) fn divisions(&self) -> (Group, Group) {
        (self.shards(), self.expert_replicas())
    }

    /// Ranks that hold the same shard (HSDP).
    pub(crate) fn across_shards(&self) -> Group {
        let parts = self.job.shard_group.max(1);
        Group::strided(self.job.replicas().div_ceil(parts), self.job.tensor * parts, self.domain())
    }
}
