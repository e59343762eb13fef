//! The method of Levenberg and Marquardt, for sums of losses that grow linearly for outliers.

/// Residual from which the loss grows linearly.
const SCALE: f64 = 0.02;
/// How far a coordinate may move from its start.
const REACH: f64 = 7.0;
/// Step of a difference quotient.
const STEP: f64 = 1e-4;

/// Mean loss: `SCALE (sqrt(1 + (r / SCALE)^2) - 1)`, about the mean size of residuals where they are large.
fn loss(residuals: &[f64]) -> f64 {
    let sum: f64 = residuals.iter().map(|r| SCALE * ((1.0 + (r / SCALE).powi(2)).sqrt() - 1.0)).sum();
    sum / residuals.len() as f64
}

/// Finds a point with a low loss near `start`; returns both. `residuals` appends the residuals of a point.
pub(crate) fn descend<const N: usize>(
    start: &[f64; N],
    iterations: usize,
    residuals: impl Fn(&[f64; N], &mut Vec<f64>),
) -> ([f64; N], f64) {
    let of = |point: &[f64; N], into: &mut Vec<f64>| {
        into.clear();
        residuals(point, into);
    };
    let mut point = *start;
    let mut at = Vec::new();
    of(&point, &mut at);
    let mut best = loss(&at);
    let mut damping = 1e-2;
    let mut slopes: Vec<Vec<f64>> = vec![Vec::new(); N];
    let mut moved = Vec::new();
    for _ in 0..iterations {
        for (coordinate, slope) in slopes.iter_mut().enumerate() {
            let mut there = point;
            there[coordinate] += STEP;
            of(&there, slope);
            slope.iter_mut().zip(&at).for_each(|(there, here)| *there = (*there - here) / STEP);
        }
        let weights: Vec<f64> = at.iter().map(|r| 1.0 / (1.0 + (r / SCALE).powi(2)).sqrt()).collect();
        let mut normal = [[0.0; N]; N];
        let mut right = [0.0; N];
        for a in 0..N {
            right[a] = -(0..at.len()).map(|i| weights[i] * slopes[a][i] * at[i]).sum::<f64>();
            for b in 0..=a {
                normal[a][b] = (0..at.len()).map(|i| weights[i] * slopes[a][i] * slopes[b][i]).sum();
                normal[b][a] = normal[a][b];
            }
        }
        let mut improved = false;
        while damping < 1e8 {
            let Some(step) = solve(&normal, &right, damping) else {
                damping *= 10.0;
                continue;
            };
            let mut there = point;
            for i in 0..N {
                let (low, high) = (start[i] - REACH, start[i] + REACH);
                there[i] = (point[i] + step[i].clamp(-1.0, 1.0)).clamp(low, high);
            }
            of(&there, &mut moved);
            let found = loss(&moved);
            if found < best {
                improved = best - found > 1e-7 * best;
                (point, best) = (there, found);
                std::mem::swap(&mut at, &mut moved);
                damping = (damping * 0.2_f64).max(1e-9);
                break;
            }
            damping *= 4.0;
        }
        if !improved {
            break;
        }
    }
    (point, best)
}

/// Solves `(normal + damping diagonal) x = right` by Cholesky's method; nothing if the matrix is not positive definite.
fn solve<const N: usize>(normal: &[[f64; N]; N], right: &[f64; N], damping: f64) -> Option<[f64; N]> {
    // Coordinates without influence stay where they are.
    let small = 1e-9 * (0..N).map(|i| normal[i][i]).fold(0.0, f64::max);
    let mut lower = [[0.0; N]; N];
    for i in 0..N {
        for j in 0..=i {
            let mut sum = normal[i][j] - (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
            if i != j {
                lower[i][j] = sum / lower[j][j];
                continue;
            }
            sum += damping * normal[i][i] + small;
            if sum <= 0.0 || !sum.is_finite() {
                return None;
            }
            lower[i][i] = sum.sqrt();
        }
    }
    let mut x = *right;
    for i in 0..N {
        let sum: f64 = (0..i).map(|k| lower[i][k] * x[k]).sum();
        x[i] = (x[i] - sum) / lower[i][i];
    }
    for i in (0..N).rev() {
        let sum: f64 = (i + 1..N).map(|k| lower[k][i] * x[k]).sum();
        x[i] = (x[i] - sum) / lower[i][i];
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_of_equations_are_solved() {
        // 4x + 2y = 10, 2x + 3y = 11: x = 1, y = 3.
        let x = solve(&[[4.0, 2.0], [2.0, 3.0]], &[10.0, 11.0], 0.0).expect("positive definite");
        assert!((x[0] - 1.0).abs() < 1e-6 && (x[1] - 3.0).abs() < 1e-6);
        assert_eq!(solve(&[[1.0, 2.0], [2.0, 1.0]], &[1.0, 1.0], 0.0), None);
    }

    #[test]
    fn a_line_is_found_despite_an_outlier() {
        let xs = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let ys = [1.0, 3.0, 5.0, 7.0, 90.0, 11.0, 13.0];
        let residuals = |point: &[f64; 2], into: &mut Vec<f64>| {
            into.extend(xs.iter().zip(ys).map(|(x, y)| point[0] + point[1] * x - y));
        };
        let (point, _) = descend(&[0.0, 0.0], 500, residuals);
        assert!((point[0] - 1.0).abs() < 0.02 && (point[1] - 2.0).abs() < 0.02, "{point:?}");
    }
}
