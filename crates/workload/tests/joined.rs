//! Several jobs on one fabric.

use crate::support::scheduler::{BY_BYTE, run};
use crate::support::{blocks, job, timed};
use syncline_units::RankId;
use syncline_workload::layer::Layer;
use syncline_workload::parallel::{Axes, Parallel};
use syncline_workload::{GraphBuilder, Part, Peer, Role, RoleId, Task, TaskGraph, TaskKind, Workload, join};

fn piped(ranks: u32) -> Workload {
    let parallel = Parallel { pipeline: Axes::Degree(2), ..Parallel::default() };
    job(&blocks(4), &[ranks], &parallel, (2, 1))
}

fn copies(ranks: u32) -> Workload {
    let layers = [Layer { parameters: 5, ..timed("l", 1, 1, 1) }, timed("m", 1, 1, 1)];
    job(&layers, &[ranks], &Parallel::default(), (7, 1))
}

#[test]
fn each_job_keeps_its_ranks_groups_and_layers() {
    let (all, shares) = join(&[("one", piped(4)), ("two", copies(3)), ("three", piped(6))]).unwrap();
    assert_eq!((all.name.as_str(), all.ranks, all.iterations), ("one + two + three", 13, 7));
    // They run side by side.
    let ends = [piped(4), copies(3), piped(6)].map(|job| run(&job, BY_BYTE).end);
    assert_eq!(Some(run(&all, BY_BYTE).end), ends.into_iter().max());
    let of = |share: &join::Share| {
        (share.first_rank, share.ranks, share.first_layer, share.layers, share.iterations)
    };
    assert_eq!(
        shares.iter().map(of).collect::<Vec<_>>(),
        [(0, 4, 0, 5, 2), (4, 3, 5, 2, 7), (7, 6, 7, 5, 2)]
    );
    assert_eq!(shares.iter().map(|share| share.name.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
    let classes: Vec<u32> = (0..13).map(|rank| all.class_of(rank)).collect();
    assert_eq!(classes, [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
    assert_eq!(
        (all.layers[5].as_str(), all.layers[6].as_str(), all.layers[7].as_str()),
        ("two/l", "two/m", "three/samples")
    );
    // Roles of a job come after those of the jobs before it, with its own ranks.
    let names: Vec<&str> = all.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "one/tensor",
            "one/data",
            "one/pipeline",
            "two/tensor",
            "two/data",
            "three/tensor",
            "three/data",
            "three/pipeline"
        ]
    );
    assert_eq!((all.roles[4].ranks(0), all.roles[7].ranks(2)), (vec![4, 5, 6], vec![9, 12]));
    let roles = |class: usize| -> Vec<RoleId> {
        let role = |task: &Task| match task.kind {
            TaskKind::Collective { role, .. } => Some(role),
            _ => None,
        };
        all.classes[class].tasks.iter().filter_map(role).collect()
    };
    assert_eq!((roles(0), roles(2)), (vec![], vec![RoleId(4)]));
    let layers: Vec<Option<u32>> = all.classes[2].tasks.iter().map(|task| task.layer).collect();
    assert!(layers.iter().all(|&layer| layer == Some(5) || layer == Some(6)));
    // Peers by distance stay as they are.
    assert_eq!(all.classes[3].peers(), [Peer::Ahead(3)]);
}

fn bare(tasks: &[TaskKind], micro_batches: u32) -> TaskGraph {
    let mut builder = GraphBuilder::new();
    for kind in tasks {
        builder.task(Task { kind: kind.clone(), layer: None, part: Part::Other, name: String::new() });
    }
    builder.build_steps(1, micro_batches).unwrap()
}

#[test]
fn peers_by_number_move_with_their_job() {
    let message = TaskKind::Receive { from: Peer::Rank(RankId(2)), bytes: syncline_units::Bytes(1), tag: 0 };
    let of = |number| {
        Workload::uniform(String::new(), number, bare(std::slice::from_ref(&message), 1), vec![], vec![])
    };
    let (all, _) = join(&[("a", of(5)), ("b", of(4)), ("c", of(3))]).unwrap();
    let peers: Vec<Vec<Peer>> = all.classes.iter().map(TaskGraph::peers).collect();
    assert_eq!(peers, [2, 7, 11].map(|rank| vec![Peer::Rank(RankId(rank))]));
    assert!(all.classes.iter().all(|graph| graph.tasks[0].layer.is_none()));
}

#[test]
fn jobs_have_as_many_ranks_and_groups_as_can_be_numbered() {
    let of = |ranks, roles: usize, micro_batches| {
        let role = Role::grid("r", &[1], &[None], &[0]);
        Workload::uniform(
            String::new(),
            ranks,
            bare(&[TaskKind::Join], micro_batches),
            vec![role; roles],
            vec![],
        )
    };
    assert!(join(&[("a", of(u32::MAX - 1, 0, 1)), ("b", of(1, 0, 1))]).is_ok());
    let error = join(&[("a", of(u32::MAX, 0, 1)), ("b", of(1, 0, 1))]).unwrap_err();
    assert_eq!(error.message, "the jobs have more ranks than a 32-bit number can count");
    assert_eq!(error.key.as_deref(), Some("workload.jobs"));
    let most = usize::from(u16::MAX);
    assert_eq!(join(&[("a", of(1, most - 1, 1)), ("b", of(1, 1, 1))]).unwrap().0.roles.len(), most);
    let error = join(&[("a", of(1, most, 1)), ("b", of(1, 1, 1))]).unwrap_err();
    assert_eq!(error.message, "the jobs have too many process groups");
    assert_eq!((error.found.as_deref(), error.allowed.as_deref()), (Some("65536"), Some("at most 65535")));
    // As many micro-batches, however often.
    assert!(join(&[("a", of(1, 0, 3)), ("b", of(1, 0, 3))]).is_ok());
    let error = join(&[("a", of(1, 0, 3)), ("b", of(1, 0, 3)), ("c", of(1, 0, 2))]).unwrap_err();
    assert_eq!(error.found.as_deref(), Some("3, 2"));
    assert!(join(&[]).unwrap().1.is_empty());
}
