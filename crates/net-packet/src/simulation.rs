//! Packets on a network: ports, connections and the queue of events. Knows nothing of ranks, plans and fabrics.

use crate::flow::{Connection, Flow, Message, NEVER, Repairs, RoundTrips};
use crate::layout::{Layout, pause_delay};
use crate::marking::Early;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::parameters::{Parameters, Sharing, Transport};
use crate::paths::Paths;
use crate::pausable_queue::{Buffer, Ingress, PausableQueue};
use crate::port::{Count, NONE, Port, Taken};
use crate::profile::Profile;
use crate::queue::{Event, EventKind, Queue};
use crate::stalls::Stalls;
use crate::tcp::ranges::Blocks;
use std::collections::VecDeque;
use syncline_net_api::activity::Activity;
use syncline_units::{Bytes, Time};

/// Receives what happens to messages.
pub trait Sink {
    /// The last byte of message `id` leaves its sender at `time`.
    fn left(&mut self, time: Time, id: u32, key: u64);
    /// Message `id` has arrived, whole and in order, at `time`.
    fn delivered(&mut self, time: Time, id: u32, key: u64);
}

/// A network that carries packets.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) ports: Vec<Port>,
    pub(crate) pausable: Vec<PausableQueue>,
    /// By port: the switch whose buffer it shares; [`NONE`] if it shares none.
    pub(crate) switch_of: Vec<u32>,
    pub(crate) buffers: Vec<Buffer>,
    /// By port: what the switch at the end of its link still holds of its packets.
    pub(crate) ingress: Vec<Ingress>,
    /// Bytes of the longest packet on the wire.
    pub(crate) longest_packet: u64,
    pub(crate) flows: Vec<Flow>,
    pub(crate) paths: Paths,
    pub(crate) queue: Queue,
    /// Blocks of selective acknowledgements in flight, with the stamps that these return.
    pub(crate) blocks: Vec<(Blocks, u32)>,
    pub(crate) free_blocks: Vec<u32>,
    pub(crate) now: u64,
    /// Packets in flight or in a queue.
    pub(crate) under_way: u64,
    /// Flows with unacknowledged bytes.
    pub(crate) busy: u32,
    events: u64,
    /// Packets that hosts sent.
    pub(crate) sent: u64,
    /// When ports were busy.
    pub(crate) activity: Activity,
    pub(crate) meter: Meter,
    pub(crate) stalls: Stalls,
}

/// Whether ports with these parameters must know when each packet leaves.
fn is_pausable(parameters: &Parameters) -> bool {
    parameters.transport == Transport::Rdma || parameters.pfc() || parameters.sharing == Sharing::Dynamic
}

impl Simulation {
    /// An idle network. Each link has a port in front of it with the same number.
    pub fn new(layout: &Layout) -> Self {
        let buffer = |switch: &crate::layout::Switch| {
            let of = &layout.sets[switch.set as usize];
            Buffer::new(switch, of.buffer.map(|size| size.0), of.sharing, of.alpha, of.pfc())
        };
        let mut simulation = Self {
            profiles: layout.sets.iter().map(Profile::new).collect(),
            ports: Vec::with_capacity(layout.links.len()),
            pausable: Vec::new(),
            switch_of: Vec::new(),
            buffers: layout.switches.iter().map(buffer).collect(),
            ingress: Vec::new(),
            longest_packet: layout.sets.iter().map(Parameters::wire).max().unwrap_or(0),
            flows: Vec::new(),
            paths: Paths::default(),
            queue: Queue::default(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            now: 0,
            under_way: 0,
            busy: 0,
            events: 0,
            sent: 0,
            activity: Activity::new(layout.links.len()),
            meter: Meter::new(layout.sets.len()),
            stalls: Stalls::default(),
        };
        for number in 0..layout.links.len() {
            simulation.add_port(layout, number);
        }
        simulation
    }

    fn add_port(&mut self, layout: &Layout, number: usize) {
        let link = &layout.links[number];
        let of = &layout.sets[link.set as usize];
        let forwarding = if link.to.is_some() { of.forwarding } else { Time::ZERO };
        let mut port = Port::new(link.rate, link.latency.saturating_add(forwarding).0, link.set);
        if let Some(switch) = link.from {
            let ports = layout.switches[switch as usize].egress.max(1);
            let small =
                link.rate.transfer_time(Bytes(u64::from(self.profiles[link.set as usize].overhead.wire(0))));
            let seed = of.seed.unwrap_or_default() ^ (number as u64) << 32;
            let early = of.marking().map(|marking| Early::new(marking, small.map_or(1, |time| time.0), seed));
            port = port.switched(of.buffer.map(|buffer| buffer.0 / ports), early);
        }
        // An RDMA connection may begin here: the highest set of parameters on its path decides its transport.
        let sets = &layout.sets[usize::from(link.set)..];
        let begins = link.from.is_none() && sets.iter().any(|set| set.transport == Transport::Rdma);
        if is_pausable(of) || begins {
            port.pausable = self.pausable.len() as u32;
            self.pausable
                .push(PausableQueue { round_robin: begins.then(Box::default), ..PausableQueue::default() });
        }
        self.switch_of.push(link.from.filter(|_| is_pausable(of)).unwrap_or(NONE));
        self.ingress.push(Ingress { delay: pause_delay(link, of), ..Ingress::default() });
        self.ports.push(port);
    }

    /// Opens a connection that sends data over the ports `there` and acknowledgements over the ports `back`,
    /// 1 to 255 of them each. It uses the transport of the highest-numbered set of parameters on its path.
    pub fn open(&mut self, there: &[u32], back: &[u32]) -> u32 {
        self.open_several(&[there], &[back])
    }

    /// Opens a connection whose packets take several paths in turn (packet spraying). In each direction, all
    /// paths begin with the same port and have equal length; with `n` ports each, there are at most 256 /
    /// (`n` + 1) of them.
    pub fn open_several<W: AsRef<[u32]>>(&mut self, there: &[W], back: &[W]) -> u32 {
        let first = there[0].as_ref();
        let set = first.iter().map(|&port| self.ports[port as usize].set).max().unwrap_or(0);
        let line = self.ports[first[0] as usize].rate;
        let (there, back) = (self.paths.add(there), self.paths.add(back));
        let profile = &self.profiles[set as usize];
        self.flows.push(Flow {
            connection: Connection::new(profile, line),
            set,
            overhead: profile.overhead,
            there,
            back,
            messages: VecDeque::new(),
            left: 0,
            timer: NEVER,
            round_trips: RoundTrips::default(),
            dropped: 0,
            marked: 0,
        });
        self.flows.len() as u32 - 1
    }

    /// Writes a message of `bytes` to `flow` at `now`. Time must not run backwards.
    pub fn write(&mut self, now: Time, flow: u32, bytes: u64, id: u32, key: u64, sink: &mut impl Sink) {
        debug_assert!(now.0 >= self.now, "time runs forwards");
        self.now = now.0;
        let state = &mut self.flows[flow as usize];
        self.busy += u32::from(state.connection.is_idle() && bytes > 0);
        match &mut state.connection {
            Connection::Tcp(tcp) => tcp.sender.write(now.0, bytes, &self.profiles[state.set as usize]),
            Connection::Rdma(rdma) => rdma.sender.end += bytes,
        }
        let end = state.connection.written();
        state.messages.push_back(Message { end, id, key });
        if bytes == 0 {
            // An empty message sends nothing: it arrives once everything written before it has.
            let left = match &self.flows[flow as usize].connection {
                Connection::Tcp(tcp) => tcp.sender.next,
                Connection::Rdma(rdma) => rdma.sender.next,
            };
            self.leave(flow, left, self.now, sink);
            self.hand_over(flow, sink);
        }
        match self.flows[flow as usize].connection {
            Connection::Tcp(_) => self.send(flow, sink),
            Connection::Rdma(_) => self.list(flow),
        }
    }

    /// Returns the time of the next event that matters.
    pub fn next_time(&self) -> Option<Time> {
        // Only timers that nobody waits for are left.
        if self.under_way == 0 && self.busy == 0 {
            return None;
        }
        self.queue.next_time().map(|time| Time(time.max(self.now)))
    }

    /// Handles the next event, unless it is after `until`. Returns whether there was one.
    #[inline]
    pub fn step(&mut self, until: Time, sink: &mut impl Sink) -> bool {
        let Some(Event { time, port, kind, packet }) = self.queue.pop(until.0) else { return false };
        self.now = self.now.max(time);
        self.events += 1;
        if kind == EventKind::Arrive {
            self.arrive(port, packet, sink);
        } else {
            self.other(port, kind, packet.flow, sink);
        }
        true
    }

    /// Handles an event other than the arrival of a packet.
    #[inline(never)]
    fn other(&mut self, port: u32, kind: EventKind, flow: u32, sink: &mut impl Sink) {
        match kind {
            EventKind::Arrive => {}
            EventKind::Left => self.left(port, sink),
            EventKind::Pause => self.pause(port),
            EventKind::Resume => self.resume(port),
            EventKind::Timer => self.timer(flow, sink),
            EventKind::Paced => self.paced(flow),
        }
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of packets that hosts sent, acknowledgements included.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the latency of the link behind port `port` plus that of the switch at its end.
    pub fn latency(&self, port: u32) -> Time {
        Time(self.ports[port as usize].latency)
    }

    /// Returns the counters of port `port`.
    pub fn count(&self, port: u32) -> Count {
        self.ports[port as usize].count
    }

    /// Returns the longest queue, in bytes, that a packet met at port `port`.
    pub fn longest_queue(&self, port: u32) -> u64 {
        let state = &self.ports[port as usize];
        state.bytes_in(state.count.longest)
    }

    /// Returns the longest queue that port `port` may have, in bytes; `None` if it is unlimited or depends on
    /// other ports of its switch.
    pub fn limit(&self, port: u32) -> Option<u64> {
        match self.switch_of[port as usize] {
            NONE => self.ports[port as usize].limit(),
            switch => self.buffers[switch as usize].own(),
        }
    }

    /// Returns when the last packet accepted by port `port` will have left.
    pub fn drained(&self, port: u32) -> Time {
        Time(self.ports[port as usize].drained())
    }

    /// When each port was busy.
    pub fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }

    /// Queues and losses over time.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Stops recording when ports are busy, from `now` on.
    pub fn stop_activity(&mut self, now: Time) {
        self.activity.stop(now, self.ports.iter_mut().map(|port| &mut port.recent));
    }

    /// Ends the run at `now`: what ports would send later is not counted.
    pub fn cut(&mut self, now: Time) {
        self.ports.iter_mut().for_each(|port| port.cut(now.0));
    }

    /// Repairs and round trips of every flow.
    pub fn flows(&self) -> impl Iterator<Item = (Repairs, RoundTrips)> {
        self.flows.iter().map(|flow| (flow.connection.repairs(), flow.round_trips))
    }

    /// Returns how many packets of a flow were dropped, and how many arrived marked.
    pub fn met(&self, flow: u32) -> (u64, u64) {
        let flow = &self.flows[flow as usize];
        (flow.dropped, flow.marked)
    }

    /// Returns the bytes written to a flow.
    pub fn written(&self, flow: u32) -> u64 {
        self.flows[flow as usize].connection.written()
    }

    /// Returns the number of paths that a flow's data takes in turn.
    pub fn paths(&self, flow: u32) -> u32 {
        self.flows[flow as usize].there.count()
    }

    /// Whether a flow gave up because nobody answered.
    pub fn is_given_up(&self, flow: u32) -> bool {
        matches!(&self.flows[flow as usize].connection, Connection::Rdma(rdma) if rdma.sender.is_given_up())
    }

    /// Returns the index of a flow's set of parameters.
    pub fn set(&self, flow: u32) -> u16 {
        self.flows[flow as usize].set
    }

    /// Handles a packet that reaches the end of a link.
    #[inline]
    fn arrive(&mut self, port: u32, mut packet: Packet, sink: &mut impl Sink) {
        if let Some((time, next)) = self.ports[port as usize].next(self.now) {
            self.queue.push(Event { time, port, kind: EventKind::Arrive, packet: next });
        }
        let flow = &self.flows[packet.flow as usize];
        let acknowledges = packet.is(Packet::ACKNOWLEDGES);
        packet.hop += 1;
        if let Some(next) = self.paths.port(if acknowledges { &flow.back } else { &flow.there }, packet.hop) {
            self.enter(next, packet, port);
            return;
        }
        self.under_way -= 1;
        if packet.is(Packet::MARKED) {
            self.flows[packet.flow as usize].marked += 1;
        }
        match (&self.flows[packet.flow as usize].connection, acknowledges) {
            (Connection::Tcp(_), false) => self.tcp_received(packet, sink),
            (Connection::Tcp(_), true) => self.tcp_acknowledged(packet, sink),
            (Connection::Rdma(_), false) => self.rdma_received(packet, sink),
            (Connection::Rdma(_), true) => self.rdma_acknowledged(packet),
        }
    }

    /// Sends a packet from its host.
    #[inline]
    pub(crate) fn begin(&mut self, port: u32, packet: Packet) {
        self.under_way += 1;
        self.sent += 1;
        self.enter(port, packet, NONE);
    }

    /// Handles a packet that arrives at a port, from a link or from its own host.
    #[inline]
    fn enter(&mut self, port: u32, mut packet: Packet, from: u32) {
        let wire = self.flows[packet.flow as usize].overhead.wire(u64::from(packet.length));
        let state = &mut self.ports[port as usize];
        if state.pausable != NONE {
            self.enter_pausable(port, packet, wire, from);
            return;
        }
        let (before, marks) = (state.drained().max(self.now), state.count.marks);
        let taken = state.take(self.now, &mut packet, wire);
        let after = state.drained();
        if state.switched {
            let sample = self.meter.at(self.now, state.set);
            if taken == Taken::Dropped {
                sample.drops += 1;
            } else {
                let ahead = before - self.now;
                sample.queued += u128::from(ahead) * u128::from(wire);
                sample.longest = sample.longest.max((ahead as f64 * state.speed) as u64);
                sample.marks += state.count.marks - marks;
            }
        }
        match taken {
            Taken::Dropped => self.forget(packet),
            Taken::Queued => self.activity.book(port as usize, &mut state.recent, Time(before), Time(after)),
            Taken::Sent(time) => {
                self.activity.book(port as usize, &mut state.recent, Time(before), Time(after));
                self.queue.push(Event { time, port, kind: EventKind::Arrive, packet });
            }
        }
    }

    /// Counts a dropped packet and releases what it holds.
    pub(crate) fn forget(&mut self, packet: Packet) {
        self.under_way -= 1;
        self.flows[packet.flow as usize].dropped += 1;
        if packet.is(Packet::SELECTIVE) {
            self.free_blocks.push(packet.stamp);
        }
    }

    /// Reports the messages whose bytes were all sent, up to `end`, in a packet that leaves at `time`.
    #[inline]
    pub(crate) fn leave(&mut self, flow: u32, end: u64, time: u64, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        while let Some(message) = state.messages.get(state.left as usize)
            && message.end <= end
        {
            state.left += 1;
            sink.left(Time(time), message.id, message.key);
        }
    }

    /// Reports the messages that have arrived.
    #[inline]
    pub(crate) fn hand_over(&mut self, flow: u32, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        let expected = state.connection.expected();
        while let Some(&Message { end, id, key }) = state.messages.front()
            && end <= expected
        {
            state.messages.pop_front();
            state.left = state.left.saturating_sub(1);
            sink.delivered(Time(self.now), id, key);
        }
    }

    /// Schedules an event for when a flow's timer runs out, unless an earlier one is pending. If the timer
    /// was moved on, that earlier event schedules the next: most timers never run out.
    #[inline]
    pub(crate) fn set_timer(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let due = state.connection.deadline();
        if due < state.timer {
            state.timer = due;
            let packet = Packet { flow, ..Packet::default() };
            self.queue.push(Event { time: due.max(self.now), port: NONE, kind: EventKind::Timer, packet });
        }
    }

    #[cold]
    fn timer(&mut self, flow: u32, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        if state.timer > self.now {
            // An earlier event replaced this one.
            return;
        }
        state.timer = NEVER;
        match &mut state.connection {
            Connection::Tcp(_) => self.tcp_timer(flow, sink),
            Connection::Rdma(rdma) => {
                if rdma.sender.deadline <= self.now {
                    let profile = &self.profiles[state.set as usize];
                    let start = rdma.sender.deadline.saturating_sub(profile.min_timeout);
                    rdma.sender.time_out(self.now, profile);
                    let (set, in_a_row) = (state.set, rdma.sender.tries);
                    self.stalled(flow, start, false, in_a_row);
                    self.meter.at(self.now, set).timeouts += 1;
                    self.list(flow);
                }
            }
        }
        self.set_timer(flow);
    }
}
