//! Meshes: ranks count along their axes from the lowest one up, as digits of a number.

use crate::support::fabric;
use proptest::prelude::*;
use syncline_workload::mesh::{FabricAxis, Mesh};
use syncline_workload::parallel::{Axes, DATA, MeshSpec, PIPELINE, Parallel, TENSOR};
use syncline_workload::role::Axis;

/// `tensor` x `context` x `data` x `pipeline`.
fn spec(sizes: [u32; 4]) -> MeshSpec {
    let [tensor, context, data, pipeline] = sizes.map(Axes::Degree);
    MeshSpec { tensor, data, pipeline, axes: [("context".to_owned(), context)].into(), order: Vec::new() }
}

const NAMES: [&str; 4] = [TENSOR, "context", DATA, PIPELINE];

/// The digits of a rank.
fn digits(rank: u32, sizes: [u32; 4]) -> [u32; 4] {
    let mut rest = rank;
    sizes.map(|size| {
        let digit = rest % size;
        rest /= size;
        digit
    })
}

/// Sizes of dimensions whose boundaries need not be those of the mesh's axes: powers of two.
fn cut(mut exponent: u32, cuts: &[u32]) -> Vec<u32> {
    let mut sizes = Vec::new();
    for &size in cuts {
        let size = size.min(exponent);
        sizes.push(1 << size);
        exponent -= size;
    }
    sizes.push(1 << exponent);
    sizes
}

proptest! {
    #[test]
    fn coordinates_are_digits_and_groups_are_ranks_that_share_the_others(
        exponents in prop::array::uniform4(0u32..3),
        cuts in prop::collection::vec(0u32..4, 0..4),
        mask in 1u8..16,
    ) {
        let sizes = exponents.map(|exponent| 1 << exponent);
        let ranks: u32 = sizes.iter().product();
        let dimensions = fabric(&cut(exponents.iter().sum(), &cuts));
        let mesh = Mesh::place(&dimensions, &spec(sizes)).unwrap();
        prop_assert_eq!(mesh.ranks(), ranks);
        prop_assert_eq!(NAMES.map(|name| mesh.degree(name)), sizes);
        let along: Vec<usize> = (0..4).filter(|at| mask >> at & 1 == 1).collect();
        let names: Vec<&str> = along.iter().map(|&at| NAMES[at]).collect();
        let role = mesh.groups("g", &names);
        for rank in 0..ranks {
            let digits = digits(rank, sizes);
            for (at, name) in NAMES.iter().enumerate() {
                prop_assert_eq!(mesh.coordinate(rank, name), digits[at], "{} of {}", name, rank);
            }
            let at = role.position_of(rank).unwrap();
            let members: Vec<u32> = (0..ranks)
                .filter(|&other| {
                    let others = self::digits(other, sizes);
                    (0..4).all(|at| along.contains(&at) || others[at] == digits[at])
                })
                .collect();
            prop_assert_eq!(role.ranks(at.group), members);
        }
        // Neighbouring parts of a dimension are one axis of a group: no two axes follow each other in one dimension.
        for pair in role.axes.windows(2) {
            let adjacent = pair[0].stride * pair[0].size == pair[1].stride;
            prop_assert!(!(adjacent && pair[0].dim == pair[1].dim), "{:?}", role.axes);
        }
        let size: u32 = role.axes.iter().map(|axis| axis.size).product();
        prop_assert_eq!(size, along.iter().map(|&at| sizes[at]).product::<u32>());
    }

    #[test]
    fn a_second_mesh_keeps_the_stages_and_numbers_the_ranks_of_each_from_zero(
        exponents in prop::array::uniform4(0u32..3),
        cuts in prop::collection::vec(0u32..4, 0..4),
        expert in 0u32..5,
    ) {
        let sizes = exponents.map(|exponent| 1 << exponent);
        let dimensions = fabric(&cut(exponents.iter().sum(), &cuts));
        let mesh = Mesh::place(&dimensions, &spec(sizes)).unwrap();
        let in_stage: u32 = sizes[..3].iter().product();
        let expert = (1 << expert).min(in_stage);
        let experts = MeshSpec {
            tensor: Axes::Degree(1),
            axes: [("expert".to_owned(), Axes::Degree(expert))].into(),
            ..MeshSpec::default()
        };
        let beside = mesh.place_beside(&dimensions, "experts", &experts).unwrap();
        prop_assert_eq!((beside.degree("expert"), beside.degree(DATA)), (expert, in_stage / expert));
        for rank in 0..mesh.ranks() {
            prop_assert_eq!(beside.coordinate(rank, PIPELINE), mesh.coordinate(rank, PIPELINE));
            prop_assert_eq!(beside.coordinate(rank, "expert"), rank % expert);
            prop_assert_eq!(beside.coordinate(rank, DATA), rank % in_stage / expert);
        }
        // What the first mesh had split is whole again, so that groups of a whole stage cross it in one phase.
        let whole = beside.groups("stage", &["expert", DATA]);
        for pair in whole.axes.windows(2) {
            prop_assert!(pair[0].dim != pair[1].dim || pair[0].stride * pair[0].size != pair[1].stride);
        }
    }
}

#[test]
fn degrees_that_are_no_powers_of_two_split_dimensions_too() {
    // 12 x 10: tensor 6 splits the first, context 4 takes its other half and a fifth of the second... 2 of 10.
    let mesh = Mesh::place(&fabric(&[12, 10]), &spec([6, 4, 5, 1])).unwrap();
    assert_eq!(
        (&mesh.sizes[..], &mesh.dims[..]),
        (&[6, 2, 2, 5][..], &[Some(0), Some(0), Some(1), Some(1)][..])
    );
    assert_eq!([TENSOR, "context", DATA].map(|name| mesh.along(name)), [&[0][..], &[1, 2], &[3]]);
    // Across three dimensions.
    let mesh = Mesh::place(&fabric(&[3, 5, 14]), &spec([30, 1, 7, 1])).unwrap();
    assert_eq!(mesh.sizes, [3, 5, 2, 7]);
    assert_eq!(mesh.along(TENSOR), [0, 1, 2]);
    let role = mesh.groups("t", &[TENSOR]);
    let axis = |size, stride, dim| Axis { size, stride, dim: Some(dim) };
    assert_eq!(role.axes, [axis(3, 1, 0), axis(5, 3, 1), axis(2, 15, 2)]);
    assert_eq!(mesh.groups("d", &[DATA]).axes, [axis(7, 30, 2)]);
    assert_eq!(mesh.groups("both", &[TENSOR, DATA]).axes, [axis(3, 1, 0), axis(5, 3, 1), axis(14, 15, 2)]);
}

#[test]
fn axes_lie_in_the_order_that_is_asked_for() {
    let order =
        |names: [&str; 4]| MeshSpec { order: names.map(str::to_owned).to_vec(), ..spec([2, 3, 4, 5]) };
    let mesh = Mesh::place(&fabric(&[120]), &order([DATA, PIPELINE, "context", TENSOR])).unwrap();
    // Rank 97 = 1 + 4 (4 + 5 (1 + 3 x 1)).
    let at = |rank| NAMES.map(|name| mesh.coordinate(rank, name));
    assert_eq!((at(97), at(1), at(119)), ([1, 1, 1, 4], [0, 0, 1, 0], [1, 2, 3, 4]));
    let names: Vec<&str> = mesh.names().collect();
    assert_eq!(names, NAMES);
    assert!(mesh.has("context") && !mesh.has("expert") && mesh.degree("expert") == 1);
    assert_eq!((mesh.along("expert").len(), mesh.coordinate(97, "expert")), (0, 0));
    let error = Mesh::place(&fabric(&[120]), &order([DATA, DATA, "context", TENSOR])).unwrap_err();
    assert_eq!(error.found.as_deref(), Some("[data, data, context, tensor]"));
    assert_eq!(error.allowed.as_deref(), Some("tensor, context, data and pipeline in any order"));
}

#[test]
fn what_is_left_goes_to_copies_first() {
    let place = |tensor, data, pipeline, context| {
        let spec = MeshSpec {
            tensor,
            data,
            pipeline,
            axes: [("context".to_owned(), context)].into(),
            order: Vec::new(),
        };
        Mesh::place(&fabric(&[4, 6]), &spec).map(|mesh| NAMES.map(|name| mesh.degree(name)))
    };
    use Axes::{All, Degree, Dims, None, Rest};
    assert_eq!(place(Rest, Rest, Rest, Rest).unwrap(), [1, 1, 24, 1]);
    assert_eq!(place(Rest, None, Rest, Rest).unwrap(), [24, 1, 1, 1]);
    assert_eq!(place(None, None, Rest, Rest).unwrap(), [1, 24, 1, 1]);
    assert_eq!(place(None, None, Rest, None).unwrap(), [1, 1, 1, 24]);
    assert_eq!(place(Degree(2), Rest, Degree(3), None).unwrap(), [2, 1, 4, 3]);
    assert_eq!(place(All, None, None, None).unwrap(), [24, 1, 1, 1]);
    assert_eq!(place(Dims(vec!["dim1".to_owned()]), Rest, None, None).unwrap(), [6, 1, 4, 1]);
    assert_eq!(place(None, Dims(vec!["dim1".to_owned()]), Degree(4), None).unwrap(), [1, 1, 6, 4]);
    // A single rank along an axis asks for nothing.
    assert_eq!(place(All, None, Degree(1), Degree(1)).unwrap(), [24, 1, 1, 1]);
    // A degree for which nothing is left.
    let error = place(All, None, Degree(2), None).unwrap_err();
    assert_eq!(error.message, "dimension `dim0` is used for both tensor and pipeline");
    assert_eq!(error.key.as_deref(), Some("workload.parallel.pipeline"));
    let error = place(Degree(2), All, None, None).unwrap_err();
    assert_eq!(error.message, "dimension `dim0` is used for both tensor and data");
    assert_eq!(error.key.as_deref(), Some("workload.parallel.data"));
    let error = place(None, None, None, None).unwrap_err();
    assert_eq!(error.message, "no axis takes dimension `dim0`");
    assert_eq!(error.key.as_deref(), Some("workload.parallel.data"));
}

#[test]
fn degrees_that_do_not_fit_are_refused_with_their_product() {
    let place = |sizes: &[u32], tensor, data, pipeline: Option<u32>| {
        let degree = |of: Option<u32>| of.map_or(Axes::Rest, Axes::Degree);
        let pipeline = pipeline.map_or(Axes::None, Axes::Degree);
        let spec = MeshSpec { tensor: degree(tensor), data: degree(data), pipeline, ..MeshSpec::default() };
        Mesh::place(&fabric(sizes), &spec)
    };
    let error = place(&[6, 4], None, None, Some(5)).unwrap_err();
    assert_eq!(error.message, "5 does not divide the 24 NPUs of the fabric");
    assert_eq!(error.key.as_deref(), Some("workload.parallel.pipeline"));
    assert_eq!(error.help.as_deref(), Some("give a degree that divides 24"));
    let error = place(&[6, 4], Some(3), None, Some(5)).unwrap_err();
    assert_eq!(error.message, "tensor 3 x pipeline 5 does not divide the 24 NPUs of the fabric");
    assert_eq!(error.key.as_deref(), Some("workload.parallel.pipeline"));
    assert_eq!(error.help.as_deref(), Some("give degrees whose product divides 24"));
    let error = place(&[6, 4], Some(3), Some(4), None).unwrap_err();
    assert_eq!(error.message, "tensor 3 x data 4 does not equal the 24 NPUs of the fabric");
    assert_eq!(error.key.as_deref(), Some("workload.parallel"));
    assert!(place(&[6, 4], Some(3), Some(8), None).is_ok());
    // 4 of 6, which neither divides the other.
    let error = place(&[6, 4], Some(4), None, None).unwrap_err();
    assert_eq!(error.message, "4 ranks do not fill the dimensions evenly");
    assert_eq!(error.notes, ["4 remain to be placed on a dimension of 6"]);
    let error = place(&[6, 4], Some(18), None, None).unwrap_err();
    assert_eq!(error.notes, ["3 remain to be placed on a dimension of 4"]);
}

#[test]
fn dimensions_are_named_once_and_by_their_names() {
    let dims = |names: &[&str]| Axes::Dims(names.iter().map(|&name| name.to_owned()).collect());
    let place = |tensor| Mesh::place(&fabric(&[4, 6]), &MeshSpec { tensor, ..MeshSpec::default() });
    let error = place(dims(&["dim0", "dim7"])).unwrap_err();
    assert_eq!((error.message.as_str(), error.found.as_deref()), ("no such dimension", Some("dim7")));
    assert_eq!(error.allowed.as_deref(), Some("dim0, dim1"));
    let error = place(dims(&["dim1", "dim1"])).unwrap_err();
    assert_eq!(error.message, "dimension `dim1` is named twice");
    let mesh = place(dims(&["dim1"])).unwrap();
    assert_eq!((mesh.along(TENSOR), mesh.along(DATA)), (&[1][..], &[0][..]));
}

#[test]
fn dimensions_of_one_rank_need_no_axis() {
    let axis = |name: &str, size, dim| FabricAxis { name: name.to_owned(), size, dim };
    let axes = [axis("a", 1, Some(0)), axis("b", 4, None), axis("c", 1, None)];
    let none = MeshSpec { tensor: Axes::Dims(vec!["b".to_owned()]), data: Axes::None, ..MeshSpec::default() };
    let mesh = Mesh::place(&axes, &none).unwrap();
    assert_eq!((mesh.ranks(), mesh.degree(TENSOR), mesh.degree(DATA)), (4, 4, 1));
    let error = Mesh::place(&axes, &MeshSpec { tensor: Axes::None, ..none }).unwrap_err();
    assert_eq!(error.message, "dimension `b` is used for neither tensor nor data parallelism");
}

#[test]
fn a_mesh_of_some_layers_lies_beside_the_stages_of_all() {
    let stages = MeshSpec { pipeline: Axes::Dims(vec!["dim1".to_owned()]), ..spec([2, 1, 4, 1]) };
    let mesh = Mesh::place(&fabric(&[8, 3]), &stages).unwrap();
    assert_eq!((mesh.degree(PIPELINE), mesh.ranks()), (3, 24));
    let all = MeshSpec { tensor: Axes::All, data: Axes::None, ..MeshSpec::default() };
    let beside = mesh.place_beside(&fabric(&[8, 3]), "m", &all).unwrap();
    // All dimensions means all that the stages leave.
    assert_eq!((beside.degree(TENSOR), beside.degree(PIPELINE)), (8, 3));
    let twice = MeshSpec { tensor: Axes::All, data: Axes::All, ..MeshSpec::default() };
    let error = mesh.place_beside(&fabric(&[8, 3]), "m", &twice).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("workload.parallel.meshes.m.data"));
    let staged = MeshSpec { pipeline: Axes::Degree(3), ..MeshSpec::default() };
    let error = mesh.place_beside(&fabric(&[8, 3]), "m", &staged).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("workload.parallel.meshes.m.pipeline"));
}

#[test]
fn the_first_mesh_is_that_of_the_parallelisation() {
    let parallel = Parallel {
        tensor: Axes::Degree(3),
        data: Axes::All,
        pipeline: Axes::Degree(7),
        axes: [("x".to_owned(), Axes::None)].into(),
        order: vec!["x".to_owned()],
        ..Parallel::default()
    };
    let expected = MeshSpec {
        tensor: Axes::Degree(3),
        data: Axes::All,
        pipeline: Axes::Degree(7),
        axes: [("x".to_owned(), Axes::None)].into(),
        order: vec!["x".to_owned()],
    };
    assert_eq!(parallel.mesh(), expected);
}
