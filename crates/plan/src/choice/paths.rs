//! The links that messages of trees use on a graph.
//!
//! The speed of a tree on a graph depends on which of its messages share links, not on the distance between ranks. So
//! the messages of every tree are routed once, and the time of a chunk follows from the links on their paths.

use super::{Candidate, MAX_PEERS};
use crate::program::{Algorithm, Op, Seat, program};
use std::collections::BTreeMap;
use syncline_units::{CollectiveKind, Rate, Time};

/// Number of lanes over which messages are routed.
pub(super) const LANES: usize = 2;

/// Finds the path of a lane, in a group, from one rank to another: its links by number and rate, and its latency.
pub type Route<'a> = dyn FnMut(u32, u32, [u32; 2], &mut Vec<(u32, Rate)>) -> Time + 'a;

/// The paths of trees, and of chains of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(BTreeMap<Candidate, Tree>);

/// The messages of a broadcast of one chunk, and the load of links by the chunks of all lanes and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    ranks: u32,
    pub(super) streams: u32,
    hops: Vec<Hop>,
    /// For each stream and rank, its first hop; hops are in the order in which ranks send them.
    first: Vec<usize>,
    /// The links of the hops of the first lane and group.
    links: Vec<usize>,
    /// Links that any group uses.
    pub(super) used: Vec<Used>,
}

/// The message of a broadcast to a child, and the message of a reduce from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) to: u32,
    /// Latency of the path.
    pub(super) latency: Time,
    down: (usize, usize),
    up: (usize, usize),
}

/// A link, and the number of messages of one chunk in each lane that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) rate: Rate,
    /// Messages of broadcasts, in groups that run them.
    down: [u64; LANES],
    /// Messages of reduces, in the same groups.
    up: [u64; LANES],
    /// Messages of all-reduces, in all groups.
    both: [u64; LANES],
    /// Whether it is the first or last link of a message, that is, the port of a rank.
    pub(super) is_port: bool,
}

impl Used {
    fn new(rate: Rate) -> Self {
        Self { rate, down: [0; LANES], up: [0; LANES], both: [0; LANES], is_port: false }
    }

    /// Messages of one chunk in each of the first `lanes` lanes.
    pub(super) fn messages(&self, kind: CollectiveKind, lanes: usize) -> u64 {
        let of_kind = match kind {
            CollectiveKind::Broadcast => &self.down,
            CollectiveKind::Reduce => &self.up,
            _ => &self.both,
        };
        of_kind[..lanes].iter().sum()
    }
}

/// The groups that run a tree at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// Number of groups.
    pub count: u32,
    /// Of this many consecutive groups, only the first takes part in a broadcast or reduce: the ranks of the others
    /// are not roots on lower axes.
    pub rooted: u32,
    /// Whether every other chunk of a chain runs backwards.
    pub turns: bool,
}

impl Paths {
    /// Routes the messages of all trees of `ranks` ranks.
    pub fn new(ranks: u32, groups: Groups, route: &mut Route<'_>) -> Self {
        let trees = Candidate::ALL.into_iter().filter(|candidate| match candidate {
            Candidate::Ring => true,
            Candidate::Direct => ranks <= MAX_PEERS,
            _ => candidate.is_tree(),
        });
        Self(trees.map(|tree| (tree, Tree::new(&*tree.algorithm(), ranks, groups, route))).collect())
    }

    /// The tree of a candidate, if its messages were routed.
    pub(super) fn tree(&self, candidate: Candidate) -> Option<&Tree> {
        self.0.get(&candidate)
    }
}

impl Tree {
    fn new(algorithm: &dyn Algorithm, ranks: u32, groups: Groups, route: &mut Route<'_>) -> Self {
        let kind = CollectiveKind::Broadcast;
        let streams = algorithm.streams(kind, ranks);
        let mut tree = Self { ranks, streams, ..Self::default() };
        let mut known: BTreeMap<u32, usize> = BTreeMap::new();
        let mut path = Vec::new();
        let seats = (0..LANES as u32).flat_map(|lane| {
            (0..streams).flat_map(move |stream| (0..ranks).map(move |index| (lane, stream, index)))
        });
        for (lane, stream, index) in seats {
            let seat = Seat { kind, ranks, index, stream, reverse: groups.turns && lane == 1 };
            if lane == 0 {
                tree.first.push(tree.hops.len());
            }
            for op in program(algorithm, seat) {
                let Op::Send { to, .. } = op else { continue };
                for group in 0..groups.count {
                    let mut add = |ends: [u32; 2]| {
                        path.clear();
                        let latency = route(lane, group, ends, &mut path);
                        let of = path.iter().map(|&(link, rate)| {
                            *known.entry(link).or_insert_with(|| {
                                tree.used.push(Used::new(rate));
                                tree.used.len() - 1
                            })
                        });
                        (of.collect::<Vec<_>>(), latency)
                    };
                    let (down, latency) = add([index, to]);
                    let (up, _) = add([to, index]);
                    let rooted = u64::from(group % groups.rooted.max(1) == 0);
                    down.iter().for_each(|&link| tree.used[link].down[lane as usize] += rooted);
                    up.iter().for_each(|&link| tree.used[link].up[lane as usize] += rooted);
                    down.iter().chain(&up).for_each(|&link| tree.used[link].both[lane as usize] += 1);
                    for path in [&down, &up] {
                        path.first()
                            .into_iter()
                            .chain(path.last())
                            .for_each(|&link| tree.used[link].is_port = true);
                    }
                    if (lane, group) == (0, 0) {
                        let mut keep = |path: Vec<usize>| {
                            let start = tree.links.len();
                            tree.links.extend(path);
                            (start, tree.links.len())
                        };
                        let (down, up) = (keep(down), keep(up.into_iter().rev().collect()));
                        tree.hops.push(Hop { to, latency, down, up });
                    }
                }
            }
        }
        tree.first.push(tree.hops.len());
        tree
    }

    /// The messages that a rank sends in a stream, in order.
    pub(super) fn hops_of(&self, stream: u32, rank: u32) -> &[Hop] {
        let at = (stream * self.ranks + rank) as usize;
        &self.hops[self.first[at]..self.first[at + 1]]
    }

    /// The links between a rank and its child, as indices into `used`, for a broadcast or a reduce.
    pub(super) fn path(&self, hop: &Hop, is_reduce: bool) -> &[usize] {
        let (start, end) = if is_reduce { hop.up } else { hop.down };
        &self.links[start..end]
    }
}
