//! Proof, before the run, that every message is expected and every group agrees.
//!
//! What does not match would make ranks wait for ever; other simulators end such runs silently.

use crate::graph::{TaskKind, describe};
use crate::{TaskGraph, Workload};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{Bytes, CollectiveKind};

/// Most mismatches that are reported one by one.
const REPORTED: usize = 8;

/// Everything that cannot match.
pub fn check(workload: &Workload) -> Diagnostics {
    let mut found = Diagnostics::new();
    groups_agree(workload, &mut found);
    messages_match(workload, &mut found);
    let more = found.0.len().saturating_sub(REPORTED);
    if more > 0 {
        found.0.truncate(REPORTED);
        let last = found.0.pop().expect("REPORTED is not zero");
        found.push(last.note(format!("and {more} more of this kind")));
    }
    found
}

/// The collectives of `role` in task order.
fn collectives(graph: &TaskGraph, role: usize) -> Vec<(CollectiveKind, Bytes, u32)> {
    graph
        .tasks
        .iter()
        .enumerate()
        .filter_map(|(index, task)| match task.kind {
            TaskKind::Collective { role: r, kind, bytes, .. } if r.index() == role => {
                Some((kind, bytes, index as u32))
            }
            _ => None,
        })
        .collect()
}

fn groups_agree(workload: &Workload, found: &mut Diagnostics) {
    for (index, role) in workload.roles.iter().enumerate() {
        let by_class: Vec<_> = workload.classes.iter().map(|graph| collectives(graph, index)).collect();
        if let Some((class, graph)) = workload.classes.iter().enumerate().find(|&(class, graph)| {
            graph.iterations != workload.classes[0].iterations && !by_class[class].is_empty()
        }) {
            found.push(
                Diagnostic::error(
                    Code::Unmatched,
                    "ranks that share a group run different numbers of iterations",
                )
                .key(format!("group `{}`", role.name))
                .found(format!(
                    "class 0: {}, class {class}: {}",
                    workload.classes[0].iterations, graph.iterations
                )),
            );
        }
        for rank in (0..workload.ranks).filter(|_| workload.class_runs.len() > 1 || !role.is_grid()) {
            let class = workload.class_of(rank) as usize;
            if role.seat(rank).is_none() && !by_class[class].is_empty() {
                let task = by_class[class][0].2;
                found.push(
                    Diagnostic::error(
                        Code::BadGroup,
                        format!("rank {rank} uses a group that it does not belong to"),
                    )
                    .key(format!("group `{}`", role.name))
                    .found(describe(&workload.classes[class].tasks[task as usize], task)),
                );
            }
        }
        if workload.class_runs.len() < 2 {
            continue;
        }
        for group in 0..role.groups() {
            let ranks = role.ranks(group);
            let Some(&first) = ranks.first() else { continue };
            let expected = &by_class[workload.class_of(first) as usize];
            for &rank in &ranks[1..] {
                let actual = &by_class[workload.class_of(rank) as usize];
                let same = |a: &(CollectiveKind, Bytes, u32), b: &(CollectiveKind, Bytes, u32)| {
                    (a.0, a.1) == (b.0, b.1)
                };
                if expected.len() == actual.len() && expected.iter().zip(actual).all(|(a, b)| same(a, b)) {
                    continue;
                }
                let at = expected.iter().zip(actual).take_while(|(a, b)| same(a, b)).count();
                let show = |rank: u32, list: &[(CollectiveKind, Bytes, u32)]| match list.get(at) {
                    Some((kind, bytes, _)) => format!("rank {rank}: {kind} of {bytes}"),
                    None => format!("rank {rank}: nothing more"),
                };
                found.push(
                    Diagnostic::error(Code::Unmatched, "members of a group disagree on their collectives")
                        .key(format!("group `{}`, collective {}", role.name, at + 1))
                        .found(format!("{}; {}", show(first, expected), show(rank, actual)))
                        .help("every member of a group must issue the same collectives, of equal size, in the same order"),
                );
            }
        }
    }
}

fn messages_match(workload: &Workload, found: &mut Diagnostics) {
    // (from, to, tag) -> sizes sent and sizes expected, in order.
    let mut channels: BTreeMap<(u32, u32, u32), [Vec<u64>; 2]> = BTreeMap::new();
    for rank in 0..workload.ranks {
        let graph = &workload.classes[workload.class_of(rank) as usize];
        for task in &graph.tasks {
            match task.kind {
                TaskKind::Send { to, bytes, tag } => {
                    channels.entry((rank, to.0, tag)).or_default()[0].push(bytes.0);
                    if to.0 >= workload.ranks || to.0 == rank {
                        found.push(bad_peer(rank, to.0, workload.ranks));
                    }
                }
                TaskKind::Receive { from, bytes, tag } => {
                    channels.entry((from.0, rank, tag)).or_default()[1].push(bytes.0);
                    if from.0 >= workload.ranks || from.0 == rank {
                        found.push(bad_peer(rank, from.0, workload.ranks));
                    }
                }
                _ => {}
            }
        }
    }
    for ((from, to, tag), [sent, expected]) in channels {
        if sent == expected {
            continue;
        }
        let at = sent.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        let show =
            |sizes: &[u64], none: &str| sizes.get(at).map_or(none.to_owned(), |&s| Bytes(s).to_string());
        found.push(
            Diagnostic::error(
                Code::Unmatched,
                format!("rank {from} and rank {to} disagree on their messages"),
            )
            .key(format!("tag {tag}, message {}", at + 1))
            .found(format!("sent {}, expected {}", show(&sent, "nothing"), show(&expected, "nothing")))
            .help("every send needs a receive of equal size and tag on the other side"),
        );
    }
}

fn bad_peer(rank: u32, peer: u32, ranks: u32) -> Diagnostic {
    let message = if peer == rank {
        format!("rank {rank} exchanges a message with itself")
    } else {
        format!("rank {rank} exchanges a message with rank {peer}, which does not exist")
    };
    Diagnostic::error(Code::Unmatched, message).allowed(format!("another rank from 0 to {}", ranks - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::graph::{GraphBuilder, NO_LAYER, Part, Task};
    use crate::role::{Role, RoleId};
    use syncline_units::RankId;

    fn graph(kinds: &[TaskKind]) -> TaskGraph {
        let mut builder = GraphBuilder::new();
        for &kind in kinds {
            builder.task(Task { kind, layer: NO_LAYER, part: Part::Other, name: String::new() });
        }
        builder.build(1).unwrap()
    }

    fn two(a: &[TaskKind], b: &[TaskKind]) -> Diagnostics {
        check(&Workload {
            name: String::new(),
            ranks: 2,
            classes: vec![graph(a), graph(b)],
            class_runs: vec![(0, 0), (1, 1)],
            roles: vec![Role::grid("all", &[2], &[None], &[0])],
            layers: Vec::new(),
            iterations: 1,
            source: Source::Built,
        })
    }

    #[test]
    fn mismatches_are_named() {
        let reduce = |bytes| TaskKind::Collective {
            role: RoleId(0),
            kind: CollectiveKind::AllReduce,
            bytes: Bytes(bytes),
            blocking: false,
        };
        let send = |to, bytes| TaskKind::Send { to: RankId(to), bytes: Bytes(bytes), tag: 0 };
        let receive = |from, bytes| TaskKind::Receive { from: RankId(from), bytes: Bytes(bytes), tag: 0 };
        assert!(two(&[reduce(8), send(1, 4)], &[receive(0, 4), reduce(8)]).0.is_empty());
        let text = |d: Diagnostics| d.to_string();
        assert!(
            text(two(&[reduce(8)], &[reduce(9)]))
                .contains("rank 0: all_reduce of 8B; rank 1: all_reduce of 9B")
        );
        assert!(text(two(&[reduce(8)], &[])).contains("rank 1: nothing more"));
        assert!(text(two(&[send(1, 4)], &[receive(0, 5)])).contains("sent 4B, expected 5B"));
        assert!(text(two(&[send(1, 4)], &[])).contains("expected nothing"));
        assert!(text(two(&[send(0, 4)], &[])).contains("with itself"));
        assert!(text(two(&[send(7, 4)], &[])).contains("does not exist"));
    }
}
