//! Checks before the run that every send has its receive and that the members of every group agree.
//!
//! Mismatches would make ranks wait forever; other simulators end such runs silently.

use crate::graph::{Peer, TaskKind};
use crate::{Role, TaskGraph, Workload};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{Bytes, CollectiveKind, RankId, rank_list};

/// Most mismatches that are reported one by one.
const REPORTED: usize = 8;

/// Finds all mismatches.
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

/// A collective task.
#[derive(Clone, Copy)]
struct Collective {
    kind: CollectiveKind,
    bytes: Bytes,
    task: u32,
}

/// The collectives of `role` in task order.
fn collectives(graph: &TaskGraph, role: usize) -> Vec<Collective> {
    graph
        .tasks
        .iter()
        .enumerate()
        .filter_map(|(index, task)| match task.kind {
            TaskKind::Collective { role: r, kind, bytes, .. } if r.index() == role => {
                Some(Collective { kind, bytes, task: index as u32 })
            }
            _ => None,
        })
        .collect()
}

fn groups_agree(workload: &Workload, found: &mut Diagnostics) {
    for (index, role) in workload.roles.iter().enumerate() {
        let by_class: Vec<_> = workload.classes.iter().map(|graph| collectives(graph, index)).collect();
        if let Some((class, graph)) = workload.classes.iter().enumerate().find(|&(class, graph)| {
            let times = |graph: &TaskGraph| (graph.iterations, graph.micro_batches);
            times(graph) != times(&workload.classes[0]) && !by_class[class].is_empty()
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
        outsiders(workload, role, &by_class, found);
        if workload.class_runs.len() > 1 {
            members_agree(workload, role, &by_class, found);
        }
    }
}

/// Finds ranks that use a role without being in any of its groups.
fn outsiders(workload: &Workload, role: &Role, by_class: &[Vec<Collective>], found: &mut Diagnostics) {
    if role.is_grid() && workload.class_runs.len() == 1 {
        return;
    }
    let uses = |rank: u32| !by_class[workload.class_of(rank) as usize].is_empty();
    let ranks: Vec<u32> =
        (0..workload.ranks).filter(|&rank| uses(rank) && role.position_of(rank).is_none()).collect();
    let Some(&first) = ranks.first() else { return };
    let task = by_class[workload.class_of(first) as usize][0].task;
    let message = match ranks.len() {
        1 => format!("rank {first} uses a group that it does not belong to"),
        _ => format!("{} use a group that they do not belong to", rank_list(&ranks)),
    };
    found.push(
        Diagnostic::error(Code::BadGroup, message)
            .key(format!("group `{}`", role.name))
            .found(workload.describe(first, task))
            .help("add these ranks to the group, or remove the collective from their tasks"),
    );
}

/// Finds groups whose members do not issue the same collectives. A class of ranks that lacks a collective is reported
/// once, not once per rank.
fn members_agree(workload: &Workload, role: &Role, by_class: &[Vec<Collective>], found: &mut Diagnostics) {
    let same = |a: &Collective, b: &Collective| (a.kind, a.bytes) == (b.kind, b.bytes);
    let agree = |expected: &[Collective], actual: &[Collective]| {
        expected.len() == actual.len() && expected.iter().zip(actual).all(|(a, b)| same(a, b))
    };
    let mut compared: BTreeMap<(u32, u32), bool> = BTreeMap::new();
    let mut odd: BTreeMap<(u32, u32), (u32, Vec<u32>)> = BTreeMap::new();
    for group in 0..role.groups() {
        let ranks = role.ranks(group);
        let Some(&first) = ranks.first() else { continue };
        let class = workload.class_of(first);
        let expected = &by_class[class as usize];
        for &rank in &ranks[1..] {
            let other = workload.class_of(rank);
            let equal =
                compared.entry((class, other)).or_insert_with(|| agree(expected, &by_class[other as usize]));
            if !*equal {
                odd.entry((class, other)).or_insert((first, Vec::new())).1.push(rank);
            }
        }
    }
    for ((class, other), (first, mut ranks)) in odd {
        ranks.sort_unstable();
        let (expected, actual) = (&by_class[class as usize], &by_class[other as usize]);
        let at = expected.iter().zip(actual).take_while(|(a, b)| same(a, b)).count();
        let show = |rank: u32, list: &[Collective]| match list.get(at) {
            Some(&Collective { kind, bytes, task }) => {
                format!("rank {rank}: {kind} of {bytes}, {}", workload.describe(rank, task))
            }
            None => match workload.source.file(rank) {
                Some(file) => format!("rank {rank}: no further collective ({file})"),
                None => format!("rank {rank}: no further collective"),
            },
        };
        let mut problem = Diagnostic::error(
            Code::Unmatched,
            "members of a group disagree on their collectives",
        )
        .key(format!("group `{}`, collective {}", role.name, at + 1))
        .found(format!("{}; {}", show(first, expected), show(ranks[0], actual)))
        .help("every member of a group must issue the same collectives, of equal size, in the same order");
        if ranks.len() > 1 {
            problem = problem.note(format!("{} all issue the same collectives", rank_list(&ranks)));
        }
        found.push(problem);
    }
}

/// A task that sends or receives a message.
#[derive(Clone, Copy)]
struct MessageTask {
    bytes: Bytes,
    task: u32,
}

/// The messages of all ranks of a class with one peer and one tag, in task order.
struct Stream {
    peer: Peer,
    tag: u32,
    sends: bool,
    messages: Vec<MessageTask>,
    /// The same for streams whose messages have equal sizes.
    sizes: usize,
}

/// The streams of a class; `known` numbers the sizes of their messages.
fn streams(graph: &TaskGraph, known: &mut BTreeMap<Vec<Bytes>, usize>) -> Vec<Stream> {
    let mut found: BTreeMap<(Peer, u32, bool), Vec<MessageTask>> = BTreeMap::new();
    for (index, task) in (0u32..).zip(&graph.tasks) {
        let (key, bytes) = match task.kind {
            TaskKind::Send { to, bytes, tag } => ((to, tag, true), bytes),
            TaskKind::Receive { from, bytes, tag } => ((from, tag, false), bytes),
            _ => continue,
        };
        found.entry(key).or_default().push(MessageTask { bytes, task: index });
    }
    let stream = |((peer, tag, sends), messages): (_, Vec<MessageTask>)| {
        let next = known.len();
        let sizes = *known.entry(sizes(&messages)).or_insert(next);
        Stream { peer, tag, sends, messages, sizes }
    };
    found.into_iter().map(stream).collect()
}

fn sizes(messages: &[MessageTask]) -> Vec<Bytes> {
    messages.iter().map(|message| message.bytes).collect()
}

/// The messages between two ranks with one tag: streams of the sender and of the receiver. A rank has two of them if its
/// graph names the same peer by its number and by its distance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChannelKey {
    from: u32,
    to: u32,
    tag: u32,
}

/// A channel's streams, each with the key of the channel.
type Ends<'a> = [(ChannelKey, &'a Stream)];

fn messages_match(workload: &Workload, found: &mut Diagnostics) {
    let by_class = streams_by_class(workload);
    let ends = ends(workload, &by_class, found);
    for channel in undecided(&ends) {
        let side = |sends: bool| {
            let of_side = channel.iter().filter(|(_, stream)| stream.sends == sends);
            let mut messages: Vec<MessageTask> =
                of_side.flat_map(|(_, stream)| stream.messages.iter().copied()).collect();
            messages.sort_unstable_by_key(|message| message.task);
            messages
        };
        let (sent, expected) = (side(true), side(false));
        if sizes(&sent) != sizes(&expected) {
            found.push(disagreement(workload, channel[0].0, &sent, &expected));
        }
    }
}

fn streams_by_class(workload: &Workload) -> Vec<Vec<Stream>> {
    let mut known = BTreeMap::new();
    workload.classes.iter().map(|graph| streams(graph, &mut known)).collect()
}

/// The streams of all ranks by channel, without those to ranks that do not exist, which are problems.
fn ends<'a>(
    workload: &Workload,
    by_class: &'a [Vec<Stream>],
    found: &mut Diagnostics,
) -> Vec<(ChannelKey, &'a Stream)> {
    let mut ends: Vec<(ChannelKey, &Stream)> = Vec::new();
    for (run, next) in workload.class_runs.iter().zip(later_runs(workload)) {
        let streams = &by_class[run.class as usize];
        if streams.is_empty() {
            // A class without messages may have a million ranks.
            continue;
        }
        for rank in run.first..next {
            let mut bad = Vec::new();
            for stream in streams {
                let number = stream.peer.of(rank).map(|peer| peer.0);
                if number.is_none_or(|number| number >= workload.ranks || number == rank) {
                    bad.extend(stream.messages.iter().map(|message| (message.task, stream.peer)));
                } else if let Some(number) = number {
                    let (from, to) = if stream.sends { (rank, number) } else { (number, rank) };
                    ends.push((ChannelKey { from, to, tag: stream.tag }, stream));
                }
            }
            bad.sort_unstable();
            found.0.extend(bad.into_iter().map(|(task, peer)| bad_peer(workload, rank, task, peer)));
        }
    }
    ends.sort_by_key(|(key, _)| *key);
    ends
}

/// The channels whose messages have to be compared one by one: others have one stream on each side, of equal sizes.
fn undecided<'e, 'a>(ends: &'e Ends<'a>) -> impl Iterator<Item = &'e Ends<'a>> {
    ends.chunk_by(|(a, _), (b, _)| a == b).filter(|channel| match channel {
        [(_, a), (_, b)] => a.sends == b.sends || a.sizes != b.sizes,
        _ => true,
    })
}

/// The rank after the last one of each run of classes.
fn later_runs(workload: &Workload) -> impl Iterator<Item = u32> {
    let later = workload.class_runs.iter().skip(1).map(|run| run.first);
    later.chain(std::iter::once(workload.ranks))
}

fn disagreement(
    workload: &Workload,
    ChannelKey { from, to, tag }: ChannelKey,
    sent: &[MessageTask],
    expected: &[MessageTask],
) -> Diagnostic {
    let at = sent.iter().zip(expected).take_while(|(a, b)| a.bytes == b.bytes).count();
    let show = |rank: u32, list: &[MessageTask]| match list.get(at) {
        Some(&MessageTask { bytes, task }) => format!("{bytes} by {}", workload.describe(rank, task)),
        None => "nothing".to_owned(),
    };
    Diagnostic::error(Code::Unmatched, format!("rank {from} and rank {to} disagree on their messages"))
        .key(format!("tag {tag}, message {}", at + 1))
        .found(format!("sent {}; expected {}", show(from, sent), show(to, expected)))
        .help("every send needs a receive of equal size and tag on the other side")
}

fn bad_peer(workload: &Workload, rank: u32, task: u32, peer: Peer) -> Diagnostic {
    let message = match peer.of(rank) {
        Some(RankId(peer)) if peer == rank => format!("rank {rank} exchanges a message with itself"),
        Some(peer) => format!("rank {rank} exchanges a message with {peer}, which does not exist"),
        None => format!("rank {rank} exchanges a message with {peer}, which would be below rank 0"),
    };
    Diagnostic::error(Code::Unmatched, message)
        .found(workload.describe(rank, task))
        .allowed(format!("another rank from 0 to {}", workload.ranks - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, Part, Task};
    use crate::role::{Role, RoleId};
    use crate::{ClassRun, Source};

    fn graph(kinds: &[TaskKind]) -> TaskGraph {
        let mut builder = GraphBuilder::new();
        for kind in kinds {
            builder.task(Task { kind: kind.clone(), layer: None, part: Part::Other, name: String::new() });
        }
        builder.build(1).unwrap()
    }

    /// Two ranks, each with one of two classes.
    fn two_classes(classes: Vec<TaskGraph>) -> Workload {
        Workload {
            name: String::new(),
            ranks: 2,
            classes,
            class_runs: vec![ClassRun { first: 0, class: 0 }, ClassRun { first: 1, class: 1 }],
            axes: Vec::new(),
            roles: vec![Role::grid("all", &[2], &[None], &[0])],
            layers: Vec::new(),
            iterations: 1,
            source: Source::Built,
        }
    }

    fn two(a: &[TaskKind], b: &[TaskKind]) -> Diagnostics {
        check(&two_classes(vec![graph(a), graph(b)]))
    }

    #[test]
    fn collectives_and_messages_that_do_not_match_are_named() {
        let reduce = |bytes| TaskKind::Collective {
            role: RoleId(0),
            kind: CollectiveKind::AllReduce,
            bytes: Bytes(bytes),
            blocking: false,
            when: None,
        };
        let send = |to, bytes| TaskKind::Send { to: Peer::Rank(RankId(to)), bytes: Bytes(bytes), tag: 0 };
        let receive =
            |from, bytes| TaskKind::Receive { from: Peer::Rank(RankId(from)), bytes: Bytes(bytes), tag: 0 };
        assert!(two(&[reduce(8), send(1, 4)], &[receive(0, 4), reduce(8)]).0.is_empty());
        let text = |d: Diagnostics| d.to_string();
        assert!(
            text(two(&[reduce(8)], &[reduce(9)])).contains(
                "rank 0: all_reduce of 8B, task 0 (other); rank 1: all_reduce of 9B, task 0 (other)"
            )
        );
        assert!(text(two(&[reduce(8)], &[])).contains("rank 1: no further collective"));
        assert!(
            text(two(&[send(1, 4)], &[receive(0, 5)]))
                .contains("sent 4B by task 0 (other); expected 5B by task 0 (other)")
        );
        assert!(text(two(&[send(1, 4)], &[])).contains("expected nothing"));
        assert!(text(two(&[send(0, 4)], &[])).contains("with itself"));
        assert!(text(two(&[send(7, 4)], &[])).contains("with rank 7, which does not exist"));
        let before = TaskKind::Send { to: Peer::Ahead(-1), bytes: Bytes(4), tag: 0 };
        assert!(text(two(&[before], &[])).contains("with rank -1, which would be below rank 0"));
    }

    #[test]
    fn ten_million_messages_are_compared_by_class_and_not_one_by_one() {
        let ranks = 1024;
        let half = ranks / 2;
        let to = |by| TaskKind::Send { to: Peer::Ahead(by), bytes: Bytes(4), tag: 0 };
        let from = |by| TaskKind::Receive { from: Peer::Ahead(by), bytes: Bytes(4), tag: 0 };
        let workload = Workload {
            ranks: ranks as u32,
            classes: vec![graph(&vec![to(half); 10_000]), graph(&vec![from(-half); 10_000])],
            class_runs: vec![ClassRun { first: 0, class: 0 }, ClassRun { first: half as u32, class: 1 }],
            roles: Vec::new(),
            ..two_classes(Vec::new())
        };
        let (by_class, mut found) = (streams_by_class(&workload), Diagnostics::new());
        let ends = ends(&workload, &by_class, &mut found);
        // A stream for each rank, whatever the number of its messages.
        assert_eq!(ends.len(), 1024);
        assert_eq!(undecided(&ends).count(), 0);
        assert!(check(&workload).0.is_empty());
    }
}
