//! What ranks exchange: groups, kinds, bytes and order, for each kind of parallelism.

use crate::support::{Collective, collectives, given, job, timed, train};
use syncline_units::{Bytes, CollectiveKind};
use syncline_workload::Part::{Forward, InputGrad, Update, WeightGrad};
use syncline_workload::exchange::{GivenExchange, When};
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::parallel::{Axes, MeshSpec, Overlap, Parallel, Recompute};
use syncline_workload::{Part, TaskKind};

/// 96 parameters, 30 inputs, 50 outputs.
fn layer(name: &str, sharding: Sharding) -> Layer {
    Layer { sharding, parameters: 96, inputs: 30, outputs: 50, ..timed(name, 8, 8, 8) }
}

/// Collectives as [`collectives`] gives them.
fn expect(list: &[(&str, Part, &str, &'static str, u64, u32)]) -> Vec<Collective> {
    let one = |&(layer, part, group, kind, bytes, times): &(&str, _, &str, _, _, _)| {
        (layer.to_owned(), part, group.to_owned(), kind, bytes, times)
    };
    list.iter().map(one).collect()
}

fn found(layers: &[Layer], parallel: &Parallel, ranks: u32, micro_batches: u32) -> Vec<Collective> {
    collectives(&job(layers, &[ranks], parallel, (1, micro_batches)), 0)
}

#[test]
fn copies_sum_gradients_or_divide_the_training_state() {
    let layers = [layer("a", Sharding::Gather), layer("b", Sharding::Gather)];
    // 96 parameters of 2 bytes, and gradients of 4.
    let (sum, gather) = (4 * 96, 2 * 96);
    for (zero, expected) in [
        (
            0,
            vec![
                ("b", WeightGrad, "data", "all_reduce", sum, 1),
                ("a", WeightGrad, "data", "all_reduce", sum, 1),
            ],
        ),
        (
            1,
            vec![
                ("b", WeightGrad, "data", "reduce_scatter", sum, 1),
                ("b", Update, "data", "all_gather", gather, 1),
                ("a", WeightGrad, "data", "reduce_scatter", sum, 1),
                ("a", Update, "data", "all_gather", gather, 1),
            ],
        ),
        (
            2,
            vec![
                ("b", WeightGrad, "data", "reduce_scatter", sum, 3),
                ("b", Update, "data", "all_gather", gather, 1),
                ("a", WeightGrad, "data", "reduce_scatter", sum, 3),
                ("a", Update, "data", "all_gather", gather, 1),
            ],
        ),
        (
            3,
            vec![
                ("a", Forward, "data", "all_gather", gather, 3),
                ("b", Forward, "data", "all_gather", gather, 3),
                ("b", InputGrad, "data", "all_gather", gather, 3),
                ("b", WeightGrad, "data", "reduce_scatter", sum, 3),
                ("a", InputGrad, "data", "all_gather", gather, 3),
                ("a", WeightGrad, "data", "reduce_scatter", sum, 3),
            ],
        ),
    ] {
        let parallel = Parallel { zero, ..Parallel::default() };
        assert_eq!(found(&layers, &parallel, 4, 3), expect(&expected), "stage {zero}");
        // A single copy has nothing to exchange.
        assert_eq!(found(&layers, &parallel, 1, 3), []);
    }
    // Without overlap the order is that of the backward pass, too, and the sums come last.
    let parallel = Parallel { overlap: Overlap::None, ..Parallel::default() };
    let sums =
        [("b", WeightGrad, "data", "all_reduce", sum, 1), ("a", WeightGrad, "data", "all_reduce", sum, 1)];
    assert_eq!(found(&layers, &parallel, 4, 3), expect(&sums));
    let workload = job(&layers, &[4], &parallel, (1, 3));
    let last =
        |wanted: fn(&TaskKind) -> bool| workload.classes[0].tasks.iter().rposition(|task| wanted(&task.kind));
    let computed = last(|kind| matches!(kind, TaskKind::Compute(_))).unwrap();
    let first = workload.classes[0].tasks.iter().position(|task| task.kind.is_communication()).unwrap();
    assert!(computed < first);
}

#[test]
fn ranks_of_a_copy_exchange_activations_as_the_sharding_says() {
    let all = |sharding| [layer("in", Sharding::Divided), layer("l", sharding)];
    let parallel = |sequence| Parallel { tensor: Axes::Degree(4), sequence, ..Parallel::default() };
    // Activations of one byte. A rank has 24 of 96 parameters, whose gradients have 4 bytes.
    for (sharding, sequence, expected) in [
        (
            Sharding::Gather,
            false,
            vec![
                ("l", Forward, "tensor", "all_gather", 50, 1),
                ("l", InputGrad, "tensor", "all_reduce", 30, 1),
            ],
        ),
        (
            Sharding::Gather,
            true,
            vec![
                ("l", Forward, "tensor", "all_gather", 50, 1),
                ("l", InputGrad, "tensor", "all_reduce", 30, 1),
            ],
        ),
        (Sharding::Column, false, vec![("l", InputGrad, "tensor", "all_reduce", 30, 1)]),
        (
            Sharding::Column,
            true,
            vec![
                ("l", Forward, "tensor", "all_gather", 30, 1),
                ("l", WeightGrad, "tensor", "all_gather", 30, 1),
                ("l", InputGrad, "tensor", "reduce_scatter", 30, 1),
            ],
        ),
        (Sharding::Row, false, vec![("l", Forward, "tensor", "all_reduce", 50, 1)]),
        (
            Sharding::Row,
            true,
            vec![
                ("l", Forward, "tensor", "reduce_scatter", 50, 1),
                ("l", InputGrad, "tensor", "all_gather", 50, 1),
            ],
        ),
        (Sharding::Divided, false, vec![]),
        (Sharding::Divided, true, vec![]),
        (Sharding::Replicated, false, vec![]),
        // Each rank has seen its own tokens only, so the gradients of all parameters are summed.
        (Sharding::Replicated, true, vec![("l", WeightGrad, "tensor", "all_reduce", 4 * 96, 1)]),
    ] {
        let found = found(&all(sharding), &parallel(sequence), 4, 1);
        assert_eq!(found, expect(&expected), "{sharding:?}, sequence {sequence}");
    }
    // Two copies sum a rank's own gradients, after those of the tokens.
    let replicated = found(&all(Sharding::Replicated), &parallel(true), 8, 2);
    let sums = [
        ("l", WeightGrad, "tensor", "all_reduce", 4 * 96, 1),
        ("l", WeightGrad, "data", "all_reduce", 4 * 96, 1),
        ("in", WeightGrad, "data", "all_reduce", 4 * 24, 1),
    ];
    assert_eq!(replicated, expect(&sums));
}

#[test]
fn divided_checkpoints_are_gathered_once_for_each_block() {
    let mut layers =
        [layer("a", Sharding::Divided), layer("b", Sharding::Divided), layer("c", Sharding::Divided)];
    (layers[0].block, layers[1].block, layers[2].block) = (Some(0), Some(0), Some(1));
    layers.iter_mut().for_each(|layer| layer.parameters = 0);
    let parallel = |sequence, divided_checkpoints| Parallel {
        tensor: Axes::Degree(2),
        recompute: Recompute::Full,
        sequence,
        divided_checkpoints,
        ..Parallel::default()
    };
    let gathers =
        [("c", InputGrad, "tensor", "all_gather", 30, 2), ("a", InputGrad, "tensor", "all_gather", 30, 2)];
    assert_eq!(found(&layers, &parallel(false, true), 2, 2), expect(&gathers));
    assert_eq!(found(&layers, &parallel(false, false), 2, 2), []);
    // With sequence parallelism inputs are divided anyway, and nothing has to be put together.
    assert_eq!(found(&layers, &parallel(true, true), 2, 2), []);
    let single = Parallel { tensor: Axes::Degree(1), ..parallel(false, true) };
    assert_eq!(found(&layers, &single, 2, 2), []);
}

#[test]
fn exchanged_tables_go_to_all_copies_and_their_gradients_come_back() {
    let layers = [layer("tables", Sharding::Exchange), layer("top", Sharding::Gather)];
    let expected = [
        ("tables", Forward, "data", "all_to_all", 50, 2),
        ("top", WeightGrad, "data", "all_reduce", 4 * 96, 1),
        ("tables", InputGrad, "data", "all_to_all", 50, 2),
    ];
    assert_eq!(found(&layers, &Parallel::default(), 4, 2), expect(&expected));
    assert_eq!(found(&layers, &Parallel::default(), 1, 2), []);
    // Tables have no copies, whose training state could be divided.
    let parallel = Parallel { zero: 3, ..Parallel::default() };
    assert!(
        found(&layers, &parallel, 4, 2)
            .iter()
            .filter(|each| each.0 == "tables")
            .all(|each| each.3 == "all_to_all")
    );
}

#[test]
fn layers_with_exchanges_of_their_own_have_no_others() {
    let own = |exchanges: &[GivenExchange]| Layer {
        exchanges: Some(exchanges.to_vec()),
        ..layer("own", Sharding::Gather)
    };
    let parallel = Parallel { tensor: Axes::Degree(2), zero: 1, ..Parallel::default() };
    assert_eq!(found(&[own(&[])], &parallel, 4, 1), []);
    // In the order in which they are given, whatever they carry but nothing.
    let of = |when, bytes, kind| GivenExchange { bytes: Bytes(bytes), ..given(when, &["tensor"], kind) };
    let layers = [
        layer("in", Sharding::Divided),
        own(&[
            of(When::AfterUpdate, 1, CollectiveKind::Broadcast),
            of(When::AfterForward, 2, CollectiveKind::Reduce),
            of(When::AfterForward, 0, CollectiveKind::AllReduce),
            of(When::AfterForward, 3, CollectiveKind::AllToAll),
            of(When::BeforeForward, 4, CollectiveKind::AllGather),
        ]),
    ];
    let expected = [
        ("own", Forward, "tensor", "all_gather", 4, 2),
        ("own", Forward, "tensor", "reduce", 2, 2),
        ("own", Forward, "tensor", "all_to_all", 3, 2),
        ("own", Update, "tensor", "broadcast", 1, 1),
    ];
    assert_eq!(found(&layers, &parallel, 2, 2), expect(&expected));
}

#[test]
fn experts_exchange_along_an_axis_of_their_own_mesh() {
    let to_all = |when| given(when, &["expert"], CollectiveKind::AllToAll);
    let mut experts = layer("experts", Sharding::Gather);
    experts.mesh = Some("moe".to_owned());
    experts.exchanges = Some(vec![
        to_all(When::BeforeForward),
        to_all(When::AfterForward),
        to_all(When::BeforeBackward),
        to_all(When::AfterInputGrad),
        given(When::AfterWeightGrad, &["data"], CollectiveKind::AllReduce),
    ]);
    let mesh = MeshSpec {
        tensor: Axes::Degree(1),
        axes: [("expert".to_owned(), Axes::Degree(4))].into(),
        ..MeshSpec::default()
    };
    let parallel = Parallel {
        tensor: Axes::Degree(2),
        pipeline: Axes::Degree(2),
        meshes: [("moe".to_owned(), mesh)].into(),
        ..Parallel::default()
    };
    let mut layers = vec![layer("dense", Sharding::Gather), experts];
    layers.extend([layer("dense2", Sharding::Gather), layer("last", Sharding::Gather)]);
    // Two stages of 8 ranks: dense layers on 2 x 4, experts on 4 x 2.
    let workload = job(&layers, &[16], &parallel, (1, 1));
    let of_experts: Vec<Collective> =
        collectives(&workload, 0).into_iter().filter(|each| each.0 == "experts").collect();
    let expected = [
        ("experts", Forward, "moe.expert", "all_to_all", 64, 1),
        ("experts", Forward, "moe.expert", "all_to_all", 64, 1),
        ("experts", InputGrad, "moe.expert", "all_to_all", 64, 1),
        ("experts", WeightGrad, "moe.data", "all_reduce", 64, 1),
        ("experts", InputGrad, "moe.expert", "all_to_all", 64, 1),
    ];
    assert_eq!(of_experts, expect(&expected));
    let group = |name: &str| workload.roles.iter().find(|role| role.name == name).unwrap();
    assert_eq!(group("moe.expert").ranks(1), [4, 5, 6, 7]);
    assert_eq!(group("moe.data").ranks(1), [1, 5]);
    assert_eq!(group("data").ranks(1), [1, 3, 5, 7]);
    assert_eq!(workload.with_collectives().len(), workload.roles.len());
    // Stages are crossed by messages alone.
    assert!(!workload.with_collectives()[workload.roles.len() - 1]);
}

#[test]
fn groups_leave_out_ranks_that_lack_the_layer() {
    // Ranks 1 and 3 of each four have it. Two copies each of 4 parts.
    let mut part = layer("part", Sharding::Gather);
    part.ranks = [("tensor".to_owned(), vec![1, 3])].into();
    let layers = [layer("whole", Sharding::Gather), part.clone()];
    let parallel = Parallel { tensor: Axes::Degree(4), ..Parallel::default() };
    let workload = job(&layers, &[8], &parallel, (1, 1));
    let of_part =
        |rank| collectives(&workload, rank).into_iter().filter(|each| each.0 == "part").collect::<Vec<_>>();
    let expected = [
        ("part", Forward, "tensor[1,3]", "all_gather", 50, 1),
        ("part", WeightGrad, "data", "all_reduce", 4 * 48, 1),
        ("part", InputGrad, "tensor[1,3]", "all_reduce", 30, 1),
    ];
    for rank in 0..8 {
        let expected = if rank % 2 == 1 { expect(&expected) } else { Vec::new() };
        assert_eq!(of_part(rank), expected, "rank {rank}");
    }
    let role = workload.roles.iter().find(|role| role.name == "tensor[1,3]").unwrap();
    assert_eq!((role.groups(), role.ranks(0), role.ranks(1)), (2, vec![1, 3], vec![5, 7]));
    assert_eq!((role.position_of(3).unwrap().position, role.position_of(2)), (1, None));
    assert!(!role.is_grid() && role.line(1, 1, 2).is_none());
    // Layers with equal limits share groups and classes.
    let layers = [layers[0].clone(), part.clone(), Layer { name: "again".to_owned(), ..part }];
    let workload = job(&layers, &[8], &parallel, (1, 1));
    assert_eq!(workload.roles.iter().filter(|role| role.name == "tensor[1,3]").count(), 1);
    assert_eq!(workload.classes.len(), 2);
    assert_eq!([0, 1].map(|class| workload.ranks_of(class)), [4, 4]);
    assert_eq!(workload.first_ranks().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn divisions_say_what_each_layer_is_divided_by() {
    let mut part = layer("part", Sharding::Gather);
    part.ranks = [("data".to_owned(), vec![0, 2, 3])].into();
    let layers = [layer("whole", Sharding::Gather), part];
    let parallel = Parallel { tensor: Axes::Degree(2), zero: 2, sequence: true, ..Parallel::default() };
    let training = train(&layers, &[8], &parallel, (1, 1)).unwrap();
    let sizes = |at| (training.division(at).tensor.size, training.division(at).data.size);
    assert_eq!((sizes(0), sizes(1), training.copies()), ((2, 4), (2, 3), 4));
    let division = training.division(0);
    assert!(division.zero == 2 && division.sequence && !division.divided_checkpoints);
    assert!(division.shards(&layers[0]) && division.divides(&layers[0]));
    assert_eq!(division.parameters(&layers[0]), 48);
}
