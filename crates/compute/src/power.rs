//! Compute power: the factor by which an NPU is faster than its compute model, as in astra2020 Fig. 18.

use crate::{out_of_range, too_long};
use syncline_diagnostics::Diagnostic;
use syncline_units::Time;

/// A power of 1. Powers are stored in millionths, so that times are the same on every machine.
const PARTS: u64 = 1_000_000;

/// Largest power.
pub const LARGEST: f64 = 1e6;

/// The factor by which all times are divided, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power(u64);

impl Power {
    /// Checks `power`.
    ///
    /// # Errors
    /// A power below a millionth or above a million, or NaN.
    pub fn new(power: f64) -> Result<Self, Diagnostic> {
        if !(1.0 / PARTS as f64..=LARGEST).contains(&power) {
            return Err(out_of_range("compute_power", power.to_string(), "0.000001 to 1000000"));
        }
        Ok(Self((power * PARTS as f64).round() as u64))
    }

    /// `time` on an NPU of this power, rounded up.
    ///
    /// # Errors
    /// A time that is too long to represent.
    pub fn scale(self, time: Time) -> Result<Time, Diagnostic> {
        let scaled = (u128::from(time.0) * u128::from(PARTS)).div_ceil(u128::from(self.0));
        let fits = u64::try_from(scaled).map(Time);
        fits.map_err(|_| too_long(format!("{time}{}", self.label())))
    }

    /// The power as a number.
    pub fn factor(self) -> f64 {
        self.0 as f64 / PARTS as f64
    }

    /// The text that the power adds to a label; empty if the power is 1.
    pub fn label(self) -> String {
        if self.0 == PARTS {
            String::new()
        } else {
            format!(", compute power {}", self.0 as f64 / PARTS as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_divided_and_rounded_up() {
        let scaled = |power, time| Power::new(power).unwrap().scale(Time(time)).map(|time| time.0);
        assert_eq!(scaled(4.0, 10).unwrap(), 3);
        assert_eq!(scaled(0.1, 7).unwrap(), 70);
        assert_eq!(scaled(1.0, u64::MAX).unwrap(), u64::MAX);
        assert!(scaled(0.5, u64::MAX).is_err());
    }

    #[test]
    fn impossible_powers_are_refused() {
        for bad in [0.0, -1.0, 1e-7, 1.1e6, f64::NAN, f64::INFINITY] {
            assert!(Power::new(bad).is_err(), "{bad}");
        }
        assert!(Power::new(1e-6).is_ok() && Power::new(1e6).is_ok());
    }
}
