//! Reliable connections of RoCEv2 (InfiniBand Architecture Specification 1.4, 9.7, with annex A17), one direction:
//! packets in sequence, go-back-N where one is missing, rates by DCQCN.
//!
//! - `sender`, `receiver`: the two halves; `host`: what their hosts do;
//! - `dcqcn`: the rate.

pub(crate) mod dcqcn;
mod host;
pub(crate) mod receiver;
pub(crate) mod sender;

pub use dcqcn::Dcqcn;
