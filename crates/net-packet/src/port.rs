//! A port: the egress queue in front of a link, and the link.
//!
//! A queue holds its packets; the queue of events holds one event a packet that is on the way. A packet that is queued
//! is put there by the arrival of the one before it at the other end of the link: so each packet costs one event a link,
//! however long the queue is. When it leaves is known when it comes, because nothing overtakes.

use crate::marking::Early;
use crate::packet::Packet;
use std::collections::VecDeque;
use syncline_engine::activity::Recent;
use syncline_units::{Bytes, Rate, Time};

/// What a port counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Bytes sent, headers included.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Picoseconds in which it was sending.
    pub busy: u64,
    /// Picoseconds that packets waited before they were sent.
    pub waited: u64,
    /// Packets that found no room, or were dropped early.
    pub drops: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// The longest queue that a packet met, in picoseconds of sending.
    pub longest: u64,
    /// How often it was told to pause.
    pub pauses: u64,
    /// Picoseconds in which it might not send.
    pub paused: u64,
    /// Bytes of packets times the picoseconds that they waited: over the length of a run, the mean queue (Little).
    pub queued: u128,
}

/// What becomes of a packet that comes to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is sent now, and is at the other end at this time.
    Sent(u64),
    /// It waits.
    Queued,
    /// There was no room.
    Dropped,
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) rate: Rate,
    /// From the last bit's leaving to its use at the other end, in picoseconds.
    pub(crate) latency: u64,
    /// Its set of parameters.
    pub(crate) set: u16,
    /// Whether it is a switch's.
    pub(crate) switched: bool,
    /// Its queue where that may be paused or shares a buffer, [`NONE`] where it is `queue`.
    pub(crate) gate: u32,
    /// When the last packet that was started has left.
    free: u64,
    /// When all that is queued will have left.
    drained: u64,
    /// With when each will have left.
    queue: VecDeque<(u64, Packet)>,
    /// Longest queue, in picoseconds of sending.
    limit: u64,
    /// Bytes that it sends in a picosecond.
    pub(crate) speed: f64,
    /// Marks and early drops.
    pub(crate) early: Option<Box<Early>>,
    /// Time to send a packet of the size of the last one.
    last: (u32, u64),
    pub(crate) count: Count,
    pub(crate) recent: Recent,
}

/// No gate.
pub(crate) const NONE: u32 = u32::MAX;

impl Port {
    /// An idle port, whose queue has no end.
    pub(crate) fn new(rate: Rate, latency: u64, set: u16) -> Self {
        Self {
            rate,
            latency,
            set,
            switched: false,
            gate: NONE,
            free: 0,
            drained: 0,
            queue: VecDeque::new(),
            limit: u64::MAX,
            speed: rate.0 as f64 / 8e12,
            early: None,
            last: (0, 0),
            count: Count::default(),
            recent: Recent::default(),
        }
    }

    /// A switch's, whose queue holds `limit` bytes.
    pub(crate) fn switched(self, limit: Option<u64>, early: Option<Early>) -> Self {
        let time = |bytes: u64| self.rate.transfer_time(Bytes(bytes)).map_or(u64::MAX, |time| time.0);
        Self { switched: true, limit: limit.map_or(u64::MAX, time), early: early.map(Box::new), ..self }
    }

    /// Time to send so many bytes.
    #[inline]
    pub(crate) fn time(&mut self, bytes: u32) -> u64 {
        if self.last.0 != bytes {
            let time = self.rate.transfer_time(Bytes(u64::from(bytes)));
            self.last = (bytes, time.map_or(u64::MAX / 4, |time| time.0));
        }
        self.last.1
    }

    /// Bytes that are sent in so many picoseconds.
    pub(crate) fn bytes_in(&self, time: u64) -> u64 {
        self.rate.bytes_in(Time(time)).0
    }

    /// Bytes that its queue may have; `None` where that has no end.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.limit < u64::MAX).then(|| self.bytes_in(self.limit))
    }

    /// When all that is queued will have left.
    pub(crate) fn drained(&self) -> u64 {
        self.drained
    }

    /// Forgets what would be sent after `now`.
    pub(crate) fn cut(&mut self, now: u64) {
        let ahead = self.drained.saturating_sub(now);
        self.drained = self.drained.min(now);
        self.count.busy = self.count.busy.saturating_sub(ahead);
        self.count.bytes = self.count.bytes.saturating_sub(self.rate.bytes_in(Time(ahead)).0);
    }

    /// Marks a data packet that finds `queue` bytes before it, where it is to be; whether it is to be dropped.
    #[cold]
    pub(crate) fn is_dropped_early(&mut self, now: u64, packet: &mut Packet, queue: u64) -> bool {
        let idle = now.saturating_sub(self.drained);
        let Some(early) = self.early.as_mut().filter(|_| !packet.is(Packet::ACKNOWLEDGES)) else {
            return false;
        };
        if !early.meets(queue, idle) {
            return false;
        }
        if early.drops() {
            return true;
        }
        packet.flags |= Packet::MARKED;
        self.count.marks += 1;
        false
    }

    /// Counts a packet that takes `time` to be sent, after it has waited.
    #[inline]
    pub(crate) fn book(&mut self, bytes: u32, time: u64, waited: u64) {
        self.count.waited = self.count.waited.saturating_add(waited);
        self.count.queued += u128::from(waited) * u128::from(bytes);
        self.count.busy = self.count.busy.saturating_add(time);
        self.count.bytes += u64::from(bytes);
        self.count.packets += 1;
    }

    /// A packet is sent from `now` on, for `time`: when it is at the other end. For ports with a gate.
    pub(crate) fn send(&mut self, now: u64, time: u64) -> u64 {
        self.drained = now.saturating_add(time);
        self.drained.saturating_add(self.latency)
    }

    /// A packet of `bytes` on the wire comes.
    #[inline]
    pub(crate) fn take(&mut self, now: u64, packet: &mut Packet, bytes: u32) -> Taken {
        let time = self.time(bytes);
        let ahead = self.drained.saturating_sub(now);
        if ahead.saturating_add(time) > self.limit {
            self.count.drops += 1;
            return Taken::Dropped;
        }
        if self.early.is_some() && self.is_dropped_early(now, packet, (ahead as f64 * self.speed) as u64) {
            self.count.drops += 1;
            return Taken::Dropped;
        }
        self.count.longest = self.count.longest.max(ahead);
        self.book(bytes, time, ahead);
        // A time that does not fit makes the calendar report an overflow.
        self.drained = now.saturating_add(ahead).saturating_add(time);
        if self.queue.is_empty() && self.free <= now {
            self.free = self.drained;
            Taken::Sent(self.free.saturating_add(self.latency))
        } else {
            self.queue.push_back((self.drained, *packet));
            Taken::Queued
        }
    }

    /// A packet has come to the other end at `now`: the one that was started when it had left, and when that is there.
    #[inline]
    pub(crate) fn next(&mut self, now: u64) -> Option<(u64, Packet)> {
        if self.free.saturating_add(self.latency) != now {
            return None;
        }
        let (left, packet) = self.queue.pop_front()?;
        self.free = left;
        Some((left.saturating_add(self.latency), packet))
    }
}
