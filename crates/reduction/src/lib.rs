//! Sums (and products, minima, maxima, bitwise operations) of gradients: buffers of equal length, element by element.
//!
//! Buffers are bytes of any alignment in the machine's byte order, because they come from sockets and shared memory. Each
//! function chooses its loop once a call: by element, by reduction, and by what the processor can (AVX-512, AVX2 with F16C,
//! or what the target always has). All of them give the same bits as [`scalar`], whatever the processor.
//!
//! - [`element`]: types of elements;
//! - [`reduction`]: what may be done with which of them, and the refusal of the rest;
//! - [`reduce_into`], [`reduce_tall`], [`fill_neutral`], [`scale_into`]: the work;
//! - [`scalar`]: the same, one element after the other; the reference of tests and of interpreters of plans;
//! - [`bound`]: how far sums of floats in two orders may lie apart;
//! - `operation`, `format`, `x86`, `kernel`: how loops are put together.
//!
//! # What is promised
//!
//! - Integers wrap. For bool, a byte that is not 0 is true and results are 0 or 1; sum and maximum are "or", product and
//!   minimum are "and".
//! - f32 and f64 are those of IEEE 754, rounded to nearest even, subnormal numbers included. f16 and bf16 are added and
//!   multiplied in f32 and rounded to nearest even after *each* operation, so a result does not depend on how many
//!   contributions met in one call.
//! - Minimum and maximum of floats are those of IEEE 754-2019 (`minimum`, `maximum`): a NaN wins, as in PyTorch, and -0 is
//!   less than +0, so they do not depend on the order of contributions.
//! - A NaN stays a NaN. Which one (sign, payload, quiet or signalling) is not promised.

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
/// A reduction that is not [`offered`] for the element, lengths that differ, or a length that is no multiple of the element.
/// `dst` is untouched then.
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
/// The association is exactly this one, so the result is bit for bit that of a copy of `srcs[0]` and [`reduce_into`] of each
/// other one in turn. What `dst` held before plays no part.
///
/// # Errors
/// As [`reduce_into`]; and if `srcs` is empty.
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

/// Fills `dst` with the element that changes nothing: `x op neutral` and `neutral op x` are `x`, bit for bit (but NaNs).
///
/// That of a sum of floats is -0: `-0 + +0` is +0, so +0 would change -0.
///
/// # Errors
/// As [`reduce_into`].
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

/// Multiplies each element by `factor`: for averages, `1 / n`.
///
/// The product is one of f64, rounded to the element (f16 and bf16: to f32 first). For f32 that makes `x * (1 / n)` the same
/// bits as `x / n` for every number of contributions below 2^20, where that is a normal number.
///
/// # Errors
/// Integers and bool: they have no fractions. A length that is no multiple of the element.
pub fn scale_into(element: Element, dst: &mut [u8], factor: f64) -> Result<(), Refusal> {
    check_scale(element, dst)?;
    kernel::scale_into(element, dst, factor);
    Ok(())
}
