//! A list scheduler: runs the task graphs of all ranks of a job, event by event.
//!
//! Each rank computes one task at a time; of several that could start, the first one in the order of iterations and
//! tasks. Messages and collectives take given times, and any number of them run at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use syncline_units::CollectiveKind;
use syncline_workload::{Part, TaskGraph, TaskKind, Work, Workload};

/// How long things between ranks take.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    /// A message, with its size in bytes.
    pub(crate) message: fn(u64) -> u64,
    /// A collective, with its size in bytes.
    pub(crate) collective: fn(CollectiveKind, u64) -> u64,
}

/// Nothing between ranks takes time.
pub(crate) const FREE: Costs = Costs { message: |_| 0, collective: |_, _| 0 };

/// Collectives take a unit of time for each byte.
pub(crate) const BY_BYTE: Costs = Costs { message: |bytes| bytes, collective: |_, bytes| bytes };

/// What happened.
pub(crate) struct Run<'a> {
    workload: &'a Workload,
    /// Start and end of each task of each rank, by iteration and then by task; `None` for what did not run.
    spans: Vec<Vec<Option<(u64, u64)>>>,
    /// The end of the last task.
    pub(crate) end: u64,
}

#[derive(Default)]
struct Channel {
    arrived: VecDeque<u64>,
    awaited: VecDeque<(usize, u64)>,
}

struct Rank<'a> {
    graph: &'a TaskGraph,
    /// What each task of each iteration still waits for.
    waits: Vec<u32>,
    /// When each task may begin at the earliest.
    from: Vec<u64>,
    ready: BTreeSet<usize>,
    busy: bool,
}

struct Scheduler<'a> {
    workload: &'a Workload,
    costs: Costs,
    ranks: Vec<Rank<'a>>,
    spans: Vec<Vec<Option<(u64, u64)>>>,
    /// Ends of tasks.
    events: BinaryHeap<Reverse<(u64, usize, usize)>>,
    channels: BTreeMap<(u32, u32, u32), Channel>,
    /// Members of collectives that have begun, by role, group and number.
    begun: BTreeMap<(usize, u32, usize), Vec<(usize, usize)>>,
}

/// Runs a job.
pub(crate) fn run(workload: &Workload, costs: Costs) -> Run<'_> {
    let rank = |rank: u32| {
        let graph = &workload.classes[workload.class_of(rank) as usize];
        let (tasks, iterations) = (graph.tasks.len(), graph.iterations as usize);
        let mut waits = vec![0; tasks * iterations];
        for (at, iteration) in (0..tasks as u32).flat_map(|at| (0..iterations).map(move |i| (at, i))) {
            for next in graph.successors(at) {
                let later = iteration + usize::from(next.lag);
                if later < iterations {
                    waits[later * tasks + next.task as usize] += 1;
                }
            }
        }
        for (at, &counted) in waits.iter().enumerate() {
            assert_eq!(graph.waits((at % tasks) as u32, (at / tasks) as u32), counted);
        }
        Rank { graph, from: vec![0; waits.len()], waits, ready: BTreeSet::new(), busy: false }
    };
    let ranks: Vec<Rank<'_>> = (0..workload.ranks).map(rank).collect();
    let spans = ranks.iter().map(|rank| vec![None; rank.waits.len()]).collect();
    let mut scheduler = Scheduler {
        workload,
        costs,
        ranks,
        spans,
        events: BinaryHeap::new(),
        channels: BTreeMap::new(),
        begun: BTreeMap::new(),
    };
    scheduler.run()
}

impl<'a> Scheduler<'a> {
    fn run(&mut self) -> Run<'a> {
        for rank in 0..self.ranks.len() {
            for at in 0..self.ranks[rank].waits.len() {
                if self.ranks[rank].waits[at] == 0 {
                    self.begin(rank, at, 0);
                }
            }
        }
        let mut left: usize = self.ranks.iter().map(|rank| rank.waits.len()).sum();
        let mut end = 0;
        loop {
            let now = self.events.peek().map(|&Reverse((time, ..))| time);
            while let Some(&Reverse((time, rank, at))) = self.events.peek()
                && Some(time) == now
            {
                self.events.pop();
                (left, end) = (left - 1, time);
                self.done(rank, at, time);
            }
            self.compute(end);
            if self.events.is_empty() {
                break;
            }
        }
        assert_eq!(left, 0, "tasks wait forever");
        Run { workload: self.workload, spans: std::mem::take(&mut self.spans), end }
    }

    /// Starts the first ready compute task of each idle rank.
    fn compute(&mut self, now: u64) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].busy {
                continue;
            }
            let Some(at) = self.ranks[rank].ready.pop_first() else { continue };
            let graph = self.ranks[rank].graph;
            let TaskKind::Compute(work) = &graph.tasks[at % graph.tasks.len()].kind else { unreachable!() };
            let time = match work {
                Work::None => 0,
                Work::Time(time) => time.0,
                Work::Ops { flop, .. } => flop.0,
            };
            self.ranks[rank].busy = true;
            self.spans[rank][at] = Some((now, now + time));
            self.events.push(Reverse((now + time, rank, at)));
        }
    }

    fn ends(&mut self, rank: usize, at: usize, start: u64, end: u64) {
        self.spans[rank][at] = Some((start, end));
        self.events.push(Reverse((end, rank, at)));
    }

    /// Begins a task that waits for no other one.
    fn begin(&mut self, rank: usize, at: usize, now: u64) {
        let graph = self.ranks[rank].graph;
        let (task, iteration) = (at % graph.tasks.len(), at / graph.tasks.len());
        if !graph.is_done_in(task as u32, iteration as u32) {
            self.events.push(Reverse((now, rank, at)));
            return;
        }
        let number = rank as u32;
        match graph.tasks[task].kind {
            TaskKind::Join => self.ends(rank, at, now, now),
            TaskKind::Memory(time) => self.ends(rank, at, now, now + time.0),
            TaskKind::Compute(_) => {
                self.ranks[rank].ready.insert(at);
            }
            TaskKind::Send { to, bytes, tag } => {
                let arrival = now + (self.costs.message)(bytes.0);
                let channel = self.channels.entry((number, to.of_checked(number).0, tag)).or_default();
                match channel.awaited.pop_front() {
                    Some((reader, since)) => {
                        let peer = to.of_checked(number).0 as usize;
                        self.ends(peer, reader, since, arrival.max(since));
                    }
                    None => channel.arrived.push_back(arrival),
                }
                self.ends(rank, at, now, now);
            }
            TaskKind::Receive { from, tag, .. } => {
                let channel = self.channels.entry((from.of_checked(number).0, number, tag)).or_default();
                match channel.arrived.pop_front() {
                    Some(arrival) => self.ends(rank, at, now, arrival.max(now)),
                    None => channel.awaited.push_back((at, now)),
                }
            }
            TaskKind::Collective { role, kind, bytes, .. } => {
                let groups = &self.workload.roles[role.index()];
                let own = groups.position_of(number).expect("the rank belongs to a group");
                // The k-th collective of a role is the same one on every member.
                let same = |other: &usize| match graph.tasks[other % graph.tasks.len()].kind {
                    TaskKind::Collective { role: others, .. } => {
                        others == role
                            && graph.is_done_in(
                                (other % graph.tasks.len()) as u32,
                                (other / graph.tasks.len()) as u32,
                            )
                    }
                    _ => false,
                };
                let counted = (0..at).filter(same).count();
                let begun = self.begun.entry((role.index(), own.group, counted)).or_default();
                begun.push((rank, at));
                if begun.len() == groups.size() as usize {
                    let end = now + (self.costs.collective)(kind, bytes.0);
                    for (rank, at) in std::mem::take(begun) {
                        let since = self.ranks[rank].from[at];
                        self.ends(rank, at, since, end);
                    }
                }
            }
        }
    }

    fn done(&mut self, rank: usize, at: usize, now: u64) {
        let graph = self.ranks[rank].graph;
        let (task, iteration) = (at % graph.tasks.len(), at / graph.tasks.len());
        if self.spans[rank][at].is_some() && matches!(graph.tasks[task].kind, TaskKind::Compute(_)) {
            self.ranks[rank].busy = false;
        }
        for next in graph.successors(task as u32) {
            let later = (iteration + usize::from(next.lag)) * graph.tasks.len() + next.task as usize;
            let Some(waits) = self.ranks[rank].waits.get_mut(later) else { continue };
            *waits -= 1;
            let ready = *waits == 0;
            let from = &mut self.ranks[rank].from[later];
            *from = now.max(*from);
            if ready {
                self.begin(rank, later, now);
            }
        }
    }
}

impl Run<'_> {
    /// Start and end of the compute tasks of a rank for a part of a layer, in order.
    pub(crate) fn computed(&self, rank: u32, layer: &str, part: Part) -> Vec<(u64, u64)> {
        self.of(rank, layer, part, |kind| matches!(kind, TaskKind::Compute(_)))
    }

    /// As [`Self::computed`], for collectives of a kind.
    pub(crate) fn exchanged(&self, rank: u32, layer: &str, part: Part, name: &str) -> Vec<(u64, u64)> {
        self.of(
            rank,
            layer,
            part,
            |of| matches!(of, TaskKind::Collective { kind, .. } if kind.name() == name),
        )
    }

    /// As [`Self::computed`], for messages that are received.
    pub(crate) fn received(&self, rank: u32, layer: &str, part: Part) -> Vec<(u64, u64)> {
        self.of(rank, layer, part, |kind| matches!(kind, TaskKind::Receive { .. }))
    }

    fn of(&self, rank: u32, layer: &str, part: Part, is: impl Fn(&TaskKind) -> bool) -> Vec<(u64, u64)> {
        let graph = &self.workload.classes[self.workload.class_of(rank) as usize];
        let mut found: Vec<(u64, u64)> = self.spans[rank as usize]
            .iter()
            .enumerate()
            .filter_map(|(at, &span)| {
                let task = &graph.tasks[at % graph.tasks.len()];
                let wanted = self.workload.layer_name(task.layer) == layer && task.part == part;
                span.filter(|_| wanted && is(&task.kind))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// What a rank computes, in order: `layer part`.
    pub(crate) fn order(&self, rank: u32) -> Vec<String> {
        let graph = &self.workload.classes[self.workload.class_of(rank) as usize];
        let mut found: Vec<((u64, u64), usize)> = self.spans[rank as usize]
            .iter()
            .enumerate()
            .filter(|(at, _)| matches!(graph.tasks[at % graph.tasks.len()].kind, TaskKind::Compute(_)))
            .filter_map(|(at, &span)| Some((span?, at)))
            .collect();
        found.sort_unstable();
        let name = |(_, at): ((u64, u64), usize)| {
            let task = &graph.tasks[at % graph.tasks.len()];
            format!("{} {}", self.workload.layer_name(task.layer), task.part.name())
        };
        found.into_iter().map(name).collect()
    }
}
