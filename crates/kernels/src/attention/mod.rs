//! Fused attention (FlashAttention): tiles of queries in turn on the multiprocessors, each of which passes over blocks of
//! keys and values.
//!
//! A tile of queries takes a time to start and a time for each block of keys that it may see: its two matrix products at
//! the rate of the matrix units, and the exponentials of its scores at the rate of the units that compute those (Dao,
//! "FlashAttention-2", 2023, section 3; Shah et al., "FlashAttention-3", 2024, section 3.2). With a causal mask, a tile
//! sees only the keys before its own end. Tiles have unequal work, so that all multiprocessors are busy only until the
//! last tiles: the longest tile adds to the mean load. The time is the 4-norm of this and of the memory's traffic.
//!
//! A tile and a head size have rates relative to `flop_per_s`. Each of these numbers alone means little, and may exceed 1; their
//! product is a rate of the matrix units, and no file may make it higher than their peak. No time is shorter than the
//! operations take at the peak, either.
//!
//! The backward pass is either fitted to measured kernels, too, or follows from the forward pass by the ratio of their
//! operations and of the rates that were published for both. Kernels of other [libraries](Library) than the measured one
//! follow by the ratios of their rates, pass by pass.
//!
//! `shape` has shapes and their operations, `fitted` the model of a measured pass, `libraries` the rates of libraries.

mod fitted;
mod libraries;
mod shape;
#[cfg(test)]
mod tests;

pub use fitted::AttentionConstants;
pub use libraries::Library;
pub use shape::{AttentionShape, Pass};

use crate::estimate::{Bound, Estimate};
use fitted::{Fitted, FittedFile};
use libraries::Rates;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most shapes of tiles, and most head sizes, in a file.
pub const MAX_VARIANTS: usize = 16;
/// Files round constants to five digits.
pub(crate) const ROUNDED: f64 = 1.0001;
/// Matrix products of the backward pass over those of the forward pass: five and two (Dao, "FlashAttention-2", 2023, 3.1).
const BACKWARD_PRODUCTS: f64 = 2.5;

/// The backward pass by rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Operations over those of the forward pass.
    flop_ratio: f64,
    /// FLOP per second over that of the forward pass.
    rate_ratio: f64,
    /// Where the ratios come from.
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BackwardFile {
    Rule(Rule),
    Fitted(Box<FittedFile>),
}

/// The model of one data type as a file holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionFile {
    element_bytes: f64,
    forward: FittedFile,
    backward: BackwardFile,
    /// Rates of other libraries.
    #[serde(default)]
    libraries: BTreeMap<Library, Rates>,
}

#[derive(Clone, Debug, PartialEq)]
enum Backward {
    Rule(Rule),
    Fitted(Fitted),
}

/// Times of attention in one data type.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    multiprocessors: f64,
    element_bytes: f64,
    /// Most FLOP per second of the matrix units; infinite if it is unknown.
    peak_flop_per_s: f64,
    forward: Fitted,
    backward: Backward,
    libraries: BTreeMap<Library, Rates>,
}

impl Attention {
    /// Checks a model that was read from a file. Without a peak, nothing bounds its times.
    ///
    /// # Errors
    /// Numbers that no device has, such as rates above the peak.
    pub fn new(
        file: AttentionFile,
        multiprocessors: f64,
        peak_flop_per_s: Option<f64>,
    ) -> Result<Self, String> {
        let peak_flop_per_s = peak_flop_per_s.unwrap_or(f64::INFINITY);
        if !(file.element_bytes > 0.0 && file.element_bytes.is_finite()) {
            return Err("`element_bytes` is above zero".to_owned());
        }
        let backward = match file.backward {
            BackwardFile::Rule(rule) => {
                if !(rule.flop_ratio > 0.0 && rule.rate_ratio > 0.0) {
                    return Err("ratios of a rule are above zero".to_owned());
                }
                Backward::Rule(rule)
            }
            BackwardFile::Fitted(fitted) => Backward::Fitted(Fitted::new(*fitted, peak_flop_per_s)?),
        };
        let libraries = file.libraries.into_iter().map(|(library, rates)| Ok((library, Rates::new(rates)?)));
        let libraries = libraries.collect::<Result<_, String>>()?;
        let forward = Fitted::new(file.forward, peak_flop_per_s)?;
        let element_bytes = file.element_bytes;
        Ok(Self { multiprocessors, element_bytes, peak_flop_per_s, forward, backward, libraries })
    }

    /// The model of a device that differs only in the rate of its memory, which is `ratio` times as high.
    #[must_use]
    pub fn with_memory(mut self, ratio: f64) -> Self {
        self.forward.constants.memory_bytes_per_s *= ratio;
        if let Backward::Fitted(fitted) = &mut self.backward {
            fitted.constants.memory_bytes_per_s *= ratio;
        }
        self
    }

    /// Seconds that `flop` operations take at the peak of the matrix units. No kernel is faster. 0 if the peak is unknown.
    pub fn least_seconds(&self, flop: f64) -> f64 {
        flop / self.peak_flop_per_s
    }

    /// Time of attention, at least that of its operations at the peak.
    pub fn time(&self, shape: AttentionShape) -> Estimate {
        self.bounded(shape, self.fitted(shape))
    }

    fn bounded(&self, shape: AttentionShape, found: Estimate) -> Estimate {
        let least = self.least_seconds(shape.flop());
        if found.seconds < least {
            return Estimate { seconds: least, bound: Bound::Compute, extrapolates: true };
        }
        found
    }

    fn fitted(&self, shape: AttentionShape) -> Estimate {
        match (shape.pass, &self.backward) {
            (Pass::Forward, _) => self.forward.time(shape, self.multiprocessors, self.element_bytes),
            (Pass::Backward, Backward::Fitted(fitted)) => {
                fitted.time(shape, self.multiprocessors, self.element_bytes)
            }
            (Pass::Backward, Backward::Rule(rule)) => {
                self.after_forward(shape, rule.flop_ratio / rule.rate_ratio)
            }
        }
    }

    /// Time of attention by the kernels of a library. One of which the file has no rates is as fast as the measured one.
    pub fn time_by(&self, library: Library, shape: AttentionShape) -> Estimate {
        let Some(rates) = self.libraries.get(&library) else { return self.time(shape) };
        let rate = rates.of(shape);
        let found = match shape.pass {
            Pass::Forward => self.after_forward(shape, 1.0 / rate),
            Pass::Backward => self.after_forward(rates.masked.computed(shape), BACKWARD_PRODUCTS / rate),
        };
        self.bounded(shape, found)
    }

    /// A kernel that takes `ratio` times as long as the measured forward pass.
    fn after_forward(&self, shape: AttentionShape, ratio: f64) -> Estimate {
        let shape = AttentionShape { prepare: false, ..shape };
        let forward = self.forward.time(shape, self.multiprocessors, self.element_bytes);
        // The launch does not grow with the operations.
        let launch = self.forward.constants.launch_s.min(forward.seconds);
        Estimate { seconds: launch + (forward.seconds - launch) * ratio, extrapolates: true, ..forward }
    }

    /// Time without corrections; for the backward pass, `None` if it follows by rule.
    pub fn physical(&self, shape: AttentionShape) -> Option<f64> {
        let fitted = match (shape.pass, &self.backward) {
            (Pass::Forward, _) => &self.forward,
            (Pass::Backward, Backward::Fitted(fitted)) => fitted,
            (Pass::Backward, Backward::Rule(_)) => return None,
        };
        Some(fitted.parts(shape, self.multiprocessors, self.element_bytes).seconds())
    }
}
