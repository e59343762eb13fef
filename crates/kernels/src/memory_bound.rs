//! Kernels that only move bytes: element-wise operations, normalisation, embedding, optimizers.

use crate::estimate::{Bound, Estimate};
use serde::Deserialize;

/// Constants of the machine for kernels that move bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryBoundFile {
    /// Time of an empty kernel.
    launch_s: f64,
    /// Bytes per second that long kernels read and write.
    bytes_per_s: f64,
    /// Fewest and most bytes of the measured kernels.
    range: (f64, f64),
    /// Errors on kernels that were left out, for people.
    #[serde(default, rename = "held_out")]
    _held_out: serde_json::Value,
}

/// Times of kernels that move bytes: a time to launch, then a constant rate (Hockney's *r* infinity and *n* 1/2, 1977).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryBound {
    launch_s: f64,
    bytes_per_s: f64,
    range: (f64, f64),
}

impl MemoryBound {
    /// Checks a model that was read from a file.
    ///
    /// # Errors
    /// A time or rate that no device has.
    pub fn new(file: MemoryBoundFile) -> Result<Self, String> {
        let positive = |each: f64| each > 0.0 && each.is_finite();
        if !positive(file.launch_s) || !positive(file.bytes_per_s) {
            return Err("`launch_s` and `bytes_per_s` are above zero".to_owned());
        }
        Ok(Self { launch_s: file.launch_s, bytes_per_s: file.bytes_per_s, range: file.range })
    }

    /// The model of a device whose memory is `ratio` times as fast.
    #[must_use]
    pub fn with_memory(mut self, ratio: f64) -> Self {
        self.bytes_per_s *= ratio;
        self
    }

    /// Time of one kernel that reads and writes `bytes` bytes, all tensors together.
    pub fn time(&self, bytes: u64) -> Estimate {
        let moving = bytes as f64 / self.bytes_per_s;
        let (low, high) = self.range;
        Estimate {
            seconds: self.launch_s + moving,
            bound: Bound::of(0.0, moving, self.launch_s),
            extrapolates: !(low..=high).contains(&(bytes as f64)),
        }
    }

    /// Time of an empty kernel.
    pub const fn launch(&self) -> f64 {
        self.launch_s
    }
}
