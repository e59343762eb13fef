//! RDMA hosts: what they send when their port is free, and how they handle what arrives.

use super::receiver::Answer;
use crate::flow::{Connection, NEVER};
use crate::packet::Waiting;
use crate::packet::{Packet, age, offset, stamp};
use crate::port::NONE;
use crate::queue::{Event, EventKind};
use crate::simulation::{Simulation, Sink};

/// Bytes of the extended transport header of an acknowledgement (AETH; InfiniBand 1.4, 9.2.8).
const ACKNOWLEDGEMENT: u16 = 4;
/// Reserved bytes of a congestion notification (CNP; InfiniBand 1.4, annex A17.9.3).
const NOTIFICATION: u16 = 16;

impl Simulation {
    /// Lists a connection at its port if it may send now. Otherwise schedules another attempt for when its
    /// rate allows it.
    pub(crate) fn list(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let profile = &self.profiles[state.set as usize];
        let Connection::Rdma(rdma) = &mut state.connection else { return };
        let sender = &mut rdma.sender;
        if sender.listed || !sender.wants(profile) {
            return;
        }
        let allowed = sender.allowed(self.now);
        if allowed > self.now {
            // The rate may rise before then.
            let due =
                sender.rate.as_ref().map_or(allowed, |rate| allowed.min(rate.next_rise().max(self.now + 1)));
            if due < sender.due {
                sender.due = due;
                let packet = Packet { flow, ..Packet::default() };
                self.queue.push(Event { time: due, port: NONE, kind: EventKind::Paced, packet });
            }
            return;
        }
        sender.listed = true;
        let port = self.paths.first(&state.there);
        self.pausable(port).ready.push_back(flow);
        self.start(port);
    }

    /// Lists a connection whose rate may now allow it to send.
    pub(crate) fn paced(&mut self, flow: u32) {
        if let Connection::Rdma(rdma) = &mut self.flows[flow as usize].connection {
            if rdma.sender.due > self.now {
                // An earlier event replaced this one.
                return;
            }
            rdma.sender.due = NEVER;
        }
        self.list(flow);
    }

    /// Takes the next packet of the connections listed at a port, which take turns.
    pub(crate) fn pull(&mut self, port: u32) -> Option<Waiting> {
        loop {
            let flow = self.pausable(port).ready.pop_front()?;
            let state = &mut self.flows[flow as usize];
            let Connection::Rdma(rdma) = &mut state.connection else { continue };
            let profile = &self.profiles[state.set as usize];
            rdma.sender.listed = false;
            if !rdma.sender.wants(profile) {
                continue;
            }
            if rdma.sender.allowed(self.now) > self.now {
                // Its rate fell while it was listed.
                self.list(flow);
                continue;
            }
            let next = rdma.sender.next;
            let message = state.end_of_message(next);
            let Connection::Rdma(rdma) = &mut state.connection else { continue };
            let segment = rdma.sender.packet(self.now, message, profile);
            let last = segment.start + segment.length == message;
            if segment.again {
                self.meter.at(self.now, state.set).retransmissions += 1;
            }
            let packet = Packet {
                flow,
                sequence: segment.start as u32,
                stamp: stamp(self.now),
                length: segment.length as u16,
                hop: state.there.take(),
                flags: if segment.again { Packet::AGAIN } else { 0 } | if last { Packet::LAST } else { 0 },
            };
            let bytes = state.overhead.wire(segment.length);
            self.under_way += 1;
            self.sent += 1;
            self.set_timer(flow);
            return Some(Waiting { packet, bytes, from: NONE, came: self.now });
        }
    }

    /// Handles data that arrives at its receiver.
    pub(crate) fn rdma_received(&mut self, packet: Packet, sink: &mut impl Sink) {
        let state = &mut self.flows[packet.flow as usize];
        let profile = &self.profiles[state.set as usize];
        let Connection::Rdma(rdma) = &mut state.connection else { return };
        let receiver = &mut rdma.receiver;
        let start = offset(receiver.expected, packet.sequence);
        let last = packet.is(Packet::LAST);
        let answer = receiver.data(start, u64::from(packet.length), last, profile.segments_per_ack);
        let expected = receiver.expected;
        let notifies = packet.is(Packet::MARKED)
            && profile.dcqcn.is_some_and(|of| receiver.notifies(self.now, of.cnp_interval.0));
        let back = self.paths.first(&state.back);
        let reply = Packet {
            flow: packet.flow,
            sequence: expected as u32,
            stamp: packet.stamp,
            length: ACKNOWLEDGEMENT,
            hop: state.back.take(),
            flags: Packet::ACKNOWLEDGES,
        };
        if notifies {
            let flags = reply.flags | Packet::NOTIFIES;
            self.begin(back, Packet { length: NOTIFICATION, flags, ..reply });
        }
        match answer {
            Answer::None => {}
            Answer::Acknowledge => self.begin(back, reply),
            Answer::Missing => self.begin(back, Packet { flags: reply.flags | Packet::LAST, ..reply }),
        }
        self.hand_over(packet.flow, sink);
    }

    /// Handles an acknowledgement or a notification that arrives at the sender.
    pub(crate) fn rdma_acknowledged(&mut self, packet: Packet) {
        let state = &mut self.flows[packet.flow as usize];
        let profile = &self.profiles[state.set as usize];
        let Connection::Rdma(rdma) = &mut state.connection else { return };
        let sender = &mut rdma.sender;
        if packet.is(Packet::NOTIFIES) {
            if let Some(rate) = &mut sender.rate {
                rate.notified(self.now);
            }
            return;
        }
        let was_idle = sender.is_idle();
        let ack = offset(sender.una, packet.sequence);
        if ack > sender.una {
            state.round_trips.sample(self.now, age(self.now, packet.stamp));
        }
        sender.acknowledge(self.now, ack, packet.is(Packet::LAST), profile);
        self.busy -= u32::from(!was_idle && sender.is_idle());
        self.set_timer(packet.flow);
        self.list(packet.flow);
    }
}
