//! The vector loops: compiled once per CPU feature level, selected on each call.

use crate::element::Element;
use crate::format::{Bf16, F16, Format, Plain, Word};
use crate::operation::{And, Both, Either, Max, Min, One, Operation, Or, Product, Sum, Xor};
use crate::reduction::Reduction;
#[cfg(target_arch = "x86_64")]
use crate::x86;
use multiversion::multiversion;

/// Bytes of the destination that are reduced over all sources before the next tile, so that they stay in L1.
const TILE: usize = 4096;

/// Work to run with the selected format and operation.
trait Work {
    /// Runs the work with this format and operation.
    fn of<F: Format, O: Operation<F::Number>>(self, format: F);
}

/// Runs `work` with the format of `element` and the operation of `reduction`, which is offered for it.
fn choose(element: Element, reduction: Reduction, work: impl Work) {
    use Element as E;
    use Reduction as R;
    macro_rules! of {
        ($format:ty, $value:expr, $operation:ty) => {
            work.of::<$format, $operation>($value)
        };
    }
    macro_rules! numbers {
        ($format:ty, $value:expr) => {
            match reduction {
                R::Sum => of!($format, $value, Sum),
                R::Product => of!($format, $value, Product),
                R::Min => of!($format, $value, Min),
                R::Max => of!($format, $value, Max),
                R::BitAnd | R::BitOr | R::BitXor => unreachable!("bitwise reductions of floats were refused"),
            }
        };
    }
    macro_rules! integers {
        ($type:ty) => {
            match reduction {
                R::BitAnd => of!(Plain<u8>, Plain::new(), And),
                R::BitOr => of!(Plain<u8>, Plain::new(), Or),
                R::BitXor => of!(Plain<u8>, Plain::new(), Xor),
                _ => numbers!(Plain<$type>, Plain::new()),
            }
        };
    }
    match element {
        E::F32 => numbers!(Plain<f32>, Plain::new()),
        E::F64 => numbers!(Plain<f64>, Plain::new()),
        E::F16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(f16) = x86::F16::detect() {
                return numbers!(x86::F16, f16);
            }
            numbers!(F16, F16)
        }
        E::Bf16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(bf16) = x86::Bf16::detect() {
                return numbers!(x86::Bf16, bf16);
            }
            numbers!(Bf16, Bf16)
        }
        E::I32 => integers!(i32),
        E::I64 => integers!(i64),
        E::I16 => integers!(i16),
        E::I8 => integers!(i8),
        E::U8 => integers!(u8),
        E::Bool => match reduction {
            R::Sum | R::Max | R::BitOr => of!(Plain<u8>, Plain::new(), Either),
            R::Product | R::Min | R::BitAnd => of!(Plain<u8>, Plain::new(), Both),
            R::BitXor => of!(Plain<u8>, Plain::new(), One),
        },
    }
}

/// See [`crate::reduce_into`].
pub(crate) fn reduce_into(element: Element, reduction: Reduction, dst: &mut [u8], src: &[u8]) {
    struct Into<'a>(&'a mut [u8], &'a [u8]);
    impl Work for Into<'_> {
        fn of<F: Format, O: Operation<F::Number>>(self, format: F) {
            into::<F, O>(format, self.0, self.1);
        }
    }
    choose(element, reduction, Into(dst, src));
}

/// See [`crate::reduce_tall`]; for at least two sources.
pub(crate) fn reduce_tall(element: Element, reduction: Reduction, dst: &mut [u8], srcs: &[&[u8]]) {
    struct Tall<'a>(&'a mut [u8], &'a [&'a [u8]]);
    impl Work for Tall<'_> {
        fn of<F: Format, O: Operation<F::Number>>(self, format: F) {
            tall::<F, O>(format, self.0, self.1);
        }
    }
    choose(element, reduction, Tall(dst, srcs));
}

/// See [`crate::scale_into`]; for floats only.
pub(crate) fn scale_into(element: Element, dst: &mut [u8], factor: f64) {
    match element {
        Element::F32 => scale(Plain::<f32>::new(), dst, factor),
        Element::F64 => scale(Plain::<f64>::new(), dst, factor),
        Element::F16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(f16) = x86::F16::detect() {
                return scale(f16, dst, factor);
            }
            scale(F16, dst, factor)
        }
        Element::Bf16 => {
            #[cfg(target_arch = "x86_64")]
            if let Some(bf16) = x86::Bf16::detect() {
                return scale(bf16, dst, factor);
            }
            scale(Bf16, dst, factor)
        }
        _ => unreachable!("integers were refused"),
    }
}

/// Computes one word of [`fold`].
#[inline(always)]
fn fold_word<F: Format, O: Operation<F::Number>, const SOURCES: usize>(
    format: F,
    kept: bool,
    dst: F::Word,
    srcs: [F::Word; SOURCES],
) -> F::Word {
    let (first, rest) = if kept { (dst, &srcs[..]) } else { (srcs[0], &srcs[1..]) };
    let mut numbers = format.open(first);
    for (at, &src) in rest.iter().enumerate() {
        if at > 0 {
            numbers = format.round(numbers);
        }
        numbers = format.zip(numbers, format.open(src), O::apply);
    }
    format.close(numbers)
}

/// `dst = ((dst op srcs[0]) op srcs[1]) ...`; without `kept`, the first operand is `srcs[0]`. All lengths are equal.
#[inline(always)]
fn fold<F: Format, O: Operation<F::Number>, const SOURCES: usize>(
    format: F,
    kept: bool,
    dst: &mut [u8],
    srcs: [&[u8]; SOURCES],
) {
    let (dst, dst_rest) = F::Word::split_mut(dst);
    let words: [&[F::Word]; SOURCES] = each(|source| &F::Word::split(srcs[source]).0[..dst.len()]);
    for at in 0..dst.len() {
        dst[at] = fold_word::<F, O, SOURCES>(format, kept, dst[at], each(|source| words[source][at]));
    }
    if !dst_rest.is_empty() {
        let rests = each(|source| F::Word::part(F::Word::split(srcs[source]).1));
        fold_word::<F, O, SOURCES>(format, kept, F::Word::part(dst_rest), rests).put(dst_rest);
    }
}

/// Returns the array of `of(index)`. It replaces `std::array::from_fn`, which is not always inlined.
#[inline(always)]
fn each<T: Copy, const N: usize>(of: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [of(0); N];
    for (at, one) in all.iter_mut().enumerate() {
        *one = of(at);
    }
    all
}

// The first level has the features of Ice Lake and Zen 4. Earlier CPUs are slower with AVX-512 than without.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+avx512vbmi2+avx2+f16c",
    "x86_64+avx2+f16c"
))]
fn into<F: Format, O: Operation<F::Number>>(format: F, dst: &mut [u8], src: &[u8]) {
    fold::<F, O, 1>(format, true, dst, [src]);
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+avx512vbmi2+avx2+f16c",
    "x86_64+avx2+f16c"
))]
fn tall<F: Format, O: Operation<F::Number>>(format: F, dst: &mut [u8], srcs: &[&[u8]]) {
    let mut at = 0;
    for dst in dst.chunks_mut(TILE) {
        let (from, to) = (at, at + dst.len());
        let of = |source: usize| &srcs[source][from..to];
        at = to;
        let mut source = if srcs.len() < 4 {
            fold::<F, O, 2>(format, false, dst, [of(0), of(1)]);
            2
        } else {
            fold::<F, O, 4>(format, false, dst, [of(0), of(1), of(2), of(3)]);
            4
        };
        while source + 4 <= srcs.len() {
            fold::<F, O, 4>(format, true, dst, [of(source), of(source + 1), of(source + 2), of(source + 3)]);
            source += 4;
        }
        for source in source..srcs.len() {
            fold::<F, O, 1>(format, true, dst, [of(source)]);
        }
    }
}

/// Floats that can be scaled.
trait Float: Copy {
    /// Converts the number, without rounding.
    fn to_f64(self) -> f64;
    /// Returns the nearest number of this type.
    fn nearest(number: f64) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }

    #[inline(always)]
    fn nearest(number: f64) -> Self {
        number as Self
    }
}

impl Float for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn nearest(number: f64) -> Self {
        number
    }
}

/// Computes one word of [`scale`].
#[inline(always)]
fn scale_word<F: Format>(format: F, word: F::Word, factor: f64) -> F::Word
where
    F::Number: Float,
{
    format.close(format.map(format.open(word), |number| F::Number::nearest(number.to_f64() * factor)))
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl+avx512vbmi2+avx2+f16c",
    "x86_64+avx2+f16c"
))]
fn scale<F: Format>(format: F, dst: &mut [u8], factor: f64)
where
    F::Number: Float,
{
    // Any NaN will do. This one has no payload bits that shorter formats lack.
    let factor = if factor.is_nan() { f64::NAN } else { factor };
    let (dst, rest) = F::Word::split_mut(dst);
    for dst in dst {
        *dst = scale_word(format, *dst, factor);
    }
    if !rest.is_empty() {
        scale_word(format, F::Word::part(rest), factor).put(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scalar;
    use super::*;

    /// Tests the portable code, which other tests do not reach on this CPU.
    #[test]
    fn portable_halves_match_the_reference() {
        fn check<F: Format<Number = f32>>(format: F, element: Element, nan: impl Fn(u16) -> bool) {
            // Combines each bit pattern with two others.
            let buffer = |step: u16, from: u16| -> Vec<u8> {
                (0..=u16::MAX).flat_map(|at| at.wrapping_mul(step).wrapping_add(from).to_ne_bytes()).collect()
            };
            let buffers = [buffer(1, 0), buffer(3, 17), buffer(12_345, 0x3c00)];
            let srcs = [&buffers[0][..], &buffers[1], &buffers[2]];
            let same = |found: &[u8], expected: &[u8], what: &str| {
                for (at, (found, expected)) in
                    found.as_chunks().0.iter().zip(expected.as_chunks().0).enumerate()
                {
                    let (found, expected) = (u16::from_ne_bytes(*found), u16::from_ne_bytes(*expected));
                    let same = found == expected || nan(found) && nan(expected);
                    assert!(same, "{element} {what}, {at}: {found:#x}, not {expected:#x}");
                }
            };
            let mut expected = vec![0; srcs[0].len()];
            macro_rules! operation {
                ($operation:ty, $reduction:expr) => {
                    let mut found = vec![0; expected.len()];
                    tall::<F, $operation>(format, &mut found, &srcs);
                    scalar::reduce_tall(element, $reduction, &mut expected, &srcs).unwrap();
                    same(&found, &expected, $reduction.name());
                    found.copy_from_slice(srcs[0]);
                    into::<F, $operation>(format, &mut found, srcs[1]);
                    scalar::reduce_tall(element, $reduction, &mut expected, &srcs[..2]).unwrap();
                    same(&found, &expected, $reduction.name());
                };
            }
            operation!(Sum, Reduction::Sum);
            operation!(Product, Reduction::Product);
            operation!(Min, Reduction::Min);
            operation!(Max, Reduction::Max);
            for factor in [1.0 / 3.0, 0.0, -1e-6, 1e9, f64::NAN, f64::from_bits(0x7fff_ffff_ffff_ffff)] {
                let mut found = srcs[0].to_vec();
                scale(format, &mut found, factor);
                expected.copy_from_slice(srcs[0]);
                scalar::scale_into(element, &mut expected, factor).unwrap();
                same(&found, &expected, "scaled");
            }
        }
        check(F16, Element::F16, |bits| half::f16::from_bits(bits).is_nan());
        check(Bf16, Element::Bf16, |bits| half::bf16::from_bits(bits).is_nan());
    }
}
