//! The exchange between racks: sends a chunk's sums to the same core of hubs in other racks.

use super::endpoint::Endpoints;
use super::job::ShardJob;
use super::report::{DepartedRack, Reports};
use crate::bridge::{Bridge, Output, Sum, Tools};
use crate::frame::{NOTICE, PEERS, RackFrame, RackRate};
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

    /// Sends a change of the learning rate to other racks.
    pub(super) fn pass_on_rate(
        &mut self,
        change: RackRate,
        endpoints: &mut Endpoints,
        reports: &mut Reports,
    ) {
        let Some(bridge) = &self.bridge else { return };
        let header = Header { kind: FrameKind::Begin, epoch: PEERS, sequence: 0, chunk: 0 };
        for rack in bridge.notified() {
            let mut buffer = self.pool.take(NOTICE);
            buffer.as_mut_slice().copy_from_slice(&change.encode());
            self.send_to_rack(rack, header, Arc::new(buffer), endpoints, reports);
        }
    }

    /// Sends a buffer to the hub of a rack, now or once there is a connection.
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
            // A rack that has done all its steps needs no other learning rate.
            None if path.left && header.kind == FrameKind::Begin => {}
            None if path.left => reports.departed.push(DepartedRack { job: self.number, rack: to }),
            None => path.waiting.push((header, buffer)),
        }
    }
}
