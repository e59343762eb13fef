//! Rotations of positions into queries and keys.

use crate::{Counting, PLAIN, SERVERS, gpt3, single};
use syncline_estimate::work::layer_work;
use syncline_estimate::{Attention, Job, Latent, Model, Module, Recompute, Software, estimate};

const LATENT: Latent = Latent { query_rank: 0, kv_rank: 8, nope_dim: 128, rope_dim: 64, value_dim: 128 };

fn rotated() -> Model {
    Model { rotary: true, ..gpt3() }
}

fn latent() -> Model {
    Model { attention: Attention::Latent(LATENT), ..rotated() }
}

/// Elements that operations read and write, one after the other.
fn bytes(operations: &[(u64, u64)]) -> u64 {
    operations.iter().map(|(read, written)| 2 * (read + written)).sum()
}

/// What PyTorch 2.2 executes for a head of 64 elements, as a `TorchDispatchMode` records it.
fn of_a_head() -> [u64; 2] {
    let (product, negated, joined, sum) = ((64, 64), (32, 32), (64, 64), (128, 64));
    let zeros = (0, 64);
    [
        bytes(&[product, negated, joined, product, sum, joined]),
        bytes(&[product, negated, product, joined, sum, zeros, sum]),
    ]
}

#[test]
fn one_kernel_reads_and_writes_queries_and_keys() {
    let work = layer_work(&rotated(), &single(1024), 0);
    // 96 heads of 128 elements, of queries and of keys.
    let elements = 1024 * 2 * 96 * 128;
    assert_eq!(work.rotation.fused, bytes(&[(elements, elements)]));
    let of_64 = of_a_head();
    assert_eq!(work.rotation.apart, of_64.map(|each| each * elements / 64));
    assert_eq!(
        layer_work(&gpt3(), &single(1024), 0).rotation,
        syncline_estimate::rotation::Rotation::default()
    );
}

#[test]
fn heads_of_latent_attention_are_taken_apart_and_joined() {
    let work = layer_work(&latent(), &single(1024), 0);
    let [forward, backward] = of_a_head();
    let (nope, rope, value) = (128, 64, 128);
    let join = (rope, rope);
    let forward = forward + bytes(&[join, (nope + rope, nope + rope), (nope, nope + rope), (value, value)]);
    // A slice of half the elements becomes zeros, into which it is copied.
    let slice = [(0, rope), (rope / 2, rope / 2)];
    let backward = backward
        + bytes(&[slice, slice].concat())
        + bytes(&[(2 * rope, rope), (rope, 0)])
        + bytes(&[(nope + value, nope + value), (nope + rope, nope + rope)]);
    assert_eq!(work.rotation.apart, [forward, backward].map(|each| each * 1024 * 96));
}

#[test]
fn kernels_are_apart_without_fusion_and_where_yarn_scales_heads() {
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let step = |model: &Model, job: &Job, software: &Software| {
        estimate(model, job, SERVERS, software, &costs).stage.element_wise / 96.0
    };
    let yarn = |model: Model| Model { yarn: true, ..model };
    let (plain, apart) = (single(1024), Job { rope_fusion: false, ..single(1024) });
    for model in [rotated(), latent()] {
        let rotation = layer_work(&model, &plain, 0).rotation;
        let more = 1.32 * (rotation.apart[0] + rotation.apart[1]) as f64 - 3.0 * rotation.fused as f64;
        let fused = step(&model, &plain, &PLAIN);
        let added = |model: &Model, job: &Job, software: &Software| step(model, job, software) - fused;
        assert!((added(&model, &apart, &PLAIN) / more - 1.0).abs() < 1e-9);
        // The kernels of latent attention take scaled angles; others do if the software has such kernels.
        let scaled = added(&yarn(model.clone()), &plain, &PLAIN);
        let expected = if model.attention == Attention::Full { more } else { 0.0 };
        assert!((scaled - expected).abs() < 1e-9 * more);
        let able = Software { fused_yarn: true, ..PLAIN };
        assert!(added(&yarn(model.clone()), &plain, &able).abs() < 1e-9 * more);
    }
}

#[test]
fn up_projections_are_rotated_again_as_before() {
    let costs = Counting { memory: 1.0, ..Counting::default() };
    let again = |rope_fusion| {
        let step = |job: &Job| estimate(&latent(), job, SERVERS, &PLAIN, &costs).stage.element_wise / 96.0;
        let job = Job { rope_fusion, ..single(1024) };
        let recompute_modules = vec![Module::MlaUpProj].into();
        step(&Job { recompute: Recompute::Selective, recompute_modules, ..job.clone() }) - step(&job)
    };
    let rotation = layer_work(&latent(), &single(1024), 0).rotation;
    assert!((again(true) / rotation.fused as f64 - 1.0).abs() < 1e-9);
    assert!((again(false) / (1.32 * rotation.apart[0] as f64) - 1.0).abs() < 1e-9);
}
