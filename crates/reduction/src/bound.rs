//! Bound on the difference of two sums of floats.

use crate::element::Element;

/// The largest difference of two sums of the same contributions in any two orders (or trees), relative to the sum of their
/// absolute values: `(n - 1) eps`, for `n` contributions and the element's `eps`, the distance from 1 to the next number.
/// It is 0 for integers and bool, whose sums are the same in every order.
///
/// The error of each sum is at most `(n - 1) eps / 2` times the sum of absolute values: Higham, *Accuracy and Stability of
/// Numerical Algorithms*, 2nd edition, section 4.2, to first order; Jeannerod and Rump, *Improved error bounds for inner
/// products in floating-point arithmetic*, 2013, without terms of higher order and for any `n`. Sums must not overflow.
///
/// f16 and bf16 are added in f32, then rounded. This gives the number nearest to the exact sum, because f32 has more than
/// twice as many digits (Figueroa, *When is double rounding innocuous?*, 1995).
pub fn error_bound(element: Element, contributions: usize) -> f64 {
    let eps = match element {
        Element::F32 => f64::from(f32::EPSILON),
        Element::F64 => f64::EPSILON,
        Element::F16 => half::f16::EPSILON.to_f64(),
        Element::Bf16 => half::bf16::EPSILON.to_f64(),
        Element::I32 | Element::I64 | Element::I16 | Element::I8 | Element::U8 | Element::Bool => 0.0,
    };
    contributions.saturating_sub(1) as f64 * eps
}
