//! Time to evaluate the models of a file: `cargo bench -p syncline-kernels -- FILE`.

#![allow(clippy::print_stdout, reason = "a bench prints its results")]

use std::hint::black_box;
use std::time::Instant;
use syncline_kernels::{AttentionShape, GemmShape, Kernels, Pass};

/// Evaluations of each case.
const TIMES: u32 = 200_000;

fn main() {
    let default =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/syncline/data/kernels/H100-SXM5-80GB.json");
    let path =
        std::env::args().skip(1).find(|each| !each.starts_with("--")).unwrap_or_else(|| default.to_owned());
    let text = std::fs::read_to_string(&path).expect("the file can be read");
    let kernels = Kernels::parse(&text, &path).expect("the file holds kernel models");
    let gemm = kernels.gemm("bf16").expect("bf16 was measured");
    for (m, n, k) in
        [(4096, 4096, 4096), (1, 4096, 4096), (64, 64, 65536), (8192, 28672, 8192), (513, 1000, 777)]
    {
        let each = time(|| gemm.time(black_box(GemmShape::forward(m, n, k))).seconds);
        println!("gemm {m} x {n} x {k}: {each:.0} ns");
    }
    let attention = kernels.attention("bf16").expect("bf16 was measured");
    let shape = AttentionShape {
        batch: 1,
        sequence: 4096,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        causal: true,
        window: 0,
        pass: Pass::Forward,
        prepare: false,
    };
    println!("attention: {:.0} ns", time(|| attention.time(black_box(shape)).seconds));
}

/// Nanoseconds of one evaluation: the best of five rounds.
fn time(evaluate: impl Fn() -> f64) -> f64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..TIMES {
            black_box(evaluate());
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
    };
    (0..5).map(|_| round()).fold(f64::INFINITY, f64::min)
}
