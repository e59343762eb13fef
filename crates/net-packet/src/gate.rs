//! The queue of a port that may be paused or that shares its switch's buffer with other ports. When a packet
//! leaves such a port is known only once it does, which costs a second event.

use crate::layout::Switch;
use crate::packet::Packet;
use crate::parameters::Sharing;
use crate::round_robin::RoundRobin;
use std::collections::VecDeque;

/// A packet in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) packet: Packet,
    /// Bytes on the wire.
    pub(crate) bytes: u32,
    /// The link it arrived over; [`crate::port::NONE`] if a host sent it.
    pub(crate) from: u32,
    /// When it arrived.
    pub(crate) came: u64,
}

/// The queue of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Congestion notifications, which a pause does not hold up.
    pub(crate) urgent: VecDeque<Waiting>,
    /// All other packets. With `round_robin`, only the NPU's own; they go before the connections in `ready`.
    pub(crate) queue: VecDeque<Waiting>,
    /// Packets that an NPU forwards, and whose turn it is. `None` at switches, which serve packets first
    /// come, first served.
    pub(crate) round_robin: Option<Box<RoundRobin>>,
    /// Connections of this host that have something to send, in the order of their turns.
    pub(crate) ready: VecDeque<u32>,
    /// The packet being sent.
    pub(crate) sending: Option<Waiting>,
    /// Bytes of all packets above.
    pub(crate) bytes: u64,
    /// Since when the port has been paused.
    pub(crate) paused: Option<u64>,
}

/// The buffer of a switch.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// Size in bytes, without the headroom.
    size: u64,
    /// Bytes kept free for packets that arrive after their senders are paused.
    headroom: u64,
    sharing: Sharing,
    alpha: f64,
    /// How many share it: egress ports or, if the switch pauses its senders, the links that lead to it.
    shares: u64,
    /// Whether the switch pauses its senders.
    pub(crate) pauses: bool,
    used: u64,
}

impl Buffer {
    /// An empty buffer; `size` is `None` if unlimited.
    pub(crate) fn new(of: &Switch, size: Option<u64>, sharing: Sharing, alpha: f64, pauses: bool) -> Self {
        let pauses = pauses && size.is_some();
        let (headroom, shares) = if pauses { (of.headroom, of.ingress) } else { (0, of.egress) };
        let size = size.map_or(u64::MAX >> 1, |size| size.saturating_sub(headroom));
        Self { size, headroom, sharing, alpha, shares: shares.max(1), pauses, used: 0 }
    }

    /// Returns the bytes that one share may use now.
    fn share(&self) -> u64 {
        match self.sharing {
            Sharing::Even => self.size / self.shares,
            Sharing::Dynamic => (self.alpha * self.size.saturating_sub(self.used) as f64) as u64,
        }
    }

    /// Returns the bytes that every queue may use whatever the others hold; `None` if that depends on them,
    /// or is unlimited.
    pub(crate) fn own(&self) -> Option<u64> {
        let fixed = !self.pauses && matches!(self.sharing, Sharing::Even) && self.size < u64::MAX >> 1;
        fixed.then(|| self.share())
    }

    /// Takes a packet into a queue that holds `queue` bytes, if there is room. Returns whether there was.
    pub(crate) fn takes(&mut self, queue: u64, bytes: u64) -> bool {
        let room = if self.pauses {
            self.used + bytes <= self.size.saturating_add(self.headroom)
        } else {
            self.used + bytes <= self.size && queue + bytes <= self.share()
        };
        self.used += if room { bytes } else { 0 };
        room
    }

    /// Frees the bytes of a packet that has left.
    pub(crate) fn gives(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Whether the sender must pause while the switch still holds `bytes` of its packets.
    pub(crate) fn is_too_much(&self, bytes: u64) -> bool {
        bytes > self.share()
    }

    /// Whether a paused sender may send again: it must be two packets below its share, or have none here.
    pub(crate) fn is_little(&self, bytes: u64, packet: u64) -> bool {
        bytes == 0 || bytes.saturating_add(2 * packet) <= self.share()
    }
}

/// What the switch at the end of a link still holds of the link's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ingress {
    pub(crate) bytes: u64,
    /// Whether the sender is paused.
    pub(crate) pausing: bool,
    /// How long it takes to pause the sender, in picoseconds.
    pub(crate) delay: u64,
}
