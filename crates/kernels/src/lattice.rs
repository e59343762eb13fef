//! Corrections on a lattice: the logarithm of measured over modelled time at shapes, interpolated between them.
//!
//! The three sizes of a shape are the axes. Between the points of an axis, the correction is linear in the logarithm of
//! the size; beyond its ends, it is that of the end. A file holds a value as one character, because a lattice has
//! tens of thousands of them. Characters are numbers `c` from -45 to 45; they stand for `step * c * (1 + |c| / 30)`, so that
//! small corrections are finer than large ones.

use serde::Deserialize;

/// Most points of an axis.
pub const MAX_POINTS: usize = 128;
/// Largest number of a character; the smallest is its negative.
pub const MAX_STEPS: i8 = 45;
/// Number at which a value is twice as many steps.
const DOUBLE: f64 = 30.0;
/// How many different characters there are.
const CHARACTERS: usize = 2 * MAX_STEPS as usize + 1;

/// A lattice as a file holds it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatticeFile {
    /// Points of the three axes, in increasing order.
    axes: [Vec<f64>; 3],
    /// The value of the smallest number, almost.
    step: f64,
    /// A line for each point of the first axis, with a character for each point of the other two; the last axis is the
    /// fastest.
    rows: Vec<String>,
}

/// Points of one axis.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    points: Vec<f64>,
    logs: Vec<f64>,
}

/// Values at all combinations of the points of three axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lattice {
    axes: [Axis; 3],
    /// What each character stands for.
    meanings: [f64; CHARACTERS],
    characters: Vec<u8>,
}

impl Axis {
    fn new(points: Vec<f64>) -> Result<Self, String> {
        let rising = points.windows(2).all(|pair| pair[0] < pair[1]);
        let positive = points.iter().all(|&each| each >= 1.0 && each.is_finite());
        if points.is_empty() || points.len() > MAX_POINTS || !rising || !positive {
            return Err(format!("an axis has 1 to {MAX_POINTS} increasing points of at least 1"));
        }
        let logs = points.iter().map(|&each| libm::log(each)).collect();
        Ok(Self { points, logs })
    }

    /// The point below `size`, and how far `size` lies between it and the next, from 0 to 1.
    fn locate(&self, size: f64) -> (usize, f64) {
        let last = self.points.len() - 1;
        let above = self.points.partition_point(|&point| point <= size);
        if above == 0 {
            return (0, 0.0);
        }
        if above > last {
            return (last, 0.0);
        }
        let (low, high) = (self.logs[above - 1], self.logs[above]);
        // Most shapes lie on a point; a logarithm costs more than the rest.
        let exact = self.points[above - 1] == size;
        (above - 1, if exact { 0.0 } else { (libm::log(size) - low) / (high - low) })
    }
}

impl Lattice {
    /// Checks a lattice that was read from a file.
    ///
    /// # Errors
    /// Axes that do not increase, a step that is not above zero, a wrong number of characters, unknown characters.
    pub fn new(file: LatticeFile) -> Result<Self, String> {
        let [first, second, third] = file.axes;
        let axes = [Axis::new(first)?, Axis::new(second)?, Axis::new(third)?];
        if !(file.step > 0.0 && file.step <= 0.1) {
            return Err("the step of a lattice is above 0, at most 0.1".to_owned());
        }
        let [lines, width] = [axes[0].points.len(), axes[1].points.len() * axes[2].points.len()];
        if file.rows.len() != lines || file.rows.iter().any(|row| row.len() != width) {
            return Err(format!("a lattice with these axes has {lines} rows of {width} characters"));
        }
        let characters: Option<Vec<u8>> = file.rows.iter().flat_map(|row| row.bytes()).map(decode).collect();
        let characters =
            characters.ok_or("a character of a lattice is none from `#` to `~`, or a backslash")?;
        let meanings = std::array::from_fn(|character| {
            let number = character as f64 - f64::from(MAX_STEPS);
            file.step * number * (1.0 + number.abs() / DOUBLE)
        });
        Ok(Self { axes, meanings, characters })
    }

    /// The correction at a shape.
    pub fn at(&self, sizes: [f64; 3]) -> f64 {
        let [(a, u), (b, v), (c, w)] = [0, 1, 2].map(|axis| self.axes[axis].locate(sizes[axis]));
        let [_, columns, depth] = [0, 1, 2].map(|axis| self.axes[axis].points.len());
        let value = |a: usize, b: usize, c: usize| {
            self.meanings[usize::from(self.characters[(a * columns + b) * depth + c])]
        };
        let on_line =
            |a, b| if w == 0.0 { value(a, b, c) } else { mix(value(a, b, c), value(a, b, c + 1), w) };
        let on_plane = |a| if v == 0.0 { on_line(a, b) } else { mix(on_line(a, b), on_line(a, b + 1), v) };
        if u == 0.0 { on_plane(a) } else { mix(on_plane(a), on_plane(a + 1), u) }
    }
}

fn mix(low: f64, high: f64, part: f64) -> f64 {
    low + (high - low) * part
}

/// The index of a character: `#` is the first. A backslash is left out, so that JSON needs no escapes.
fn decode(character: u8) -> Option<u8> {
    match character {
        b'#'..=b'[' => Some(character - b'#'),
        b']'..=b'~' => Some(character - b'#' - 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> LatticeFile {
        let axes = [vec![1.0, 4.0], vec![2.0, 8.0], vec![1.0, 16.0, 256.0]];
        // Numbers from the middle character, `P`: 0 1 2 and 10 20 30; then 0 in the second half.
        LatticeFile { axes, step: 0.01, rows: vec!["PQRZen".to_owned(), "PPPPPP".to_owned()] }
    }

    #[test]
    fn points_have_their_values() {
        let lattice = Lattice::new(file()).unwrap();
        for (sizes, steps) in [
            ([1.0, 2.0, 1.0], 0.0),
            ([1.0, 2.0, 256.0], 2.0 + 4.0 / 30.0),
            ([1.0, 8.0, 1.0], 10.0 + 100.0 / 30.0),
            ([1.0, 8.0, 16.0], 20.0 + 400.0 / 30.0),
        ] {
            assert!((lattice.at(sizes) - 0.01 * steps).abs() < 1e-12, "{sizes:?}");
        }
    }

    #[test]
    fn values_between_points_are_linear_in_the_logarithm_of_the_size() {
        let lattice = Lattice::new(file()).unwrap();
        let close =
            |sizes, steps: f64| assert!((lattice.at(sizes) - 0.01 * steps).abs() < 1e-12, "{sizes:?}");
        close([1.0, 2.0, 4.0], 0.5 * (1.0 + 1.0 / 30.0));
        close([1.0, 4.0, 1.0], 0.5 * (10.0 + 100.0 / 30.0));
        close([2.0, 8.0, 16.0], 0.5 * (20.0 + 400.0 / 30.0));
    }

    #[test]
    fn values_beyond_an_axis_are_those_of_its_end() {
        let lattice = Lattice::new(file()).unwrap();
        assert_eq!(lattice.at([0.5, 1.0, 1e9]), lattice.at([1.0, 2.0, 256.0]));
        assert_eq!(lattice.at([1e9, 1e9, 1e9]), 0.0);
    }

    #[test]
    fn characters_have_consecutive_numbers() {
        let indices: Vec<usize> = (0..=255).filter_map(decode).map(usize::from).collect();
        assert_eq!(indices, (0..CHARACTERS).collect::<Vec<_>>());
        assert!(decode(b'\\').is_none() && decode(b'"').is_none());
    }

    #[test]
    fn impossible_lattices_are_refused() {
        let changed = |change: fn(&mut LatticeFile)| {
            let mut wrong = file();
            change(&mut wrong);
            Lattice::new(wrong).unwrap_err()
        };
        assert!(changed(|file| file.axes[0] = vec![4.0, 1.0]).contains("increasing"));
        assert!(changed(|file| file.axes[1].clear()).contains("1 to 128"));
        assert!(changed(|file| file.step = 0.0).contains("above 0"));
        assert!(changed(|file| file.rows[0].push('P')).contains("2 rows of 6"));
        assert!(changed(|file| file.rows[1] = "PPPPP\\".to_owned()).contains("backslash"));
    }
}
