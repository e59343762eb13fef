//! TCP, one direction of a connection: RFC 9293's data transfer without its opening and closing, congestion control
//! (RFC 5681), loss recovery by selective acknowledgements (RFC 2018, 6675), time-outs (RFC 6298).
//!
//! - [`sender`], [`receiver`]: the two halves;
//! - [`recovery`]: what is known of losses and sent again;
//! - [`ranges`]: reassembly and the scoreboard; [`rtt`]: the time-out; [`congestion`]: the window.

pub(crate) mod congestion;
pub mod ranges;
pub(crate) mod receiver;
pub(crate) mod recovery;
pub mod rtt;
pub(crate) mod sender;
