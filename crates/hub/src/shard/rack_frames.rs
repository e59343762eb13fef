//! Frames from the same core of hubs in other racks.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::Reports;
use crate::bridge::Sum;
use crate::frame::{NOTICE, RackFrame, RackRate};
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::link::Landing;
use syncline_protocol::wire::{FrameKind, Header};

impl ShardJob {
    /// Returns the length of the payload that a rack is about to send, and where to put it.
    pub(super) fn rack_landing(
        &mut self,
        rack: u32,
        header: Header,
    ) -> Result<(usize, Landing), ProtocolError> {
        if header.kind == FrameKind::Begin {
            return Ok((NOTICE, Landing::Aside(self.pool.take(NOTICE))));
        }
        let unknown = ProtocolError::Unknown(header);
        let frame = rack_frame(header).ok_or(unknown.clone())?;
        let Some(slot) = self.slots.get(&header.chunk) else { return Err(unknown) };
        let expected = match frame {
            RackFrame::InitialValue => slot.version() == 0,
            RackFrame::Sum { total, contributors } => {
                let next = header.sequence == (slot.version() + 1) as u32;
                let bridge = self.bridge.as_ref().filter(|_| next);
                bridge.is_some_and(|bridge| bridge.expects(rack, header.chunk, total, contributors))
            }
        };
        if !expected {
            return Err(unknown);
        }
        Ok((slot.bytes(), Landing::Aside(self.pool.take(slot.bytes()))))
    }

    /// Handles a frame from a rack.
    pub(super) fn handle_rack(
        &mut self,
        rack: u32,
        header: Header,
        landing: Landing,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) -> Result<(), ProtocolError> {
        let chunk = header.chunk;
        match (rack_frame(header), landing) {
            (None, Landing::Aside(buffer)) => {
                let change = buffer.as_slice().try_into().ok().and_then(RackRate::decode);
                self.pool.give(buffer);
                self.rack_changes_rate(change.ok_or(ProtocolError::Unknown(header))?, endpoints, reports);
            }
            (Some(RackFrame::InitialValue), Landing::Aside(buffer)) => {
                self.update(chunk, endpoints, reports, |slot, context| slot.set(buffer, context));
            }
            (Some(RackFrame::Sum { total, contributors }), Landing::Aside(buffer)) => {
                let sum = Sum { buffer, contributors };
                self.counters.bytes_in += sum.buffer.as_slice().len() as u64;
                let total = self.exchange(chunk, endpoints, reports, |bridge, tools| {
                    bridge.received(rack, chunk, total, sum, tools)
                });
                if let Some(sum) = total {
                    self.update(chunk, endpoints, reports, |slot, context| slot.take_total(sum, context));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes over a learning rate from another rack, and passes it on if it is new here.
    fn rack_changes_rate(&mut self, change: RackRate, endpoints: &mut Endpoints, reports: &mut Reports) {
        let RackRate { key, rate, from } = change;
        let mut news = false;
        for (&chunk, slot) in &mut self.slots {
            if self.contract.catalogue.piece(chunk).key == key {
                news |= slot.set_rate(rate, from);
            }
        }
        if news {
            self.pass_on_rate(change, endpoints, reports);
        }
    }
}

/// What a frame from a rack carries; `None` if it is invalid.
fn rack_frame(header: Header) -> Option<RackFrame> {
    match header.kind {
        FrameKind::Message(number) => RackFrame::of(number),
        _ => None,
    }
}
