//! A set of parameters in the form that connections use: everything in bytes and picoseconds, computed once.

use crate::parameters::{Congestion, Parameters, Transport};
use crate::rdma::Dcqcn;

/// What a packet has on the wire besides its payload: headers, and what links add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead {
    bytes: u32,
    /// Bytes of the shortest packet on the wire.
    shortest: u32,
}

impl Overhead {
    /// Returns the bytes on the wire of a packet with `payload` bytes after its headers.
    #[inline]
    pub(crate) fn wire(self, payload: u64) -> u32 {
        (payload as u32 + self.bytes).max(self.shortest)
    }
}

/// The parameters of a connection, in bytes and picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) transport: Transport,
    pub(crate) congestion: Congestion,
    /// Payload of a full packet.
    pub(crate) segment: u64,
    /// What packets have on the wire besides it.
    pub(crate) overhead: Overhead,
    pub(crate) initial_window: u64,
    pub(crate) window: u64,
    pub(crate) min_timeout: u64,
    pub(crate) initial_timeout: u64,
    pub(crate) segments_per_ack: u32,
    pub(crate) delayed_ack: u64,
    pub(crate) restart: bool,
    pub(crate) handshake: bool,
    /// Rate control of RDMA, if any.
    pub(crate) dcqcn: Option<Dcqcn>,
}

impl Profile {
    pub(crate) fn new(of: &Parameters) -> Self {
        let (segment, window) = (of.segment(), of.window().0);
        Self {
            transport: of.transport,
            congestion: of.congestion(),
            segment,
            overhead: Overhead {
                bytes: (of.headers().0 + of.framing.overhead()) as u32,
                shortest: of.framing.shortest() as u32,
            },
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
