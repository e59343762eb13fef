//! Checks each node on its own.

use super::{GraphTasks, Problems, Tasks, collectives, node_key};
use crate::job::{Job, Options};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::astra2::MemoryKind;
use syncline_formats::chakra::{NodeKind, Op, PointToPoint, Work};

/// Determines the groups and dimensions that the traces name.
pub(super) fn names(job: &Job, tasks: &mut Tasks, problems: &mut Problems) {
    for (index, graph) in job.traces.graphs().iter().enumerate() {
        let rank = job.traces.first_rank(index);
        let groups = graph.groups().iter().map(|name| group(job, tasks, rank, name, problems)).collect();
        let involved = (0u32..)
            .map_while(|list| graph.involved_lists().get(list as usize))
            .map(|list| {
                (0..).zip(list).fold(0, |bits, (dim, &on)| bits | u64::from(on && dim < 64) << (dim & 63))
            })
            .collect();
        tasks.graphs.push(GraphTasks { groups, involved });
    }
}

/// Returns the group of these ranks that a trace itself defines; an empty list means all ranks.
fn of_trace(tasks: &mut Tasks, id: u32, ranks: &[u32], npus: u32) -> u32 {
    let members = if ranks.is_empty() { (0..npus).collect() } else { ranks.to_vec() };
    let known = tasks.groups.iter().position(|group| (group.id, &group.members) == (id, &members));
    let index = known.unwrap_or_else(|| {
        tasks.groups.push(super::GroupInfo::new(id, &members));
        tasks.groups.len() - 1
    });
    index as u32
}

/// Returns the group of a `pg_name`. An empty name and `0` mean all ranks; groups defined in the trace take
/// precedence over those of the file.
fn group(job: &Job, tasks: &mut Tasks, rank: u32, name: &str, problems: &mut Problems) -> Option<u32> {
    if name.is_empty() || name == "0" || job.system.replay_only {
        return None;
    }
    let defined = job.traces.graph(rank).process_groups().iter().find(|group| group.name == name);
    if let Some((id, defined)) = name.parse::<u32>().ok().zip(defined) {
        let npus = job.network.npus();
        if let Some(outside) = defined.ranks.iter().find(|&&member| member >= npus) {
            problems.add(
                Diagnostic::error(
                    Code::BadGroup,
                    "a process group of the trace names a rank that does not exist",
                )
                .at(job.traces.file(rank), 0)
                .key(format!("rank {rank}, process group {name}"))
                .found(format!("rank {outside}"))
                .allowed(format!("0 to {}", npus - 1)),
            );
            return None;
        }
        return Some(of_trace(tasks, id, &defined.ranks, npus));
    }
    let index = name.parse::<u32>().ok().and_then(|id| tasks.groups.iter().position(|group| group.id == id));
    if let Some(index) = index {
        return Some(index as u32);
    }
    let graph = job.traces.graph(rank);
    let node = graph.ops().iter().position(|op| {
        matches!(op.work, Work::Collective(c) if c.group.is_some_and(|group| graph.group(group) == name))
    });
    let known: Vec<String> = tasks.groups.iter().map(|group| group.id.to_string()).collect();
    let plain = name.bytes().all(|byte| byte.is_ascii_digit());
    let (code, message) = if plain {
        (Code::BadGroup, format!("the communicator group {name} is not defined"))
    } else {
        (Code::ChakraNode, format!("pg_name {name:?} is not the number of a communicator group"))
    };
    let help = if known.is_empty() {
        "give a communicator-group file, such as {\"1\": [0, 1]}".to_owned()
    } else {
        "use the number of a group of the communicator-group file".to_owned()
    };
    problems.add(
        Diagnostic::error(code, message)
            .at(job.traces.file(rank), 0)
            .key(node.map_or_else(|| format!("rank {rank}"), |node| node_key(job, rank, node)))
            .one_of(name, known.iter().map(String::as_str))
            .help(help),
    );
    None
}

/// Checks the nodes of every trace, and for every rank whatever depends on the rank.
pub(super) fn check(job: &Job, tasks: &Tasks, options: &Options<'_>, problems: &mut Problems) {
    let mut feasible = collectives::Feasible::default();
    for (index, graph) in job.traces.graphs().iter().enumerate() {
        let rank = job.traces.first_rank(index);
        for (node, op) in graph.ops().iter().enumerate() {
            let problem = |code, message: &str| {
                Diagnostic::error(code, message).at(job.traces.file(rank), 0).key(node_key(job, rank, node))
            };
            if let Some(found) = of_any_rank(job, op, &problem) {
                problems.add(found);
            }
            if let (Work::Collective(collective), false) = (op.work, job.system.replay_only) {
                feasible.check(job, tasks, options, (rank, node, &collective), problems);
            }
        }
    }
    if job.system.replay_only {
        return;
    }
    for rank in 0..job.network.npus() {
        of_rank(job, tasks, rank, problems);
    }
}

/// Returns what is wrong with a node on any rank.
fn of_any_rank(job: &Job, op: &Op, problem: &dyn Fn(Code, &str) -> Diagnostic) -> Option<Diagnostic> {
    let system = &job.system;
    if op.duration_micros > crate::MAX_TIME / 1000 {
        return Some(problem(Code::ChakraNode, "a duration exceeds the range of simulated time"));
    }
    match (op.kind, op.work) {
        (NodeKind::Invalid, _) => Some(
            problem(Code::ChakraNode, "a node of type INVALID_NODE is not supported")
                .note("ASTRA-sim ends it without waking what depends on it")
                .help("remove the node, or set the correct type"),
        ),
        _ if system.replay_only => None,
        (NodeKind::CommColl | NodeKind::CommSend | NodeKind::CommRecv, _) if op.cpu => Some(
            problem(Code::ChakraNode, "a communication node is marked as a host operation")
                .help("set is_cpu_op to false, or use replay-only"),
        ),
        (_, Work::Compute(compute)) if system.roofline && !op.cpu => {
            match (compute.num_ops, compute.tensor_size) {
                (None, _) => {
                    Some(problem(Code::ChakraNode, "the roofline model needs the attribute num_ops"))
                }
                (_, None) => {
                    Some(problem(Code::ChakraNode, "the roofline model needs the attribute tensor_size"))
                }
                (Some(0), Some(1..)) => Some(
                    problem(Code::ChakraNode, "the roofline model needs num_ops above 0")
                        .note("ASTRA-sim divides 0 by 0"),
                ),
                _ => None,
            }
        }
        (_, Work::Memory(_)) if job.memory.kind == MemoryKind::None => Some(
            problem(Code::ChakraNode, "a node uses remote memory, but there is none")
                .found("memory-type NO_MEMORY_EXPANSION")
                .help("give a memory-type other than NO_MEMORY_EXPANSION in the remote-memory file"),
        ),
        _ => None,
    }
}

/// Checks what depends on the rank: partners of messages, membership of groups, its remote memory.
fn of_rank(job: &Job, tasks: &Tasks, rank: u32, problems: &mut Problems) {
    let graph = job.traces.graph(rank);
    let outside: Vec<u32> = tasks.graphs[job.traces.graph_index(rank)]
        .groups
        .iter()
        .flatten()
        .copied()
        .filter(|&group| tasks.groups[group as usize].position(rank).is_none())
        .collect();
    for (node, op) in graph.ops().iter().enumerate() {
        let problem = |code, message: &str| {
            Diagnostic::error(code, message).at(job.traces.file(rank), 0).key(node_key(job, rank, node))
        };
        match op.work {
            Work::PointToPoint(message) => {
                if let Some(found) = partner(job, rank, op.kind, &message, &problem) {
                    problems.add(found);
                }
            }
            Work::Collective(collective) if !outside.is_empty() => {
                let group = tasks.place(job, rank, &collective).group;
                if let Some(group) = group.filter(|group| outside.contains(group)) {
                    let group = &tasks.groups[group as usize];
                    problems.add(
                        problem(
                            Code::BadGroup,
                            "a rank uses a communicator group to which it does not belong",
                        )
                        .found(format!("group {}", group.id))
                        .help("add the rank to the group, or remove the node from its trace"),
                    );
                }
            }
            Work::Memory(_) => {
                if let MemoryKind::PerNode { nodes, npus_per_node } = job.memory.kind
                    && rank / npus_per_node >= nodes
                {
                    problems.add(
                        problem(Code::BadAstraFile, "a rank lies beyond the nodes of the remote memory")
                            .found(format!("{nodes} nodes of {npus_per_node} NPUs"))
                            .help("raise num-nodes or num-npus-per-node in the remote-memory file"),
                    );
                }
            }
            Work::Nothing | Work::Compute(_) | Work::Collective(_) => {}
        }
    }
}

/// Returns what is wrong with the two ends of a message.
fn partner(
    job: &Job,
    rank: u32,
    kind: NodeKind,
    message: &PointToPoint,
    problem: &dyn Fn(Code, &str) -> Diagnostic,
) -> Option<Diagnostic> {
    let sends = kind == NodeKind::CommSend;
    let (own, other) = if sends { (message.src, message.dst) } else { (message.dst, message.src) };
    let other = other?;
    let npus = job.network.npus();
    if own.is_some_and(|own| own != rank) {
        let message = if sends {
            "a send names another rank as its sender"
        } else {
            "a receive names another rank as its receiver"
        };
        return Some(
            problem(Code::ChakraNode, message)
                .found(format!("rank {}", own.unwrap_or(rank)))
                .allowed(format!("rank {rank}"))
                .help(if sends { "correct comm_src" } else { "correct comm_dst" }),
        );
    }
    if other == rank {
        return Some(
            problem(Code::ChakraNode, "a message has the same sender and receiver")
                .found(format!("rank {rank}")),
        );
    }
    (other >= npus).then(|| {
        problem(Code::ChakraNode, "a message names a rank that does not exist")
            .found(format!("rank {other}"))
            .allowed(format!("0 to {}", npus - 1))
    })
}
