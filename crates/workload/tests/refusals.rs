//! Impossible jobs: all their errors appear together, each with its key and what is allowed.

use crate::support::{given, job, timed, train};
use syncline_diagnostics::{Diagnostic, Diagnostics};
use syncline_units::CollectiveKind::AllReduce;
use syncline_workload::exchange::{GivenExchange, When};
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::parallel::{Axes, MeshSpec, Parallel, Recompute, Schedule};
use syncline_workload::schedule::Pipeline;

fn refused(layers: &[Layer], ranks: u32, parallel: &Parallel) -> Diagnostics {
    train(layers, &[ranks], parallel, (1, 2)).unwrap_err()
}

fn one(layers: &[Layer], ranks: u32, parallel: &Parallel) -> Diagnostic {
    let mut found = refused(layers, ranks, parallel);
    assert_eq!(found.0.len(), 1, "{found}");
    found.0.remove(0)
}

fn layer(name: &str) -> Layer {
    timed(name, 1, 1, 1)
}

fn tensor(degree: u32) -> Parallel {
    Parallel { tensor: Axes::Degree(degree), ..Parallel::default() }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let layers = [layer("a"), layer("b")];
    for zero in 0..=3 {
        assert!(train(&layers, &[2], &Parallel { zero, ..Parallel::default() }, (1, 2)).is_ok());
    }
    let found = one(&layers, 2, &Parallel { zero: 4, ..Parallel::default() });
    assert_eq!((found.key.as_deref(), found.found.as_deref()), (Some("workload.parallel.zero"), Some("4")));
    assert_eq!((found.message.as_str(), found.allowed.as_deref()), ("no such stage of ZeRO", Some("0 to 3")));
    let checkpoints = |recompute| Parallel { divided_checkpoints: true, recompute, ..Parallel::default() };
    let found = one(&layers, 2, &checkpoints(Recompute::None));
    assert_eq!(found.key.as_deref(), Some("workload.parallel.divided_checkpoints"));
    assert_eq!(found.help.as_deref(), Some("add `recompute: full`"));
    let recompute = |recompute| Parallel { recompute, ..Parallel::default() };
    let found = one(&layers, 2, &recompute(Recompute::Full));
    assert_eq!(found.message, "there is nothing to recompute: no layer belongs to a `block`");
    assert_eq!(found.key.as_deref(), Some("workload.parallel.recompute"));
    let found = one(&layers, 2, &recompute(Recompute::Selective));
    assert_eq!(found.message, "there is nothing to recompute: no layer is marked `selective`");
    // A single layer of the kind is enough, and of the other kind none.
    let block = [layer("a"), Layer { block: Some(0), ..layer("b") }];
    let marked = [layer("a"), Layer { selective: true, ..layer("b") }];
    assert!(train(&block, &[2], &checkpoints(Recompute::Full), (1, 2)).is_ok());
    assert!(train(&marked, &[2], &recompute(Recompute::Selective), (1, 2)).is_ok());
    one(&block, 2, &recompute(Recompute::Selective));
    one(&marked, 2, &recompute(Recompute::Full));
    // Several at once.
    let parallel = Parallel { zero: 9, ..checkpoints(Recompute::Selective) };
    assert_eq!(refused(&layers, 2, &parallel).0.len(), 3);
}

#[test]
fn ranks_divide_heads_and_tokens_evenly() {
    let heads = |heads| [layer("first"), Layer { heads: Some(heads), ..layer("attention") }];
    for degree in [1, 2, 3, 6] {
        assert!(train(&heads(6), &[12], &tensor(degree), (1, 2)).is_ok());
    }
    let found = one(&heads(6), 12, &tensor(4));
    assert_eq!(found.message, "ranks do not divide the 6 heads of layer `attention`");
    assert_eq!(found.key.as_deref(), Some("workload.parallel.tensor"));
    assert_eq!(found.found.as_deref(), Some("4 tensor-parallel ranks"));
    assert_eq!(found.allowed.as_deref(), Some("1, 2, 3, 6"));
    let found = one(&heads(6), 12, &tensor(12));
    assert_eq!(found.message, "there are more tensor-parallel ranks than the 6 heads of layer `attention`");
    // Eight divisors are listed, of more the first seven and the last.
    assert_eq!(one(&heads(24), 16, &tensor(16)).allowed.as_deref(), Some("1, 2, 3, 4, 6, 8, 12, 24"));
    assert_eq!(one(&heads(36), 8, &tensor(8)).allowed.as_deref(), Some("1, 2, 3, 4, 6, 9, 12, ... 36"));
    // Tokens count only if they are divided.
    let tokens = [layer("first"), Layer { tokens: Some(10), ..layer("block") }];
    let sequence = |degree| Parallel { sequence: true, ..tensor(degree) };
    assert!(train(&tokens, &[4], &tensor(4), (1, 2)).is_ok());
    assert!(train(&tokens, &[5], &sequence(5), (1, 2)).is_ok());
    let found = one(&tokens, 4, &sequence(4));
    assert_eq!(found.message, "ranks do not divide the 10 tokens of layer `block`");
    assert_eq!(found.key.as_deref(), Some("workload.parallel.sequence"));
    assert_eq!(found.allowed.as_deref(), Some("1, 2, 5, 10"));
    // A layer on a mesh of its own is divided by that.
    let mesh = MeshSpec { tensor: Axes::Degree(4), ..MeshSpec::default() };
    let parallel = Parallel { meshes: [("m".to_owned(), mesh)].into(), ..tensor(2) };
    let own = [Layer { heads: Some(6), mesh: Some("m".to_owned()), ..layer("attention") }];
    assert_eq!(one(&own, 8, &parallel).found.as_deref(), Some("4 tensor-parallel ranks"));
}

#[test]
fn tables_are_exchanged_among_copies_of_whole_models() {
    let tables = Layer { sharding: Sharding::Exchange, ..layer("tables") };
    let layers = [tables.clone(), layer("top")];
    assert!(train(&layers, &[4], &tensor(1), (1, 2)).is_ok());
    let found = one(&layers, 4, &tensor(2));
    assert_eq!(
        found.message,
        "layer `tables` has `sharding: exchange`, so data-parallel ranks divide it, but tensor-parallel ranks divide \
         it too"
    );
    assert_eq!((found.key.as_deref(), found.allowed.as_deref()), (Some("workload.parallel"), Some("1")));
    // Exchanges of its own say how it is divided.
    let own = Layer { exchanges: Some(Vec::new()), ..tables };
    assert!(train(&[own, layer("top")], &[4], &tensor(2), (1, 2)).is_ok());
}

#[test]
fn outputs_are_needed_by_later_layers_of_the_same_stage() {
    let needed = |name: &str| Layer { needed_by: Some(name.to_owned()), ..layer("first") };
    let found =
        one(&[layer("zero"), needed("thrid"), layer("second"), layer("third")], 2, &Parallel::default());
    assert_eq!(found.message, "no later layer has this name");
    assert_eq!(found.key.as_deref(), Some("workload.layers.1.needed_by"));
    assert_eq!((found.nearest.as_deref(), found.allowed.as_deref()), (Some("third"), Some("second, third")));
    one(&[layer("zero"), needed("zero"), layer("second")], 2, &Parallel::default());
    let last = Layer { sharding: Sharding::Exchange, ..layer("tables") };
    let found = one(&[layer("zero"), last], 2, &Parallel::default());
    assert_eq!(found.key.as_deref(), Some("workload.layers.1.sharding"));
    assert_eq!(found.message, "a layer with `sharding: exchange` needs a later layer that uses its output");
    let mut layers = [needed("second"), layer("second")];
    layers[0].outputs = 1;
    let found = one(&layers, 2, &Parallel { pipeline: Axes::Degree(2), ..Parallel::default() });
    assert_eq!(
        (found.key.as_deref(), found.found.as_deref()),
        (Some("workload.parallel.pipeline"), Some("2 stages"))
    );
    assert!(train(&layers, &[2], &Parallel::default(), (1, 2)).is_ok());
}

#[test]
fn layers_name_meshes_axes_and_coordinates_that_exist() {
    let context = Parallel { axes: [("context".to_owned(), Axes::Degree(3))].into(), ..tensor(2) };
    let mesh = |name: &str| [Layer { mesh: Some(name.to_owned()), ..layer("l") }];
    let found = one(&mesh("m"), 12, &context);
    assert_eq!(found.help.as_deref(), Some("describe it in `parallel.meshes`"));
    let named = Parallel { meshes: [("experts".to_owned(), MeshSpec::default())].into(), ..context.clone() };
    let found = one(&mesh("expert"), 12, &named);
    assert_eq!((found.nearest.as_deref(), found.allowed.as_deref()), (Some("experts"), Some("experts")));
    assert!(train(&mesh("experts"), &[12], &named, (1, 2)).is_ok());
    let ranks =
        |axis: &str, at: &[u32]| [Layer { ranks: [(axis.to_owned(), at.to_vec())].into(), ..layer("l") }];
    for (axis, at) in [("context", &[0, 1, 2][..]), ("context", &[2]), ("tensor", &[1, 0]), ("data", &[1])] {
        assert!(train(&ranks(axis, at), &[12], &context, (1, 2)).is_ok(), "{axis} {at:?}");
    }
    for (axis, at) in [("context", &[3][..]), ("context", &[1, 1]), ("data", &[0, 2]), ("tensor", &[])] {
        let found = one(&ranks(axis, at), 12, &context);
        assert_eq!(found.message, "these are not different coordinates on the axis");
        assert_eq!(found.key, Some(format!("workload.layers.0.ranks.{axis}")));
        assert_eq!(found.found, Some(format!("{at:?}")));
        let last = if axis == "context" { 2 } else { 1 };
        assert_eq!(found.allowed, Some(format!("some of 0 to {last}, each once")));
    }
    let found = one(&ranks("contxet", &[0]), 12, &context);
    assert_eq!(
        (found.nearest.as_deref(), found.allowed.as_deref()),
        (Some("context"), Some("tensor, context, data"))
    );
    let found = one(&ranks("pipeline", &[0]), 12, &context);
    assert_eq!(found.help.as_deref(), Some("remove the key"));
}

#[test]
fn exchanges_are_possible_and_begin_when_they_can() {
    let context = Parallel { axes: [("context".to_owned(), Axes::Degree(3))].into(), ..tensor(2) };
    let of = |exchange: GivenExchange| [Layer { exchanges: Some(vec![exchange]), ..layer("l") }];
    let found = one(&of(given(When::AfterForward, &[], AllReduce)), 12, &context);
    assert_eq!(found.allowed.as_deref(), Some("tensor, context, data, pipeline"));
    let found = one(&of(given(When::AfterForward, &["data", "contxet"], AllReduce)), 12, &context);
    assert_eq!((found.nearest.as_deref(), found.found.as_deref()), (Some("context"), Some("contxet")));
    let found = one(&of(given(When::AfterForward, &["data", "pipeline"], AllReduce)), 12, &context);
    assert_eq!(found.message, "layers of different stages have no collectives together");
    let found = one(&of(given(When::AfterForward, &["data", "tensor", "data"], AllReduce)), 12, &context);
    assert_eq!((found.message.as_str(), found.found.as_deref()), ("an axis is named twice", Some("data")));
    // Only the moments after work may overlap what follows.
    use When::{
        AfterForward, AfterInputGrad, AfterUpdate, AfterWeightGrad, BeforeBackward, BeforeForward, BeforeUse,
        BeforeWeightGrad,
    };
    for (when, may) in [
        (BeforeUse, false),
        (BeforeForward, false),
        (AfterForward, true),
        (BeforeBackward, false),
        (AfterInputGrad, true),
        (BeforeWeightGrad, false),
        (AfterWeightGrad, true),
        (AfterUpdate, true),
    ] {
        let with = |blocks| of(GivenExchange { blocks, ..given(when, &["data"], AllReduce) });
        assert!(train(&with(Some(true)), &[12], &context, (1, 2)).is_ok());
        assert!(train(&with(None), &[12], &context, (1, 2)).is_ok());
        assert_eq!(train(&with(Some(false)), &[12], &context, (1, 2)).is_ok(), may, "{when:?}");
        if !may {
            let found = one(&with(Some(false)), 12, &context);
            assert_eq!(found.key.as_deref(), Some("workload.layers.0.exchanges.0.blocks"));
            assert!(found.help.unwrap().contains(when.name()));
        }
        let each = of(GivenExchange { each_micro_batch: true, ..given(when, &["data"], AllReduce) });
        assert_eq!(train(&each, &[12], &context, (1, 2)).is_ok(), when == AfterWeightGrad, "{when:?}");
    }
}

#[test]
fn only_the_first_layer_of_a_block_has_an_input_to_gather() {
    let parallel = Parallel { recompute: Recompute::Full, ..tensor(2) };
    let of = |blocks: [Option<u32>; 4], at: usize| {
        let mut layers: Vec<Layer> = blocks.map(|block| Layer { block, ..layer("l") }).to_vec();
        let exchange = given(When::BeforeRecompute, &["tensor"], AllReduce);
        layers[at].exchanges = Some(vec![exchange]);
        train(&layers, &[4], &parallel, (1, 2))
            .map(|_| ())
            .map_err(|mut errors| errors.0.remove(0).key.unwrap())
    };
    let blocks = [None, Some(1), Some(1), Some(2)];
    let refused = |at: u32| Err(format!("workload.layers.{at}.exchanges.0.when"));
    assert_eq!([0, 1, 2, 3].map(|at| of(blocks, at)), [refused(0), Ok(()), refused(2), Ok(())]);
    // Also if the block is the first of the model.
    let blocks = [Some(1), Some(1), None, Some(2)];
    assert_eq!([0, 1, 2, 3].map(|at| of(blocks, at)), [Ok(()), refused(1), refused(2), Ok(())]);
}

#[test]
fn schedules_have_the_virtual_stages_and_micro_batches_that_they_need() {
    let new = |schedule, virtual_stages, stages, micro_batches| {
        let parallel = Parallel { schedule, virtual_stages, ..Parallel::default() };
        Pipeline::new(&parallel, stages, micro_batches)
    };
    assert_eq!(new(Schedule::GPipe, 1, 4, 3).unwrap().parts(), 4);
    assert_eq!(new(Schedule::Interleaved, 3, 4, 8).unwrap().parts(), 12);
    let found = new(Schedule::GPipe, 2, 4, 8).unwrap_err();
    assert_eq!(found.message, "the schedule gpipe does not allow this number of virtual stages");
    assert_eq!((found.found.as_deref(), found.allowed.as_deref()), (Some("2"), Some("1")));
    let found = new(Schedule::Interleaved, 1, 4, 8).unwrap_err();
    assert_eq!(found.message, "the schedule interleaved does not allow this number of virtual stages");
    assert_eq!(found.allowed.as_deref(), Some("at least 2"));
    assert!(new(Schedule::Interleaved, 0, 4, 8).is_err() && new(Schedule::GPipe, 0, 4, 8).is_err());
    let found = new(Schedule::Interleaved, 2, 1, 8).unwrap_err();
    assert_eq!(found.message, "virtual stages need a pipeline");
    for (micro_batches, near) in [(1, "4"), (3, "4"), (5, "4 or 8"), (11, "8 or 12")] {
        let found = new(Schedule::Interleaved, 2, 4, micro_batches).unwrap_err();
        assert_eq!(found.key.as_deref(), Some("workload.micro_batches"));
        assert_eq!(found.allowed, Some(format!("multiples of 4, such as {near}")));
    }
    // A job tells of the pipeline together with what else is uneven.
    let parallel = Parallel { virtual_stages: 2, ..tensor(4) };
    let layers = [Layer { heads: Some(6), ..layer("l") }];
    assert_eq!(refused(&layers, 4, &parallel).0.len(), 2);
}

#[test]
fn meshes_of_some_layers_are_possible_too() {
    let mesh = MeshSpec { tensor: Axes::Degree(3), ..MeshSpec::default() };
    let parallel = Parallel { meshes: [("m".to_owned(), mesh)].into(), ..Parallel::default() };
    let found = one(&[layer("l")], 4, &parallel);
    assert_eq!(found.key.as_deref(), Some("workload.parallel.meshes.m.tensor"));
    // A layer may be on the second mesh only in part.
    let mut part = layer("part");
    (part.mesh, part.parameters) = (Some("m".to_owned()), 10);
    part.ranks = [("tensor".to_owned(), vec![2])].into();
    let mesh = MeshSpec { tensor: Axes::Degree(4), ..MeshSpec::default() };
    let parallel = Parallel { meshes: [("m".to_owned(), mesh)].into(), ..tensor(2) };
    let workload = job(&[layer("whole"), part], &[8], &parallel, (1, 2));
    let with: Vec<u32> = (0..8).filter(|&rank| workload.class_of(rank) != workload.class_of(0)).collect();
    assert_eq!(with, [2, 6]);
}
