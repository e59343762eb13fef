//! The network: when a message that is sent now arrives.
//!
//! - [`unaware`]: the congestion-unaware backend: a time, nothing else;
//! - [`aware`]: the congestion-aware backend: links that are busy, store and forward;
//! - [`channel`]: which arrival belongs to which receive.

pub(crate) mod aware;
pub(crate) mod channel;
pub(crate) mod unaware;

use syncline_formats::astra2::Dimension;

/// Bytes a nanosecond of a link. ASTRA-sim 2, `common/Type.h`, `NetworkFunction.cpp:bw_GBps_to_Bpns`: its "GB" are 2^30 bytes.
pub(crate) fn bytes_per_ns(dim: &Dimension) -> f64 {
    dim.bandwidth * (1u64 << 30) as f64 / 1e9
}

/// A time that was computed as a float, cut to whole nanoseconds; no more than [`crate::MAX_TIME`].
#[inline]
pub(crate) fn whole_ns(time: f64) -> u64 {
    (time as u64).min(crate::MAX_TIME)
}
