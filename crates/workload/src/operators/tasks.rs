//! The task graph of each server for a strategy.
//!
//! A server computes one operator at a time, in the order of the model forward and in reverse order backward, as a stream
//! of kernels does. Outputs are sent as soon as they are computed. The gradients of an operator are reduced once its
//! backward pass is done: first among the accelerators of a server, then among servers. Nothing in the step waits for
//! that; the next step does.

use super::graph::OperatorGraph;
use super::strategy::Strategy;
use crate::graph::{GraphBuilder, Part, Peer, Task, TaskKind};
use crate::{ClassRun, ServerGroups, Source, Work, Workload};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Bytes, CollectiveKind, RankId, Time};

/// Builds the job in which each rank is a server. Graph and strategy must be checked.
///
/// # Errors
/// More than 32,768 different groups; a reduction inside a server that takes longer than can be represented.
pub fn workload(
    graph: &OperatorGraph,
    strategy: &Strategy,
    servers: u32,
    iterations: u32,
) -> Result<Workload> {
    let mut job = JobBuilder::new(graph, strategy, servers);
    for operator in 0..graph.operators.len() {
        job.forward(operator);
    }
    for operator in (0..graph.operators.len()).rev() {
        job.backward(operator);
        job.reduce(operator)?;
    }
    let mut workload = Workload {
        name: graph.model.clone(),
        ranks: servers,
        classes: Vec::new(),
        class_runs: (0..servers).map(|rank| ClassRun { first: rank, class: rank }).collect(),
        roles: job.groups.roles(servers).map_err(|error| error.key("strategy"))?,
        axes: Vec::new(),
        layers: graph.operators.iter().map(|operator| operator.name.clone()).collect(),
        iterations,
        source: Source::Built,
    };
    for server in job.servers {
        workload.classes.push(server.tasks.build(iterations)?);
    }
    Ok(workload)
}

/// A task of a server.
#[derive(Clone, Copy)]
struct ServerTask {
    server: u32,
    task: u32,
}

/// The tasks of a server so far.
#[derive(Default)]
struct ServerTasks {
    tasks: GraphBuilder,
    /// The first and the last compute task.
    computed: Option<(u32, u32)>,
}

/// The job so far.
struct JobBuilder<'a> {
    graph: &'a OperatorGraph,
    strategy: &'a Strategy,
    servers: Vec<ServerTasks>,
    /// For each operator and each of its parts, the compute task of its forward pass and that of its backward pass.
    forward: Vec<Vec<u32>>,
    backward: Vec<Vec<u32>>,
    /// The groups that reduce gradients.
    groups: ServerGroups,
}

impl<'a> JobBuilder<'a> {
    fn new(graph: &'a OperatorGraph, strategy: &'a Strategy, servers: u32) -> Self {
        let none: Vec<Vec<u32>> = vec![Vec::new(); graph.operators.len()];
        Self {
            graph,
            strategy,
            servers: (0..servers).map(|_| ServerTasks::default()).collect(),
            forward: none.clone(),
            backward: none,
            groups: ServerGroups::default(),
        }
    }

    /// Adds the forward pass of an operator, and what is sent for it.
    fn forward(&mut self, operator: usize) {
        let (graph, strategy) = (self.graph, self.strategy);
        let placed = &strategy.placed[operator];
        let work = &graph.operators[operator].choices[placed.choice as usize].forward;
        for &server in &placed.servers {
            let task = self.compute(server, operator, Part::Forward, work);
            self.forward[operator].push(task);
        }
        for &input in &graph.operators[operator].inputs {
            let input = input as usize;
            for piece in strategy.pieces(graph, input, operator) {
                let (source, reader) = (piece.source as usize, piece.reader as usize);
                let from = ServerTask {
                    server: strategy.placed[input].servers[source],
                    task: self.forward[input][source],
                };
                let to = ServerTask { server: placed.servers[reader], task: self.forward[operator][reader] };
                self.send(from, to, piece.bytes, operator, Part::Forward);
            }
        }
    }

    /// Adds the backward pass of an operator, and the gradients that those who read its output send for it.
    fn backward(&mut self, operator: usize) {
        let (graph, strategy) = (self.graph, self.strategy);
        let placed = &strategy.placed[operator];
        let work = &graph.operators[operator].choices[placed.choice as usize].backward;
        for (part, &server) in placed.servers.iter().enumerate() {
            let task = self.compute(server, operator, Part::WeightGrad, work);
            self.servers[server as usize].tasks.after(task, self.forward[operator][part]);
            self.backward[operator].push(task);
        }
        for reader in operator + 1..graph.operators.len() {
            for _ in graph.operators[reader].inputs.iter().filter(|&&input| input as usize == operator) {
                for piece in strategy.pieces(graph, operator, reader) {
                    let (source, read) = (piece.source as usize, piece.reader as usize);
                    let from = ServerTask {
                        server: strategy.placed[reader].servers[read],
                        task: self.backward[reader][read],
                    };
                    let to =
                        ServerTask { server: placed.servers[source], task: self.backward[operator][source] };
                    self.send(from, to, piece.bytes, operator, Part::WeightGrad);
                }
            }
        }
    }

    /// Adds the reductions of an operator's gradients.
    fn reduce(&mut self, operator: usize) -> Result<()> {
        let (graph, strategy) = (self.graph, self.strategy);
        let bytes = strategy.split(graph, operator).parameters_of(graph.operators[operator].parameters);
        if bytes == 0 {
            return Ok(());
        }
        let inside = inside_server(graph, operator, bytes)?;
        let parameters = strategy.split(graph, operator).parameters as usize;
        for (slice, members) in strategy.groups(graph, operator).into_iter().enumerate() {
            let role = (members.len() > 1).then(|| self.groups.role(members.clone()));
            for (i, &server) in members.iter().enumerate() {
                let computed = self.backward[operator][i * parameters + slice];
                let first = self.forward[operator][i * parameters + slice];
                let tasks = &mut self.servers[server as usize].tasks;
                let task = |kind| Task {
                    kind,
                    layer: Some(operator as u32),
                    part: Part::Update,
                    name: String::new(),
                };
                let mut last = computed;
                if !inside.is_zero() {
                    let local = tasks.task(task(TaskKind::Memory(inside)));
                    tasks.after(local, last);
                    last = local;
                }
                if let Some(role) = role {
                    let kind = CollectiveKind::AllReduce;
                    let reduced = tasks.task(task(TaskKind::Collective {
                        role,
                        kind,
                        bytes: Bytes(bytes),
                        blocking: false,
                        when: None,
                    }));
                    tasks.after(reduced, last);
                    last = reduced;
                }
                tasks.after_previous(first, last);
            }
        }
        Ok(())
    }

    /// Adds a compute task behind the server's last one.
    fn compute(&mut self, server: u32, operator: usize, part: Part, work: &Work) -> u32 {
        let ServerTasks { tasks, computed } = &mut self.servers[server as usize];
        let kind = TaskKind::Compute(work.clone());
        let task = tasks.task(Task { kind, layer: Some(operator as u32), part, name: String::new() });
        if let Some((first, last)) = *computed {
            tasks.after(task, last);
            *computed = Some((first, task));
        } else {
            *computed = Some((task, task));
        }
        task
    }

    /// Sends from one server's task to another's, which waits for it. On one server, it just waits.
    fn send(&mut self, from: ServerTask, to: ServerTask, bytes: u64, operator: usize, part: Part) {
        if from.server == to.server {
            return self.servers[from.server as usize].tasks.after(to.task, from.task);
        }
        let tag = 2 * operator as u32 + u32::from(part != Part::Forward);
        let (bytes, layer) = (Bytes(bytes), Some(operator as u32));
        let tasks = &mut self.servers[from.server as usize].tasks;
        let kind = TaskKind::Send { to: Peer::Rank(RankId(to.server)), bytes, tag };
        let sent = tasks.task(Task { kind, layer, part, name: String::new() });
        tasks.after(sent, from.task);
        let tasks = &mut self.servers[to.server as usize].tasks;
        let kind = TaskKind::Receive { from: Peer::Rank(RankId(from.server)), bytes, tag };
        let received = tasks.task(Task { kind, layer, part, name: String::new() });
        tasks.after(to.task, received);
    }
}

/// How long the accelerators of a server take to reduce `bytes` of an operator's gradients among themselves: each sends
/// and receives a part of every other one's, with `2 / accelerators` of the bytes at the rate of an accelerator (facts
/// of the released simulator).
///
/// # Errors
/// A time that cannot be represented.
pub fn inside_server(graph: &OperatorGraph, operator: usize, bytes: u64) -> Result<Time> {
    let accelerators = u64::from(graph.server.accelerators);
    let reduced = accelerators > 1 && graph.operators[operator].copied;
    let (Some(rate), true) = (graph.server.rate, reduced) else { return Ok(Time::ZERO) };
    let time = rate.transfer_time(Bytes(bytes.saturating_mul(2).div_ceil(accelerators)));
    time.ok_or_else(|| {
        Diagnostic::error(Code::Overflow, "a reduction inside a server takes longer than can be simulated")
            .key("server.rate")
            .found(rate.to_string())
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching;
    use crate::operators::{Choice, Operator, Placed, Reads, Server};
    use proptest::prelude::{Just, ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};
    use proptest::strategy::Strategy as _;

    fn choice(samples: u32, parameters: u32) -> Choice {
        Choice {
            samples,
            parameters,
            forward: Work::Time(Time(100)),
            backward: Work::Time(Time(200)),
            memory: Bytes(0),
        }
    }

    /// A chain of operators that may be divided in four ways, with a shortcut from the first to the last.
    fn chain(operators: u32) -> OperatorGraph {
        let choices = vec![choice(1, 1), choice(2, 1), choice(4, 1), choice(2, 2)];
        let operator = |at: u32| Operator {
            name: format!("op{at}"),
            kind: String::new(),
            inputs: if at == 0 {
                vec![]
            } else if at + 1 == operators && at > 1 {
                vec![at - 1, 0]
            } else {
                vec![at - 1]
            },
            output: Bytes(10),
            parameters: Bytes(1000),
            copied: true,
            reads: if at.is_multiple_of(2) { Reads::All } else { Reads::Own },
            choices: choices.clone(),
        };
        OperatorGraph {
            model: "chain".to_owned(),
            samples: 8,
            operators: (0..operators).map(operator).collect(),
            server: Server::default(),
        }
    }

    /// Strategies of 4 operators on 5 servers.
    fn strategies() -> impl proptest::strategy::Strategy<Value = super::Strategy> {
        let servers = Just(vec![0u32, 1, 2, 3, 4]).prop_shuffle();
        prop::collection::vec((0u32..4, servers), 4).prop_map(|placed| {
            let of = |(choice, mut servers): (u32, Vec<u32>)| {
                servers.truncate([1, 2, 4, 4][choice as usize]);
                Placed { choice, servers }
            };
            super::Strategy { placed: placed.into_iter().map(of).collect() }
        })
    }

    #[test]
    fn data_parallelism_reduces_and_sends_nothing() {
        let graph = chain(3);
        let everywhere = Placed { choice: 2, servers: vec![0, 1, 2, 3] };
        let strategy = super::Strategy { placed: vec![everywhere; 3] };
        graph.check(4).unwrap();
        strategy.check(&graph, 4).unwrap();
        let job = workload(&graph, &strategy, 4, 1).unwrap();
        assert_eq!(job.roles.len(), 1);
        for graph in &job.classes {
            let kinds =
                |wanted: fn(&TaskKind) -> bool| graph.tasks.iter().filter(|task| wanted(&task.kind)).count();
            assert_eq!(kinds(|kind| matches!(kind, TaskKind::Compute(_))), 6);
            assert_eq!(kinds(|kind| matches!(kind, TaskKind::Collective { .. })), 3);
            assert_eq!(graph.tasks.len(), 9);
        }
    }

    #[test]
    fn accelerators_of_a_server_reduce_first() {
        let mut graph = chain(1);
        graph.server = Server {
            accelerators: 4,
            rate: Some(syncline_units::Rate::from_bytes_per_s(1_000)),
            memory: None,
        };
        // 2/4 of 1000 bytes at 1000 bytes per second.
        assert_eq!(inside_server(&graph, 0, 1000).unwrap(), Time(500_000_000_000));
        let alone = super::Strategy { placed: vec![Placed { choice: 0, servers: vec![1] }] };
        let job = workload(&graph, &alone, 2, 1).unwrap();
        assert!(job.roles.is_empty() && job.classes[0].tasks.is_empty());
        assert_eq!(job.classes[1].tasks.len(), 3);
    }

    #[test]
    fn bad_graphs_and_strategies_are_named() {
        let mut graph = chain(2);
        graph.operators[0].inputs = vec![1];
        graph.operators[1].name = "op0".to_owned();
        graph.operators[1].choices[0].samples = 3;
        graph.operators[1].choices[1].samples = 9;
        graph.server.accelerators = 2;
        let keys: Vec<_> =
            graph.check(8).unwrap_err().0.into_iter().map(|error| error.key.unwrap()).collect();
        assert_eq!(
            keys,
            [
                "server.rate",
                "operators.0.inputs",
                "operators.1.name",
                "operators.1.choices.0.samples",
                "operators.1.choices.1.samples",
            ]
        );
        let mut graph = chain(2);
        let placed = |choice, servers: &[u32]| Placed { choice, servers: servers.to_vec() };
        for (second, key) in [
            (placed(4, &[0]), "strategy.1.choice"),
            (placed(1, &[0, 0]), "strategy.1.servers"),
            (placed(1, &[0]), "strategy.1.servers"),
            (placed(0, &[7]), "strategy.1.servers"),
        ] {
            let strategy = super::Strategy { placed: vec![placed(0, &[0]), second] };
            assert_eq!(strategy.check(&graph, 4).unwrap_err().0[0].key.as_deref(), Some(key));
        }
        graph.operators[0].choices[0].memory = Bytes(50);
        graph.server.memory = Some(Bytes(60));
        let strategy = super::Strategy { placed: vec![placed(0, &[3]), placed(0, &[3])] };
        strategy.check(&graph, 4).unwrap();
        graph.operators[1].choices[0].memory = Bytes(11);
        let error = strategy.check(&graph, 4).unwrap_err();
        assert!(error.0[0].found.as_deref().unwrap().contains("server 3"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Every send has its receive, groups agree, and bytes forward equal bytes backward.
        #[test]
        fn sends_and_receives_of_a_job_match(strategy in strategies(), iterations in 1u32..3) {
            let graph = chain(4);
            strategy.check(&graph, 5).unwrap();
            let job = workload(&graph, &strategy, 5, iterations).unwrap();
            prop_assert!(matching::check(&job).0.is_empty());
            let mut sent = [0u64; 2];
            for task in job.classes.iter().flat_map(|graph| &graph.tasks) {
                if let TaskKind::Send { bytes, .. } = task.kind {
                    sent[usize::from(task.part == Part::Forward)] += bytes.0;
                }
            }
            prop_assert_eq!(sent[0], sent[1]);
        }
    }
}
