//! Compares tall and wide aggregation (luo2020, sections 3.2.2 and 6.1.5): how fast a hub's cores sum gradients that are in
//! memory. `cargo bench -p syncline-reduction --bench aggregation`.
//!
//! - *tall*, as hubs do: each core takes whole chunks of 32 KiB and sums a chunk of all workers at once;
//! - *wide*, as MXNet's servers did: all cores take a part of the same key, add the workers' gradients one by one, and wait for
//!   each other after every addition.
//!
//! The keys are those of ResNet-50 (102 MB), with gradients of 8 workers. Rounds of both alternate; the best of each counts.
//! Arguments after `--`: `--cores=N` (default: 1 to all), `--workers=N`, `--rounds=N`; `--way=tall` or `--way=wide` runs only
//! that one, and prints the seconds of its rounds as JSON.

use std::sync::Barrier;
use std::time::Instant;
use syncline_reduction::{Element, Reduction, reduce_into, reduce_tall};

const CHUNK: usize = 32 << 10;

/// Bytes of ResNet-50's keys, in order (He et al. 2016): weights of convolutions, two vectors of each normalisation, and the
/// last layer.
fn keys() -> Vec<usize> {
    let mut elements = vec![64 * 3 * 49, 64, 64];
    let mut inputs = 64;
    for (width, blocks) in [(64, 3), (128, 4), (256, 6), (512, 3)] {
        for block in 0..blocks {
            for (from, to, window) in [(inputs, width, 1), (width, width, 9), (width, 4 * width, 1)] {
                elements.extend([from * to * window, to, to]);
            }
            if block == 0 {
                elements.extend([inputs * 4 * width, 4 * width, 4 * width]);
            }
            inputs = 4 * width;
        }
    }
    elements.extend([2048 * 1000, 1000]);
    elements.into_iter().map(|count| 4 * count).collect()
}

/// Splits each key into one part per core. Returns the parts of each core, with their offsets.
fn parts<'a>(sums: &'a mut [u8], keys: &[usize], cores: usize) -> Vec<Vec<(usize, &'a mut [u8])>> {
    let mut all: Vec<Vec<(usize, &mut [u8])>> = (0..cores).map(|_| Vec::new()).collect();
    let (mut rest, mut at) = (sums, 0);
    for &key in keys {
        let each = (key / 4).div_ceil(cores) * 4;
        let mut left = key;
        for core in &mut all {
            let (part, others) = rest.split_at_mut(each.min(left));
            rest = others;
            left -= part.len();
            let length = part.len();
            core.push((at, part));
            at += length;
        }
    }
    all
}

/// Sums key by key: all cores work on the same key and wait for each other. Returns seconds.
fn wide(sums: &mut [u8], gradients: &[Vec<u8>], keys: &[usize], cores: usize) -> f64 {
    let (step, parts) = (Barrier::new(cores), parts(sums, keys, cores));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for mine in parts {
            let step = &step;
            scope.spawn(move || {
                for (at, part) in mine {
                    for (worker, gradient) in gradients.iter().enumerate() {
                        let source = &gradient[at..at + part.len()];
                        match worker {
                            0 => part.copy_from_slice(source),
                            _ => reduce_into(Element::F32, Reduction::Sum, part, source).expect("alike"),
                        }
                        step.wait();
                    }
                }
            });
        }
    });
    began.elapsed().as_secs_f64()
}

/// Sums chunk by chunk: each core works on its own chunks. Returns seconds.
fn tall(sums: &mut [u8], gradients: &[Vec<u8>], keys: &[usize], cores: usize) -> f64 {
    let mut all: Vec<Vec<(usize, &mut [u8])>> = (0..cores).map(|_| Vec::new()).collect();
    let (mut rest, mut at, mut number) = (sums, 0, 0);
    for &key in keys {
        let (mut left, others) = rest.split_at_mut(key);
        rest = others;
        while !left.is_empty() {
            let (chunk, more) = left.split_at_mut(CHUNK.min(left.len()));
            left = more;
            let length = chunk.len();
            all[number % cores].push((at, chunk));
            (at, number) = (at + length, number + 1);
        }
    }
    let began = Instant::now();
    std::thread::scope(|scope| {
        for mine in all {
            scope.spawn(move || {
                for (at, chunk) in mine {
                    let sources: Vec<&[u8]> =
                        gradients.iter().map(|gradient| &gradient[at..at + chunk.len()]).collect();
                    reduce_tall(Element::F32, Reduction::Sum, chunk, &sources).expect("alike");
                }
            });
        }
    });
    began.elapsed().as_secs_f64()
}

/// Sums all gradients on the given number of cores. Returns seconds.
type Way = fn(&mut [u8], &[Vec<u8>], &[usize], usize) -> f64;

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let argument = |name: &str| {
        let found = std::env::args().find_map(|each| each.strip_prefix(name).map(str::to_owned));
        found.map(|text| text.parse::<usize>().expect("a number"))
    };
    let (workers, rounds) =
        (argument("--workers=").unwrap_or(8).max(1), argument("--rounds=").unwrap_or(10).max(1));
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let keys = keys();
    let whole: usize = keys.iter().sum();
    let gradients: Vec<Vec<u8>> = (0..workers)
        .map(|worker| (0..whole / 4).flat_map(|_| (worker as f32).to_ne_bytes()).collect())
        .collect();
    let mut sums = vec![0; whole];
    let expected = ((workers * (workers - 1) / 2) as f32).to_ne_bytes();
    let way = std::env::args().find_map(|each| each.strip_prefix("--way=").map(str::to_owned));
    if let Some(way) = way {
        let run = [("tall", tall as Way), ("wide", wide)]
            .into_iter()
            .find(|(name, _)| *name == way)
            .expect("tall or wide")
            .1;
        let cores = argument("--cores=").unwrap_or(most).max(1);
        let seconds: Vec<f64> = (0..rounds).map(|_| run(&mut sums, &gradients, &keys, cores)).collect();
        assert!(sums.chunks_exact(4).all(|bytes| bytes == expected), "a wrong sum");
        println!("{seconds:?}");
        return;
    }
    println!("{} keys, {:.1} MB, {workers} workers; GB/s of gradients", keys.len(), whole as f64 / 1e6);
    println!("{:>5}  {:>6}  {:>6}  tall over wide", "cores", "tall", "wide");
    for cores in argument("--cores=").map_or(1..=most, |cores| cores.max(1)..=cores.max(1)) {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..rounds {
            for (best, way) in best.iter_mut().zip([tall, wide]) {
                sums.fill(0);
                *best = best.min(way(&mut sums, &gradients, &keys, cores));
                assert!(sums.chunks_exact(4).all(|bytes| bytes == expected), "a wrong sum");
            }
        }
        let [tall, wide] = best.map(|seconds| (workers * whole) as f64 / seconds / 1e9);
        println!("{cores:>5}  {tall:>6.1}  {wide:>6.1}  {:.2}", tall / wide);
    }
}
