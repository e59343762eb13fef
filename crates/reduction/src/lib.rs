//! Element-wise sums (and products, minima, maxima, bitwise operations) of buffers of equal length, such as gradients.
//!
//! Buffers are bytes of any alignment in the machine's byte order, because they come from sockets and shared memory. Each
//! function selects its loop once per call: by element, by reduction, and by the CPU's features (AVX-512, AVX2 with F16C,
//! or the target's baseline). All loops give the same bits as [`scalar`] on every CPU.
//!
//! - [`element`]: element types;
//! - [`reduction`]: reductions, the elements that each supports, and the error for others;
//! - [`reduce_into`], [`reduce_tall`], [`fill_neutral`], [`scale_into`]: the functions;
//! - [`scalar`]: the scalar reference for tests and for interpreters of plans;
//! - [`bound`]: the largest difference of sums of floats in two orders;
//! - `operation`, `format`, `x86`, `kernel`: the parts of which loops are made.
//!
//! # Guarantees
//!
//! - Integers wrap. For bool, a byte that is not 0 is true and results are 0 or 1; sum and maximum are "or", product and
//!   minimum are "and".
//! - f32 and f64 follow IEEE 754: they round to nearest even, and subnormal numbers are kept. f16 and bf16 are added and
//!   multiplied in f32 and rounded to nearest even after *each* operation, so a result does not depend on the number of
//!   contributions per call.
//! - Minimum and maximum of floats are those of IEEE 754-2019 (`minimum`, `maximum`): the result is a NaN if an operand is
//!   one, as in PyTorch, and -0 is less than +0, so they do not depend on the order of contributions.
//! - A NaN stays a NaN. Its sign, its payload, and whether it is quiet or signalling are not specified.

pub mod bound;
pub mod element;
mod format;
mod kernel;
mod operation;
pub mod reduction;
pub mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use bound::error_bound;
pub use element::Element;
pub use reduction::{Reduction, Refusal, offered};

use reduction::{check, check_scale};

/// `dst = dst op src`, element by element.
///
/// # Errors
/// The reduction is not [`offered`] for the element, the lengths differ, or a length is not a multiple of the element's size.
/// `dst` is unchanged then.
pub fn reduce_into(
    element: Element,
    reduction: Reduction,
    dst: &mut [u8],
    src: &[u8],
) -> Result<(), Refusal> {
    check(element, reduction, dst, &[src])?;
    kernel::reduce_into(element, reduction, dst, src);
    Ok(())
}

/// `dst = ((srcs[0] op srcs[1]) op srcs[2]) ...`, element by element: "tall" aggregation (luo2020, section 3.2.2), in one
/// pass over memory.
///
/// The association is exactly this one: the result is bit-identical to a copy of `srcs[0]`, followed by [`reduce_into`] with
/// each other source in turn. The previous content of `dst` has no effect.
///
/// # Errors
/// As for [`reduce_into`]; also, `srcs` is empty.
pub fn reduce_tall(
    element: Element,
    reduction: Reduction,
    dst: &mut [u8],
    srcs: &[&[u8]],
) -> Result<(), Refusal> {
    check(element, reduction, dst, srcs)?;
    match srcs {
        [] => return Err(Refusal::NoSources),
        [src] => dst.copy_from_slice(src),
        srcs => kernel::reduce_tall(element, reduction, dst, srcs),
    }
    Ok(())
}

/// Fills `dst` with the neutral element: `x op neutral` and `neutral op x` are bit-identical to `x`, unless `x` is a NaN.
///
/// For sums of floats it is -0, because `-0 + +0` is +0: +0 would change -0.
///
/// # Errors
/// As for [`reduce_into`].
pub fn fill_neutral(element: Element, reduction: Reduction, dst: &mut [u8]) -> Result<(), Refusal> {
    check(element, reduction, dst, &[])?;
    let neutral = reduction.neutral(element);
    match element.bytes() {
        1 => dst.fill(neutral[0]),
        2 => fill::<2>(dst, &neutral),
        4 => fill::<4>(dst, &neutral),
        _ => fill::<8>(dst, &neutral),
    }
    Ok(())
}

fn fill<const BYTES: usize>(dst: &mut [u8], neutral: &[u8; 8]) {
    dst.as_chunks_mut::<BYTES>().0.fill(neutral.as_chunks().0[0]);
}

/// Multiplies each element by `factor`, such as `1 / n` for averages.
///
/// The product is computed in f64 and rounded to the element (f16 and bf16: to f32 first). For f32, `x * (1 / n)` therefore
/// has the same bits as `x / n` for each `n` below 2^20, if the quotient is a normal number.
///
/// # Errors
/// The elements are integers or bool, which have no fractions; or the length is not a multiple of the element's size.
pub fn scale_into(element: Element, dst: &mut [u8], factor: f64) -> Result<(), Refusal> {
    check_scale(element, dst)?;
    kernel::scale_into(element, dst, factor);
    Ok(())
}
