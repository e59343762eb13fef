//! A network as ports and switches, before a run.

use crate::parameters::Parameters;
use syncline_units::{Bytes, Rate, Time};

/// Bytes of a pause frame from its addresses to its check sequence (IEEE 802.3, 31B: the shortest frame).
pub(crate) const PAUSE_FRAME: u64 = 64;

/// A link, and the port in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its rate.
    pub rate: Rate,
    /// Its latency.
    pub latency: Time,
    /// The switch that its port belongs to; `None` for a port of a host.
    pub from: Option<u32>,
    /// The switch at its end; `None` if a host is there.
    pub to: Option<u32>,
    /// Index of its set of parameters.
    pub set: u16,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Switch {
    /// Index of its set of parameters.
    pub set: u16,
    /// Ports through which packets leave it.
    pub egress: u64,
    /// Links that lead to it.
    pub ingress: u64,
    /// Bytes that may still arrive over all these links after their senders are paused.
    pub headroom: u64,
}

/// All links and switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Sets of parameters.
    pub sets: Vec<Parameters>,
    /// Links, each with its port.
    pub links: Vec<Link>,
    pub(crate) switches: Vec<Switch>,
}

impl Layout {
    /// Builds a layout of links and switches; `switches` gives the set of parameters of each switch.
    pub fn new(sets: Vec<Parameters>, switches: &[u16], links: Vec<Link>) -> Self {
        let mut switches: Vec<Switch> =
            switches.iter().map(|&set| Switch { set, ..Switch::default() }).collect();
        for link in &links {
            if let Some(from) = link.from {
                switches[from as usize].egress += 1;
            }
            if let Some(to) = link.to {
                let headroom = headroom(link, &sets[link.set as usize]);
                let to = &mut switches[to as usize];
                to.ingress += 1;
                to.headroom = to.headroom.saturating_add(headroom);
            }
        }
        Self { sets, links, switches }
    }
}

/// Returns how long a sender still sends after a switch decides to pause it: the pause frame waits for the
/// packet being sent, is sent itself, and travels over the link.
pub(crate) fn pause_delay(link: &Link, parameters: &Parameters) -> u64 {
    let frame = PAUSE_FRAME.max(parameters.framing.shortest());
    let frame = link.rate.transfer_time(Bytes(frame.saturating_add(parameters.wire())));
    frame.map_or(u64::MAX, |time| time.0).saturating_add(link.latency.0)
}

/// Returns the bytes that may still arrive over a link after its sender is paused (IEEE 802.1Qbb, annex O):
/// what is sent until the pause takes effect, what is in flight, the packet that has begun, and the packet
/// that exceeded the limit.
pub(crate) fn headroom(link: &Link, parameters: &Parameters) -> u64 {
    let time = Time(pause_delay(link, parameters).saturating_add(link.latency.0));
    link.rate.bytes_in(time).0.saturating_add(parameters.wire().saturating_mul(2))
}
