//! Dispatch and combine: tokens are sent to experts on other ranks, and the outputs of experts back.

use crate::job::Dispatcher;
use crate::layer::Setting;
use crate::machine::{Collective, Costs, Group, TokenKernels};
use crate::work::LayerWork;
use syncline_nccl::Exchange;

impl<C: Costs> Setting<'_, C> {
    /// Seconds of dispatch and combine in a pass that computes for `compute` seconds: exposed ones, and hidden ones. The latter
    /// are exposed, too, in passes beside which no other micro-batch computes.
    pub(crate) fn expert(&self, work: &LayerWork, compute: f64) -> [f64; 2] {
        let whole = self.exchanged(work).map_or(0.0, |(_, _, seconds)| seconds) + self.gathered(work);
        if !self.job.overlap.experts {
            return [whole, 0.0];
        }
        let exposed = (whole * self.expert_exposed()).max(whole - compute);
        [exposed, whole - exposed]
    }

    /// Part of the time of dispatch and combine that is exposed where they overlap: of DeepEP and HybridEP, the share of the
    /// multiprocessors that they take from kernels that compute.
    pub(crate) fn expert_exposed(&self) -> f64 {
        match (self.job.dispatcher, self.cluster.token_kernels) {
            (Dispatcher::Fused, Some(kernels)) => {
                f64::from(self.job.dispatch_multiprocessors) / kernels.multiprocessors
            }
            _ => self.software.expert_exposed,
        }
    }

    /// Bytes that a rank sends in a dispatch, the ranks that exchange tokens, and the seconds of dispatch and combine; nothing
    /// without experts on other ranks.
    pub(crate) fn exchanged(&self, work: &LayerWork) -> Option<(f64, Group, f64)> {
        if work.dispatched_bytes == 0 {
            return None;
        }
        let (expert, parts) = (self.job.expert, self.job.expert_tensor);
        // DeepEP and HybridEP send a token to all ranks that divide an expert (expert tensor parallelism). With NCCL, each of these
        // ranks exchanges tokens with those that have the same part of other experts.
        let (ranks, stride) = match self.job.dispatcher {
            Dispatcher::AllToAll => (expert, parts),
            Dispatcher::Fused => (expert * parts, 1),
        };
        let group = Group::strided(ranks, stride, self.domain());
        // Those of a dispatch; a combine has as many.
        let bytes = work.dispatched_bytes as f64 / 2.0;
        let seconds = match (self.job.dispatcher, &self.cluster.token_kernels) {
            (Dispatcher::Fused, Some(kernels)) => self.fused_dispatch(kernels, work, bytes, group),
            _ => 2.0 * self.software.dispatch * self.costs.collective(Collective::AllToAll, bytes, group),
        };
        Some((bytes, group, seconds))
    }

    /// Dispatch and combine of a pass in simulations: the seconds that count as computing, and the bytes of an all-to-all of NCCL
    /// that takes half of the other seconds, one for the dispatch and one for the combine; no bytes without experts on other ranks.
    ///
    /// The all-gather and reduce-scatter among ranks that divide an expert count as computing. Where dispatch and combine
    /// overlap, only the share of the multiprocessors that they take does.
    pub(crate) fn sent(&self, work: &LayerWork) -> (f64, f64) {
        let gathered = self.gathered(work);
        let overlaps = self.job.overlap.experts;
        let part = if overlaps { self.expert_exposed().min(1.0) } else { 1.0 };
        let Some((bytes, group, seconds)) = self.exchanged(work) else { return (gathered * part, 0.0) };
        let (within, travels) = if overlaps {
            ((gathered + seconds) * part, (gathered + seconds) * (1.0 - part))
        } else {
            (gathered, seconds)
        };
        (within, self.bytes_of(bytes, group, travels / 2.0))
    }

    /// Bytes of an all-to-all that takes `seconds`, by bisection from `near`; at least one.
    fn bytes_of(&self, near: f64, group: Group, seconds: f64) -> f64 {
        let takes = |bytes: f64| self.costs.collective(Collective::AllToAll, bytes, group);
        let (mut low, mut high) = (1.0, near.max(1.0));
        while takes(high) < seconds && high < 1e15 {
            (low, high) = (high, high * 2.0);
        }
        while high - low > 0.5 && high / low > 1.0 + 1e-9 {
            let middle = f64::midpoint(low, high);
            if takes(middle) < seconds {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Seconds of dispatch and combine by DeepEP or HybridEP: a rank sends a token once over NVLink to every rank that holds any
    /// of its experts (`bytes` in all, with the rank itself), and once over the network to every other NVLink domain with such a
    /// rank. Both proceed at the same time.
    fn fused_dispatch(&self, kernels: &TokenKernels, work: &LayerWork, bytes: f64, group: Group) -> f64 {
        let tokens = work.dispatched_tokens as f64;
        let others = self.model.experts.map_or(0.0, |experts| {
            let domains = u64::from(group.domains);
            let reached = experts.places((experts.count / domains).max(1), self.job.routing);
            reached * (domains - 1) as f64 / domains as f64
        });
        let token = (self.model.hidden * 2) as f64;
        let network_s = self.job.expert_load * tokens * others * token / kernels.network_rate;
        let ranks = f64::from(group.ranks());
        let sent = bytes * (ranks - 1.0) / ranks;
        let one_way = |each: Exchange| {
            let start = each.launch_s + tokens * each.token_s;
            start + each.transfer_s(sent, self.job.dispatch_multiprocessors).max(network_s)
        };
        one_way(kernels.dispatch) + one_way(kernels.combine)
    }

    /// Seconds in which ranks that divide an expert gather its tokens, and reduce-scatter its outputs.
    pub(crate) fn gathered(&self, work: &LayerWork) -> f64 {
        if work.gathered_bytes == 0 {
            return 0.0;
        }
        let group = Group::strided(self.job.expert_tensor, 1, self.domain());
        let bytes = work.gathered_bytes as f64;
        self.costs.collective(Collective::AllGather, bytes, group)
            + self.costs.collective(Collective::ReduceScatter, bytes, group)
    }
}
