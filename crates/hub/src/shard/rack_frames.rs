//! Frames from the same core of hubs in other racks.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::Reports;
use crate::bridge::Sum;
use crate::frame::{GIVEN, TOTAL};
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
        let unknown = ProtocolError::Unknown(header);
        let FrameKind::Message(count) = header.kind else { return Err(unknown) };
        let Some(slot) = self.slots.get(&header.chunk) else { return Err(unknown) };
        let given = count == GIVEN && slot.version() == 0;
        let next = header.sequence == (slot.version() + 1) as u32;
        let bridge = self.bridge.as_ref().filter(|_| next);
        let expected_sum =
            bridge.is_some_and(|bridge| bridge.expects(rack, header.chunk, count & TOTAL != 0));
        if !expected_sum && !given {
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
    ) {
        let chunk = header.chunk;
        match (header.kind, landing) {
            (FrameKind::Message(GIVEN), Landing::Aside(buffer)) => {
                self.update(chunk, endpoints, reports, |slot, context| slot.set(buffer, context));
            }
            (FrameKind::Message(count), Landing::Aside(buffer)) => {
                let (total, sum) = (count & TOTAL != 0, Sum { buffer, contributors: count & !TOTAL });
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
    }
}
