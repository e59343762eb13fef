//! How far sums of floats may lie apart.

use crate::element::Element;

/// What two sums of the same contributions in two orders (any two, trees too) differ by at most, as a part of the sum of
/// their absolute values: `(n - 1) eps`, for `n` contributions and the element's `eps`, the distance from 1 to the next number.
/// 0 for integers and bool, whose sums are the same in every order.
///
/// Each of the two is within `(n - 1) eps / 2` times that sum of the exact one: Higham, *Accuracy and Stability of Numerical
/// Algorithms*, 2nd edition, section 4.2, to first order; Jeannerod and Rump, *Improved error bounds for inner products in
/// floating-point arithmetic*, 2013, without terms of higher order and for any `n`. It holds where nothing overflows.
///
/// f16 and bf16 are added in f32, then rounded. The result is the nearest to the exact sum all the same, since f32 has more
/// than twice their places (Figueroa, *When is double rounding innocuous?*, 1995).
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
