//! The queue of a port that may be told to pause, or that shares its switch's buffer with others: when a packet leaves is
//! not known before it does, which costs a second event.

use crate::layout::Switch;
use crate::packet::Packet;
use crate::parameters::Sharing;
use crate::round_robin::RoundRobin;
use std::collections::VecDeque;

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Packet,
    /// On the wire.
    pub(crate) bytes: u32,
    /// The port that sent it here; [`crate::port::NONE`] where a host did.
    pub(crate) from: u32,
    /// When it came.
    pub(crate) came: u64,
}

/// The queue of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Notifications of congestion, which nothing pauses.
    pub(crate) urgent: VecDeque<Waiting>,
    /// All other packets. With `round_robin`, the NPU's own alone; they go before the connections in `ready`.
    pub(crate) queue: VecDeque<Waiting>,
    /// Packets that an NPU forwards, and whose turn it is. `None` at switches, which are first come, first served.
    pub(crate) round_robin: Option<Box<RoundRobin>>,
    /// Connections of this host that have something to send, in turn.
    pub(crate) ready: VecDeque<u32>,
    /// What is being sent.
    pub(crate) sending: Option<Waiting>,
    /// Bytes of all of these packets.
    pub(crate) bytes: u64,
    /// Since when it may not send.
    pub(crate) paused: Option<u64>,
}

/// The buffer of a switch.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// In bytes, without what is kept for packets that come after their senders were told to pause.
    size: u64,
    /// That.
    headroom: u64,
    sharing: Sharing,
    alpha: f64,
    /// Egress ports, or where the switch pauses its senders the links that lead to it.
    shares: u64,
    /// Whether it pauses its senders.
    pub(crate) pauses: bool,
    used: u64,
}

impl Buffer {
    /// An empty one; `size` is `None` where it has no end.
    pub(crate) fn new(of: &Switch, size: Option<u64>, sharing: Sharing, alpha: f64, pauses: bool) -> Self {
        let pauses = pauses && size.is_some();
        let (headroom, shares) = if pauses { (of.headroom, of.ingress) } else { (0, of.egress) };
        let size = size.map_or(u64::MAX >> 1, |size| size.saturating_sub(headroom));
        Self { size, headroom, sharing, alpha, shares: shares.max(1), pauses, used: 0 }
    }

    /// Bytes that a share may have now.
    fn share(&self) -> u64 {
        match self.sharing {
            Sharing::Even => self.size / self.shares,
            Sharing::Dynamic => (self.alpha * self.size.saturating_sub(self.used) as f64) as u64,
        }
    }

    /// Bytes that every queue may have, whatever is in the others; `None` where that depends on them, or has no end.
    pub(crate) fn own(&self) -> Option<u64> {
        let fixed = !self.pauses && matches!(self.sharing, Sharing::Even) && self.size < u64::MAX >> 1;
        fixed.then(|| self.share())
    }

    /// Takes a packet into a queue of `queue` bytes, if there is room.
    pub(crate) fn takes(&mut self, queue: u64, bytes: u64) -> bool {
        let room = if self.pauses {
            self.used + bytes <= self.size.saturating_add(self.headroom)
        } else {
            self.used + bytes <= self.size && queue + bytes <= self.share()
        };
        self.used += if room { bytes } else { 0 };
        room
    }

    /// A packet has left.
    pub(crate) fn gives(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Whether the sender of so many bytes that are still here is to pause.
    pub(crate) fn is_too_much(&self, bytes: u64) -> bool {
        bytes > self.share()
    }

    /// Whether a sender that was told to pause may send again: two packets less than it might have.
    pub(crate) fn is_little(&self, bytes: u64, packet: u64) -> bool {
        bytes == 0 || bytes.saturating_add(2 * packet) <= self.share()
    }
}

/// What of a link's packets is still in the switch at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ingress {
    pub(crate) bytes: u64,
    /// Whether its sender was told to pause.
    pub(crate) pausing: bool,
    /// How long telling takes, in picoseconds.
    pub(crate) delay: u64,
}
