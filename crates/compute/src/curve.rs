//! Efficiency curves: the fraction of a peak rate that a task reaches, depending on the size of its work.
//!
//! A curve is given by points, such as measured ones. Between two points, the *time* is interpolated linearly in the
//! work. A kernel behaves like that if it needs a fixed time to start and then runs at a constant rate (Hockney's
//! *n* 1/2, 1977), and the interpolation is exact in integers. Below the first and above the last point, the efficiency
//! is that of the point. So a curve of one point is a constant.

use crate::out_of_range;
use syncline_diagnostics::Diagnostic;
use syncline_units::{FlopRate, Flops, Rate, Time};

/// Largest number of points of a curve.
pub const MAX_POINTS: usize = 10_000;

/// Efficiency as a function of the number of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Operations and fraction of the peak, in order of increasing operations; at least one point.
    points: Vec<(Flops, f64)>,
}

impl Curve {
    /// The same efficiency for every size.
    ///
    /// # Errors
    /// As for [`Curve::new`].
    pub fn constant(efficiency: f64) -> Result<Self, Diagnostic> {
        fraction("efficiency", efficiency)?;
        Ok(Self { points: vec![(Flops(1), efficiency)] })
    }

    /// A curve through `points`.
    ///
    /// # Errors
    /// No point or too many; efficiencies outside (0, 1]; sizes that do not increase.
    pub fn new(points: &[(Flops, f64)]) -> Result<Self, Diagnostic> {
        if points.is_empty() || points.len() > MAX_POINTS {
            let allowed = format!("1 to {MAX_POINTS} points");
            return Err(out_of_range("efficiency", format!("{} points", points.len()), &allowed));
        }
        for (index, &(flop, efficiency)) in points.iter().enumerate() {
            fraction(&format!("efficiency.{index}.efficiency"), efficiency)?;
            let before = index.checked_sub(1).map_or(Flops::ZERO, |before| points[before].0);
            if flop <= before {
                return Err(out_of_range(
                    &format!("efficiency.{index}.flop"),
                    flop.to_string(),
                    &format!("more than {before}: list points by increasing work"),
                ));
            }
        }
        Ok(Self { points: points.to_vec() })
    }

    /// Time for `flop` at `peak`, rounded up; `None` if it is too long to represent.
    pub fn time(&self, flop: Flops, peak: FlopRate) -> Option<Time> {
        let after = self.points.partition_point(|point| point.0 < flop);
        let at = |point: (Flops, f64), flop| reached(peak, point.1).time_for(flop);
        if after == 0 || after == self.points.len() {
            return at(self.points[after.saturating_sub(1)], flop);
        }
        let (low, high) = (self.points[after - 1], self.points[after]);
        let (start, end) = (at(low, low.0)?, at(high, high.0)?);
        let (done, all) = (u128::from(flop.0 - low.0.0), u128::from(high.0.0 - low.0.0));
        // The result lies between two times, so it fits. More work may take less time.
        let between = u128::from(start.0) * (all - done) + u128::from(end.0) * done;
        u64::try_from(between.div_ceil(all)).ok().map(Time)
    }

    /// The curve in words: its number, or its first and last efficiency.
    pub fn label(&self) -> String {
        let (first, last) = (self.points[0].1, self.points[self.points.len() - 1].1);
        match self.points.len() {
            1 => format!("efficiency {first}"),
            many => format!("efficiency {first} to {last} on a curve of {many} points"),
        }
    }
}

/// `efficiency` times `peak`, rounded as for links: six decimal places, rounded down to a whole rate.
fn reached(peak: FlopRate, efficiency: f64) -> FlopRate {
    FlopRate(Rate(peak.0).scaled(efficiency).0.max(1))
}

fn fraction(key: &str, efficiency: f64) -> Result<(), Diagnostic> {
    if efficiency > 0.0 && efficiency <= 1.0 {
        return Ok(());
    }
    Err(out_of_range(key, efficiency.to_string(), "above 0, at most 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERA: FlopRate = FlopRate(1_000_000_000_000);

    fn curve() -> Curve {
        // At 1 FLOP/ps: 1000 FLOP in 10000 ps, 9000 FLOP in 18000 ps: 9000 ps to start, then the peak.
        Curve::new(&[(Flops(1_000), 0.1), (Flops(9_000), 0.5), (Flops(10_000), 1.0)]).unwrap()
    }

    #[test]
    fn times_between_points_lie_on_a_line() {
        let time = |flop| curve().time(Flops(flop), TERA).unwrap().0;
        assert_eq!(time(1_000), 10_000);
        assert_eq!(time(5_000), 14_000);
        assert_eq!(time(5_001), 14_001);
        assert_eq!(time(9_000), 18_000);
        // Efficiency may rise so fast that more work takes less time, for example if a kernel fits a larger tile.
        assert_eq!(time(9_500), 14_000);
    }

    #[test]
    fn efficiency_is_constant_beyond_the_points() {
        assert_eq!(curve().time(Flops(500), TERA), Some(Time(5_000)));
        assert_eq!(curve().time(Flops(0), TERA), Some(Time(0)));
        assert_eq!(curve().time(Flops(20_000), TERA), Some(Time(20_000)));
        assert_eq!(curve().time(Flops(u64::MAX), FlopRate(1)), None);
    }

    #[test]
    fn one_point_is_a_constant() {
        let (point, constant) = (Curve::new(&[(Flops(7), 0.25)]).unwrap(), Curve::constant(0.25).unwrap());
        for flop in [1, 6, 7, 8, 1_000_003] {
            assert_eq!(point.time(Flops(flop), TERA), Some(Time(4 * flop)));
            assert_eq!(constant.time(Flops(flop), TERA), Some(Time(4 * flop)));
        }
        assert_eq!(constant.label(), "efficiency 0.25");
        assert_eq!(curve().label(), "efficiency 0.1 to 1 on a curve of 3 points");
    }

    #[test]
    fn impossible_curves_are_refused() {
        for (points, key) in [
            (vec![], "compute.efficiency"),
            (vec![(Flops(1), 0.0)], "compute.efficiency.0.efficiency"),
            (vec![(Flops(1), 1.0), (Flops(2), f64::NAN)], "compute.efficiency.1.efficiency"),
            (vec![(Flops(0), 1.0)], "compute.efficiency.0.flop"),
            (vec![(Flops(2), 0.5), (Flops(2), 0.6)], "compute.efficiency.1.flop"),
            (vec![(Flops(1), 1.0); MAX_POINTS + 1], "compute.efficiency"),
        ] {
            assert_eq!(Curve::new(&points).unwrap_err().key.as_deref(), Some(key));
        }
        let most: Vec<_> = (1..=MAX_POINTS as u64).map(|flop| (Flops(flop), 1.0)).collect();
        assert!(Curve::new(&most).is_ok());
    }
}
