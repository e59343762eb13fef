//! Memory layout of elements, and conversion to arithmetic types.

use std::convert::identity;
use std::marker::PhantomData;

/// Bytes that are loaded and stored at once.
pub(crate) trait Word: Copy {
    /// Splits a buffer into whole words and the remaining bytes.
    fn split(bytes: &[u8]) -> (&[Self], &[u8]);
    /// As [`Word::split`], for writing.
    fn split_mut(bytes: &mut [u8]) -> (&mut [Self], &mut [u8]);
    /// Returns a word of `bytes`, which are fewer than a word's, padded with zeros.
    fn part(bytes: &[u8]) -> Self;
    /// Writes the first bytes of the word.
    fn put(self, bytes: &mut [u8]);
}

impl<const BYTES: usize> Word for [u8; BYTES] {
    #[inline(always)]
    fn split(bytes: &[u8]) -> (&[Self], &[u8]) {
        bytes.as_chunks()
    }

    #[inline(always)]
    fn split_mut(bytes: &mut [u8]) -> (&mut [Self], &mut [u8]) {
        bytes.as_chunks_mut()
    }

    #[inline(always)]
    fn part(bytes: &[u8]) -> Self {
        let mut word = [0; BYTES];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    }

    #[inline(always)]
    fn put(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self[..bytes.len()]);
    }
}

/// A format of elements. A value proves that the CPU has the instructions that the format uses.
pub(crate) trait Format: Copy {
    /// The unit of loads and stores.
    type Word: Word;
    /// The elements of a word, as arithmetic types.
    type Numbers: Copy;
    /// The arithmetic type of one element.
    type Number: Copy;
    /// Unpacks a word.
    fn open(self, word: Self::Word) -> Self::Numbers;
    /// Rounds to values that elements can hold.
    fn round(self, numbers: Self::Numbers) -> Self::Numbers;
    /// Rounds and packs a word.
    fn close(self, numbers: Self::Numbers) -> Self::Word;
    /// Applies `f` to each number.
    fn map(self, a: Self::Numbers, f: impl Fn(Self::Number) -> Self::Number) -> Self::Numbers;
    /// Applies `f` to each pair of numbers.
    fn zip(
        self,
        a: Self::Numbers,
        b: Self::Numbers,
        f: impl Fn(Self::Number, Self::Number) -> Self::Number,
    ) -> Self::Numbers;
}

/// Elements that need no conversion.
pub(crate) struct Plain<T>(PhantomData<T>);

impl<T> Plain<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Plain<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Plain<T> {}

/// Implements [`Format`] for words of one element, with expressions that unpack, round and pack it.
macro_rules! format {
    ($format:ty, $number:ty, $word:ty, $open:expr, $round:expr, $close:expr) => {
        impl Format for $format {
            type Word = [u8; size_of::<$word>()];
            type Numbers = $number;
            type Number = $number;

            #[inline(always)]
            fn open(self, word: Self::Word) -> $number {
                $open(<$word>::from_ne_bytes(word))
            }

            #[inline(always)]
            fn round(self, number: $number) -> $number {
                $round(number)
            }

            #[inline(always)]
            fn close(self, number: $number) -> Self::Word {
                <$word>::to_ne_bytes($close(number))
            }

            #[inline(always)]
            fn map(self, a: $number, f: impl Fn($number) -> $number) -> $number {
                f(a)
            }

            #[inline(always)]
            fn zip(self, a: $number, b: $number, f: impl Fn($number, $number) -> $number) -> $number {
                f(a, b)
            }
        }
    };
    ($($number:ty)*) => {
        $(format!(Plain<$number>, $number, $number, identity, identity, identity);)*
    };
}

format!(f32 f64 i8 u8 i16 i32 i64);

/// bf16, computed in f32.
#[derive(Clone, Copy)]
pub(crate) struct Bf16;

format!(Bf16, f32, u16, widen_bf16, round_to_bf16, |number| (round_to_bf16(number).to_bits() >> 16) as u16);

#[inline(always)]
fn widen_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Returns the nearest bf16, as f32; ties round to even.
///
/// A NaN stays a NaN unless it has payload bits in the lower half. bf16 has none there, and operations on bf16 give none: their
/// NaNs have an operand's payload or the default one.
#[inline(always)]
fn round_to_bf16(number: f32) -> f32 {
    let bits = number.to_bits();
    // Half a unit in the last place, minus one if the last place is even.
    f32::from_bits(bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

/// f16, computed in f32 and converted by integer arithmetic: for CPUs without instructions for it.
#[derive(Clone, Copy)]
pub(crate) struct F16;

format!(F16, f32, u16, widen_f16, |number| widen_f16(narrow_to_f16(number)), narrow_to_f16);

#[inline(always)]
fn widen_f16(half: u16) -> f32 {
    let half = u32::from(half);
    // 2^112: the difference of the exponents' biases. The product is exact and normalises subnormal numbers.
    let scale = f32::from_bits((127 + 112) << 23);
    let magnitude = f32::from_bits((half & 0x7fff) << 13) * scale;
    // Values from 2^16 on were infinities and NaNs, whose exponents have all bits set.
    let special = if magnitude >= 65536.0 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | (half & 0x8000) << 16)
}

/// Returns the nearest f16; ties round to even.
#[inline(always)]
fn narrow_to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // A normal number: drop 13 bits of the fraction and change the bias; ties round to even.
    let normal = magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    // A subnormal number: the last place of 1/2 is the smallest f16, so this sum rounds correctly.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let half = if magnitude < 113 << 23 { subnormal } else { normal };
    // Numbers from 65520 on, halfway between the largest f16 and the next power of two, become infinite.
    let half = if magnitude >= 0x477f_f000 { 0x7c00 } else { half };
    ((if magnitude > 0x7f80_0000 { 0x7e00 } else { half }) | sign) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    fn same(found: f32, expected: f32) -> bool {
        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
    }

    #[test]
    fn all_half_precision_values_are_widened_exactly() {
        for bits in 0..=u16::MAX {
            let expected = f16::from_bits(bits).to_f32();
            assert!(same(widen_f16(bits), expected), "{bits:#x}");
            let expected = bf16::from_bits(bits).to_f32();
            assert!(same(widen_bf16(bits), expected), "{bits:#x}");
        }
    }

    /// Tests each f16 and bf16, the midpoint to the next one, and the singles next to both.
    #[test]
    fn singles_are_rounded_to_even() {
        let check = |number: f32| {
            let expected = f16::from_f32(number).to_f32();
            assert!(same(widen_f16(narrow_to_f16(number)), expected), "{number:e}");
            // NaNs with payload bits in the lower half do not occur.
            if !number.is_nan() || number.to_bits() & 0xffff == 0 {
                let expected = bf16::from_f32(number).to_f32();
                assert!(same(round_to_bf16(number), expected), "{number:e}");
            }
        };
        for half in 0..=u16::MAX {
            let exact = f16::from_bits(half).to_f32().to_bits();
            let brain = u32::from(half) << 16;
            for (bits, middle) in [(exact, 1 << 12), (brain, 1 << 15)] {
                for bits in [bits, bits.wrapping_add(middle), bits.wrapping_add(2 * middle)] {
                    (0..3).for_each(|by| check(f32::from_bits(bits.wrapping_add(by).wrapping_sub(1))));
                }
            }
        }
        // Subnormal f16 have fewer digits: the midpoints between two of them, and their neighbours.
        for place in 0..2048u32 {
            let middle = (place as f32 + 0.5) * f32::from_bits((127 - 24) << 23);
            (0..3).for_each(|by| check(f32::from_bits(middle.to_bits() + by - 1)));
        }
    }
}
