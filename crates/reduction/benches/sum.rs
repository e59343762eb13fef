//! Speed of reductions beside what memory gives: GB/s of input (bytes of sources read, in a second), best of many rounds.
//! `cargo bench -p syncline-reduction --bench sum`.
//!
//! For each size of a buffer: `into` (`dst = dst + src`) and `tall` (eight sources into `dst`) of each element, and after it
//! the part of the *yardstick* that this is. The yardstick is the machine's sum bandwidth in the same rounds: the best of
//! several loops over f32 that are tiled by hand (with AVX intrinsics where the processor has it), streaming stores among
//! them. The bar is 80 % of it. A plain copy stands beside it, and the scalar reference last.
//!
//! After `--`: names of elements to run only these (`f16 bf16`), `--reduction=max` for another one than the sum,
//! `--rounds=N`, `--json` for a line of JSON for each figure.

use std::hint::black_box;
use std::time::Instant;
use syncline_reduction::{Element, Reduction, offered, reduce_into, reduce_tall, scalar};

const SIZES: [(&str, usize); 4] =
    [("32 KB", 32 << 10), ("512 KB", 512 << 10), ("8 MB", 8 << 20), ("100 MB", 100_000_000 / 4096 * 4096)];
const SOURCES: usize = 8;
/// The part of the yardstick that must be reached.
const BAR: f64 = 0.8;
/// Least bytes of input between two looks at the clock.
const AT_ONCE: usize = 100 << 20;

/// Loops by hand. They are measured, nothing else: a sum that is not sound would be no yardstick.
#[allow(unsafe_code)]
mod yardstick {
    type Sum = (&'static str, fn(&mut [u8], &[&[u8]]));

    /// A plain loop.
    fn plain(dst: &mut [u8], srcs: &[&[u8]]) {
        let into = |dst: &mut [u8], src: &[u8]| {
            for (dst, src) in dst.as_chunks_mut::<4>().0.iter_mut().zip(src.as_chunks::<4>().0) {
                *dst = (f32::from_ne_bytes(*dst) + f32::from_ne_bytes(*src)).to_ne_bytes();
            }
        };
        srcs.iter().for_each(|src| into(dst, src));
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn all(_: bool) -> Vec<Sum> {
        vec![("plain", plain)]
    }

    /// All that this processor can run; `tall` ones do not read what was in `dst`.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn all(tall: bool) -> Vec<Sum> {
        let mut all: Vec<Sum> = vec![("plain", plain)];
        if is_x86_feature_detected!("avx") {
            let sums: [Sum; 3] = if tall {
                [
                    ("tiles of 128", x86::tall::<4, false>),
                    ("tiles of 256", x86::tall::<8, false>),
                    ("streaming", x86::tall::<8, true>),
                ]
            } else {
                [
                    ("tiles of 128", x86::into::<4, false>),
                    ("tiles of 256", x86::into::<8, false>),
                    ("streaming", x86::into::<8, true>),
                ]
            };
            all.extend(sums);
        }
        all
    }

    #[cfg(target_arch = "x86_64")]
    mod x86 {
        use std::arch::x86_64::{
            __m256, _mm_sfence, _mm256_add_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps,
        };

        /// `dst += srcs[0]`, `R` registers at a time.
        pub(super) fn into<const R: usize, const STREAM: bool>(dst: &mut [u8], srcs: &[&[u8]]) {
            // SAFETY: `all` asked the processor for AVX; `sum` keeps to the shortest buffer.
            unsafe { sum::<R, STREAM, false>(dst, srcs) }
        }

        /// `dst = srcs[0] + ...`, `R` registers at a time.
        pub(super) fn tall<const R: usize, const STREAM: bool>(dst: &mut [u8], srcs: &[&[u8]]) {
            // SAFETY: as above.
            unsafe { sum::<R, STREAM, true>(dst, srcs) }
        }

        /// `dst` as the sum of `srcs`, tile by tile.
        ///
        /// # Safety
        /// The processor has AVX.
        #[target_feature(enable = "avx")]
        fn sum<const R: usize, const STREAM: bool, const TALL: bool>(dst: &mut [u8], srcs: &[&[u8]]) {
            let tile = 32 * R;
            let bytes = srcs.iter().map(|src| src.len()).min().unwrap_or(0).min(dst.len());
            let load = |from: *const u8, at: usize| -> [__m256; R] {
                // SAFETY: `at + tile` is at most the length of the shortest buffer.
                std::array::from_fn(|r| unsafe { _mm256_loadu_ps(from.add(at + 32 * r).cast()) })
            };
            // Streaming stores want whole registers in line.
            let skip = if STREAM { dst.as_ptr().align_offset(32) } else { 0 };
            for at in (skip..(bytes + 1).saturating_sub(tile)).step_by(tile) {
                let (mut registers, rest) = if TALL {
                    (load(srcs[0].as_ptr(), at), &srcs[1..])
                } else {
                    (load(dst.as_ptr(), at), srcs)
                };
                for src in rest {
                    let more = load(src.as_ptr(), at);
                    for (register, more) in registers.iter_mut().zip(more) {
                        *register = _mm256_add_ps(*register, more);
                    }
                }
                for (r, register) in registers.into_iter().enumerate() {
                    // SAFETY: as above; `skip` has put streaming stores in line.
                    unsafe {
                        let to = dst.as_mut_ptr().add(at + 32 * r).cast();
                        if STREAM { _mm256_stream_ps(to, register) } else { _mm256_storeu_ps(to, register) }
                    }
                }
            }
            if STREAM {
                _mm_sfence();
            }
        }
    }
}

/// Sources into a destination.
type Run<'a> = Box<dyn FnMut(&mut [u8], &[&[u8]]) + 'a>;

/// What is measured: a name and what it does.
struct Case<'a> {
    name: String,
    element: Option<Element>,
    run: Run<'a>,
    /// Seconds for one call, at best.
    best: f64,
}

impl<'a> Case<'a> {
    fn new(
        name: impl Into<String>,
        element: Option<Element>,
        run: impl FnMut(&mut [u8], &[&[u8]]) + 'a,
    ) -> Self {
        Self { name: name.into(), element, run: Box::new(run), best: f64::INFINITY }
    }
}

/// Runs all cases in turn, many times, so that each has the same neighbours on the machine.
fn measure(cases: &mut [Case<'_>], dst: &mut [u8], srcs: &[&[u8]], rounds: usize) {
    let calls = (AT_ONCE / (dst.len() * srcs.len())).max(1);
    for _ in 0..rounds {
        for case in &mut *cases {
            let started = Instant::now();
            for _ in 0..calls {
                (case.run)(black_box(dst), black_box(srcs));
            }
            case.best = case.best.min(started.elapsed().as_secs_f64() / calls as f64);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| arguments.iter().find_map(|argument| argument.strip_prefix(key));
    let json = arguments.iter().any(|argument| argument == "--json");
    let rounds = value("--rounds=").map_or(15, |text| text.parse().expect("a number of rounds"));
    let reduction: Reduction =
        value("--reduction=").map_or(Reduction::Sum, |text| text.parse().expect("a reduction"));
    let named: Vec<Element> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let elements = if named.is_empty() { Element::ALL } else { &named };
    let elements: Vec<Element> =
        elements.iter().copied().filter(|&element| offered(element, reduction).is_ok()).collect();

    // No subnormal numbers and no NaNs, whatever the element.
    let longest = SIZES[SIZES.len() - 1].1;
    let input = |number: usize| (0..longest).map(|at| 0x30 + ((at * 7 + number) & 7) as u8).collect();
    let inputs: Vec<Vec<u8>> = (0..SOURCES).map(input).collect();
    let mut output = vec![0u8; longest];
    for (size, bytes) in SIZES {
        let srcs: Vec<&[u8]> = inputs.iter().map(|input| &input[..bytes]).collect();
        let dst = &mut output[..bytes];
        for (kind, srcs) in [("into", &srcs[..1]), ("tall", &srcs[..])] {
            let tall = kind == "tall";
            let mut cases = Vec::new();
            for (name, run) in yardstick::all(tall) {
                cases.push(Case::new(name, None, run));
            }
            let yardsticks = cases.len();
            if !tall {
                cases.push(Case::new("copy", None, |dst, srcs| dst.copy_from_slice(srcs[0])));
            }
            for &element in &elements {
                cases.push(Case::new(element.name(), Some(element), move |dst, srcs| {
                    let done = if tall {
                        reduce_tall(element, reduction, dst, srcs)
                    } else {
                        reduce_into(element, reduction, dst, srcs[0])
                    };
                    done.expect("it is offered, and lengths are equal");
                }));
            }
            dst.fill(0);
            measure(&mut cases, dst, srcs, rounds);
            let speed = |case: &Case<'_>| (bytes * srcs.len()) as f64 / case.best / 1e9;
            let by_hand = cases[..yardsticks].iter().map(|case| (speed(case), case.name.clone()));
            let (yardstick, how) = by_hand.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there is one");
            if json {
                for case in &cases {
                    report(&format!(
                        r#"{{"size_bytes": {bytes}, "kind": "{kind}", "reduction": "{reduction}", "name": "{}", "kernel": {}, "gb_per_s": {:.2}, "of_yardstick": {:.3}}}"#,
                        case.name,
                        case.element.is_some(),
                        speed(case),
                        speed(case) / yardstick
                    ));
                }
                continue;
            }
            report(&format!("{kind}, {size}: yardstick {yardstick:.1} GB/s ({how})"));
            for case in &cases[yardsticks..] {
                let part = speed(case) / yardstick;
                let verdict = match case.element {
                    None => "",
                    Some(_) if part >= BAR => ", reached",
                    Some(_) => ", below the bar",
                };
                report(&format!(
                    "  {:<5} {:5.1} GB/s, {:3.0} %{verdict}",
                    case.name,
                    speed(case),
                    100.0 * part
                ));
            }
        }
    }

    // What vectors are worth, where memory does not matter.
    let bytes = SIZES[0].1;
    let (dst, src) = (&mut output[..bytes], &inputs[0][..bytes]);
    let mut cases: Vec<Case<'_>> = Vec::new();
    for &element in &elements {
        cases.push(Case::new(element.name(), Some(element), move |dst, srcs| {
            scalar::reduce_into(element, reduction, dst, srcs[0]).expect("as above");
        }));
    }
    measure(&mut cases, dst, &[src], 3);
    for case in cases.iter().filter(|_| !json) {
        report(&format!("scalar, {}: {} {:.1} GB/s", SIZES[0].0, case.name, bytes as f64 / case.best / 1e9));
    }
}

#[allow(clippy::print_stdout)]
fn report(line: &str) {
    println!("{line}");
}
