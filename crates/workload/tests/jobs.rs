//! Scenarios' words for a job, and the number of its micro-batches.

use crate::support::timed;
use syncline_units::Bytes;
use syncline_workload::batch::{Batch, Number};
use syncline_workload::layer::Layer;
use syncline_workload::parallel::{
    Axes, BackwardOrder, MeshSpec, Messages, Overlap, Parallel, Recompute, Schedule, Updates,
};

fn keys(value: &impl serde::Serialize) -> Vec<String> {
    serde_json::to_value(value).unwrap().as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_parallelisation_is_written_without_what_is_usual() {
    let usual = ["backward", "data", "tensor"];
    assert_eq!(keys(&Parallel::default()), usual);
    let default = Parallel::default;
    for (key, parallel) in [
        ("pipeline", Parallel { pipeline: Axes::Degree(2), ..default() }),
        ("pipeline", Parallel { pipeline: Axes::Rest, ..default() }),
        ("axes", Parallel { axes: [("x".to_owned(), Axes::None)].into(), ..default() }),
        ("order", Parallel { order: vec!["x".to_owned()], ..default() }),
        ("meshes", Parallel { meshes: [("m".to_owned(), MeshSpec::default())].into(), ..default() }),
        ("schedule", Parallel { schedule: Schedule::GPipe, ..default() }),
        ("virtual_stages", Parallel { virtual_stages: 2, ..default() }),
        ("virtual_stages", Parallel { virtual_stages: 0, ..default() }),
        ("zero", Parallel { zero: 1, ..default() }),
        ("recompute", Parallel { recompute: Recompute::Full, ..default() }),
        ("divided_checkpoints", Parallel { divided_checkpoints: true, ..default() }),
        ("sequence", Parallel { sequence: true, ..default() }),
        ("overlap", Parallel { overlap: Overlap::None, ..default() }),
        ("combined", Parallel { combined: true, ..default() }),
        ("updates", Parallel { updates: Updates::Together, ..default() }),
        ("messages", Parallel { messages: Messages::Block, ..default() }),
    ] {
        let mut expected = usual.map(str::to_owned).to_vec();
        expected.push(key.to_owned());
        expected.sort();
        assert_eq!(keys(&parallel), expected);
        let written = serde_json::to_string(&parallel).unwrap();
        assert_eq!(serde_json::from_str::<Parallel>(&written).unwrap(), parallel);
    }
    assert_eq!(serde_json::from_str::<Parallel>("{}").unwrap(), Parallel::default());
    let read = serde_json::from_str::<Parallel>(r#"{"backward": "input_first"}"#).unwrap();
    assert_eq!(read.backward, BackwardOrder::InputFirst);
    assert!(serde_json::from_str::<Parallel>(r#"{"tensro": "all"}"#).is_err());
    assert_eq!(keys(&MeshSpec::default()), ["data", "tensor"]);
    assert_eq!(
        keys(&MeshSpec { pipeline: Axes::All, ..MeshSpec::default() }),
        ["data", "pipeline", "tensor"]
    );
}

#[test]
fn a_layer_is_written_without_what_it_lacks() {
    let bare = timed("l", 1, 1, 1);
    let usual = keys(&bare);
    assert_eq!(
        usual,
        [
            "forward",
            "input_grad",
            "inputs",
            "name",
            "outputs",
            "parameters",
            "sharding",
            "update",
            "weight_grad"
        ]
    );
    for (key, layer) in [
        ("selective", Layer { selective: true, ..bare.clone() }),
        ("kept", Layer { kept: Some(Bytes(0)), ..bare.clone() }),
        ("mesh", Layer { mesh: Some("m".to_owned()), ..bare.clone() }),
        ("ranks", Layer { ranks: [("a".to_owned(), vec![])].into(), ..bare.clone() }),
        ("exchanges", Layer { exchanges: Some(vec![]), ..bare.clone() }),
    ] {
        let written = serde_json::to_string(&layer).unwrap();
        assert_eq!(serde_json::from_str::<Layer>(&written).unwrap(), layer);
        let mut expected = usual.clone();
        expected.push(key.to_owned());
        expected.sort();
        assert_eq!(keys(&layer), expected);
    }
    assert_eq!(
        serde_json::from_str::<Layer>(r#"{"name": "l"}"#).unwrap(),
        Layer { name: "l".to_owned(), ..Layer::default() }
    );
}

#[test]
fn a_global_batch_is_divided_among_copies_and_micro_batches() {
    let micro_batches = |global, each, copies| {
        Batch { micro_batch: Some(each), number: Number::Global(global) }.micro_batches(copies)
    };
    // Multiplied back.
    for (each, copies, number) in [(1, 1, 1), (3, 5, 7), (16, 1, 2), (1, 9, 100)] {
        assert_eq!(micro_batches(each * copies * number, each, copies), Ok(number));
        assert_eq!(micro_batches(each * copies * number + 1, each, copies).is_ok(), each * copies == 1);
    }
    assert_eq!(Batch::of(9).micro_batches(1_000), Ok(9));
    assert_eq!(Batch::of(9).micro_batch, None);
}

#[test]
fn the_nearest_global_batch_that_divides_is_suggested() {
    let refuse = |global, each, copies| {
        Batch { micro_batch: Some(each), number: Number::Global(global) }.micro_batches(copies).unwrap_err()
    };
    // By trying all multiples; of two that are equally near, the smaller one.
    for global in 0..200u32 {
        for (each, copies) in [(3, 4), (5, 7), (10, 1)] {
            let at_once = each * copies;
            if global > 0 && global.is_multiple_of(at_once) {
                continue;
            }
            let nearest = (1..100).map(|by| by * at_once).min_by_key(|&near| near.abs_diff(global)).unwrap();
            let help = refuse(global, each, copies).help.unwrap();
            assert!(help.contains(&format!("`global_batch: {nearest}`,")), "{global} of {at_once}: {help}");
        }
    }
    let error = refuse(13, 3, 4);
    assert_eq!(error.message, "the global batch does not divide evenly into micro-batches");
    assert_eq!((error.key.as_deref(), error.found.as_deref()), (Some("workload.global_batch"), Some("13")));
    assert_eq!(
        error.allowed.as_deref(),
        Some("multiples of 12: a micro-batch of 3 on 4 data-parallel ranks")
    );
    assert!(refuse(13, 3, 1).allowed.unwrap().ends_with("on 1 data-parallel rank"));
    // A micro-batch of nothing divides nothing.
    assert_eq!(refuse(13, 0, 4).found.as_deref(), Some("13"));
    let unknown = Batch { micro_batch: None, number: Number::Global(8) }.micro_batches(1).unwrap_err();
    assert_eq!(unknown.message, "the number of samples in a micro-batch is not given");
}
