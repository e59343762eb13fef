//! The network: when a message that is sent now arrives.
//!
//! - [`unaware`]: the congestion-unaware backend: just a formula for the time;
//! - [`aware`]: the congestion-aware backend: busy links, store and forward;
//! - [`channel`]: matches arrivals with receives.

pub(crate) mod aware;
pub(crate) mod channel;
pub(crate) mod unaware;

use syncline_formats::astra2::Dimension;

/// Returns a link's bytes per nanosecond. ASTRA-sim 2, `common/Type.h`,
/// `NetworkFunction.cpp:bw_GBps_to_Bpns`: its "GB" are 2^30 bytes.
pub(crate) fn bytes_per_ns(dim: &Dimension) -> f64 {
    dim.bandwidth * (1u64 << 30) as f64 / 1e9
}

/// Truncates a time computed in floating point to whole nanoseconds; at most [`crate::MAX_TIME`].
#[inline]
pub(crate) fn whole_ns(time: f64) -> u64 {
    (time as u64).min(crate::MAX_TIME)
}
