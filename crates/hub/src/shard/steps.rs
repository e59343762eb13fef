//! The steps of chunks: changes a slot, sends its replies to workers, and continues the exchange between racks.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::{MissedWorker, Reports};
use crate::bridge::Sum;
use crate::slot::{Context, Reply, Slot};
use crate::terms::LossPolicy;
use std::sync::Arc;
use syncline_protocol::memory::Buffer;
use syncline_protocol::wire::{Digest, FrameKind, Header};

impl ShardJob {
    /// Runs `f` on a slot, and continues the exchange among racks as far as possible.
    pub(super) fn update(
        &mut self,
        chunk: u32,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
        f: impl FnOnce(&mut Slot, &mut Context<'_>),
    ) {
        let mut summed = self.update_once(chunk, endpoints, reports, f);
        while let Some(sum) = summed {
            let total =
                self.exchange(chunk, endpoints, reports, |bridge, tools| bridge.summed(chunk, sum, tools));
            summed = total.and_then(|total| {
                self.update_once(chunk, endpoints, reports, |slot, context| slot.take_total(total, context))
            });
        }
    }

    /// Runs `f` on a slot and sends its replies. Returns this rack's sum, if it must be exchanged with other racks.
    fn update_once(
        &mut self,
        chunk: u32,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
        f: impl FnOnce(&mut Slot, &mut Context<'_>),
    ) -> Option<Sum> {
        let slot = self.slots.get_mut(&chunk)?;
        let before = slot.version();
        let (mut replies, mut caught_up, mut summed) = (Vec::new(), Vec::new(), None);
        let mut context = Context {
            contract: &self.contract,
            active: &self.active,
            pool: &mut self.pool,
            replies: &mut replies,
            caught_up: &mut caught_up,
            bridge: self.bridge.as_ref().map(|_| &mut summed),
        };
        f(slot, &mut context);
        self.counters.steps += slot.version() - before;
        let captured = slot.take_captured();
        if self.contract.terms.policy == LossPolicy::Fail && !self.gone.is_empty() {
            let missing = slot.blocked(&self.active).map_or(Vec::new(), |open| open.missing);
            let missed = missing.into_iter().filter(|worker| self.gone.contains(worker));
            reports.missed.extend(missed.map(|worker| MissedWorker { job: self.number, worker }));
        }
        let bytes = slot.bytes();
        let Endpoints { connections, outgoing } = endpoints;
        for worker in caught_up {
            if let Some(endpoint) = self.worker_connections[worker as usize]
                .and_then(|connection| connections.get_mut(&connection))
            {
                endpoint.ahead = endpoint.ahead.saturating_sub(bytes);
            }
        }
        // Usually all replies carry the same value, so its digest is computed once.
        let mut last: Option<(Arc<Buffer>, Digest)> = None;
        for Reply { worker, value } in replies {
            let Some(endpoint) = self.worker_connections[worker as usize]
                .and_then(|connection| connections.get_mut(&connection))
            else {
                continue;
            };
            let kind = FrameKind::Message(value.contributors);
            let header = Header { kind, epoch: self.epoch, sequence: value.version as u32, chunk };
            self.counters.bytes_out += bytes as u64;
            let digest = match last.take() {
                _ if !endpoint.link.checked() => None,
                Some((buffer, digest)) if Arc::ptr_eq(&buffer, &value.buffer) => Some(digest),
                _ => Some(Digest::of(value.buffer.as_slice())),
            };
            last = digest.map(|digest| (Arc::clone(&value.buffer), digest));
            outgoing.write(&mut endpoint.link, header, value.buffer, digest);
        }
        if let Some(saved) = captured {
            self.add_to_save(chunk, saved, reports);
        }
        summed
    }
}
