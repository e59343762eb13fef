//! TCP hosts: what they send, how they handle what arrives, and their timers.

use super::receiver::Answer;
use crate::flow::{Connection, NEVER, Tcp};
use crate::packet::{Packet, age, offset, stamp};
use crate::port::NONE;
use crate::profile::Profile;
use crate::simulation::{Simulation, Sink};

impl Simulation {
    /// Returns a TCP connection and its parameters.
    #[inline]
    fn tcp(&mut self, flow: u32) -> Option<(&mut Tcp, &Profile)> {
        let state = &mut self.flows[flow as usize];
        match &mut state.connection {
            Connection::Tcp(tcp) => Some((tcp, &self.profiles[state.set as usize])),
            Connection::Rdma(_) => None,
        }
    }

    /// Sends whatever a flow may send.
    #[inline]
    pub(crate) fn send(&mut self, flow: u32, sink: &mut impl Sink) {
        let port = self.paths.first(&self.flows[flow as usize].there);
        let (now, stamp) = (self.now, stamp(self.now));
        while let Some((tcp, profile)) = self.tcp(flow)
            && let Some(segment) = tcp.sender.segment(now, profile)
        {
            let (next, again) = (tcp.sender.next, segment.again);
            let opens = if segment.length == 0 { Packet::OPENS } else { 0 };
            let packet = Packet {
                flow,
                sequence: segment.start as u32,
                stamp,
                length: segment.length as u16,
                hop: self.flows[flow as usize].there.take(),
                flags: if again { Packet::AGAIN } else { opens },
            };
            self.begin(port, packet);
            if again {
                let set = self.flows[flow as usize].set;
                self.meter.at(now, set).retransmissions += 1;
            }
            // When a packet leaves a queue that may be paused is not known yet.
            if self.ports[port as usize].pausable == NONE {
                self.leave(flow, next, self.ports[port as usize].drained(), sink);
            }
        }
        self.set_timer(flow);
    }

    /// Handles data that arrives at its receiver.
    #[inline]
    pub(crate) fn tcp_received(&mut self, packet: Packet, sink: &mut impl Sink) {
        let now = self.now;
        if packet.is(Packet::OPENS) {
            let flags = Packet::ACKNOWLEDGES | Packet::OPENS;
            let back = &mut self.flows[packet.flow as usize].back;
            let (port, hop) = (self.paths.first(back), back.take());
            self.begin(port, Packet { flags, hop, length: 0, ..packet });
            return;
        }
        let Some((tcp, profile)) = self.tcp(packet.flow) else { return };
        let (every, held_back) = (profile.segments_per_ack, profile.delayed_ack);
        let start = offset(tcp.receiver.expected, packet.sequence);
        let before = tcp.receiver.expected;
        let marked = packet.is(Packet::MARKED);
        match tcp.receiver.data(start, u64::from(packet.length), packet.stamp, marked, every) {
            Answer::Now => self.acknowledge(packet.flow, None, marked),
            Answer::Before => {
                self.acknowledge(packet.flow, Some(before), !marked);
                if let Some((tcp, _)) = self.tcp(packet.flow) {
                    tcp.receiver.acknowledged_but_last(packet.stamp);
                    tcp.owed = NEVER;
                }
            }
            Answer::Later => {}
        }
        let Some((tcp, _)) = self.tcp(packet.flow) else { return };
        tcp.owed = match (tcp.receiver.owes(), tcp.owed) {
            (true, NEVER) => now.saturating_add(held_back),
            (true, owed) => owed,
            (false, _) => NEVER,
        };
        if tcp.owed != NEVER {
            self.set_timer(packet.flow);
        }
        self.hand_over(packet.flow, sink);
    }

    /// Sends an acknowledgement of everything that has arrived, or of everything before `before`.
    #[inline]
    fn acknowledge(&mut self, flow: u32, before: Option<u64>, echo: bool) {
        let Some((tcp, _)) = self.tcp(flow) else { return };
        tcp.receiver.acknowledged();
        let ack = before.unwrap_or(tcp.receiver.expected);
        let mut packet = Packet {
            flow,
            sequence: ack as u32,
            stamp: tcp.receiver.stamp,
            length: 0,
            hop: 0,
            flags: Packet::ACKNOWLEDGES | if echo { Packet::ECHO } else { 0 },
        };
        if let Some(blocks) = tcp.receiver.blocks() {
            packet.flags |= Packet::SELECTIVE;
            let held = (blocks, packet.stamp);
            packet.stamp = match self.free_blocks.pop() {
                Some(free) => {
                    self.blocks[free as usize] = held;
                    free
                }
                None => {
                    self.blocks.push(held);
                    self.blocks.len() as u32 - 1
                }
            };
        }
        let back = &mut self.flows[flow as usize].back;
        packet.hop = back.take();
        let port = self.paths.first(back);
        self.begin(port, packet);
    }

    /// Handles an acknowledgement that arrives at the sender.
    #[inline]
    pub(crate) fn tcp_acknowledged(&mut self, packet: Packet, sink: &mut impl Sink) {
        let (blocks, made) = if packet.is(Packet::SELECTIVE) {
            self.free_blocks.push(packet.stamp);
            let (blocks, made) = self.blocks[packet.stamp as usize];
            (Some(blocks), made)
        } else {
            (None, packet.stamp)
        };
        let (now, rtt) = (self.now, age(self.now, made));
        let state = &mut self.flows[packet.flow as usize];
        let Connection::Tcp(tcp) = &mut state.connection else { return };
        if packet.is(Packet::OPENS) {
            tcp.sender.open(rtt);
            self.send(packet.flow, sink);
            return;
        }
        let was_idle = tcp.sender.is_idle();
        let ack = offset(tcp.sender.una, packet.sequence);
        if ack > tcp.sender.una {
            state.round_trips.sample(now, rtt);
        }
        let echo = packet.is(Packet::ECHO);
        let profile = &self.profiles[state.set as usize];
        tcp.sender.acknowledge(now, ack, rtt, echo, blocks.as_ref(), profile);
        self.busy -= u32::from(!was_idle && tcp.sender.is_idle());
        self.send(packet.flow, sink);
    }

    /// Handles a timer of a connection that has run out.
    pub(crate) fn tcp_timer(&mut self, flow: u32, sink: &mut impl Sink) {
        let now = self.now;
        let Some((tcp, _)) = self.tcp(flow) else { return };
        if tcp.owed <= now {
            tcp.owed = NEVER;
            let marked = tcp.receiver.is_marked();
            if tcp.receiver.owes() {
                self.acknowledge(flow, None, marked);
            }
        }
        let Some((tcp, profile)) = self.tcp(flow) else { return };
        if tcp.sender.deadline <= now {
            let rtt = tcp.sender.rtt;
            let start = tcp.sender.deadline.saturating_sub(rtt.timeout);
            tcp.sender.time_out(now, profile);
            let in_a_row = tcp.sender.rtt.in_a_row;
            self.stalled(flow, start, rtt.smoothed == 0, in_a_row);
            let set = self.flows[flow as usize].set;
            self.meter.at(now, set).timeouts += 1;
            self.send(flow, sink);
        }
    }
}
