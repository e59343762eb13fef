//! Times that were computed by hand, on a device of round numbers.

use super::*;

/// 100 multiprocessors of 1 TFLOP/s each, with tiles of 100 x 100 and blocks of 10; no launch time worth a thought.
fn device(change: impl FnOnce(&mut serde_json::Value)) -> Gemm {
    let mut file = serde_json::json!({
        "element_bytes": 2, "output_bytes": 2, "block_k": 10,
        "tiles": [[100, 100, 1]], "splits": [1],
        "constants": {
            "flop_per_s": 1e14, "operand_bytes_per_s": 1e15, "memory_bytes_per_s": 1e18, "cache_bytes_per_s": 1e18,
            "cache_bytes": 1e6, "reread": 0, "launch_s": 1e-12, "tile_s": 0, "block_s": 0, "element_s": 0,
            "split_s": 0, "throttle": 0, "throttle_s": 1, "spread": 0.1
        },
        "range": { "m": [100, 10000], "n": [100, 10000], "k": [100, 10000] },
        "layouts": { "nt": 1 }
    });
    change(&mut file);
    Gemm::new(serde_json::from_value(file).unwrap(), 100.0, None).unwrap()
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-5, "{found:e} is not {expected:e}");
}

fn seconds(model: &Gemm, m: u64, n: u64, k: u64) -> f64 {
    model.time(GemmShape::forward(m, n, k)).seconds
}

#[test]
fn full_waves_run_at_the_peak_rate() {
    let model = device(|_| ());
    // 10 x 10 tiles are one wave: 2 * 1000^3 FLOP at 1e14 FLOP/s.
    close(seconds(&model, 1000, 1000, 1000), 20e-6);
    close(seconds(&model, 2000, 1000, 1000), 40e-6);
    assert_eq!(model.time(GemmShape::forward(1000, 1000, 1000)).bound, Bound::Compute);
}

#[test]
fn one_more_row_begins_another_wave() {
    let model = device(|_| ());
    close(seconds(&model, 1001, 1000, 1000), 40e-6);
    // A part of a tile takes as long as a tile, and a few tiles as long as a wave.
    close(seconds(&model, 1, 1, 1000), 20e-6);
}

#[test]
fn few_products_are_bound_by_memory() {
    let model = device(|file| {
        file["constants"]["memory_bytes_per_s"] = 1e12.into();
        file["constants"]["flop_per_s"] = 1e17.into();
        file["constants"]["operand_bytes_per_s"] = 1e18.into();
    });
    // One row: weights of 2 * 10000 * 10000 bytes, activations and result beside them, all more than the cache holds.
    let estimate = model.time(GemmShape::forward(1, 10_000, 10_000));
    close(estimate.seconds, 200.04e-6);
    assert_eq!(estimate.bound, Bound::Memory);
    // Twice the memory rate halves the time.
    close(model.with_memory(2.0).time(GemmShape::forward(1, 10_000, 10_000)).seconds, 100.02e-6);
}

#[test]
fn small_kernels_take_the_time_of_a_launch() {
    let model = device(|file| file["constants"]["launch_s"] = 1e-3.into());
    let estimate = model.time(GemmShape::forward(100, 100, 100));
    close(estimate.seconds, 1.002e-3);
    assert_eq!(estimate.bound, Bound::Launch);
    assert_eq!(seconds(&model, 0, 100, 100), 1e-3);
}

#[test]
fn split_sums_use_idle_multiprocessors() {
    let whole = device(|_| ());
    let split = device(|file| {
        file["splits"] = serde_json::json!([1, 2, 4]);
        file["constants"]["split_s"] = 1e-6.into();
    });
    // One tile: a fourth of the sum, and 1 us to add the parts.
    close(seconds(&whole, 100, 100, 8000), 160e-6);
    close(seconds(&split, 100, 100, 8000), 41e-6);
    // No split where tiles fill more than half of the multiprocessors.
    assert_eq!(seconds(&split, 1000, 1000, 8000), seconds(&whole, 1000, 1000, 8000));
}

#[test]
fn groups_share_the_waves() {
    let model = device(|_| ());
    let shape = GemmShape { groups: 100, ..GemmShape::forward(100, 100, 1000) };
    close(model.time(shape).seconds, 20e-6);
    close(model.time(GemmShape { groups: 101, ..shape }).seconds, 40e-6);
}

#[test]
fn a_smaller_tile_is_chosen_where_it_is_faster() {
    let model = device(|file| file["tiles"] = serde_json::json!([[100, 100, 1], [50, 50, 0.5]]));
    // 100 small tiles at half the rate: a fourth of the work each.
    close(seconds(&model, 500, 500, 1000), 10e-6);
    close(seconds(&model, 1000, 1000, 1000), 20e-6);
}

#[test]
fn long_kernels_are_throttled() {
    let model = device(|file| {
        file["constants"]["throttle"] = 0.5.into();
        file["constants"]["throttle_s"] = 20e-6.into();
    });
    // Halfway at 20 us: 25 % slower.
    close(seconds(&model, 1000, 1000, 1000), 25e-6);
}

#[test]
fn the_cast_comes_before_the_product() {
    let model = device(|file| {
        file["constants"]["cast_s"] = 10e-6.into();
        file["constants"]["cast_bytes"] = 3.into();
    });
    close(seconds(&model, 1000, 1000, 1000), 30e-6);
    // Of operands that have the data type already, the product alone.
    close(model.time_by(GemmLibrary::Cublas, GemmShape::forward(1000, 1000, 1000)).seconds, 20e-6);
}

#[test]
fn a_library_has_its_rate_over_the_measured_product_without_casts() {
    let model = device(|file| {
        file["constants"]["cast_s"] = 10e-6.into();
        file["libraries"] = serde_json::json!({ "cublas-mxfp8": { "rate": 0.8, "source": "" } });
    });
    let time = |library| model.time_by(library, GemmShape::forward(1000, 1000, 1000));
    close(time(GemmLibrary::Measured).seconds, 30e-6);
    close(time(GemmLibrary::Cublas).seconds, 20e-6);
    close(time(GemmLibrary::CublasMxfp8).seconds, 25e-6);
    assert!(time(GemmLibrary::CublasMxfp8).extrapolates);
}

#[test]
fn times_outside_the_measured_range_are_extrapolated() {
    let model = device(|_| ());
    let extrapolates = |shape| model.time(shape).extrapolates;
    assert!(!extrapolates(GemmShape::forward(100, 10_000, 500)));
    assert!(extrapolates(GemmShape::forward(99, 10_000, 500)));
    assert!(extrapolates(GemmShape::forward(100, 10_001, 500)));
    assert!(extrapolates(GemmShape { groups: 2, ..GemmShape::forward(100, 100, 500) }));
    assert!(extrapolates(GemmShape { layout: Layout::Tn, ..GemmShape::forward(100, 100, 500) }));
}

#[test]
fn corrections_multiply_times_by_alignment() {
    let lattice =
        |row: &str| serde_json::json!({ "axes": [[100], [100], [100]], "step": 0.01, "rows": [row] });
    let model = device(|file| {
        // 10 * (1 + 10 / 30) steps of 1 % for multiples of 8, none for others.
        file["corrections"] = serde_json::json!({ "aligned": lattice("Z"), "unaligned": lattice("P") });
    });
    close(seconds(&model, 1000, 1000, 1000), 20e-6 * (0.4f64 / 3.0).exp());
    close(seconds(&model, 999, 1000, 1000), 20e-6);
}

#[test]
fn more_work_takes_less_time_only_by_a_better_tile() {
    // The choice of tiles is made for each product alone, so that a larger one may fit its tiles better. The best tile
    // bounds by how much: no product is slower than a larger one by more than the spread.
    let model = device(|file| {
        file["tiles"] = serde_json::json!([[100, 100, 1], [50, 100, 0.9], [50, 50, 0.8]]);
        file["constants"]["spread"] = 0.2.into();
    });
    let sizes = [1, 40, 100, 250, 500, 640, 1000, 1500, 2100, 4000];
    for m in sizes {
        for n in sizes {
            for k in sizes {
                let time = seconds(&model, m, n, k);
                for larger in [
                    seconds(&model, m + 50, n, k),
                    seconds(&model, m, n + 100, k),
                    seconds(&model, m, n, k + 10),
                ] {
                    assert!(larger * 1.2 >= time, "{m} {n} {k}: {time} {larger}");
                }
            }
        }
    }
}

#[test]
fn impossible_devices_are_refused() {
    let refused = |key: &str, value: serde_json::Value| {
        let mut file = serde_json::to_value(serde_json::json!({
            "element_bytes": 2, "output_bytes": 2, "block_k": 10, "tiles": [[100, 100, 1]], "splits": [1],
            "constants": {
                "flop_per_s": 1e14, "operand_bytes_per_s": 1e15, "memory_bytes_per_s": 1e18,
                "cache_bytes_per_s": 1e18, "cache_bytes": 1e6, "reread": 0, "launch_s": 1e-12, "tile_s": 0,
                "block_s": 0, "element_s": 0, "split_s": 0, "throttle": 0, "throttle_s": 1, "spread": 0.1
            },
            "range": { "m": [1, 1], "n": [1, 1], "k": [1, 1] }, "layouts": {}
        }))
        .unwrap();
        match key.split_once('.') {
            Some((outer, inner)) => file[outer][inner] = value,
            None => file[key] = value,
        }
        Gemm::new(serde_json::from_value(file).unwrap(), 100.0, None).unwrap_err()
    };
    assert!(refused("constants.flop_per_s", 0.into()).contains("above zero"));
    assert!(refused("constants.reread", (-1).into()).contains("at least zero"));
    assert!(refused("tiles", serde_json::json!([])).contains("1 to 64"));
    assert!(refused("tiles", serde_json::json!([[0, 1, 1]])).contains("1 to 1024"));
    assert!(refused("splits", serde_json::json!([2])).contains("the first of them 1"));
}

#[test]
fn no_time_is_shorter_than_the_operations_at_the_peak() {
    let shape = GemmShape { m: 5000, n: 5000, k: 4000, groups: 1, layout: Layout::Nt };
    let plain = device(|_| ());
    let (seconds, flop) = (plain.time(shape).seconds, 2.0 * 5000.0 * 5000.0 * 4000.0);
    let bounded = Gemm { peak_flop_per_s: flop / (2.0 * seconds), ..plain.clone() };
    assert!((bounded.time(shape).seconds / (2.0 * seconds) - 1.0).abs() < 1e-12);
    assert!(bounded.time(shape).extrapolates);
    assert_eq!(Gemm { peak_flop_per_s: 1e30, ..plain.clone() }.time(shape), plain.time(shape));
}
