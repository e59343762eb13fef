//! The task graph of a class of ranks.
//!
//! A graph contains the tasks of one iteration, and is executed [`TaskGraph::iterations`] times. A dependency with
//! `lag` 1 points to the previous iteration, so a thousand iterations take no more memory than one, and overlap
//! between iterations is expressed exactly.
//!
//! With gradient accumulation, an iteration is a micro-batch, and a training step consists of
//! [`TaskGraph::micro_batches`] of them. Tasks of the step as a whole, such as the reduction of gradients, run only
//! in the last one.

use crate::exchange::When;
use crate::layer::Work;
use crate::role::RoleId;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, CollectiveKind, RankId, Time};

/// The part of a layer that a task belongs to, for the table of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Forward pass.
    Forward,
    /// Gradient with respect to the input.
    InputGrad,
    /// Gradient with respect to the parameters.
    WeightGrad,
    /// Parameter update.
    Update,
    /// Anything else.
    Other,
}

impl Part {
    /// The name used in labels and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGrad => "input grad",
            Self::WeightGrad => "weight grad",
            Self::Update => "update",
            Self::Other => "other",
        }
    }
}

/// The other end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// This rank.
    Rank(RankId),
    /// The rank whose number is larger by this; lets all ranks of a class share one task graph.
    Ahead(i32),
}

impl Peer {
    /// The peer of `rank`; `None` if its number would be negative.
    #[inline]
    pub fn of(self, rank: u32) -> Option<RankId> {
        match self {
            Self::Rank(peer) => Some(peer),
            Self::Ahead(by) => rank.checked_add_signed(by).map(RankId),
        }
    }
    /// The peer of `rank` in a job that [`matching::check`](crate::matching::check) has accepted.
    ///
    /// # Panics
    /// In other jobs, if its number would be negative.
    #[inline]
    pub fn of_checked(self, rank: u32) -> RankId {
        self.of(rank).expect("peers of checked jobs exist")
    }
    /// How far the peer is ahead of `rank`.
    fn ahead(self, rank: RankId) -> i64 {
        match self {
            Self::Rank(peer) => i64::from(peer.0) - i64::from(rank.0),
            Self::Ahead(by) => i64::from(by),
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rank(peer) => peer.fmt(f),
            Self::Ahead(by) => write!(f, "rank {by:+}"),
        }
    }
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Occupies the rank's compute.
    Compute(Work),
    /// Takes part in a collective. The `k`-th collective task of a role, in task order, is the same collective on
    /// every member of the group.
    Collective {
        /// The role; the rank's group of this role runs the collective.
        role: RoleId,
        /// Kind of the collective.
        kind: CollectiveKind,
        /// Size, as [`CollectiveKind`] defines it.
        bytes: Bytes,
        /// Whether the next layer's compute waits for it.
        blocking: bool,
        /// The moment of an exchange of a layer; nothing for other collectives.
        when: Option<When>,
    },
    /// Sends to another rank. Done when the message has left.
    Send {
        /// Receiver.
        to: Peer,
        /// Size.
        bytes: Bytes,
        /// Sends and receives of equal ranks and tag match in order.
        tag: u32,
    },
    /// Receives from another rank.
    Receive {
        /// Sender.
        from: Peer,
        /// Size.
        bytes: Bytes,
        /// As for a send.
        tag: u32,
    },
    /// Occupies the rank's path to remote memory for this time.
    Memory(Time),
    /// Takes no time.
    Join,
}

impl TaskKind {
    /// Whether waiting for the task counts as waiting for communication.
    pub const fn is_communication(&self) -> bool {
        matches!(self, Self::Collective { .. } | Self::Send { .. } | Self::Receive { .. })
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// Index into the workload's layers; `None` if it belongs to no layer.
    pub layer: Option<u32>,
    /// Part of the layer.
    pub part: Part,
    /// Name for people; if empty, layer and part are the name.
    pub name: String,
}

/// A dependency of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The task that must be done.
    pub task: u32,
    /// How many iterations earlier: 0 or 1.
    pub lag: u8,
}

/// A checked task graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGraph {
    /// Tasks of one iteration. Of several tasks that could start at once, the first one starts.
    pub tasks: Vec<Task>,
    /// Number of iterations.
    pub iterations: u32,
    /// Number of iterations in a training step, at least 1; the same for every rank of a job.
    pub micro_batches: u32,
    /// For each task, whether it runs only in the last micro-batch of a step.
    only_last: Vec<bool>,
    /// For each task, its number of dependencies with lag 0 and with lag 1.
    waits: Vec<[u32; 2]>,
    /// Successors of task `t`: `successors[starts[t]..starts[t + 1]]`.
    starts: Vec<u32>,
    successors: Vec<Dependency>,
}

impl TaskGraph {
    /// Tasks that wait for `task`: their index, and the lag.
    #[inline]
    pub fn successors(&self, task: u32) -> &[Dependency] {
        &self.successors[self.starts[task as usize] as usize..self.starts[task as usize + 1] as usize]
    }
    /// The number of dependencies that `task` waits for in this iteration (counted from 0).
    #[inline]
    pub fn waits(&self, task: u32, iteration: u32) -> u32 {
        let [same, previous] = self.waits[task as usize];
        if iteration == 0 { same } else { same + previous }
    }
    /// Whether `task` runs in this iteration. If not, it is done as soon as it is reached, like a [`TaskKind::Join`].
    #[inline]
    pub fn is_done_in(&self, task: u32, iteration: u32) -> bool {
        !self.only_last[task as usize] || self.ends_step(iteration)
    }
    /// Whether this iteration is the last micro-batch of a training step.
    #[inline]
    pub fn ends_step(&self, iteration: u32) -> bool {
        iteration % self.micro_batches == self.micro_batches - 1
    }
    /// How often `task` runs in a training step.
    pub fn times_a_step(&self, task: u32) -> u32 {
        if self.only_last[task as usize] { 1 } else { self.micro_batches }
    }
    /// Whether a rank with this graph and a rank with `other` do the same, and their peers are equally far from
    /// `rank` and `other_rank`.
    pub fn is_like(&self, rank: RankId, other: &Self, other_rank: RankId) -> bool {
        let peer = |a: Peer, b: Peer| a.ahead(rank) == b.ahead(other_rank);
        let same = |(one, two): (&Task, &Task)| {
            let kinds = match (&one.kind, &two.kind) {
                (
                    &TaskKind::Send { to: a, bytes, tag },
                    &TaskKind::Send { to: b, bytes: b_bytes, tag: b_tag },
                ) => peer(a, b) && (bytes, tag) == (b_bytes, b_tag),
                (
                    &TaskKind::Receive { from: a, bytes, tag },
                    &TaskKind::Receive { from: b, bytes: b_bytes, tag: b_tag },
                ) => peer(a, b) && (bytes, tag) == (b_bytes, b_tag),
                (one, two) => one == two,
            };
            kinds && (one.layer, one.part, &one.name) == (two.layer, two.part, &two.name)
        };
        (self.iterations, self.micro_batches) == (other.iterations, other.micro_batches)
            && self.only_last == other.only_last
            && (&self.waits, &self.starts, &self.successors)
                == (&other.waits, &other.starts, &other.successors)
            && self.tasks.len() == other.tasks.len()
            && self.tasks.iter().zip(&other.tasks).all(same)
    }

    /// The peers that tasks send to or receive from, outside collectives, each once.
    pub fn peers(&self) -> Vec<Peer> {
        let peer = |task: &Task| match task.kind {
            TaskKind::Send { to, .. } => Some(to),
            TaskKind::Receive { from, .. } => Some(from),
            _ => None,
        };
        let mut peers: Vec<Peer> = self.tasks.iter().filter_map(peer).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// The dependencies of `task`.
    pub fn dependencies(&self, task: u32) -> Vec<Dependency> {
        (0..self.tasks.len() as u32)
            .flat_map(|t| self.successors(t).iter().filter(move |s| s.task == task).map(move |s| (t, s.lag)))
            .map(|(task, lag)| Dependency { task, lag })
            .collect()
    }
}

/// Collects tasks and dependencies.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    tasks: Vec<Task>,
    only_last: Vec<u32>,
    edges: Vec<(u32, Dependency)>,
}

impl GraphBuilder {
    /// Creates an empty graph.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a task and returns its index.
    pub fn task(&mut self, task: Task) -> u32 {
        self.tasks.push(task);
        self.tasks.len() as u32 - 1
    }
    /// Makes `task` wait for `on` in the same iteration.
    pub fn after(&mut self, task: u32, on: u32) {
        self.edges.push((on, Dependency { task, lag: 0 }));
    }
    /// Makes `task` wait for `on` in the previous iteration.
    pub fn after_previous(&mut self, task: u32, on: u32) {
        self.edges.push((on, Dependency { task, lag: 1 }));
    }
    /// Makes `task` run only in the last micro-batch of a training step.
    pub fn only_in_last(&mut self, task: u32) {
        self.only_last.push(task);
    }
    /// Number of tasks so far.
    pub fn len(&self) -> u32 {
        self.tasks.len() as u32
    }
    /// Whether there are no tasks yet.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Checks and indexes the graph; each iteration is a training step.
    ///
    /// # Errors
    /// A circle of dependencies, with the tasks on it.
    pub fn build(self, iterations: u32) -> Result<TaskGraph, Diagnostic> {
        self.build_steps(iterations, 1)
    }

    /// As [`Self::build`], for training steps of `micro_batches` micro-batches. The total number of micro-batches
    /// must fit 32 bits.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_steps(mut self, steps: u32, micro_batches: u32) -> Result<TaskGraph, Diagnostic> {
        let n = self.tasks.len();
        let micro_batches = micro_batches.max(1);
        let iterations = steps.saturating_mul(micro_batches);
        let mut only_last = vec![false; n];
        for task in self.only_last {
            only_last[task as usize] = true;
        }
        self.edges.sort_unstable();
        self.edges.dedup();
        let mut waits = vec![[0u32; 2]; n];
        let mut starts = vec![0u32; n + 1];
        for &(on, dependency) in &self.edges {
            waits[dependency.task as usize][usize::from(dependency.lag)] += 1;
            starts[on as usize + 1] += 1;
        }
        for t in 0..n {
            starts[t + 1] += starts[t];
        }
        let successors = self.edges.iter().map(|&(_, dependency)| dependency).collect();
        let tasks = self.tasks;
        let graph = TaskGraph { tasks, iterations, micro_batches, only_last, waits, starts, successors };
        match find_circle(&graph) {
            None => Ok(graph),
            Some(circle) => Err(Diagnostic::error(
                Code::Cycle,
                "tasks wait for each other in a circle, so none of them can start",
            )
            .found(
                circle
                    .iter()
                    .map(|&t| describe(&graph.tasks[t as usize], t))
                    .collect::<Vec<_>>()
                    .join(" -> "),
            )
            .help("remove one of these dependencies")),
        }
    }
}

/// The name of a task in messages.
pub fn describe(task: &Task, index: u32) -> String {
    if task.name.is_empty() {
        format!("task {index} ({})", task.part.name())
    } else {
        format!("`{}`", task.name)
    }
}

/// Tasks on a circle of lag-0 dependencies, with the first one repeated at the end; `None` if there is no circle.
fn find_circle(graph: &TaskGraph) -> Option<Vec<u32>> {
    let n = graph.tasks.len();
    let mut waits: Vec<u32> = graph.waits.iter().map(|w| w[0]).collect();
    let mut ready: Vec<u32> = (0..n as u32).filter(|&t| waits[t as usize] == 0).collect();
    let mut done = 0;
    while let Some(task) = ready.pop() {
        done += 1;
        for next in graph.successors(task).iter().filter(|d| d.lag == 0) {
            waits[next.task as usize] -= 1;
            if waits[next.task as usize] == 0 {
                ready.push(next.task);
            }
        }
    }
    if done == n {
        return None;
    }
    // Every remaining task has a remaining predecessor, so walking backwards must reach a circle.
    let mut before = vec![u32::MAX; n];
    for t in (0..n as u32).filter(|&t| waits[t as usize] > 0) {
        for next in graph.successors(t).iter().filter(|d| d.lag == 0) {
            before[next.task as usize] = t;
        }
    }
    let mut seen = vec![false; n];
    let mut at = (0..n as u32).find(|&t| waits[t as usize] > 0)?;
    while !seen[at as usize] {
        seen[at as usize] = true;
        at = before[at as usize];
    }
    let mut circle = vec![at];
    let mut walk = before[at as usize];
    while walk != at {
        circle.push(walk);
        walk = before[walk as usize];
    }
    circle.push(at);
    circle.reverse();
    Some(circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(name: &str) -> Task {
        Task { kind: TaskKind::Join, layer: None, part: Part::Other, name: name.to_owned() }
    }

    #[test]
    fn a_circle_is_named() {
        let mut builder = GraphBuilder::new();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| builder.task(join(name)));
        builder.after(b, a);
        builder.after(c, b);
        builder.after(b, c);
        builder.after(d, c);
        let error = builder.build(1).unwrap_err();
        assert!(
            ["`b` -> `c` -> `b`", "`c` -> `b` -> `c`"].contains(&error.found.as_deref().unwrap()),
            "{error}"
        );
    }

    #[test]
    fn lagged_dependencies_count_from_the_second_iteration() {
        let mut builder = GraphBuilder::new();
        let [a, b] = ["a", "b"].map(|name| builder.task(join(name)));
        builder.after(b, a);
        builder.after_previous(a, b);
        builder.after_previous(a, b);
        let graph = builder.build(3).unwrap();
        assert_eq!((graph.waits(a, 0), graph.waits(a, 1), graph.waits(b, 1)), (0, 1, 1));
        assert_eq!(graph.dependencies(a), vec![Dependency { task: b, lag: 1 }]);
    }

    #[test]
    fn step_tasks_run_in_the_last_micro_batch() {
        let mut builder = GraphBuilder::new();
        let [a, b] = ["a", "b"].map(|name| builder.task(join(name)));
        builder.only_in_last(b);
        let graph = builder.clone().build_steps(2, 3).unwrap();
        let done = |task| (0..6).filter(|&iteration| graph.is_done_in(task, iteration)).collect::<Vec<_>>();
        assert_eq!((graph.iterations, done(a), done(b)), (6, vec![0, 1, 2, 3, 4, 5], vec![2, 5]));
        assert_eq!((graph.times_a_step(a), graph.times_a_step(b)), (3, 1));
        let plain = builder.build(2).unwrap();
        assert!(plain.is_done_in(b, 0) && !plain.is_like(RankId(0), &graph, RankId(0)));
    }

    /// A graph in which a rank sends to `to`, receives from `from`, and waits for both.
    fn neighbours(to: Peer, from: Peer) -> TaskGraph {
        let mut builder = GraphBuilder::new();
        assert!(builder.is_empty());
        let of = |kind| Task { kind, layer: Some(1), part: Part::Forward, name: String::new() };
        let send = builder.task(of(TaskKind::Send { to, bytes: Bytes(8), tag: 3 }));
        let receive = builder.task(of(TaskKind::Receive { from, bytes: Bytes(8), tag: 3 }));
        let end = builder.task(join("end"));
        builder.after(end, send);
        builder.after(end, receive);
        assert_eq!((builder.len(), builder.is_empty()), (3, false));
        builder.build(2).unwrap()
    }

    #[test]
    fn ranks_whose_peers_are_equally_far_are_alike() {
        let by_number = neighbours(Peer::Rank(RankId(5)), Peer::Rank(RankId(3)));
        let by_distance = neighbours(Peer::Ahead(1), Peer::Ahead(-1));
        assert!(by_number.is_like(RankId(4), &by_distance, RankId(9)));
        assert!(!by_number.is_like(RankId(3), &by_distance, RankId(9)), "its peers are 2 and 0 ahead");
        let changes: [fn(&mut TaskGraph); 9] = [
            |graph| graph.tasks[0].kind = TaskKind::Send { to: Peer::Ahead(2), bytes: Bytes(8), tag: 3 },
            |graph| graph.tasks[0].kind = TaskKind::Send { to: Peer::Ahead(1), bytes: Bytes(9), tag: 3 },
            |graph| {
                graph.tasks[1].kind = TaskKind::Receive { from: Peer::Ahead(-1), bytes: Bytes(8), tag: 4 }
            },
            |graph| graph.tasks[2].kind = graph.tasks[1].kind.clone(),
            |graph| graph.tasks[2].layer = Some(0),
            |graph| graph.iterations = 1,
            |graph| graph.only_last[1] = true,
            |graph| graph.waits[2] = [1, 1],
            |graph| {
                graph.tasks.pop();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut other = by_distance.clone();
            change(&mut other);
            assert!(!by_number.is_like(RankId(4), &other, RankId(9)), "change {number}");
        }
    }

    #[test]
    fn peers_are_those_of_sends_and_receives() {
        let graph = neighbours(Peer::Ahead(1), Peer::Rank(RankId(3)));
        assert_eq!(graph.peers(), [Peer::Rank(RankId(3)), Peer::Ahead(1)]);
        assert_eq!(neighbours(Peer::Ahead(1), Peer::Ahead(1)).peers(), [Peer::Ahead(1)]);
    }
}
