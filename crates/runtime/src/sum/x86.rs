//! f16 and bf16 on x86-64 with AVX2 and F16C.
//!
//! Written in plain Rust, conversions become vectors too, but slow ones, below what memory gives: compilers do not know of the
//! instructions for f16, and shuffle bf16 where nothing needs to move (`cargo bench -p syncline-runtime --bench sum`: 6 GB/s
//! against 15). There is no safe way to name instructions in a loop that is written once for all formats. So this module is
//! allowed what the workspace denies: each `unsafe` is an intrinsic that a value of [`F16`] or [`Bf16`] proves to be there, or a
//! change of type between arrays and registers of one size, in which all bits are valid.
#![allow(unsafe_code)]

use super::format::Format;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_FROUND_TO_NEAREST_INT, _mm256_add_epi32, _mm256_and_si256,
    _mm256_blend_epi16, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_slli_epi32, _mm256_srli_epi32,
};
use std::mem::transmute;

fn detect() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

/// A function of each number of a register.
#[inline(always)]
fn map(a: __m256, f: impl Fn(f32) -> f32) -> __m256 {
    // SAFETY: 32 bytes.
    let mut a = unsafe { transmute::<__m256, [f32; 8]>(a) };
    for a in &mut a {
        *a = f(*a);
    }
    // SAFETY: 32 bytes.
    unsafe { transmute::<[f32; 8], __m256>(a) }
}

/// A function of each pair of numbers of two registers.
#[inline(always)]
fn zip(a: __m256, b: __m256, f: impl Fn(f32, f32) -> f32) -> __m256 {
    // SAFETY: 32 bytes each.
    let (mut a, b) = unsafe { (transmute::<__m256, [f32; 8]>(a), transmute::<__m256, [f32; 8]>(b)) };
    for (a, b) in a.iter_mut().zip(b) {
        *a = f(*a, b);
    }
    // SAFETY: 32 bytes.
    unsafe { transmute::<[f32; 8], __m256>(a) }
}

/// f16: eight in a word.
#[derive(Clone, Copy)]
pub(super) struct F16(());

impl F16 {
    /// Asks the processor.
    pub(super) fn detect() -> Option<Self> {
        detect().then_some(Self(()))
    }
}

impl Format for F16 {
    type Word = [u8; 16];
    type Numbers = __m256;
    type Number = f32;

    #[inline(always)]
    fn open(self, word: [u8; 16]) -> __m256 {
        // SAFETY: `self` proves F16C; 16 bytes.
        unsafe { _mm256_cvtph_ps(transmute::<[u8; 16], __m128i>(word)) }
    }

    #[inline(always)]
    fn round(self, numbers: __m256) -> __m256 {
        self.open(self.close(numbers))
    }

    #[inline(always)]
    fn close(self, numbers: __m256) -> [u8; 16] {
        // SAFETY: `self` proves F16C; 16 bytes.
        unsafe { transmute::<__m128i, [u8; 16]>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(numbers)) }
    }

    #[inline(always)]
    fn map(self, a: __m256, f: impl Fn(f32) -> f32) -> __m256 {
        map(a, f)
    }

    #[inline(always)]
    fn zip(self, a: __m256, b: __m256, f: impl Fn(f32, f32) -> f32) -> __m256 {
        zip(a, b, f)
    }
}

/// bf16: eight pairs in a word. Both of a pair are widened where they lie, the lower ones of all pairs in a register and the
/// upper ones in another.
#[derive(Clone, Copy)]
pub(super) struct Bf16(());

impl Bf16 {
    /// Asks the processor.
    pub(super) fn detect() -> Option<Self> {
        detect().then_some(Self(()))
    }

    /// Rounds to bf16, in the upper halves; the lower ones hold anything. See `round_to_bf16` in `format`.
    #[inline(always)]
    fn upper(self, numbers: __m256) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe {
            let bits = _mm256_castps_si256(numbers);
            let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even)
        }
    }
}

/// Of eight pairs of halves: the upper ones from the second operand.
const UPPER: i32 = 0b1010_1010;

impl Format for Bf16 {
    type Word = [u8; 32];
    type Numbers = [__m256; 2];
    type Number = f32;

    #[inline(always)]
    fn open(self, word: [u8; 32]) -> [__m256; 2] {
        // SAFETY: `self` proves AVX2; 32 bytes.
        unsafe {
            let word = transmute::<[u8; 32], __m256i>(word);
            let upper = _mm256_blend_epi16::<UPPER>(_mm256_setzero_si256(), word);
            [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(word)), _mm256_castsi256_ps(upper)]
        }
    }

    #[inline(always)]
    fn round(self, numbers: [__m256; 2]) -> [__m256; 2] {
        let [low, high] = [self.upper(numbers[0]), self.upper(numbers[1])];
        // SAFETY: `self` proves AVX2.
        unsafe {
            let zero = _mm256_setzero_si256();
            [
                _mm256_castsi256_ps(_mm256_blend_epi16::<UPPER>(zero, low)),
                _mm256_castsi256_ps(_mm256_blend_epi16::<UPPER>(zero, high)),
            ]
        }
    }

    #[inline(always)]
    fn close(self, numbers: [__m256; 2]) -> [u8; 32] {
        let [low, high] = [self.upper(numbers[0]), self.upper(numbers[1])];
        // SAFETY: `self` proves AVX2; 32 bytes.
        unsafe {
            transmute::<__m256i, [u8; 32]>(_mm256_blend_epi16::<UPPER>(_mm256_srli_epi32::<16>(low), high))
        }
    }

    #[inline(always)]
    fn map(self, [low, high]: [__m256; 2], f: impl Fn(f32) -> f32) -> [__m256; 2] {
        [map(low, &f), map(high, &f)]
    }

    #[inline(always)]
    fn zip(self, a: [__m256; 2], b: [__m256; 2], f: impl Fn(f32, f32) -> f32) -> [__m256; 2] {
        [zip(a[0], b[0], &f), zip(a[1], b[1], &f)]
    }
}
