//! Reliable connections of RoCEv2 (InfiniBand Architecture Specification 1.4, 9.7, with annex A17), one
//! direction: packets in sequence, go-back-N if one is missing, rates by DCQCN.
//!
//! - `sender`, `receiver`: the two halves; `host`: what their hosts do;
//! - `dcqcn`: rate control.

pub(crate) mod dcqcn;
mod host;
pub(crate) mod receiver;
pub(crate) mod sender;

pub use dcqcn::Dcqcn;
