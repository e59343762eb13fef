//! A set of parameters as connections use it: everything in bytes and picoseconds, worked out once.

use crate::parameters::{Congestion, Parameters, Transport};
use crate::rdma::Dcqcn;

/// What a connection needs to know, in bytes and picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) transport: Transport,
    pub(crate) congestion: Congestion,
    /// Payload of a full packet.
    pub(crate) segment: u64,
    /// What a packet has on the wire beside it.
    pub(crate) overhead: u32,
    pub(crate) initial_window: u64,
    pub(crate) window: u64,
    pub(crate) min_timeout: u64,
    pub(crate) initial_timeout: u64,
    pub(crate) segments_per_ack: u32,
    pub(crate) delayed_ack: u64,
    pub(crate) restart: bool,
    pub(crate) handshake: bool,
    /// Where RDMA has a rate.
    pub(crate) dcqcn: Option<Dcqcn>,
}

impl Profile {
    pub(crate) fn new(of: &Parameters) -> Self {
        let (segment, window) = (of.segment(), of.window().0);
        Self {
            transport: of.transport,
            congestion: of.congestion(),
            segment,
            overhead: (of.headers().0 + of.framing.0) as u32,
            initial_window: u64::from(of.initial_window).saturating_mul(segment).min(window),
            window,
            min_timeout: of.min_timeout.0,
            initial_timeout: of.initial_timeout.0,
            segments_per_ack: of.segments_per_ack,
            delayed_ack: of.delayed_ack.0,
            restart: of.restart,
            handshake: of.handshake,
            dcqcn: (of.congestion() == Congestion::Dcqcn).then_some(of.dcqcn),
        }
    }
}
