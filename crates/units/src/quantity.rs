//! Exact quantities: integers in one base unit, printed and parsed with a unit.

use crate::parse::{self, Prefixes, UnitError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $base:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value.
            pub const MAX: Self = Self(u64::MAX);

            /// Whether this is zero.
            #[inline]
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
            /// The sum, or [`Self::MAX`] on overflow.
            #[inline]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
            /// The difference, or zero if it would be negative.
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }
        impl Mul<u64> for $name {
            type Output = Self;
            #[inline]
            fn mul(self, factor: u64) -> Self {
                Self(self.0 * factor)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, |a, b| a.saturating_add(b))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.exact())
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

quantity!(/// A point or a span of simulated time in picoseconds. The range is 213 days.
    Time, "ps");
quantity!(/// An amount of data in bytes.
    Bytes, "B");
quantity!(/// A data rate in bits per second.
    Rate, "b/s");
quantity!(/// A number of floating-point operations.
    Flops, "FLOP");
quantity!(/// Floating-point operations per second.
    FlopRate, "FLOP/s");
quantity!(/// Cycles per second.
    Frequency, "Hz");

/// Picoseconds in a second.
const PS: u64 = 1_000_000_000_000;

impl Time {
    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }
    /// Seconds as a float, for tables and messages only. The simulation never computes with it.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / PS as f64
    }
}

/// `ceil(amount * scale / rate)` without overflow; `None` if the rate is zero or the result does not fit.
#[inline]
fn ceil_div(amount: u64, scale: u64, rate: u64) -> Option<u64> {
    if rate == 0 {
        return None;
    }
    match amount.checked_mul(scale) {
        Some(product) => Some(product.div_ceil(rate)),
        None => u64::try_from((u128::from(amount) * u128::from(scale)).div_ceil(u128::from(rate))).ok(),
    }
}

impl Rate {
    /// `bytes_per_s` bytes per second.
    pub const fn from_bytes_per_s(bytes_per_s: u64) -> Self {
        Self(bytes_per_s * 8)
    }
    /// Bytes per second as a float, for tables and messages.
    pub fn as_bytes_per_s(self) -> f64 {
        self.0 as f64 / 8.0
    }
    /// Time to move `bytes` at this rate, rounded up to a whole picosecond.
    /// Returns `None` if the rate is zero or the time does not fit [`Time`].
    #[inline]
    pub fn transfer_time(self, bytes: Bytes) -> Option<Time> {
        ceil_div(bytes.0, 8 * PS, self.0).map(Time)
    }
    /// Bytes transferred at this rate in `time`, rounded up to a whole byte.
    pub fn bytes_in(self, time: Time) -> Bytes {
        let bytes = (u128::from(self.0) * u128::from(time.0)).div_ceil(8 * u128::from(PS));
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
    /// This rate times a fraction such as a link efficiency of 0.94, rounded down to a whole bit per second. The
    /// fraction is rounded to six decimal places so that the product is the same on every machine.
    pub fn scaled(self, fraction: f64) -> Self {
        let millionths = (fraction * 1e6).round() as u128;
        Self((u128::from(self.0) * millionths / 1_000_000) as u64)
    }
}

impl FlopRate {
    /// Time to do `work` at this rate, rounded up; `None` as for [`Rate::transfer_time`].
    pub fn time_for(self, work: Flops) -> Option<Time> {
        ceil_div(work.0, PS, self.0).map(Time)
    }
}

impl Frequency {
    /// Time of `cycles` cycles, rounded up; `None` as for [`Rate::transfer_time`].
    pub fn time_for(self, cycles: u64) -> Option<Time> {
        ceil_div(cycles, PS, self.0).map(Time)
    }
}

/// How a quantity is printed: its unit and the prefixes.
struct Style {
    /// The unit without a prefix.
    unit: &'static str,
    /// `(prefix, factor)`, from large to small.
    steps: &'static [(&'static str, u64)],
}

const SI: &[(&str, u64)] = &[
    ("E", 1_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("", 1),
];
const TIME: &[(&str, u64)] = &[("s", PS), ("ms", PS / 1_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
const BINARY: &[(&str, u64)] = &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// `value` in the largest unit of `style` that keeps it at 1 or more, with at most `digits` decimals.
fn show(value: u64, style: &Style, digits: usize) -> String {
    let (prefix, factor) = style
        .steps
        .iter()
        .copied()
        .find(|&(_, factor)| value >= factor)
        .unwrap_or(*style.steps.last().expect("steps"));
    let scaled = value as f64 / factor as f64;
    let mut text = format!("{scaled:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text}{prefix}{}", style.unit)
}

/// `value` without rounding, in the largest unit that divides it.
fn exact(value: u64, style: &Style) -> String {
    let (prefix, factor) = style
        .steps
        .iter()
        .copied()
        .find(|&(_, factor)| value >= factor && value.is_multiple_of(factor))
        .unwrap_or(*style.steps.last().expect("steps"));
    format!("{}{prefix}{}", value / factor, style.unit)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show(self.0, &Style { unit: "", steps: TIME }, 3))
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BINARY.iter().find(|&&(_, factor)| self.0 >= factor && self.0.is_multiple_of(factor)) {
            Some((unit, factor)) => f.pad(&format!("{}{unit}", self.0 / factor)),
            None => f.pad(&show(self.0, &Style { unit: "B", steps: SI }, 3)),
        }
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(8) {
            f.pad(&show(self.0 / 8, &Style { unit: "B/s", steps: SI }, 3))
        } else {
            f.pad(&show(self.0, &Style { unit: "b/s", steps: SI }, 3))
        }
    }
}
impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show(self.0, &Style { unit: "FLOP", steps: SI }, 3))
    }
}
impl fmt::Display for FlopRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show(self.0, &Style { unit: "FLOP/s", steps: SI }, 3))
    }
}
impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show(self.0, &Style { unit: "Hz", steps: SI }, 3))
    }
}

macro_rules! text {
    ($name:ident, $style:expr, $what:literal, $units:expr, $prefixes:expr, $example:literal) => {
        impl $name {
            /// The value without rounding; [`FromStr`] reads it back.
            pub fn exact(self) -> String {
                exact(self.0, &$style)
            }
        }
        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                parse::quantity(text, $what, $units, $prefixes, $example).map(Self)
            }
        }
    };
}

text!(Time, Style { unit: "", steps: TIME }, "time", &[("s", PS)], Prefixes::Time, "0.5us");
text!(Bytes, Style { unit: "B", steps: SI }, "size", &[("B", 1)], Prefixes::SiAndBinary, "64MiB");
text!(
    Rate,
    Style { unit: "b/s", steps: SI },
    "rate",
    &[("B/s", 8), ("b/s", 1)],
    Prefixes::SiAndBinary,
    "100Gb/s"
);
text!(
    Flops,
    Style { unit: "FLOP", steps: SI },
    "number of operations",
    &[("FLOP", 1)],
    Prefixes::Si,
    "4.1GFLOP"
);
text!(
    FlopRate,
    Style { unit: "FLOP/s", steps: SI },
    "compute rate",
    &[("FLOP/s", 1)],
    Prefixes::Si,
    "312TFLOP/s"
);
text!(Frequency, Style { unit: "Hz", steps: SI }, "frequency", &[("Hz", 1)], Prefixes::Si, "1GHz");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn transfer_times_round_up() {
        assert_eq!("25GB/s".parse::<Rate>().unwrap().transfer_time(Bytes(25)), Some(Time(1_000)));
        assert_eq!("3b/s".parse::<Rate>().unwrap().transfer_time(Bytes(1)), Some(Time(2_666_666_666_667)));
        assert_eq!("25GB/s".parse::<Rate>().unwrap().bytes_in(Time(1_001)), Bytes(26));
        assert_eq!(Rate(0).transfer_time(Bytes(1)), None);
        assert_eq!(Rate(1).transfer_time(Bytes::MAX), None);
    }

    #[test]
    fn an_efficiency_scales_a_rate_exactly() {
        assert_eq!("200GB/s".parse::<Rate>().unwrap().scaled(0.94), "188GB/s".parse().unwrap());
    }

    #[test]
    fn displayed_values_are_rounded() {
        assert_eq!(Time(1_234_567).to_string(), "1.235us");
        assert_eq!(Time(0).to_string(), "0ps");
        assert_eq!(Bytes(64 << 20).to_string(), "64MiB");
        assert_eq!("25GB/s".parse::<Rate>().unwrap().to_string(), "25GB/s");
    }

    proptest! {
        #[test]
        fn exact_text_reads_back(value: u64) {
            prop_assert_eq!(Time(value).exact().parse::<Time>().unwrap(), Time(value));
            prop_assert_eq!(Bytes(value).exact().parse::<Bytes>().unwrap(), Bytes(value));
            prop_assert_eq!(Rate(value).exact().parse::<Rate>().unwrap(), Rate(value));
            prop_assert_eq!(FlopRate(value).exact().parse::<FlopRate>().unwrap(), FlopRate(value));
        }

        #[test]
        fn a_transfer_never_beats_its_rate(bytes in 0u64..1 << 40, rate in 1u64..1 << 50) {
            let time = u128::from(Rate(rate).transfer_time(Bytes(bytes)).unwrap().0);
            let work = u128::from(bytes) * 8 * u128::from(PS);
            prop_assert!(time * u128::from(rate) >= work);
            prop_assert!(time == 0 || (time - 1) * u128::from(rate) < work);
        }
    }
}
