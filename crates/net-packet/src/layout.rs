//! A network as ports and switches, before anything happens on it.

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
    /// The switch that its port belongs to; `None` for a host's.
    pub from: Option<u32>,
    /// The switch at its end.
    pub to: Option<u32>,
    /// Which set of parameters is its own.
    pub set: u16,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Switch {
    /// Which set of parameters is its own.
    pub set: u16,
    /// Ports by which packets leave it.
    pub egress: u64,
    /// Links that lead to it.
    pub ingress: u64,
    /// Bytes that may still come over all of these when their senders are told to pause.
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
    /// Links and switches; `switches` says which set of parameters each has.
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

/// How long after a switch decided so its sender stops: the pause frame waits for a packet that is being sent, is sent
/// itself, and is under way.
pub(crate) fn pause_delay(link: &Link, parameters: &Parameters) -> u64 {
    let frame = PAUSE_FRAME.max(parameters.framing.shortest());
    let frame = link.rate.transfer_time(Bytes(frame.saturating_add(parameters.wire())));
    frame.map_or(u64::MAX, |time| time.0).saturating_add(link.latency.0)
}

/// Bytes that may still come over a link when its sender is told to pause (IEEE 802.1Qbb, annex O): what is sent until
/// it has heard of it, what is under way, and the packet that it has begun; and the packet that was too much.
pub(crate) fn headroom(link: &Link, parameters: &Parameters) -> u64 {
    let time = Time(pause_delay(link, parameters).saturating_add(link.latency.0));
    link.rate.bytes_in(time).0.saturating_add(parameters.wire().saturating_mul(2))
}
