//! Mismatches that would make ranks wait forever: each is found, and the message says where.

use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, CollectiveKind, RankId};
use syncline_workload::role::Axis;
use syncline_workload::{
    ClassRun, GraphBuilder, Part, Peer, Role, RoleId, Source, Task, TaskGraph, TaskKind, Workload, matching,
};

fn graph(kinds: &[TaskKind], steps: (u32, u32)) -> TaskGraph {
    let mut builder = GraphBuilder::new();
    for kind in kinds {
        builder.task(Task { kind: kind.clone(), layer: None, part: Part::Other, name: String::new() });
    }
    builder.build_steps(steps.0, steps.1).unwrap()
}

/// A job in which each rank has a graph of its own.
fn job(graphs: Vec<TaskGraph>, roles: Vec<Role>) -> Workload {
    let ranks = graphs.len() as u32;
    Workload {
        name: String::new(),
        ranks,
        class_runs: (0..ranks).map(|rank| ClassRun { first: rank, class: rank }).collect(),
        classes: graphs,
        axes: Vec::new(),
        roles,
        layers: Vec::new(),
        iterations: 1,
        source: Source::Built,
    }
}

fn each(tasks: &[&[TaskKind]], roles: Vec<Role>) -> Workload {
    job(tasks.iter().map(|kinds| graph(kinds, (1, 1))).collect(), roles)
}

fn all(ranks: u32) -> Role {
    Role::grid("all", &[ranks], &[None], &[0])
}

fn lists(name: &str, groups: &[&[u32]], ranks: u32) -> Role {
    let axes = vec![Axis { size: groups[0].len() as u32, stride: 0, dim: None }];
    Role::lists(name, groups.iter().map(|group| group.to_vec()).collect(), axes, ranks).unwrap()
}

fn reduce(role: u16, bytes: u64) -> TaskKind {
    TaskKind::Collective {
        role: RoleId(role),
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(bytes),
        blocking: false,
        when: None,
    }
}

fn gather(role: u16, bytes: u64) -> TaskKind {
    TaskKind::Collective {
        role: RoleId(role),
        kind: CollectiveKind::AllGather,
        bytes: Bytes(bytes),
        blocking: true,
        when: None,
    }
}

fn send(to: u32, bytes: u64, tag: u32) -> TaskKind {
    TaskKind::Send { to: Peer::Rank(RankId(to)), bytes: Bytes(bytes), tag }
}

fn receive(from: u32, bytes: u64, tag: u32) -> TaskKind {
    TaskKind::Receive { from: Peer::Rank(RankId(from)), bytes: Bytes(bytes), tag }
}

fn problems(workload: &Workload) -> Vec<Diagnostic> {
    matching::check(workload).0
}

fn only(workload: &Workload) -> Diagnostic {
    let mut found = problems(workload);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn ranks_that_agree_are_accepted() {
    let pairs = lists("pairs", &[&[0, 3], &[2, 1]], 4);
    let one = [reduce(0, 8), send(1, 4, 0), reduce(1, 2), receive(1, 9, 7)];
    let two = [receive(0, 4, 0), reduce(0, 8), send(0, 9, 7), reduce(1, 2)];
    let rest = [reduce(1, 2), reduce(0, 8)];
    let workload = each(&[&one, &two, &rest, &rest], vec![all(4), pairs]);
    assert_eq!(problems(&workload), []);
    // A job without communication, and one whose ranks are alike.
    assert_eq!(problems(&each(&[&[], &[TaskKind::Join]], vec![])), []);
    let alike =
        graph(&[reduce(0, 8), TaskKind::Send { to: Peer::Ahead(0), bytes: Bytes(1), tag: 0 }], (1, 1));
    let mut ring = Workload::uniform(String::new(), 3, alike, vec![all(3)], vec![]);
    assert_eq!(problems(&ring).len(), 3, "each sends to itself");
    ring.classes[0].tasks.pop();
    assert_eq!(problems(&ring), []);
}

#[test]
fn members_that_disagree_are_named_with_their_collectives() {
    let first = [reduce(0, 8), gather(0, 100), reduce(0, 4)];
    let second = [reduce(0, 8), gather(0, 200), reduce(0, 4)];
    let problem = only(&each(&[&first, &first, &second, &first], vec![all(4)]));
    assert_eq!(problem.code, Code::Unmatched);
    assert_eq!(problem.message, "members of a group disagree on their collectives");
    assert_eq!(problem.key.as_deref(), Some("group `all`, collective 2"));
    assert_eq!(
        problem.found.as_deref(),
        Some("rank 0: all_gather of 100B, task 1 (other); rank 2: all_gather of 200B, task 1 (other)")
    );
    assert_eq!(problem.notes, [] as [String; 0], "no other rank disagrees");
}

/// Four ranks of two classes: 0 and 1, 2 and 3.
fn two_classes(first: &[TaskKind], second: &[TaskKind]) -> Workload {
    let mut workload = each(&[first, second], vec![all(4)]);
    workload.ranks = 4;
    workload.class_runs[1].first = 2;
    workload
}

#[test]
fn a_class_that_disagrees_is_reported_once() {
    let found = only(&two_classes(&[reduce(0, 8)], &[gather(0, 8)]));
    assert_eq!(
        found.found.as_deref(),
        Some("rank 0: all_reduce of 8B, task 0 (other); rank 2: all_gather of 8B, task 0 (other)")
    );
    assert_eq!(found.notes, ["ranks 2, 3 all issue the same collectives"]);
    assert!(found.help.unwrap().contains("in the same order"));
    // A missing collective, on either side.
    let found = only(&two_classes(&[reduce(0, 8), reduce(0, 8)], &[TaskKind::Join, reduce(0, 8)]));
    assert_eq!(found.key.as_deref(), Some("group `all`, collective 2"));
    assert_eq!(
        found.found.as_deref(),
        Some("rank 0: all_reduce of 8B, task 1 (other); rank 2: no further collective")
    );
    let found = only(&two_classes(&[], &[TaskKind::Join, reduce(0, 8)]));
    assert_eq!(
        found.found.as_deref(),
        Some("rank 0: no further collective; rank 2: all_reduce of 8B, task 1 (other)")
    );
    // Two of the same, in another order.
    let found = only(&two_classes(&[reduce(0, 8), gather(0, 8)], &[gather(0, 8), reduce(0, 8)]));
    assert_eq!(found.key.as_deref(), Some("group `all`, collective 1"));
    // Other tasks between them do not count.
    assert_eq!(problems(&two_classes(&[TaskKind::Join, reduce(0, 8)], &[reduce(0, 8)])), []);
}

#[test]
fn groups_of_one_role_may_differ_and_roles_are_distinguished() {
    let pairs = lists("pairs", &[&[0, 1], &[2, 3]], 4);
    let (large, small) = ([reduce(0, 8)], [reduce(0, 4)]);
    assert_eq!(problems(&each(&[&large, &large, &small, &small], vec![pairs.clone()])), []);
    let found = problems(&each(&[&large, &small, &small, &large], vec![pairs.clone()]));
    let firsts: Vec<&str> = found.iter().map(|each| &each.found.as_deref().unwrap()[..6]).collect();
    assert_eq!(firsts, ["rank 0", "rank 2"]);
    // Collectives of another role do not count.
    let (one, two) = ([reduce(0, 8), reduce(1, 1)], [reduce(1, 1), reduce(0, 8)]);
    assert_eq!(problems(&each(&[&one, &two, &one, &two], vec![pairs, all(4)])), []);
}

#[test]
fn ranks_outside_a_group_may_not_use_it() {
    let role = || lists("some", &[&[0, 1]], 4);
    let (uses, not) = ([TaskKind::Join, reduce(0, 8)], [TaskKind::Join]);
    let found = only(&each(&[&uses, &uses, &not, &uses], vec![role()]));
    assert_eq!(
        (found.code, found.message.as_str()),
        (Code::BadGroup, "rank 3 uses a group that it does not belong to")
    );
    assert_eq!(found.key.as_deref(), Some("group `some`"));
    assert_eq!(found.found.as_deref(), Some("task 1 (other)"));
    let found = only(&each(&[&uses, &uses, &uses, &uses], vec![role()]));
    assert_eq!(found.message, "ranks 2, 3 use a group that they do not belong to");
    // Also if all ranks are alike.
    let alike =
        Workload::uniform(String::new(), 3, graph(&uses, (1, 1)), vec![lists("some", &[&[0, 1]], 3)], vec![]);
    assert_eq!(only(&alike).message, "rank 2 uses a group that it does not belong to");
    assert_eq!(problems(&each(&[&uses, &uses, &not, &not], vec![role()])), []);
}

#[test]
fn ranks_of_a_group_run_equally_often() {
    let with = |second: (u32, u32)| {
        let graphs = vec![graph(&[reduce(0, 8)], (2, 3)), graph(&[reduce(0, 8)], second)];
        problems(&job(graphs, vec![all(2)]))
    };
    assert_eq!(with((2, 3)), []);
    let found = with((3, 3));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message, "ranks that share a group run different numbers of iterations");
    assert_eq!(found[0].key.as_deref(), Some("group `all`"));
    assert_eq!(found[0].found.as_deref(), Some("class 0: 6, class 1: 9"));
    // As many iterations, in other steps.
    assert_eq!(with((3, 2)).len(), 1);
    // A class that uses no group may run as often as it likes.
    let alone = lists("alone", &[&[0]], 2);
    let graphs = vec![graph(&[reduce(0, 8)], (2, 3)), graph(&[TaskKind::Join], (7, 1))];
    assert_eq!(problems(&job(graphs, vec![alone])), []);
}

#[test]
fn messages_without_their_other_side_are_named() {
    let sends = [send(1, 4, 5), send(1, 6, 5), send(1, 8, 5)];
    let receives = [receive(0, 4, 5), receive(0, 7, 5), receive(0, 8, 5)];
    let found = only(&each(&[&sends, &receives], vec![]));
    assert_eq!(
        (found.code, found.message.as_str()),
        (Code::Unmatched, "rank 0 and rank 1 disagree on their messages")
    );
    assert_eq!(found.key.as_deref(), Some("tag 5, message 2"));
    assert_eq!(found.found.as_deref(), Some("sent 6B by task 1 (other); expected 7B by task 1 (other)"));
    let found = only(&each(&[&sends[..2], &[TaskKind::Join, receive(0, 4, 5)]], vec![]));
    assert_eq!(found.key.as_deref(), Some("tag 5, message 2"));
    assert_eq!(found.found.as_deref(), Some("sent 6B by task 1 (other); expected nothing"));
    let found = only(&each(&[&[], &[TaskKind::Join, receive(0, 4, 5)]], vec![]));
    assert_eq!(found.found.as_deref(), Some("sent nothing; expected 4B by task 1 (other)"));
    // Other tags and the other direction are other channels.
    assert_eq!(problems(&each(&[&[send(1, 4, 5)], &[receive(0, 4, 6)]], vec![])).len(), 2);
    assert_eq!(problems(&each(&[&[send(1, 4, 5)], &[send(0, 4, 5)]], vec![])).len(), 2);
    assert_eq!(problems(&each(&[&[receive(1, 4, 5)], &[send(0, 4, 5)]], vec![])), []);
}

#[test]
fn peers_are_other_ranks_of_the_job() {
    let to = |peer: Peer| {
        let tasks = [TaskKind::Send { to: peer, bytes: Bytes(4), tag: 0 }];
        only(&each(&[&[], &tasks], vec![]))
    };
    let found = to(Peer::Rank(RankId(1)));
    assert_eq!(found.message, "rank 1 exchanges a message with itself");
    assert_eq!(found.found.as_deref(), Some("task 0 (other)"));
    assert_eq!(found.allowed.as_deref(), Some("another rank from 0 to 1"));
    assert_eq!(to(Peer::Ahead(0)).message, "rank 1 exchanges a message with itself");
    assert_eq!(
        to(Peer::Rank(RankId(2))).message,
        "rank 1 exchanges a message with rank 2, which does not exist"
    );
    assert_eq!(to(Peer::Ahead(7)).message, "rank 1 exchanges a message with rank 8, which does not exist");
    assert_eq!(
        to(Peer::Ahead(-2)).message,
        "rank 1 exchanges a message with rank -2, which would be below rank 0"
    );
    let found = only(&each(&[&[receive(2, 4, 0)], &[]], vec![]));
    assert_eq!(found.message, "rank 0 exchanges a message with rank 2, which does not exist");
    let found = only(&each(&[&[receive(0, 4, 0)], &[]], vec![]));
    assert_eq!(found.message, "rank 0 exchanges a message with itself");
    // Peers by distance are those of their rank.
    let ring = [
        TaskKind::Send { to: Peer::Ahead(1), bytes: Bytes(4), tag: 0 },
        TaskKind::Receive { from: Peer::Ahead(-1), bytes: Bytes(4), tag: 0 },
    ];
    assert_eq!(problems(&each(&[&ring[..1], &ring, &ring[1..]], vec![])), []);
}

#[test]
fn eight_problems_are_listed_and_the_others_counted() {
    let of = |number: u32| {
        let sends: Vec<TaskKind> = (0..number).map(|tag| send(1, 4, tag)).collect();
        problems(&each(&[&sends, &[]], vec![]))
    };
    for (number, told, note) in [(1, 1, None), (8, 8, None), (9, 8, Some(1)), (20, 8, Some(12))] {
        let found = of(number);
        assert_eq!(found.len(), told);
        let notes: Vec<String> = found.iter().flat_map(|each| each.notes.clone()).collect();
        let expected: Vec<String> = note.iter().map(|more| format!("and {more} more of this kind")).collect();
        assert_eq!(notes, expected);
        assert_eq!(found.last().unwrap().notes, expected, "the last one has the note");
    }
}

#[test]
fn files_that_describe_ranks_are_named() {
    let mut workload = each(&[&[reduce(0, 8)], &[]], vec![all(2)]);
    workload.source = Source::Traces { prefix: "run/trace".to_owned() };
    let found = only(&workload).found.unwrap();
    assert_eq!(
        found,
        "rank 0: all_reduce of 8B, task 0 (other) (run/trace.0.et); rank 1: no further collective (run/trace.1.et)"
    );
}

#[test]
fn messages_to_a_peer_that_is_named_in_two_ways_match_in_the_order_of_tasks() {
    let ahead = |by, bytes| TaskKind::Send { to: Peer::Ahead(by), bytes: Bytes(bytes), tag: 0 };
    let both = [send(1, 4, 0), ahead(1, 5), send(1, 6, 0)];
    let in_order = [receive(0, 4, 0), receive(0, 5, 0), receive(0, 6, 0)];
    assert_eq!(problems(&each(&[&both, &in_order], vec![])), []);
    let swapped = [receive(0, 4, 0), receive(0, 6, 0), receive(0, 5, 0)];
    let found = only(&each(&[&both, &swapped], vec![]));
    assert_eq!(found.key.as_deref(), Some("tag 0, message 2"));
}
