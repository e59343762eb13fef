//! TCP, one direction of a connection: RFC 9293's data transfer without its closing, congestion control
//! (RFC 5681), loss recovery by selective acknowledgements (RFC 2018, 6675), time-outs (RFC 6298).
//!
//! - [`sender`], [`receiver`]: the two halves; `host`: what their hosts do;
//! - [`recovery`]: what is known of losses and sent again;
//! - [`ranges`]: reassembly and the scoreboard; [`rtt`]: the time-out; [`congestion`]: the window;
//! - `oracle`, `adversary`: tests of both halves, beside RFC 6675 written a second time, and against whatever a wire may do.

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
