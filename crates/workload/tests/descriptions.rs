//! Jobs as data: classes of ranks, sums over them, and names for people.

use syncline_units::{Bytes, CollectiveKind, RankId, Time};
use syncline_workload::parallel::Schedule;
use syncline_workload::role::Axis;
use syncline_workload::{
    ClassRun, GraphBuilder, Part, Peer, Role, RoleId, Source, Task, TaskGraph, TaskKind, Work, Workload,
};

fn task(kind: TaskKind, name: &str) -> Task {
    Task { kind, layer: Some(1), part: Part::WeightGrad, name: name.to_owned() }
}

fn graph(tasks: &[Task], steps: (u32, u32)) -> TaskGraph {
    let mut builder = GraphBuilder::new();
    tasks.iter().for_each(|task| _ = builder.task(task.clone()));
    builder.build_steps(steps.0, steps.1).unwrap()
}

fn collective(role: u16) -> TaskKind {
    TaskKind::Collective {
        role: RoleId(role),
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(8),
        blocking: true,
        when: None,
    }
}

/// Ranks 0 to 2 and 6 to 7 are of class 0, 3 of class 1, 4 to 5 of class 2.
fn three_classes() -> Workload {
    let of = |number: usize| graph(&vec![task(TaskKind::Join, ""); number], (3, 4));
    Workload {
        name: "job".to_owned(),
        ranks: 8,
        classes: vec![of(1), of(2), of(3)],
        class_runs: [(0, 0), (3, 1), (4, 2), (6, 0)].map(|(first, class)| ClassRun { first, class }).to_vec(),
        roles: Vec::new(),
        axes: Vec::new(),
        layers: vec!["a".to_owned(), "b".to_owned()],
        iterations: 3,
        source: Source::Built,
    }
}

#[test]
fn classes_of_ranks_follow_from_their_runs() {
    let workload = three_classes();
    let classes: Vec<u32> = (0..8).map(|rank| workload.class_of(rank)).collect();
    assert_eq!(classes, [0, 0, 0, 1, 2, 2, 0, 0]);
    assert_eq!([0, 1, 2].map(|class| workload.ranks_of(class)), [5, 1, 2]);
    assert_eq!(workload.first_ranks().collect::<Vec<_>>(), [0, 3, 4]);
    assert_eq!(workload.micro_batches(), 4);
    // Counted rank by rank.
    let tasks: usize = classes.iter().map(|&class| workload.classes[class as usize].tasks.len()).sum();
    assert_eq!(workload.sum(|graph| graph.tasks.len() as u128), tasks as u128);
    assert_eq!(workload.sum_by_class(|class| 10u128.pow(class as u32)), 5 + 10 + 200);
}

#[test]
fn a_job_of_equal_ranks_has_one_class() {
    let graph = graph(&[task(TaskKind::Join, "")], (5, 4));
    let workload = Workload::uniform("u".to_owned(), 6, graph, Vec::new(), vec!["l".to_owned()]);
    assert_eq!(
        (workload.iterations, workload.ranks, workload.ranks_of(0), workload.class_of(5)),
        (5, 6, 6, 0)
    );
    assert_eq!(workload.first_ranks().collect::<Vec<_>>(), [0]);
}

#[test]
fn roles_with_collectives_are_found() {
    let role = |name: &str| Role::grid(name, &[2], &[None], &[0]);
    let roles = vec![role("a"), role("b"), role("c")];
    let graph = graph(&[task(TaskKind::Join, ""), task(collective(1), "")], (1, 1));
    let workload = Workload::uniform(String::new(), 2, graph, roles, Vec::new());
    assert_eq!(workload.with_collectives(), [false, true, false]);
}

#[test]
fn tasks_are_described_by_name_or_number_and_by_file() {
    let tasks = [task(TaskKind::Join, "load"), task(TaskKind::Join, "")];
    let mut workload = Workload::uniform(String::new(), 3, graph(&tasks, (1, 1)), Vec::new(), Vec::new());
    assert_eq!([0, 1].map(|at| workload.describe(2, at)), ["`load`", "task 1 (weight grad)"]);
    workload.source = Source::Traces { prefix: "t".to_owned() };
    assert_eq!(workload.describe(2, 0), "`load` (t.2.et)");
    assert_eq!(Source::default().file(0), None);
    let names = [Part::Forward, Part::InputGrad, Part::WeightGrad, Part::Update, Part::Other].map(Part::name);
    assert_eq!(names, ["forward", "input grad", "weight grad", "update", "other"]);
    let workload = three_classes();
    assert_eq!([Some(0), Some(1), Some(2), None].map(|at| workload.layer_name(at)), ["a", "b", "", ""]);
    let schedules = [Schedule::GPipe, Schedule::OneForwardOneBackward, Schedule::Interleaved];
    for schedule in schedules {
        assert_eq!(serde_json::to_value(schedule).unwrap(), schedule.name());
    }
}

#[test]
fn peers_are_given_by_number_or_by_distance() {
    let peers = [Peer::Ahead(3), Peer::Ahead(-2), Peer::Rank(RankId(9))];
    assert_eq!(peers.map(|peer| peer.of_checked(5).0), [8, 3, 9]);
    assert_eq!(Peer::Ahead(-6).of(5), None);
    let said = [Peer::Ahead(3), Peer::Ahead(-2), Peer::Rank(RankId(9))].map(|peer| peer.to_string());
    assert_eq!(said, ["rank +3", "rank -2", "rank 9"]);
    let of = |kind: TaskKind| kind.is_communication();
    assert!(of(collective(0)));
    assert!(of(TaskKind::Send { to: Peer::Ahead(1), bytes: Bytes(1), tag: 0 }));
    assert!(of(TaskKind::Receive { from: Peer::Ahead(1), bytes: Bytes(1), tag: 0 }));
    assert!(![TaskKind::Join, TaskKind::Memory(Time(1)), TaskKind::Compute(Work::None)].into_iter().any(of));
}

/// A rank of many kinds of tasks.
fn varied(peer: Peer, change: usize) -> TaskGraph {
    // Each number changes one thing.
    let is = |number: usize| u64::from(change == number);
    let (a, b) = (is(1) as u32, is(2) as u32);
    let tasks = [
        TaskKind::Send { to: peer, bytes: Bytes(8 + is(3)), tag: 3 + a },
        TaskKind::Receive { from: peer, bytes: Bytes(8 + is(4)), tag: 3 + b },
        TaskKind::Compute(Work::Time(Time(5 + is(5)))),
        TaskKind::Memory(Time(5 + is(6))),
        collective(is(7) as u16),
    ];
    let mut builder = GraphBuilder::new();
    for kind in tasks {
        builder.task(Task {
            kind,
            layer: Some(is(8) as u32),
            part: if change == 9 { Part::Update } else { Part::Forward },
            name: if change == 10 { "n".to_owned() } else { String::new() },
        });
    }
    builder.after(1, 0);
    match change {
        11 => builder.after(2, 0),
        12 => builder.after_previous(1, 0),
        13 => builder.only_in_last(1),
        // As many dependencies of each task, but on others.
        14 => builder.after(3, 1),
        _ => builder.after(3, 2),
    }
    let (steps, micro_batches) = [(2, 3), (3, 3), (3, 2)][change.saturating_sub(14)];
    builder.build_steps(steps, micro_batches).unwrap()
}

#[test]
fn graphs_are_alike_only_if_they_agree_in_everything() {
    let original = varied(Peer::Ahead(1), 0);
    let alike = |change| original.is_like(RankId(4), &varied(Peer::Rank(RankId(8)), change), RankId(7));
    assert!(alike(0), "a peer by number, equally far");
    for change in 1..=16 {
        assert!(!alike(change), "change {change}");
    }
    let far = varied(Peer::Rank(RankId(9)), 0);
    assert!(!original.is_like(RankId(4), &far, RankId(7)));
    // A shorter graph is not a part of a longer one.
    let short = graph(&[task(TaskKind::Join, "")], (1, 1));
    let long = graph(&[task(TaskKind::Join, ""), task(TaskKind::Join, "")], (1, 1));
    assert!(!short.is_like(RankId(0), &long, RankId(0)) && !long.is_like(RankId(0), &short, RankId(0)));
}

#[test]
fn groups_on_a_grid_are_lines_planes_and_boxes() {
    // Three axes of 2, 3 and 4: rank = a + 2 b + 6 c.
    let rank = |a: u32, b: u32, c: u32| a + 2 * b + 6 * c;
    let grid = |along: &[usize]| Role::grid("g", &[2, 3, 4], &[Some(7), None, Some(9)], along);
    let line = grid(&[1]);
    assert_eq!((line.size(), line.groups()), (3, 8));
    let plane = grid(&[0, 2]);
    assert_eq!((plane.size(), plane.groups()), (8, 3));
    let whole = grid(&[0, 1, 2]);
    for (a, b, c) in (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..4).map(move |c| (a, b, c)))) {
        let number = rank(a, b, c);
        let position = |role: &Role| role.position_of(number).map(|at| (at.group, at.position)).unwrap();
        assert_eq!(
            (position(&line), position(&plane), position(&whole)),
            ((a + 2 * c, b), (b, a + 2 * c), (0, number))
        );
        assert_eq!((line.rank(a + 2 * c, b), plane.rank(b, a + 2 * c)), (number, number));
        let of = |role: &Role, weight, size| {
            role.line(number, weight, size).map(|line| (line.first, line.step.get()))
        };
        assert_eq!(of(&line, 1, 3), Some((rank(a, 0, c), 2)));
        assert_eq!(of(&plane, 1, 2), Some((rank(0, b, c), 1)));
        assert_eq!(of(&plane, 2, 4), Some((rank(a, b, 0), 6)));
        assert_eq!(of(&plane, 2, 4).map(|_| plane.line(number, 2, 4).unwrap().rank(3)), Some(rank(a, b, 3)));
        // Not the size of one axis, and no axis with this weight.
        assert_eq!((of(&plane, 1, 8), of(&plane, 4, 4), of(&plane, 1, 4)), (None, None, None));
    }
    let axes: Vec<Axis> = plane.axes;
    assert_eq!(axes, [Axis { size: 2, stride: 1, dim: Some(7) }, Axis { size: 4, stride: 6, dim: Some(9) }]);
    assert!(line.is_grid());
}

#[test]
fn groups_by_list_keep_their_order() {
    let axes = || vec![Axis { size: 3, stride: 0, dim: None }];
    let role = Role::lists("l", vec![vec![5, 1, 3], vec![0, 2, 4]], axes(), 7).unwrap();
    assert_eq!((role.size(), role.groups(), role.ranks(0), role.rank(1, 2)), (3, 2, vec![5, 1, 3], 4));
    assert_eq!(role.position_of(3).map(|at| (at.group, at.position)), Some((0, 2)));
    assert_eq!((role.position_of(6), role.is_grid(), role.line(5, 1, 3)), (None, false, None));
    // The last rank of the job belongs to it, the next one does not.
    let with = |rank| Role::lists("l", vec![vec![rank, 1, 3]], axes(), 7);
    assert!(with(6).is_ok());
    let error = with(7).unwrap_err();
    assert_eq!((error.message.as_str(), error.allowed.as_deref()), ("rank 7 does not exist", Some("0 to 6")));
    assert_eq!(error.key.as_deref(), Some("group `l`"));
    let error = with(3).unwrap_err();
    assert_eq!(error.message, "rank 3 is named twice");
}
