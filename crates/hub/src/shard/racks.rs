//! The exchange between racks: sends a chunk's sums to the same core of hubs in other racks.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::{DepartedRack, Reports};
use crate::bridge::{Bridge, Output, Sum, Tools};
use crate::frame::{PEERS, RackFrame};
use std::sync::Arc;
use syncline_protocol::memory::Buffer;
use syncline_protocol::wire::{FrameKind, Header};

impl ShardJob {
    /// Runs `f` on the exchange of a chunk among racks and sends its messages. Returns the sum of all racks once it is
    /// known.
    pub(super) fn exchange(
        &mut self,
        chunk: u32,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
        f: impl FnOnce(&mut Bridge, &mut Tools<'_>) -> Vec<Output>,
    ) -> Option<Sum> {
        let (slot, bridge) = (self.slots.get(&chunk)?, self.bridge.as_mut()?);
        let (element, sequence) = (slot.element(), (slot.version() + 1) as u32);
        let mut tools = Tools { element, reduction: self.contract.reduction, pool: &mut self.pool };
        let mut sum_of_all = None;
        for output in f(bridge, &mut tools) {
            match output {
                Output::Send { to, total, sum, contributors } => {
                    let kind = FrameKind::Message(RackFrame::Sum { total, contributors }.number());
                    let header = Header { kind, epoch: PEERS, sequence, chunk };
                    self.send_to_rack(to, header, sum, endpoints, reports);
                }
                Output::Total(sum) => sum_of_all = Some(sum),
            }
        }
        sum_of_all
    }

    /// Sends a chunk's buffer to the hub of a rack, now or once there is a connection.
    pub(super) fn send_to_rack(
        &mut self,
        to: u32,
        header: Header,
        buffer: Arc<Buffer>,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) {
        self.counters.bytes_out += buffer.as_slice().len() as u64;
        let path = &mut self.racks[to as usize];
        let Endpoints { connections, outgoing } = endpoints;
        match path.connection.and_then(|connection| connections.get_mut(&connection)) {
            Some(endpoint) => outgoing.write(&mut endpoint.link, header, buffer, None),
            None if path.left => reports.departed.push(DepartedRack { job: self.number, rack: to }),
            None => path.waiting.push((header, buffer)),
        }
    }
}
