//! Ports that may be paused: the buffers of their switches, when they send, and which senders are paused (priority
//! flow control, IEEE 802.1Qbb).

use crate::packet::Packet;
use crate::packet::Waiting;
use crate::pausable_queue::PausableQueue;
use crate::port::NONE;
use crate::queue::{Event, EventKind};
use crate::round_robin::Next;
use crate::simulation::{Simulation, Sink};
use syncline_units::Time;

impl Simulation {
    /// Returns the queue of a port that may be paused or shares a buffer.
    #[inline]
    pub(crate) fn pausable(&mut self, port: u32) -> &mut PausableQueue {
        &mut self.pausable[self.ports[port as usize].pausable as usize]
    }

    /// Handles a packet of `bytes` on the wire that arrives at a port over the link `from`; [`NONE`] means
    /// from its own host.
    pub(crate) fn enter_pausable(&mut self, port: u32, mut packet: Packet, bytes: u32, from: u32) {
        let now = self.now;
        let size = u64::from(bytes);
        let state = &mut self.ports[port as usize];
        let pausable = &mut self.pausable[state.pausable as usize];
        let switch = self.switch_of[port as usize];
        let (queue, marks) = (pausable.bytes, state.count.marks);
        let room = switch == NONE || self.buffers[switch as usize].takes(queue, size);
        let dropped = !room || (switch != NONE && state.is_dropped_early(now, &mut packet, queue));
        if switch != NONE {
            let sample = self.meter.at(now, state.set);
            sample.longest = sample.longest.max(queue);
            sample.drops += u64::from(dropped);
            sample.marks += state.count.marks - marks;
        }
        if dropped {
            if room {
                self.buffers[switch as usize].gives(size);
            }
            state.count.drops += 1;
            self.forget(packet);
            return;
        }
        state.count.longest = state.count.longest.max((queue as f64 / state.speed) as u64);
        pausable.bytes += size;
        let waiting = Waiting { packet, bytes, from, came: now };
        match &mut pausable.round_robin {
            _ if packet.is(Packet::NOTIFIES) => pausable.urgent.push_back(waiting),
            Some(round_robin) if from != NONE => round_robin.push(waiting, self.longest_packet),
            _ => pausable.queue.push_back(waiting),
        }
        if switch != NONE && from != NONE {
            let ingress = &mut self.ingress[from as usize];
            ingress.bytes += size;
            let buffer = &self.buffers[switch as usize];
            if buffer.pauses && !ingress.pausing && buffer.is_too_much(ingress.bytes) {
                ingress.pausing = true;
                let time = now.saturating_add(ingress.delay);
                self.tell(time, from, EventKind::Pause);
            }
        }
        self.start(port);
    }

    /// Schedules a port's pause, or its end.
    fn tell(&mut self, time: u64, port: u32, kind: EventKind) {
        self.queue.push(Event { time, port, kind, packet: Packet::default() });
    }

    /// Sends the next packet if the port is free.
    pub(crate) fn start(&mut self, port: u32) {
        let pausable = self.pausable(port);
        if pausable.sending.is_some() {
            return;
        }
        let waiting = match (pausable.urgent.pop_front(), pausable.paused) {
            (Some(urgent), _) => urgent,
            (None, Some(_)) => return,
            (None, None) => match self.next_of(port) {
                Some(waiting) => waiting,
                None => return,
            },
        };
        let now = self.now;
        let state = &mut self.ports[port as usize];
        let time = state.time(waiting.bytes);
        let waited = now - waiting.came;
        state.book(waiting.bytes, time, waited);
        let there = state.send(now, time);
        let (left, set, switched) = (state.drained(), state.set, state.switched);
        self.activity.book(port as usize, &mut state.recent, Time(now), Time(left));
        if switched {
            self.meter.at(now, set).queued += u128::from(waited) * u128::from(waiting.bytes);
        }
        self.pausable(port).sending = Some(waiting);
        // In this order, so that a departure is reported before an arrival at the same time.
        self.queue.push(Event { time: left, port, kind: EventKind::Left, packet: Packet::default() });
        self.queue.push(Event { time: there, port, kind: EventKind::Arrive, packet: waiting.packet });
        if self.is_begun(waiting.packet) {
            self.list(waiting.packet.flow);
        }
    }

    /// Takes the next packet of a port from its queue.
    #[inline]
    fn next_of(&mut self, port: u32) -> Option<Waiting> {
        let longest = self.longest_packet;
        loop {
            let Some(round_robin) =
                self.pausable(port).round_robin.as_mut().filter(|round_robin| !round_robin.is_empty())
            else {
                return self.own(port);
            };
            if let Next::Input(number) = round_robin.next(longest) {
                return round_robin.take(number);
            }
            let own = self.own(port);
            let round_robin = self.pausable(port).round_robin.as_mut()?;
            match own {
                Some(own) => {
                    round_robin.sends(own.bytes);
                    return Some(own);
                }
                None => round_robin.skips(longest),
            }
        }
    }

    /// Takes the next packet of a port that is not a forwarded one.
    fn own(&mut self, port: u32) -> Option<Waiting> {
        self.pausable(port).queue.pop_front().or_else(|| {
            let pulled = self.pull(port)?;
            self.pausable(port).bytes += u64::from(pulled.bytes);
            Some(pulled)
        })
    }

    /// Whether a packet is data at the first port of its path.
    fn is_begun(&self, packet: Packet) -> bool {
        !packet.is(Packet::ACKNOWLEDGES) && self.flows[packet.flow as usize].there.is_first(packet.hop)
    }

    /// Called when the packet that a port was sending has left.
    pub(crate) fn left(&mut self, port: u32, sink: &mut impl Sink) {
        let pausable = self.pausable(port);
        let Some(sent) = pausable.sending.take() else { return };
        let bytes = u64::from(sent.bytes);
        pausable.bytes -= bytes;
        let switch = self.switch_of[port as usize];
        if switch != NONE {
            self.buffers[switch as usize].gives(bytes);
            if sent.from != NONE {
                self.drain(switch, sent.from, bytes);
            }
        }
        let packet = sent.packet;
        if packet.length > 0 && self.is_begun(packet) {
            let near = self.flows[packet.flow as usize].connection.acknowledged();
            let end = crate::packet::offset(near, packet.sequence) + u64::from(packet.length);
            self.leave(packet.flow, end, self.now, sink);
        }
        self.start(port);
    }

    /// Frees bytes that came over a link and have left the switch at its end.
    fn drain(&mut self, switch: u32, link: u32, bytes: u64) {
        let ingress = &mut self.ingress[link as usize];
        ingress.bytes -= bytes;
        let packet = self.longest_packet;
        if ingress.pausing && self.buffers[switch as usize].is_little(ingress.bytes, packet) {
            ingress.pausing = false;
            let time = self.now.saturating_add(ingress.delay);
            self.tell(time, link, EventKind::Resume);
        }
    }

    /// Pauses a port.
    pub(crate) fn pause(&mut self, port: u32) {
        let now = self.now;
        let pausable = self.pausable(port);
        if pausable.paused.is_none() {
            pausable.paused = Some(now);
        }
        let state = &mut self.ports[port as usize];
        state.count.pauses += 1;
        let set = state.set;
        self.meter.at(now, set).pauses += 1;
    }

    /// Ends the pause of a port.
    pub(crate) fn resume(&mut self, port: u32) {
        let now = self.now;
        if let Some(since) = self.pausable(port).paused.take() {
            self.ports[port as usize].count.paused += now - since;
        }
        self.start(port);
    }

    /// Returns the ports that are paused and hold packets, with the bytes they hold.
    pub fn stuck(&self) -> Vec<(u32, u64)> {
        let ports = self.ports.iter().zip(0..).filter(|(port, _)| port.pausable != NONE);
        let held = ports.map(|(port, number)| (number, &self.pausable[port.pausable as usize]));
        held.filter(|(_, queue)| queue.paused.is_some())
            .map(|(number, queue)| (number, queue.bytes))
            .collect()
    }
}
