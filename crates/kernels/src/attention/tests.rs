use super::fitted::blocks;
use super::*;

/// 100 multiprocessors of 1 TFLOP/s each, with tiles of 100 queries and 100 keys; exponentials and memory cost nothing.
fn device(change: impl FnOnce(&mut serde_json::Value)) -> Attention {
    let mut file = serde_json::json!({
        "element_bytes": 2,
        "forward": {
            "tiles": [[100, 100, 1]], "heads": [[50, 0.5], [100, 1]],
            "constants": {
                "flop_per_s": 1e14, "scores_per_s": 1e30, "memory_bytes_per_s": 1e18, "cache_bytes": 1e6,
                "launch_s": 1e-12, "tile_s": 0, "block_s": 0, "tail": 0, "throttle": 0, "throttle_s": 1,
                "prepare": 0, "prepare_s": 0
            },
            "range": { "batch_heads": [1, 1000], "sequence": [100, 10000] }
        },
        "backward": { "rule": { "flop_ratio": 2.5, "rate_ratio": 0.5, "source": "" } }
    });
    change(&mut file);
    Attention::new(serde_json::from_value(file).unwrap(), 100.0, None).unwrap()
}

const SHAPE: AttentionShape = AttentionShape {
    batch: 10,
    sequence: 1000,
    heads: 10,
    kv_heads: 10,
    head_dim: 100,
    causal: false,
    window: 0,
    pass: Pass::Forward,
    prepare: true,
};

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-4, "{found:e} is not {expected:e}");
}

#[test]
fn two_products_run_at_the_peak_rate() {
    // 4 * 1000 * 1000 * 100 FLOP for each of 100 heads, at 1e14 FLOP/s.
    close(device(|_| ()).time(SHAPE).seconds, 400e-6);
    assert_eq!(device(|_| ()).time(SHAPE).bound, Bound::Compute);
}

#[test]
fn a_causal_mask_leaves_the_blocks_up_to_the_diagonal() {
    // 10 tiles see 1 to 10 blocks: 55 of 100.
    close(device(|_| ()).time(AttentionShape { causal: true, ..SHAPE }).seconds, 220e-6);
}

#[test]
fn a_window_leaves_the_blocks_that_it_touches() {
    // At most ceil(199 / 100) = 2 blocks for each tile, 1 for the first: 19 of 100.
    close(device(|_| ()).time(AttentionShape { causal: true, window: 100, ..SHAPE }).seconds, 76e-6);
}

#[test]
fn blocks_are_counted_like_one_by_one() {
    for (queries, keys) in [(64.0, 64.0), (64.0, 128.0), (128.0, 128.0), (128.0, 64.0)] {
        for sequence in [1u64, 64, 100, 128, 512, 1000, 4096] {
            for window in [0u64, 64, 128, 1024] {
                let shape = AttentionShape { sequence, window, causal: true, ..SHAPE };
                let tiles = (sequence as f64 / queries).ceil();
                let limit =
                    if window == 0 { f64::INFINITY } else { ((window as f64 - 1.0 + queries) / keys).ceil() };
                let each = (1..=tiles as u64).map(|tile| ((tile as f64 * queries) / keys).ceil().min(limit));
                let (sum, _) = blocks(shape, tiles, queries, keys);
                assert_eq!(sum, each.sum::<f64>(), "{queries} {keys} {sequence} {window}");
            }
        }
    }
}

#[test]
fn the_longest_tile_takes_its_time_where_tiles_are_few() {
    // One head: 10 tiles, the longest with 10 blocks of 4 * 100^3 FLOP at 1e12 FLOP/s.
    let shape = AttentionShape { batch: 1, heads: 1, kv_heads: 1, causal: true, ..SHAPE };
    close(device(|_| ()).time(shape).seconds, 40e-6);
    // Many heads: its time adds to the mean load as far as `tail` says.
    let tail = device(|file| file["forward"]["constants"]["tail"] = 0.5.into());
    close(tail.time(AttentionShape { causal: true, ..SHAPE }).seconds, 240e-6);
}

#[test]
fn head_sizes_have_their_efficiency() {
    close(device(|_| ()).time(AttentionShape { head_dim: 50, ..SHAPE }).seconds, 400e-6);
}

#[test]
fn exponentials_add_to_the_products() {
    let model = device(|file| file["forward"]["constants"]["scores_per_s"] = 1e12.into());
    // 1e8 scores at 1e12 a second.
    close(model.time(SHAPE).seconds, 500e-6);
}

#[test]
fn short_sequences_are_bound_by_memory() {
    let model = device(|file| file["forward"]["constants"]["memory_bytes_per_s"] = 1e9.into());
    let estimate = model.time(SHAPE);
    // Queries, keys, values and output: 4 * 10 * 10 * 1000 * 100 elements of 2 bytes.
    close(estimate.seconds, 80e-3);
    assert_eq!(estimate.bound, Bound::Memory);
}

#[test]
fn the_backward_pass_follows_by_rule() {
    let model = device(|_| ());
    let backward = model.time(AttentionShape { pass: Pass::Backward, ..SHAPE });
    close(backward.seconds, 2000e-6);
    assert!(backward.extrapolates && !model.time(AttentionShape { causal: true, ..SHAPE }).extrapolates);
    assert_eq!(model.physical(AttentionShape { pass: Pass::Backward, ..SHAPE }), None);
}

#[test]
fn other_libraries_have_their_rates() {
    let model = device(|file| {
        file["libraries"] =
            serde_json::json!({ "flash-attention-2": { "heads": [[100, 0.5, 0.4]], "source": "" } });
    });
    let backward = AttentionShape { pass: Pass::Backward, ..SHAPE };
    // 4e10 FLOP forward at 0.5e14 FLOP/s, 10e10 backward at 0.4e14.
    close(model.time_by(Library::FlashAttention2, SHAPE).seconds, 800e-6);
    close(model.time_by(Library::FlashAttention2, backward).seconds, 2500e-6);
    assert!(model.time_by(Library::FlashAttention2, SHAPE).extrapolates);
    // Without rates, a library is the measured one.
    for library in [Library::Cudnn, Library::Measured] {
        assert_eq!(model.time_by(library, backward), model.time(backward));
    }
}

#[test]
fn a_library_has_the_rate_of_the_nearest_head_size() {
    let model = device(|file| {
        file["libraries"] =
            serde_json::json!({ "cudnn": { "heads": [[64, 0.25, 1.0], [128, 0.5, 1.0]], "source": "" } });
    });
    close(model.time_by(Library::Cudnn, SHAPE).seconds, 800e-6);
    // Half the operations at half of the head size's efficiency, and a quarter of the rate.
    close(model.time_by(Library::Cudnn, AttentionShape { head_dim: 50, ..SHAPE }).seconds, 1600e-6);
}

#[test]
fn a_library_may_have_other_rates_with_a_window() {
    let model = device(|file| {
        let rates = serde_json::json!({
            "heads": [[64, 0.25, 1.0], [128, 0.5, 1.0]], "windowed": [[100, 0.2, 0.1]], "source": ""
        });
        file["libraries"] = serde_json::json!({ "cudnn": rates });
    });
    let rate = |window, head_dim, pass| {
        let shape = AttentionShape { causal: true, window, head_dim, pass, ..SHAPE };
        model.time(AttentionShape { pass: Pass::Forward, ..shape }).seconds
            / model.time_by(Library::Cudnn, shape).seconds
    };
    close(rate(0, 100, Pass::Forward), 0.5);
    close(rate(100, 100, Pass::Forward), 0.2);
    close(rate(100, 100, Pass::Backward), 0.1 / 2.5);
    // A window as long as the sequence is none, and other sizes have no other rates.
    close(rate(1000, 100, Pass::Forward), 0.5);
    close(rate(100, 50, Pass::Forward), 0.25);
}

#[test]
fn a_backward_pass_computes_what_its_library_does_not_skip() {
    let time = |masked: &str, pass, causal, window| {
        let model = device(|file| {
            let rates = serde_json::json!({ "heads": [[100, 1.0, 1.0]], "masked": masked, "source": "" });
            file["libraries"] = serde_json::json!({ "cudnn": rates });
        });
        model.time_by(Library::Cudnn, AttentionShape { pass, causal, window, ..SHAPE }).seconds
    };
    let backward = |masked: &str, causal, window| time(masked, Pass::Backward, causal, window);
    let (full, causal) = (backward("none", false, 0), backward("none", true, 0));
    assert!(backward("none", true, 100) < causal && causal < full);
    assert_eq!(backward("window", true, 100), causal);
    assert_eq!(backward("all", true, 100), full);
    // The forward pass skips all that the mask leaves out.
    assert_eq!(time("all", Pass::Forward, true, 100), time("none", Pass::Forward, true, 100));
}

#[test]
fn pairs_are_counted_like_one_by_one() {
    for (sequence, window) in [(1u64, 0u64), (7, 0), (100, 1), (100, 33), (100, 100), (100, 200)] {
        let limit = if window == 0 { u64::MAX } else { window };
        let counted: u64 = (1..=sequence).map(|query| query.min(limit)).sum();
        let shape = AttentionShape { sequence, window, causal: true, ..SHAPE };
        assert_eq!(shape.pairs(), counted as f64, "{sequence} {window}");
    }
    assert_eq!(SHAPE.pairs(), 1e6);
}

#[test]
fn no_time_is_shorter_than_the_operations_at_the_peak() {
    let slow = device(|_| ());
    let bounded = Attention { peak_flop_per_s: 5e13, ..slow.clone() };
    // Forward 400 us at 1e14 FLOP/s; five products rather than two backward.
    close(bounded.time(SHAPE).seconds, 800e-6);
    assert!(bounded.time(SHAPE).extrapolates);
    let quick = device(|file| file["backward"]["rule"]["rate_ratio"] = 10.0.into());
    let backward = AttentionShape { pass: Pass::Backward, ..SHAPE };
    close(Attention { peak_flop_per_s: 1e14, ..quick }.time(backward).seconds, 1000e-6);
    assert_eq!(Attention { peak_flop_per_s: 1e30, ..slow.clone() }.time(SHAPE), slow.time(SHAPE));
}

#[test]
fn tiles_that_are_faster_than_the_peak_are_refused() {
    let file = serde_json::json!({
        "element_bytes": 2,
        "forward": {
            "tiles": [[64, 128, 2.0]], "heads": [[128, 1.5]],
            "constants": {
                "flop_per_s": 1e14, "scores_per_s": 1e13, "memory_bytes_per_s": 1e12, "cache_bytes": 1e6,
                "launch_s": 1e-6, "tile_s": 0, "block_s": 0, "tail": 0, "throttle": 0, "throttle_s": 1,
                "prepare": 0, "prepare_s": 0
            },
            "range": { "batch_heads": [1, 1000], "sequence": [100, 10000] }
        },
        "backward": { "rule": { "flop_ratio": 2.5, "rate_ratio": 0.8, "source": "" } }
    });
    let file = || serde_json::from_value::<AttentionFile>(file.clone()).unwrap();
    assert!(Attention::new(file(), 100.0, Some(2.9e14)).unwrap_err().contains("more than the peak"));
    assert!(Attention::new(file(), 100.0, Some(3e14)).is_ok());
}

#[test]
fn other_masks_and_sizes_are_extrapolated() {
    let model = device(|_| ());
    let causal = AttentionShape { causal: true, ..SHAPE };
    for shape in [
        SHAPE,
        AttentionShape { sequence: 99, ..causal },
        AttentionShape { batch: 101, ..causal },
        AttentionShape { head_dim: 64, ..causal },
    ] {
        assert!(model.time(shape).extrapolates, "{shape:?}");
    }
}
