//! Compares reductions with the bandwidth of memory: GB/s of input (bytes of sources read per second), best of many rounds.
//! `cargo bench -p syncline-reduction --bench sum`.
//!
//! For each buffer size, it measures `into` (`dst = dst + src`) and `tall` (eight sources into `dst`) for each element, and
//! prints their fraction of the *reference*: the best of several hand-tiled f32 loops (with AVX intrinsics if the CPU has
//! them), some with streaming stores, in the same rounds. The limit is 80 %. A plain copy and the scalar implementation are
//! measured as well.
//!
//! Arguments after `--`: names of elements (`f16 bf16`) select these, `--reduction=max` another reduction, `--rounds=N` the
//! number of rounds; `--json` prints a line of JSON per result.

use std::hint::black_box;
use std::time::Instant;
use syncline_reduction::{Element, Reduction, offered, reduce_into, reduce_tall, scalar};

const SIZES: [(&str, usize); 4] =
    [("32 KB", 32 << 10), ("512 KB", 512 << 10), ("8 MB", 8 << 20), ("100 MB", 100_000_000 / 4096 * 4096)];
const SOURCES: usize = 8;
/// The least fraction of the reference that passes.
const LIMIT: f64 = 0.8;
/// Least bytes of input per measurement.
const AT_ONCE: usize = 100 << 20;

/// Hand-written loops, used only for comparison.
#[allow(unsafe_code)]
mod reference {
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

    /// The loops that this CPU can run. `tall` loops do not read `dst`.
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
            // SAFETY: `all` checked that the CPU has AVX; `sum` ends at the shortest buffer.
            unsafe { sum::<R, STREAM, false>(dst, srcs) }
        }

        /// `dst = srcs[0] + ...`, `R` registers at a time.
        pub(super) fn tall<const R: usize, const STREAM: bool>(dst: &mut [u8], srcs: &[&[u8]]) {
            // SAFETY: as above.
            unsafe { sum::<R, STREAM, true>(dst, srcs) }
        }

        /// Sums `srcs` into `dst`, tile by tile.
        ///
        /// # Safety
        /// The CPU has AVX.
        #[target_feature(enable = "avx")]
        fn sum<const R: usize, const STREAM: bool, const TALL: bool>(dst: &mut [u8], srcs: &[&[u8]]) {
            let tile = 32 * R;
            let bytes = srcs.iter().map(|src| src.len()).min().unwrap_or(0).min(dst.len());
            let load = |from: *const u8, at: usize| -> [__m256; R] {
                // SAFETY: `at + tile` is at most the length of the shortest buffer.
                std::array::from_fn(|r| unsafe { _mm256_loadu_ps(from.add(at + 32 * r).cast()) })
            };
            // Streaming stores need aligned addresses.
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
                    // SAFETY: as above; `skip` aligns streaming stores.
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

/// Reduces sources into a destination.
type Run<'a> = Box<dyn FnMut(&mut [u8], &[&[u8]]) + 'a>;

/// A measured function.
struct Case<'a> {
    name: String,
    element: Option<Element>,
    run: Run<'a>,
    /// Fewest seconds of a call so far.
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

/// Runs all cases in turn, many times, so that other load on the machine affects all alike.
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

    // No element type reads these bytes as subnormal numbers or NaNs.
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
            for (name, run) in reference::all(tall) {
                cases.push(Case::new(name, None, run));
            }
            let references = cases.len();
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
            let by_hand = cases[..references].iter().map(|case| (speed(case), case.name.clone()));
            let (reference, how) = by_hand.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there is one");
            if json {
                for case in &cases {
                    report(&format!(
                        r#"{{"size_bytes": {bytes}, "kind": "{kind}", "reduction": "{reduction}", "name": "{}", "kernel": {}, "gb_per_s": {:.2}, "of_reference": {:.3}}}"#,
                        case.name,
                        case.element.is_some(),
                        speed(case),
                        speed(case) / reference
                    ));
                }
                continue;
            }
            report(&format!("{kind}, {size}: reference {reference:.1} GB/s ({how})"));
            for case in &cases[references..] {
                let part = speed(case) / reference;
                let verdict = match case.element {
                    None => "",
                    Some(_) if part >= LIMIT => ", reached",
                    Some(_) => ", below the limit",
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

    // The gain from vectors, without the limit of memory.
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
