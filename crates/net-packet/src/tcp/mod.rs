//! TCP, one direction of a connection: data transfer of RFC 9293 without closing, congestion control (RFC
//! 5681), loss recovery by selective acknowledgements (RFC 2018, 6675), time-outs (RFC 6298).
//!
//! - [`sender`], [`receiver`]: the two halves; `host`: what their hosts do;
//! - [`recovery`]: which data counts as lost and is sent again;
//! - [`ranges`]: reassembly and the scoreboard; [`rtt`]: the time-out; [`congestion`]: the window;
//! - `oracle`, `adversary`: tests of both halves, against a second implementation of RFC 6675 and against a
//!   hostile network.

#[cfg(test)]
mod adversary;
pub(crate) mod congestion;
mod host;
#[cfg(test)]
mod oracle;
pub mod ranges;
pub(crate) mod receiver;
pub(crate) mod recovery;
pub mod rtt;
pub(crate) mod sender;
