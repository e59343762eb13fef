//! The queue of a port that may be paused or that shares its switch's buffer with other ports. When a packet
//! leaves such a port is known only once it does, which costs a second event.

use crate::layout::Switch;
use crate::packet::Waiting;
use crate::parameters::Sharing;
use crate::round_robin::RoundRobin;
use std::collections::VecDeque;

/// The queue of a port that may be paused or shares a buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PausableQueue {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer of 1,000 bytes behind four ports and five links, which need 200 bytes of headroom together.
    fn buffer(sharing: Sharing, alpha: f64, pauses: bool) -> Buffer {
        let switch = Switch { set: 0, egress: 4, ingress: 5, headroom: 200 };
        Buffer::new(&switch, Some(1000), sharing, alpha, pauses)
    }

    #[test]
    fn even_shares_are_those_of_ports_or_of_links_without_the_headroom() {
        // 1000 / 4, and (1000 - 200) / 5.
        let mut ports = buffer(Sharing::Even, 1.0, false);
        assert_eq!((ports.pauses, ports.own()), (false, Some(250)));
        assert!(!ports.takes(151, 100) && ports.takes(150, 100));
        let links = buffer(Sharing::Even, 1.0, true);
        assert_eq!((links.pauses, links.own()), (true, None));
        assert!(!links.is_too_much(160) && links.is_too_much(161));
    }

    #[test]
    fn dynamic_shares_shrink_as_the_buffer_fills() {
        // Half of what is free.
        let mut buffer = buffer(Sharing::Dynamic, 0.5, false);
        assert_eq!(buffer.own(), None);
        assert!(!buffer.takes(0, 501) && buffer.takes(0, 500));
        assert!(!buffer.takes(0, 251) && buffer.takes(0, 250));
        buffer.gives(500);
        // 750 are free.
        assert!(!buffer.is_too_much(375) && buffer.is_too_much(376));
        assert!(!buffer.takes(250, 126) && buffer.takes(250, 125));
    }

    #[test]
    fn a_share_beyond_the_buffer_stops_at_its_end() {
        let mut buffer = buffer(Sharing::Dynamic, 4.0, false);
        assert!(buffer.takes(0, 700));
        // Four times 300 is more than is left.
        assert!(!buffer.takes(0, 301) && buffer.takes(0, 300));
    }

    #[test]
    fn a_switch_that_pauses_takes_packets_into_its_headroom() {
        let mut buffer = buffer(Sharing::Even, 1.0, true);
        // A queue may be longer than a share: its senders are paused instead.
        assert!(buffer.takes(900, 900));
        assert!(!buffer.takes(0, 101) && buffer.takes(0, 100));
        buffer.gives(1000);
        assert!(buffer.takes(0, 1000));
    }

    #[test]
    fn a_sender_goes_on_two_packets_below_its_share_or_when_nothing_is_left() {
        let buffer = buffer(Sharing::Even, 1.0, true);
        // 160 bytes, and packets of 30.
        assert!(buffer.is_little(100, 30) && !buffer.is_little(101, 30));
        // With packets larger than half of the share, only once the buffer has none of its packets.
        assert!(buffer.is_little(0, 81) && !buffer.is_little(1, 81));
    }

    #[test]
    fn an_unlimited_buffer_takes_everything_and_never_pauses() {
        let switch = Switch { set: 0, egress: 0, ingress: 5, headroom: 200 };
        let mut buffer = Buffer::new(&switch, None, Sharing::Even, 1.0, true);
        assert_eq!((buffer.pauses, buffer.own()), (false, None));
        assert!(buffer.takes(1 << 50, 1 << 50));
    }
}
