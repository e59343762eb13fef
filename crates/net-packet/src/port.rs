//! A port: the egress queue in front of a link, and the link.
//!
//! A queue holds its packets; the event queue holds one event for each packet in flight. When a packet
//! reaches the other end of the link, that event schedules the arrival of the packet queued behind it. So
//! each packet costs one event per link, however long the queue is. A packet's departure is known when it
//! arrives, because nothing overtakes it.

use crate::marking::Early;
use crate::packet::Packet;
use std::collections::VecDeque;
use syncline_net_api::activity::Recent;
use syncline_units::{Bytes, Rate, Time};

/// The counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Bytes sent, headers included.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Picoseconds that it spent sending.
    pub busy: u64,
    /// Picoseconds that packets waited before they were sent.
    pub waited: u64,
    /// Packets that found no room or were dropped early.
    pub drops: u64,
    /// Packets that were marked.
    pub marks: u64,
    /// The longest queue that a packet met, in picoseconds of sending.
    pub longest: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// Picoseconds that it was paused.
    pub paused: u64,
    /// Bytes of packets times the picoseconds that they waited; divided by the length of a run, the mean
    /// queue (Little's law).
    pub queued: u128,
}

/// What happens to a packet that arrives at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is sent now, and reaches the other end at this time.
    Sent(u64),
    /// It waits.
    Queued,
    /// It is dropped.
    Dropped,
}

/// A port.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) rate: Rate,
    /// Picoseconds from when the last bit leaves until the other end can use the packet.
    pub(crate) latency: u64,
    /// Index of its set of parameters.
    pub(crate) set: u16,
    /// Whether it belongs to a switch.
    pub(crate) switched: bool,
    /// Number of its pausable queue, if it may be paused or shares a buffer; [`NONE`] if it uses `queue`.
    pub(crate) pausable: u32,
    /// When the last packet that was started has left.
    free: u64,
    /// When everything queued will have left.
    drained: u64,
    /// Queued packets, each with the time when it will have left.
    queue: VecDeque<(u64, Packet)>,
    /// Longest queue, in picoseconds of sending.
    limit: u64,
    /// Bytes sent in a picosecond.
    pub(crate) speed: f64,
    /// Marks and early drops.
    pub(crate) early: Option<Box<Early>>,
    /// Size of the last packet, and the time to send it.
    last: (u32, u64),
    pub(crate) count: Count,
    pub(crate) recent: Recent,
}

/// The number of no pausable queue, no port and no switch.
pub(crate) const NONE: u32 = u32::MAX;

impl Port {
    /// An idle port whose queue is unlimited.
    pub(crate) fn new(rate: Rate, latency: u64, set: u16) -> Self {
        Self {
            rate,
            latency,
            set,
            switched: false,
            pausable: NONE,
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

    /// Turns it into a port of a switch, whose queue holds `limit` bytes.
    pub(crate) fn switched(self, limit: Option<u64>, early: Option<Early>) -> Self {
        let time = |bytes: u64| self.rate.transfer_time(Bytes(bytes)).map_or(u64::MAX, |time| time.0);
        Self { switched: true, limit: limit.map_or(u64::MAX, time), early: early.map(Box::new), ..self }
    }

    /// Returns the time to send `bytes`.
    #[inline]
    pub(crate) fn time(&mut self, bytes: u32) -> u64 {
        if self.last.0 != bytes {
            let time = self.rate.transfer_time(Bytes(u64::from(bytes)));
            self.last = (bytes, time.map_or(u64::MAX / 4, |time| time.0));
        }
        self.last.1
    }

    /// Returns the bytes that are sent in `time` picoseconds.
    pub(crate) fn bytes_in(&self, time: u64) -> u64 {
        self.rate.bytes_in(Time(time)).0
    }

    /// Returns the bytes that its queue may hold; `None` if unlimited.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.limit < u64::MAX).then(|| self.bytes_in(self.limit))
    }

    /// Returns when everything queued will have left.
    pub(crate) fn drained(&self) -> u64 {
        self.drained
    }

    /// Discards what would be sent after `now`.
    pub(crate) fn cut(&mut self, now: u64) {
        let ahead = self.drained.saturating_sub(now);
        self.drained = self.drained.min(now);
        self.count.busy = self.count.busy.saturating_sub(ahead);
        self.count.bytes = self.count.bytes.saturating_sub(self.rate.bytes_in(Time(ahead)).0);
    }

    /// Applies early detection to a packet that finds `queue` bytes ahead of it: marks it, or returns true if
    /// it must be dropped.
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

    /// Counts a packet that waited for `waited` and takes `time` to send.
    #[inline]
    pub(crate) fn book(&mut self, bytes: u32, time: u64, waited: u64) {
        self.count.waited = self.count.waited.saturating_add(waited);
        self.count.queued += u128::from(waited) * u128::from(bytes);
        self.count.busy = self.count.busy.saturating_add(time);
        self.count.bytes += u64::from(bytes);
        self.count.packets += 1;
    }

    /// Sends a packet for `time`, from `now` on. Returns when it reaches the other end. For ports with a
    /// pausable queue.
    pub(crate) fn send(&mut self, now: u64, time: u64) -> u64 {
        self.drained = now.saturating_add(time);
        self.drained.saturating_add(self.latency)
    }

    /// Takes a packet of `bytes` on the wire.
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
        // If the time overflows, the calendar reports it.
        self.drained = now.saturating_add(ahead).saturating_add(time);
        if self.queue.is_empty() && self.free <= now {
            self.free = self.drained;
            Taken::Sent(self.free.saturating_add(self.latency))
        } else {
            self.queue.push_back((self.drained, *packet));
            Taken::Queued
        }
    }

    /// Called when a packet reaches the other end, at `now`. Returns the packet that started when that one
    /// had left, and when it will arrive.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Marking;

    /// A picosecond a byte, and 1,000 to the other end.
    fn port() -> Port {
        Port::new(Rate(8_000_000_000_000), 1_000, 0)
    }

    fn take(port: &mut Port, now: u64, bytes: u32) -> Taken {
        port.take(now, &mut Packet { sequence: bytes, ..Packet::default() }, bytes)
    }

    #[test]
    fn packets_follow_each_other_over_the_link() {
        let mut port = port();
        assert_eq!(take(&mut port, 50, 100), Taken::Sent(1_150));
        assert_eq!(take(&mut port, 60, 30), Taken::Queued);
        assert_eq!(take(&mut port, 60, 40), Taken::Queued);
        assert_eq!(port.drained(), 220);
        // The others arrive 30 and 40 later; only the arrival of the packet before starts them.
        assert_eq!(port.next(1_149), None);
        let next = port.next(1_150).unwrap();
        assert_eq!((next.0, next.1.sequence), (1_180, 30));
        let next = port.next(1_180).unwrap();
        assert_eq!((next.0, next.1.sequence), (1_220, 40));
        assert_eq!(port.next(1_220), None);
        let count = port.count;
        assert_eq!((count.bytes, count.packets, count.busy), (170, 3, 170));
        // 90 and 120 behind the first; bytes times waiting.
        assert_eq!((count.waited, count.queued, count.longest), (210, 90 * 30 + 120 * 40, 120));
        // A free port sends at once, though the packet before has not arrived yet.
        assert_eq!(take(&mut port, 220, 10), Taken::Sent(1_230));
    }

    #[test]
    fn a_queue_holds_as_much_as_its_limit() {
        let mut port = port().switched(Some(100), None);
        assert_eq!(port.limit(), Some(100));
        assert_eq!(take(&mut port, 0, 101), Taken::Dropped);
        assert_eq!(take(&mut port, 0, 60), Taken::Sent(1_060));
        assert_eq!(take(&mut port, 0, 41), Taken::Dropped);
        assert_eq!(take(&mut port, 0, 40), Taken::Queued);
        assert_eq!(take(&mut port, 1, 1), Taken::Queued);
        assert_eq!((port.count.drops, port.count.packets, port.drained()), (2, 3, 101));
        assert_eq!(super::Port::new(Rate(8), 0, 0).switched(None, None).limit(), None);
    }

    #[test]
    fn what_is_sent_after_the_end_does_not_count() {
        let mut port = port();
        take(&mut port, 0, 100);
        take(&mut port, 0, 50);
        port.cut(120);
        assert_eq!((port.drained(), port.count.busy, port.count.bytes), (120, 120, 120));
        port.cut(130);
        assert_eq!((port.drained(), port.count.busy, port.count.bytes), (120, 120, 120));
    }

    #[test]
    fn data_is_marked_or_dropped_early_and_acknowledgements_are_not() {
        let data = Packet::default();
        let acknowledges = Packet { flags: Packet::ACKNOWLEDGES, ..data };
        for drop in [false, true] {
            let mark = Marking { drop, ..Marking::step(Bytes(100)) };
            let mut port = port().switched(None, Some(Early::new(mark, 1, 0)));
            let meets = |port: &mut Port, mut packet: Packet| {
                let taken = port.take(0, &mut packet, 100);
                (taken == Taken::Dropped, packet.is(Packet::MARKED))
            };
            assert_eq!(meets(&mut port, data), (false, false));
            assert_eq!(meets(&mut port, data), (drop, !drop));
            assert_eq!(meets(&mut port, acknowledges), (false, false));
            assert_eq!((port.count.marks, port.count.drops), (u64::from(!drop), u64::from(drop)));
        }
    }
}
