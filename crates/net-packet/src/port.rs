//! A port: the egress queue in front of a link, and the link.
//!
//! A queue holds its packets; the queue of events holds one event a packet that is on the way. A packet that is queued
//! is put there by the arrival of the one before it at the other end of the link: so each packet costs one event a link,
//! however long the queue is. When it leaves is known when it comes, because nothing overtakes.

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
    /// Packets that found no room.
    pub drops: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// The longest queue that a packet met, in picoseconds of sending.
    pub longest: u64,
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
    rate: Rate,
    /// From the last bit's leaving to its use at the other end, in picoseconds.
    latency: u64,
    /// When the last packet that was started has left.
    free: u64,
    /// When all that is queued will have left.
    drained: u64,
    /// With when each will have left.
    queue: VecDeque<(u64, Packet)>,
    /// Longest queue, in picoseconds of sending.
    limit: u64,
    /// Queue from which on packets are marked, likewise.
    mark: u64,
    /// Time to send a packet of the size of the last one.
    last: (u32, u64),
    pub(crate) count: Count,
    pub(crate) recent: Recent,
}

impl Port {
    /// An idle port. `limit` and `mark` are bytes; `u64::MAX` is none.
    pub(crate) fn new(rate: Rate, latency: u64, limit: u64, mark: u64) -> Self {
        let time = |bytes: u64| rate.transfer_time(Bytes(bytes)).map_or(u64::MAX, |time| time.0);
        Self {
            rate,
            latency,
            free: 0,
            drained: 0,
            queue: VecDeque::new(),
            limit: time(limit),
            mark: time(mark),
            last: (0, 0),
            count: Count::default(),
            recent: Recent::default(),
        }
    }

    /// Time to send so many bytes.
    #[inline]
    fn time(&mut self, bytes: u32) -> u64 {
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

    /// A packet of `bytes` on the wire comes.
    #[inline]
    pub(crate) fn take(&mut self, now: u64, packet: &mut Packet, bytes: u32) -> Taken {
        let time = self.time(bytes);
        let ahead = self.drained.saturating_sub(now);
        if ahead + time > self.limit {
            self.count.drops += 1;
            return Taken::Dropped;
        }
        if ahead >= self.mark && !packet.is(Packet::ACKNOWLEDGES) {
            packet.flags |= Packet::MARKED;
            self.count.marks += 1;
        }
        self.count.longest = self.count.longest.max(ahead);
        self.count.waited += ahead;
        self.count.queued += u128::from(ahead) * u128::from(bytes);
        self.count.busy += time;
        self.count.bytes += u64::from(bytes);
        self.count.packets += 1;
        self.drained = now + ahead + time;
        if self.queue.is_empty() && self.free <= now {
            self.free = now + time;
            Taken::Sent(self.free + self.latency)
        } else {
            self.queue.push_back((self.drained, *packet));
            Taken::Queued
        }
    }

    /// A packet has come to the other end at `now`: the one that was started when it had left, and when that is there.
    #[inline]
    pub(crate) fn next(&mut self, now: u64) -> Option<(u64, Packet)> {
        if self.free + self.latency != now {
            return None;
        }
        let (left, packet) = self.queue.pop_front()?;
        self.free = left;
        Some((left + self.latency, packet))
    }
}
