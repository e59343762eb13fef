//! The critical path: why the watched part of a run takes as long as it does.
//!
//! Of every task the engine keeps when it began, when it ended, and which task's end made it begin. Going back from the
//! task that ended last, always to the one that it waited for last, gives a chain without gaps from the begin of the run.
//! It changes rank where one rank waited for another: a receive for its sender, a collective for the rank that issued it
//! last. Within a collective the chain follows the chunk that ended last; where that had to wait for its turn, it goes on
//! with the chunk that made room for it.

use crate::state::At;
use std::cmp::Reverse;
use syncline_units::Time;

/// Iterations that are watched: enough to see how one goes over into the next.
pub(crate) const WATCHED: u32 = 2;

/// Most tasks that are watched, over all ranks, so that large jobs do not fill the memory.
pub const MAX_TASKS: u64 = 1 << 22;

/// Most phases of chunks that are watched, likewise.
const MAX_LEGS: usize = 1 << 21;

/// No task, or no leg.
const NONE: u32 = u32::MAX;

/// A task of a rank.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: Time,
    /// [`Time::MAX`] until it has ended.
    end: Time,
    /// The task of the same rank whose end made it begin.
    cause: u32,
    /// What else it waited for.
    wait: u32,
}

const UNSEEN: Node = Node { start: Time::ZERO, end: Time::MAX, cause: NONE, wait: NONE };

/// What a communication waited for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The other rank's task, and when it began; `None` where the rank waited for no other.
    from: Option<(u32, u32, Time)>,
    /// The last phase of the chunk that ended last.
    leg: u32,
}

const NO_WAIT: Wait = Wait { from: None, leg: NONE };

/// A chunk in one phase.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// The phase before.
    before: u32,
    /// What had to end before this one could begin: a phase of another chunk of the rank.
    room: u32,
    /// The collective's task.
    node: u32,
    dim: u16,
    start: Time,
    end: Time,
}

/// What a segment of the critical path is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Compute.
    Compute,
    /// A memory operation.
    Memory,
    /// Messages under way, in an accounting dimension where they belong to a collective.
    Communication(Option<u16>),
    /// A chunk waits for its turn in an accounting dimension.
    Queue(u16),
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// From when.
    pub start: Time,
    /// To when.
    pub end: Time,
    /// Which rank.
    pub rank: u32,
    /// Its task.
    pub task: u32,
    /// What for.
    pub spent: Spent,
}

/// What a task is, to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Compute,
    Memory,
    Communication,
    Join,
}

/// Collects what the path is made of.
#[derive(Debug, Default)]
pub(crate) struct Path {
    /// Whether anything is still written down.
    pub(crate) watching: bool,
    /// By rank: its tasks, iteration by iteration.
    nodes: Vec<Vec<Node>>,
    /// Tasks of one iteration, by rank.
    tasks: Vec<u32>,
    waits: Vec<Wait>,
    legs: Vec<Leg>,
    /// By run: its last leg, and what had to end before its present one.
    runs: Vec<(u32, u32)>,
    /// The leg that has just ended, and makes room for others.
    ended: u32,
}

impl Path {
    /// A path over ranks with so many tasks and iterations each; nothing is kept where there are too many.
    pub(crate) fn new(ranks: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let watched = |(tasks, iterations): (u32, u32)| u64::from(tasks) * u64::from(iterations.min(WATCHED));
        if ranks.clone().map(watched).sum::<u64>() > MAX_TASKS {
            return Self::default();
        }
        let nodes = ranks.clone().map(|rank| vec![UNSEEN; watched(rank) as usize]).collect();
        let tasks = ranks.map(|(tasks, _)| tasks).collect();
        Self { watching: true, nodes, tasks, ended: NONE, ..Self::default() }
    }

    /// The number of a task among the nodes of its rank; `None` where it is not watched.
    #[inline]
    fn node(&self, rank: u32, at: At) -> Option<u32> {
        (self.watching && at.iteration < WATCHED).then(|| at.iteration * self.tasks[rank as usize] + at.task)
    }

    /// A task may begin, because `cause` has ended.
    #[inline]
    pub(crate) fn begins(&mut self, now: Time, rank: u32, at: At, cause: Option<At>) {
        let Some(node) = self.node(rank, at) else { return };
        let cause = cause.and_then(|cause| self.node(rank, cause)).unwrap_or(NONE);
        self.nodes[rank as usize][node as usize] = Node { start: now, cause, ..UNSEEN };
    }

    /// A task begins now; if it could have begun earlier, then because `before` has made room. Where that is not watched
    /// any more, the wait counts as the task's own time.
    #[inline]
    pub(crate) fn had_to_wait(&mut self, now: Time, rank: u32, at: At, before: At) {
        let Some(node) = self.node(rank, at) else { return };
        let Some(before) = self.node(rank, before) else { return };
        let node = &mut self.nodes[rank as usize][node as usize];
        if node.start < now {
            (node.start, node.cause) = (now, before);
        }
    }

    /// A task has ended.
    #[inline]
    pub(crate) fn ends(&mut self, now: Time, rank: u32, at: At) {
        let Some(node) = self.node(rank, at) else { return };
        self.nodes[rank as usize][node as usize].end = now;
    }

    /// A receive ends that has waited for a message which its sender's task sent at `sent`.
    pub(crate) fn received(&mut self, rank: u32, at: At, (sender, from, sent): (u32, At, Time)) {
        let (Some(node), Some(from)) = (self.node(rank, at), self.node(sender, from)) else { return };
        self.wait(rank, node).from = Some((sender, from, sent));
    }

    /// A chunk begins a phase, for which it `waited` or not.
    #[inline]
    pub(crate) fn starts(&mut self, run: u32, waited: bool) {
        if self.watching {
            if self.runs.len() <= run as usize {
                self.runs.resize(run as usize + 1, (NONE, NONE));
            }
            self.runs[run as usize].1 = if waited { self.ended } else { NONE };
        }
    }

    /// A chunk of the collective `at` has gone through a phase; until [`Self::made_room`] others begin because of that.
    #[inline]
    pub(crate) fn phase(&mut self, run: u32, (rank, at): (u32, At), dim: u16, (start, end): (Time, Time)) {
        let Some(node) = self.node(rank, at).filter(|_| self.legs.len() < MAX_LEGS) else { return };
        let (before, room) = self.runs[run as usize];
        self.ended = self.legs.len() as u32;
        self.legs.push(Leg { before, room, node, dim, start, end });
        self.runs[run as usize].0 = self.ended;
    }

    /// What begins now does not do so because a phase has ended.
    #[inline]
    pub(crate) fn made_room(&mut self) {
        self.ended = NONE;
    }

    /// A chunk has ended, and with it the collective `at` where that is given.
    pub(crate) fn chunk(&mut self, run: u32, rank: u32, at: Option<At>) {
        let Some((last, _)) = self.runs.get_mut(run as usize) else { return };
        let leg = std::mem::replace(last, NONE);
        if let Some(node) = at.and_then(|at| self.node(rank, at)) {
            self.wait(rank, node).leg = leg;
        }
    }

    /// A collective ends that another rank issued later, at `issued`.
    pub(crate) fn issued_last(&mut self, rank: u32, at: At, (other, task, issued): (u32, At, Time)) {
        let (Some(node), Some(task)) = (self.node(rank, at), self.node(other, task)) else { return };
        self.wait(rank, node).from = Some((other, task, issued));
    }

    /// What a communication waits for, made where nothing is known of it yet.
    fn wait(&mut self, rank: u32, node: u32) -> &mut Wait {
        let place = &mut self.nodes[rank as usize][node as usize].wait;
        if *place == NONE {
            *place = self.waits.len() as u32;
            self.waits.push(NO_WAIT);
        }
        &mut self.waits[*place as usize]
    }

    /// The path, from the begin of the run. `kind` says what a task of a rank is.
    pub(crate) fn walk(&self, kind: impl Fn(u32, u32) -> Kind) -> Vec<Segment> {
        let ended = (0u32..).zip(&self.nodes).flat_map(|(rank, nodes)| {
            let nodes = (0u32..).zip(nodes).filter(|(_, node)| node.end != Time::MAX);
            nodes.map(move |(node, &Node { end, .. })| (end, Reverse(rank), node))
        });
        let Some((mut now, Reverse(mut rank), mut node)) = ended.max() else {
            return Vec::new();
        };
        let mut path = Vec::new();
        while node != NONE {
            let Node { start, cause, wait, .. } = self.nodes[rank as usize][node as usize];
            let task = node % self.tasks[rank as usize];
            let spent = match kind(rank, task) {
                Kind::Communication => {
                    let leg = self.waits.get(wait as usize).map_or(NONE, |wait| wait.leg);
                    (rank, node, now) = self.communication((rank, node), leg, now, &mut path);
                    continue;
                }
                Kind::Join => None,
                Kind::Compute => Some(Spent::Compute),
                Kind::Memory => Some(Spent::Memory),
            };
            let start = start.min(now);
            if let Some(spent) = spent.filter(|_| start < now) {
                path.push(Segment { start, end: now, rank, task, spent });
            }
            (node, now) = (cause, start);
        }
        path.reverse();
        path
    }

    /// Goes back over a communication task from `now`, where its chunk was at the end of `leg`: the rank and the task
    /// that come before, and when.
    fn communication(
        &self,
        (rank, mut node): (u32, u32),
        mut leg: u32,
        mut now: Time,
        path: &mut Vec<Segment>,
    ) -> (u32, u32, Time) {
        loop {
            let Node { start: issue, cause, wait, .. } = self.nodes[rank as usize][node as usize];
            let from = self.waits.get(wait as usize).and_then(|wait| wait.from);
            // A phase may end before the last rank has issued the collective: that one was not waited for.
            let (begin, next) = match from.filter(|&(.., since)| since < now) {
                Some((other, task, since)) => {
                    (since, (other, self.nodes[other as usize][task as usize].cause))
                }
                None => (issue.min(now), (rank, cause)),
            };
            let mut spend = |start: Time, end: Time, spent: Spent| {
                if start < end {
                    let task = node % self.tasks[rank as usize];
                    path.push(Segment { start, end, rank, task, spent });
                }
            };
            if leg == NONE {
                spend(begin, now, Spent::Communication(None));
                return (next.0, next.1, begin);
            }
            let Leg { before, room, dim, start, .. } = self.legs[leg as usize];
            let start = start.clamp(begin, now);
            spend(start, now, Spent::Communication(Some(dim)));
            now = start;
            if start > begin && room != NONE {
                (node, leg) = (self.legs[room as usize].node, room);
                continue;
            }
            let queued =
                if before == NONE { begin } else { self.legs[before as usize].end.clamp(begin, start) };
            spend(queued, start, Spent::Queue(dim));
            now = queued;
            if now == begin {
                return (next.0, next.1, begin);
            }
            leg = before;
        }
    }
}
