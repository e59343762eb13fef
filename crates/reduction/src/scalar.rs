//! Scalar reference implementation. It is slow; tests compare the vector loops with it.
//!
//! Each function takes and refuses the same arguments as the function of that name in [`super`], and gives the same bits,
//! except for NaNs.

use crate::element::Element;
use crate::reduction::{Reduction, Refusal, check, check_scale};
use half::{bf16, f16};

/// `dst = dst op src`, element by element.
///
/// # Errors
/// As for [`crate::reduce_into`].
pub fn reduce_into(
    element: Element,
    reduction: Reduction,
    dst: &mut [u8],
    src: &[u8],
) -> Result<(), Refusal> {
    check(element, reduction, dst, &[src])?;
    let bytes = element.bytes();
    for (dst, src) in dst.chunks_exact_mut(bytes).zip(src.chunks_exact(bytes)) {
        reduce_one(element, reduction, dst, src);
    }
    Ok(())
}

/// `dst = ((srcs[0] op srcs[1]) op srcs[2]) ...`, element by element.
///
/// # Errors
/// As for [`crate::reduce_tall`].
pub fn reduce_tall(
    element: Element,
    reduction: Reduction,
    dst: &mut [u8],
    srcs: &[&[u8]],
) -> Result<(), Refusal> {
    check(element, reduction, dst, srcs)?;
    let (first, rest) = srcs.split_first().ok_or(Refusal::NoSources)?;
    dst.copy_from_slice(first);
    rest.iter().try_for_each(|src| reduce_into(element, reduction, dst, src))
}

/// Fills `dst` with the neutral element.
///
/// # Errors
/// As for [`crate::fill_neutral`].
pub fn fill_neutral(element: Element, reduction: Reduction, dst: &mut [u8]) -> Result<(), Refusal> {
    check(element, reduction, dst, &[])?;
    let bytes = element.bytes();
    let neutral = reduction.neutral(element);
    dst.chunks_exact_mut(bytes).for_each(|dst| dst.copy_from_slice(&neutral[..bytes]));
    Ok(())
}

/// Multiplies each element by `factor`.
///
/// # Errors
/// As for [`crate::scale_into`].
pub fn scale_into(element: Element, dst: &mut [u8], factor: f64) -> Result<(), Refusal> {
    check_scale(element, dst)?;
    for dst in dst.chunks_exact_mut(element.bytes()) {
        match element {
            Element::F32 => change(
                dst,
                |number| (f64::from(f32::from_ne_bytes(number)) * factor) as f32,
                f32::to_ne_bytes,
            ),
            Element::F64 => change(dst, |number| f64::from_ne_bytes(number) * factor, f64::to_ne_bytes),
            Element::F16 => change(
                dst,
                |number| f16::from_f32((f16::from_ne_bytes(number).to_f64() * factor) as f32),
                f16::to_ne_bytes,
            ),
            _ => change(
                dst,
                |number| bf16::from_f32((bf16::from_ne_bytes(number).to_f64() * factor) as f32),
                bf16::to_ne_bytes,
            ),
        }
    }
    Ok(())
}

/// Replaces the single element of `dst` by the result of `of`.
fn change<T, const BYTES: usize>(
    dst: &mut [u8],
    of: impl Fn([u8; BYTES]) -> T,
    bytes: impl Fn(T) -> [u8; BYTES],
) {
    let number = dst.as_chunks().0[0];
    dst.copy_from_slice(&bytes(of(number)));
}

/// Reduces one element.
fn reduce_one(element: Element, reduction: Reduction, dst: &mut [u8], src: &[u8]) {
    macro_rules! of {
        ($type:ty, $reduce:expr) => {{
            let src = <$type>::from_ne_bytes(src.as_chunks().0[0]);
            change(dst, |dst| $reduce(reduction, <$type>::from_ne_bytes(dst), src), <$type>::to_ne_bytes)
        }};
    }
    macro_rules! integer {
        ($type:ty) => {
            of!($type, |reduction, a: $type, b: $type| match reduction {
                Reduction::Sum => a.wrapping_add(b),
                Reduction::Product => a.wrapping_mul(b),
                Reduction::Min => a.min(b),
                Reduction::Max => a.max(b),
                Reduction::BitAnd => a & b,
                Reduction::BitOr => a | b,
                Reduction::BitXor => a ^ b,
            })
        };
    }
    match element {
        Element::F32 => of!(f32, of_f32),
        Element::F64 => of!(f64, of_f64),
        Element::F16 => {
            of!(f16, |reduction, a: f16, b: f16| f16::from_f32(of_f32(reduction, a.to_f32(), b.to_f32())))
        }
        Element::Bf16 => {
            of!(bf16, |reduction, a: bf16, b: bf16| bf16::from_f32(of_f32(
                reduction,
                a.to_f32(),
                b.to_f32()
            )));
        }
        Element::I32 => integer!(i32),
        Element::I64 => integer!(i64),
        Element::I16 => integer!(i16),
        Element::I8 => integer!(i8),
        Element::U8 => integer!(u8),
        Element::Bool => of!(u8, |reduction, a: u8, b: u8| {
            let (a, b) = (a != 0, b != 0);
            u8::from(match reduction {
                Reduction::Sum | Reduction::Max | Reduction::BitOr => a || b,
                Reduction::Product | Reduction::Min | Reduction::BitAnd => a && b,
                Reduction::BitXor => a != b,
            })
        }),
    }
}

macro_rules! of_float {
    ($name:ident, $float:ty) => {
        fn $name(reduction: Reduction, a: $float, b: $float) -> $float {
            match reduction {
                Reduction::Sum => a + b,
                Reduction::Product => a * b,
                _ if a.is_nan() || b.is_nan() => <$float>::NAN,
                // The total order of IEEE 754: -0 is less than +0.
                Reduction::Min if a.total_cmp(&b).is_le() => a,
                Reduction::Min => b,
                Reduction::Max if a.total_cmp(&b).is_ge() => a,
                Reduction::Max => b,
                Reduction::BitAnd | Reduction::BitOr | Reduction::BitXor => {
                    unreachable!("bitwise reductions of floats were refused")
                }
            }
        }
    };
}

of_float!(of_f32, f32);
of_float!(of_f64, f64);
