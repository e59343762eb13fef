//! Packets on a network: ports, connections and the queue of events. Knows nothing of ranks, plans and fabrics.

use crate::packet::{Packet, age, offset, stamp};
use crate::parameters::Parameters;
use crate::port::{Count, Port, Taken};
use crate::queue::{Event, Queue, TIMER};
use crate::tcp::ranges::Blocks;
use crate::tcp::receiver::{Answer, Receiver};
use crate::tcp::sender::{NEVER, Repairs, Sender};
use std::collections::VecDeque;
use syncline_engine::activity::Activity;
use syncline_units::{Rate, Time};

/// Told what becomes of messages.
pub trait Sink {
    /// The last byte of message `id` was handed to the network, which has sent it at `time`.
    fn left(&mut self, time: Time, id: u32, key: u64);
    /// Message `id` is there, whole and in order, at `time`.
    fn delivered(&mut self, time: Time, id: u32, key: u64);
}

/// A message on its connection.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Offset behind its last byte.
    end: u64,
    id: u32,
    key: u64,
}

/// One direction of a connection.
#[derive(Debug)]
struct Flow {
    sender: Sender,
    receiver: Receiver,
    /// Ports on the way there, and on the way back: where they begin in the list, and how many.
    there: (u32, u8),
    back: (u32, u8),
    /// Messages that are not there yet.
    messages: VecDeque<Message>,
    /// How many of them have left.
    left: u32,
    /// When its timer will be looked at; [`NEVER`] where there is none.
    timer: u64,
    /// When a held-back acknowledgement is due.
    owed: u64,
    round_trips: RoundTrips,
}

/// Samples of a flow's round-trip time, one a millisecond of simulated time (dlrm2020, Fig. 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Sum in picoseconds.
    pub sum: u128,
    /// Samples.
    pub count: u64,
    /// When the next one is taken.
    due: u64,
}

impl RoundTrips {
    /// Their mean, in seconds; `None` where there is no sample.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e12)
    }
}

/// Picoseconds between two samples of a round-trip time.
const SAMPLE: u64 = 1_000_000_000;

/// A network of packets.
#[derive(Debug)]
pub struct Simulation {
    parameters: Parameters,
    ports: Vec<Port>,
    flows: Vec<Flow>,
    /// Ports of all ways, way by way.
    ways: Vec<u32>,
    queue: Queue,
    /// Blocks of selective acknowledgements that are under way, with the stamps that they return.
    blocks: Vec<(Blocks, u32)>,
    free_blocks: Vec<u32>,
    now: u64,
    /// Packets under way or in a queue.
    under_way: u64,
    /// Flows with bytes that are not acknowledged.
    busy: u32,
    events: u64,
    /// Packets that hosts sent.
    sent: u64,
    /// When ports were busy.
    activity: Activity,
}

impl Simulation {
    /// A network without ports.
    pub fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            ports: Vec::new(),
            flows: Vec::new(),
            ways: Vec::new(),
            queue: Queue::default(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            now: 0,
            under_way: 0,
            busy: 0,
            events: 0,
            sent: 0,
            activity: Activity::new(0),
        }
    }

    /// Adds a port: the queue in front of a link of `rate`, at the end of which packets are `latency` after they have
    /// left. `buffer` is what its queue holds, `None` for a host's, which is the memory that the data lies in.
    pub fn port(&mut self, rate: Rate, latency: Time, buffer: Option<u64>) -> u32 {
        let mark = buffer.and(self.parameters.mark).map_or(u64::MAX, |bytes| bytes.0);
        self.activity.add_row();
        self.ports.push(Port::new(rate, latency.0, buffer.unwrap_or(u64::MAX), mark));
        self.ports.len() as u32 - 1
    }

    /// Opens a connection for data over the ports `there`, acknowledged over the ports `back`.
    pub fn open(&mut self, there: &[u32], back: &[u32]) -> u32 {
        let mut way = |ports: &[u32]| {
            let start = self.ways.len() as u32;
            self.ways.extend_from_slice(ports);
            (start, ports.len() as u8)
        };
        let (there, back) = (way(there), way(back));
        self.flows.push(Flow {
            sender: Sender::new(&self.parameters),
            receiver: Receiver::default(),
            there,
            back,
            messages: VecDeque::new(),
            left: 0,
            timer: NEVER,
            owed: NEVER,
            round_trips: RoundTrips::default(),
        });
        self.flows.len() as u32 - 1
    }

    /// Writes a message of `bytes` to `flow` at `now`, which is not before anything that has happened.
    pub fn write(&mut self, now: Time, flow: u32, bytes: u64, id: u32, key: u64, sink: &mut impl Sink) {
        debug_assert!(now.0 >= self.now, "time runs forwards");
        self.now = now.0;
        let state = &mut self.flows[flow as usize];
        self.busy += u32::from(state.sender.is_idle() && bytes > 0);
        state.sender.write(now.0, bytes, &self.parameters);
        let end = state.sender.end;
        state.messages.push_back(Message { end, id, key });
        if bytes == 0 {
            // Nothing is sent for it: it is there when what was written before it is.
            self.leave(flow, self.now, sink);
            self.hand_over(flow, sink);
        }
        self.send(flow, sink);
    }

    /// Time of the next event that matters.
    pub fn next_time(&self) -> Option<Time> {
        // What is left otherwise are timers that nobody waits for.
        if self.under_way == 0 && self.busy == 0 {
            return None;
        }
        self.queue.next_time().map(|time| Time(time.max(self.now)))
    }

    /// Handles the next event, if it is not after `until`; whether there was one.
    #[inline]
    pub fn step(&mut self, until: Time, sink: &mut impl Sink) -> bool {
        let Some(Event { time, port, packet }) = self.queue.pop(until.0) else { return false };
        self.now = self.now.max(time);
        self.events += 1;
        if port == TIMER {
            self.timer(packet.flow, sink);
        } else {
            self.arrive(port, packet, sink);
        }
        true
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Packets that hosts sent, acknowledgements included.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What port `port` did so far.
    pub fn count(&self, port: u32) -> Count {
        self.ports[port as usize].count
    }

    /// The longest queue that a packet met at port `port`, in bytes.
    pub fn longest_queue(&self, port: u32) -> u64 {
        let state = &self.ports[port as usize];
        state.bytes_in(state.count.longest)
    }

    /// When the last packet that port `port` has taken will have left.
    pub fn drained(&self, port: u32) -> Time {
        Time(self.ports[port as usize].drained())
    }

    /// When each port was busy.
    pub fn activity(&mut self) -> &mut Activity {
        &mut self.activity
    }

    /// From `now` on nobody asks any more when ports were busy.
    pub fn stop_activity(&mut self, now: Time) {
        self.activity.stop(now, self.ports.iter_mut().map(|port| &mut port.recent));
    }

    /// The run ends at `now`: what ports would send later is not booked.
    pub fn cut(&mut self, now: Time) {
        self.ports.iter_mut().for_each(|port| port.cut(now.0));
    }

    /// Repairs and round trips of every flow.
    pub fn flows(&self) -> impl Iterator<Item = (Repairs, RoundTrips)> {
        self.flows.iter().map(|flow| (flow.sender.repairs, flow.round_trips))
    }

    /// Bytes that were written to a flow.
    pub fn written(&self, flow: u32) -> u64 {
        self.flows[flow as usize].sender.end
    }

    /// Bytes on the wire.
    #[inline]
    fn wire(parameters: &Parameters, packet: &Packet) -> u32 {
        u32::from(packet.length) + (parameters.headers.0 + parameters.framing.0) as u32
    }

    /// A packet has come to the end of a link.
    #[inline]
    fn arrive(&mut self, port: u32, mut packet: Packet, sink: &mut impl Sink) {
        if let Some((time, next)) = self.ports[port as usize].next(self.now) {
            self.queue.push(Event { time, port, packet: next });
        }
        let flow = &self.flows[packet.flow as usize];
        let acknowledges = packet.is(Packet::ACKNOWLEDGES);
        let (start, ports) = if acknowledges { flow.back } else { flow.there };
        packet.hop += 1;
        if packet.hop < ports {
            let port = self.ways[start as usize + usize::from(packet.hop)];
            self.enter(port, packet);
        } else {
            self.under_way -= 1;
            if acknowledges { self.acknowledged(packet, sink) } else { self.received(packet, sink) }
        }
    }

    /// A host sends a packet.
    #[inline]
    fn begin(&mut self, port: u32, packet: Packet) {
        self.under_way += 1;
        self.sent += 1;
        self.enter(port, packet);
    }

    /// A packet comes to a port.
    #[inline]
    fn enter(&mut self, port: u32, mut packet: Packet) {
        let wire = Self::wire(&self.parameters, &packet);
        let state = &mut self.ports[port as usize];
        let before = state.drained().max(self.now);
        let taken = state.take(self.now, &mut packet, wire);
        let after = state.drained();
        if taken != Taken::Dropped {
            self.activity.book(port as usize, &mut state.recent, Time(before), Time(after));
        }
        match taken {
            Taken::Sent(time) => self.queue.push(Event { time, port, packet }),
            Taken::Queued => {}
            Taken::Dropped => {
                self.under_way -= 1;
                if packet.is(Packet::SELECTIVE) {
                    self.free_blocks.push(packet.stamp);
                }
            }
        }
    }

    /// Sends what may be sent of a flow.
    #[inline]
    fn send(&mut self, flow: u32, sink: &mut impl Sink) {
        let port = self.ways[self.flows[flow as usize].there.0 as usize];
        let stamp = stamp(self.now);
        while let Some(segment) = self.flows[flow as usize].sender.segment(self.now, &self.parameters) {
            let packet = Packet {
                flow,
                sequence: segment.start as u32,
                stamp,
                length: segment.length as u16,
                hop: 0,
                flags: if segment.again { Packet::AGAIN } else { 0 },
            };
            self.begin(port, packet);
            self.leave(flow, self.ports[port as usize].drained(), sink);
        }
        self.set_timer(flow);
    }

    /// Tells of messages whose last byte was sent, in a packet that leaves at `time`.
    #[inline]
    fn leave(&mut self, flow: u32, time: u64, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        while let Some(&Message { end, id, key }) = state.messages.get(state.left as usize)
            && end <= state.sender.next
        {
            state.left += 1;
            sink.left(Time(time), id, key);
        }
    }

    /// Tells of messages that are there.
    #[inline]
    fn hand_over(&mut self, flow: u32, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        while let Some(&Message { end, id, key }) = state.messages.front()
            && end <= state.receiver.expected
        {
            state.messages.pop_front();
            state.left = state.left.saturating_sub(1);
            sink.delivered(Time(self.now), id, key);
        }
    }

    /// Data has come to its receiver.
    #[inline]
    fn received(&mut self, packet: Packet, sink: &mut impl Sink) {
        let every = self.parameters.segments_per_ack;
        let receiver = &mut self.flows[packet.flow as usize].receiver;
        let start = offset(receiver.expected, packet.sequence);
        let before = receiver.expected;
        let marked = packet.is(Packet::MARKED);
        match receiver.data(start, u64::from(packet.length), packet.stamp, marked, every) {
            Answer::Now => self.acknowledge(packet.flow, before, marked, false),
            Answer::Before(due) => {
                self.acknowledge(packet.flow, before, !marked, true);
                if due {
                    self.acknowledge(packet.flow, before, marked, false);
                }
            }
            Answer::Later => {}
        }
        let state = &mut self.flows[packet.flow as usize];
        state.owed = match (state.receiver.owes(), state.owed) {
            (true, NEVER) => self.now.saturating_add(self.parameters.delayed_ack.0),
            (true, owed) => owed,
            (false, _) => NEVER,
        };
        if state.owed != NEVER {
            self.set_timer(packet.flow);
        }
        self.hand_over(packet.flow, sink);
    }

    /// Sends an acknowledgement, of what was there `before` the last segment where `without` it.
    #[inline]
    fn acknowledge(&mut self, flow: u32, before: u64, echo: bool, without: bool) {
        let state = &mut self.flows[flow as usize];
        state.receiver.acknowledged();
        let ack = if without { before } else { state.receiver.expected };
        let mut packet = Packet {
            flow,
            sequence: ack as u32,
            stamp: state.receiver.stamp,
            length: 0,
            hop: 0,
            flags: Packet::ACKNOWLEDGES | if echo { Packet::ECHO } else { 0 },
        };
        if let Some(blocks) = state.receiver.blocks() {
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
        let port = self.ways[state.back.0 as usize];
        self.begin(port, packet);
    }

    /// An acknowledgement has come to the sender.
    #[inline]
    fn acknowledged(&mut self, packet: Packet, sink: &mut impl Sink) {
        let (blocks, made) = if packet.is(Packet::SELECTIVE) {
            self.free_blocks.push(packet.stamp);
            let (blocks, made) = self.blocks[packet.stamp as usize];
            (Some(blocks), made)
        } else {
            (None, packet.stamp)
        };
        let state = &mut self.flows[packet.flow as usize];
        let was_idle = state.sender.is_idle();
        let ack = offset(state.sender.una, packet.sequence);
        let rtt = age(self.now, made);
        if self.now >= state.round_trips.due && ack > state.sender.una {
            state.round_trips.sum += u128::from(rtt);
            state.round_trips.count += 1;
            state.round_trips.due = self.now + SAMPLE;
        }
        let echo = packet.is(Packet::ECHO);
        state.sender.acknowledge(self.now, ack, rtt, echo, blocks.as_ref(), &self.parameters);
        self.busy -= u32::from(!was_idle && state.sender.is_idle());
        self.send(packet.flow, sink);
    }

    /// Sees to it that the timer of a flow is looked at when it runs out. A timer that runs out later than that is set
    /// anew then: most never run out.
    #[inline]
    fn set_timer(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        let due = state.sender.deadline.min(state.owed);
        if due < state.timer {
            state.timer = due;
            let packet = Packet { flow, ..Packet::default() };
            self.queue.push(Event { time: due.max(self.now), port: TIMER, packet });
        }
    }

    #[cold]
    fn timer(&mut self, flow: u32, sink: &mut impl Sink) {
        let state = &mut self.flows[flow as usize];
        if state.timer > self.now {
            // One that was set before an earlier one.
            return;
        }
        state.timer = NEVER;
        if state.owed <= self.now {
            state.owed = NEVER;
            let expected = state.receiver.expected;
            if state.receiver.owes() {
                let marked = state.receiver.is_marked();
                self.acknowledge(flow, expected, marked, false);
            }
        }
        let state = &mut self.flows[flow as usize];
        if state.sender.deadline <= self.now {
            state.sender.time_out(self.now, &self.parameters);
            self.send(flow, sink);
        }
        self.set_timer(flow);
    }
}
