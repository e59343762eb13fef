//! Frames from workers: requests about chunks, and notices.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::{Joined, Reports};
use crate::bridge::Bridge;
use crate::frame::{NOTICE, Notice, PEERS, RackFrame, RackRate, request_of};
use crate::saved::SavedRate;
use crate::slot::Expectation;
use crate::terms::StepMode;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::link::Landing;
use syncline_protocol::operation::Request;
use syncline_protocol::wire::{FrameKind, Header};

impl ShardJob {
    /// Returns the length of the payload that a worker is about to send, and where to put it.
    pub(super) fn worker_landing(
        &mut self,
        worker: u32,
        header: Header,
    ) -> Result<(usize, Landing), ProtocolError> {
        match header.kind {
            FrameKind::Begin => Ok((NOTICE, Landing::Aside(self.pool.take(NOTICE)))),
            FrameKind::Message(number) => self.request_landing(worker, number, header),
            _ => Err(ProtocolError::Unknown(header)),
        }
    }

    /// Returns the length of the payload of a request, and where to put it.
    fn request_landing(
        &mut self,
        worker: u32,
        number: u16,
        header: Header,
    ) -> Result<(usize, Landing), ProtocolError> {
        let slot = self.slots.get(&header.chunk).ok_or(ProtocolError::Unknown(header))?;
        let mut aside = || (slot.bytes(), Landing::Aside(self.pool.take(slot.bytes())));
        match request_of(number).ok_or(ProtocolError::Unknown(header))? {
            Request::Pull if slot.has_too_many_pulls(worker) => Err(ProtocolError::Unknown(header)),
            Request::Pull => Ok((0, Landing::Nothing)),
            // Racks would end up with different values if they took this one in at different steps.
            Request::Set if self.bridge.is_some() && slot.version() > 0 => {
                Err(ProtocolError::Unknown(header))
            }
            Request::Set => Ok(aside()),
            Request::Push | Request::PushPull if slot.lacks_parameters() => {
                Err(ProtocolError::NoParameters(self.contract.name(header.chunk).to_owned()))
            }
            Request::Push | Request::PushPull => {
                let resumed = self.resumed.contains(&worker);
                match slot.expects(worker, header.sequence, self.contract.terms.step_mode, resumed) {
                    Expectation::New => Ok(aside()),
                    Expectation::Again => Ok((slot.bytes(), Landing::Nothing)),
                    Expectation::Unexpected => Err(ProtocolError::Unknown(header)),
                }
            }
        }
    }

    /// Handles a frame from a worker.
    pub(super) fn handle_worker(
        &mut self,
        worker: u32,
        header: Header,
        landing: Landing,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) -> Result<(), ProtocolError> {
        match (header.kind, landing) {
            (FrameKind::Begin, Landing::Aside(buffer)) => {
                let notice = buffer.as_slice().try_into().ok().and_then(Notice::decode);
                self.pool.give(buffer);
                let notice = notice.ok_or(ProtocolError::Unknown(header))?;
                self.handle_notice(worker, notice, header, endpoints, reports)
            }
            (FrameKind::Message(number), landing) => {
                let request = request_of(number).ok_or(ProtocolError::Unknown(header))?;
                self.handle_request(worker, request, header, landing, endpoints, reports);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles a worker's request about a chunk.
    fn handle_request(
        &mut self,
        worker: u32,
        request: Request,
        header: Header,
        landing: Landing,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) {
        let chunk = header.chunk;
        let buffer = match landing {
            Landing::Aside(buffer) => Some(buffer),
            _ => None,
        };
        if let Some(buffer) = &buffer {
            self.counters.bytes_in += buffer.as_slice().len() as u64;
            self.counters.pushes += u64::from(request != Request::Set);
        }
        if !self.set_rates.is_empty() && matches!(request, Request::Push | Request::PushPull) {
            self.set_rates.remove(&(worker, self.contract.catalogue.piece(chunk).key));
        }
        let (mut ahead, mut initial) = (0, None);
        let racks = self.bridge.is_some();
        self.update(chunk, endpoints, reports, |slot, context| match (request, buffer) {
            (Request::Set, Some(buffer)) => {
                initial = racks.then(|| Arc::new(buffer.copy()));
                slot.set(buffer, context);
            }
            (Request::Push | Request::PushPull, Some(buffer)) => {
                let bytes = slot.bytes();
                slot.push(worker, buffer, request == Request::PushPull, context);
                ahead = if slot.ahead(worker) > 0 { bytes } else { 0 };
            }
            (Request::Pull, None) => slot.pull(worker, slot.full_version(header.sequence), context),
            // The contribution was received before. It does not count again, but the worker needs the result.
            (Request::PushPull, None) => {
                slot.pull(worker, slot.full_version(header.sequence), context);
                slot.push_again(worker, header.sequence, context);
            }
            (Request::Push, None) => slot.push_again(worker, header.sequence, context),
            (Request::Set, None) | (Request::Pull, Some(_)) => {}
        });
        let connection = self.worker_connections[worker as usize];
        if let Some(endpoint) = connection.and_then(|connection| endpoints.get_mut(connection)) {
            endpoint.ahead += ahead;
        }
        // Other racks begin with the same value.
        if let Some(initial) = initial {
            let own = self.bridge.as_ref().map_or(0, Bridge::rack);
            let kind = FrameKind::Message(RackFrame::InitialValue.number());
            let header = Header { kind, epoch: PEERS, sequence: 0, chunk };
            for rack in (0..self.racks.len() as u32).filter(|&rack| rack != own) {
                self.send_to_rack(rack, header, Arc::clone(&initial), endpoints, reports);
            }
        }
    }

    /// Handles a notice that holds from here on.
    fn handle_notice(
        &mut self,
        worker: u32,
        notice: Notice,
        header: Header,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) -> Result<(), ProtocolError> {
        match notice {
            Notice::Rate { rate, key } => {
                let asynchronous = self.contract.terms.step_mode == StepMode::Asynchronous;
                let mut changed = BTreeMap::new();
                for (&chunk, slot) in &mut self.slots {
                    let of = self.contract.catalogue.piece(chunk).key;
                    let from = if asynchronous { 0 } else { slot.pushed(worker) + 1 };
                    if key.is_some_and(|key| of != key) {
                        continue;
                    }
                    if slot.set_rate(rate, from) {
                        changed.insert(of, from);
                    }
                    self.set_rates.insert((worker, of), SavedRate { from, rate });
                }
                for (key, from) in changed {
                    self.pass_on_rate(RackRate { key, rate, from }, endpoints, reports);
                }
            }
            Notice::Save { number } => self.save(worker, number, reports),
            Notice::Admit { worker: newcomer, incarnation } => {
                if newcomer >= self.contract.terms.workers || newcomer == worker {
                    return Err(ProtocolError::Unknown(header));
                }
                // Ignore an outdated announcement: the worker may be gone again, or it may have pushed since another
                // leader announced it.
                let begun = self.slots.values().any(|slot| slot.has_begun(newcomer));
                let expected = self.expected.get(&newcomer).copied();
                let Some(attempt) = expected.filter(|attempt| attempt.incarnation == incarnation) else {
                    return Ok(());
                };
                if begun && self.active[newcomer as usize] {
                    return Ok(());
                }
                self.active[newcomer as usize] = true;
                self.gone.remove(&newcomer);
                let chunks: Vec<u32> = self.slots.keys().copied().collect();
                let mut steps = BTreeMap::new();
                for chunk in chunks {
                    self.update(chunk, endpoints, reports, |slot, context| {
                        slot.admit(newcomer, worker);
                        slot.advance(context);
                    });
                    self.note_steps(chunk, newcomer, &mut steps);
                }
                reports.joined.push(Joined { job: self.number, worker: newcomer, attempt, steps });
            }
        }
        Ok(())
    }
}
