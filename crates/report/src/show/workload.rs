//! Tasks of each rank class, groups, bytes and work.

use super::Total;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_prepare::Prepared;
use syncline_scenario::Scenario;
use syncline_workload::graph::describe;
use syncline_workload::memory::Footprint;
use syncline_workload::{Peer, TaskKind, Work};

/// Largest number of tasks and of ranks that are listed one by one.
const LISTED: usize = 256;

#[derive(Serialize)]
pub(super) struct WorkloadView {
    name: String,
    ranks: u32,
    iterations: u32,
    /// Micro-batches of an iteration, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batches: Option<u32>,
    layers: usize,
    roles: Vec<RoleView>,
    classes: Vec<ClassView>,
    compute_model: String,
    /// What a rank of each stage holds in memory, if the layers say so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory: Vec<MemoryView>,
    /// Memory of an NPU, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    npu_memory_bytes: Option<u64>,
    /// Why the job does not fit, and what would make it fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    does_not_fit: Option<Misfit>,
    /// Parameters of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<u64>,
    /// Samples of an iteration over all copies of the model, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples_per_step: Option<u64>,
}

#[derive(Serialize)]
struct Misfit {
    message: String,
    help: Option<String>,
}

#[derive(Serialize)]
struct MemoryView {
    stage: u32,
    parameters_bytes: u64,
    gathered_bytes: u64,
    gradients_bytes: u64,
    optimizer_bytes: u64,
    /// Known only if every layer says what it keeps.
    activations_bytes: Option<u64>,
    /// Micro-batches, or parts of them, in flight at once.
    live: u32,
    total_bytes: u64,
}

#[derive(Serialize)]
struct RoleView {
    name: String,
    ranks: u32,
    groups: u32,
    axes: Vec<u32>,
    /// The ranks of group 0, as far as they are listed.
    example: Vec<u32>,
}

#[derive(Serialize)]
struct ClassView {
    ranks: usize,
    tasks: usize,
    flop: u64,
    compute_s: f64,
    /// Number and bytes of collectives of one iteration, by kind and role.
    collectives: Vec<CollectiveView>,
    /// Messages of one iteration outside collectives, by direction and peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<MessageView>,
    listed: Vec<TaskView>,
}

#[derive(Serialize)]
struct CollectiveView {
    kind: &'static str,
    role: String,
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct MessageView {
    /// `send to` or `receive from`.
    what: &'static str,
    peer: String,
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct TaskView {
    task: String,
    what: String,
    layer: String,
    duration_s: f64,
    /// How often the task runs in an iteration, if that has several micro-batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
    bytes: u64,
    waits_for: Vec<String>,
}

/// The workload.
pub(super) fn view(scenario: &Scenario, prepared: &Prepared) -> WorkloadView {
    let workload = &prepared.workload;
    let roles = workload.roles.iter().map(|role| RoleView {
        name: role.name.clone(),
        ranks: role.size(),
        groups: role.groups(),
        axes: role.axes.iter().map(|axis| axis.size).collect(),
        example: role.ranks(0).into_iter().take(LISTED).collect(),
    });
    let classes = (0..workload.classes.len()).map(|class| class_view(prepared, class));
    WorkloadView {
        name: workload.name.clone(),
        ranks: workload.ranks,
        iterations: workload.iterations,
        micro_batches: Some(workload.micro_batches()).filter(|&number| number > 1),
        layers: workload.layers.len(),
        roles: roles.collect(),
        classes: classes.collect(),
        compute_model: prepared.compute_label.clone(),
        memory: prepared.memory.iter().map(memory_view).collect(),
        npu_memory_bytes: scenario.npu_memory.map(|bytes| bytes.0),
        does_not_fit: prepared
            .does_not_fit
            .as_ref()
            .map(|problem| Misfit { message: problem.message.clone(), help: problem.help.clone() }),
        parameters: prepared.step.map(|step| step.parameters),
        samples_per_step: prepared.step.and_then(|step| step.samples),
    }
}

fn memory_view(of: &Footprint) -> MemoryView {
    MemoryView {
        stage: of.stage,
        parameters_bytes: of.parameters.0,
        gathered_bytes: of.gathered.0,
        gradients_bytes: of.gradients.0,
        optimizer_bytes: of.optimizer.0,
        activations_bytes: of.activations.map(|bytes| bytes.0),
        live: of.live,
        total_bytes: of.total().0,
    }
}

fn class_view(prepared: &Prepared, class: usize) -> ClassView {
    let workload = &prepared.workload;
    let graph = &workload.classes[class];
    let durations = prepared.durations(class);
    let ends = workload.class_runs.iter().skip(1).map(|run| run.first).chain([workload.ranks]);
    let ranks = workload.class_runs.iter().zip(ends).filter(|(run, _)| run.class as usize == class);
    let mut collectives: BTreeMap<(&'static str, u16), Total> = BTreeMap::new();
    let mut messages: BTreeMap<(&'static str, Peer), Total> = BTreeMap::new();
    let mut flop = 0u64;
    for (index, task) in (0u32..).zip(&graph.tasks) {
        let times = u64::from(graph.times_a_step(index));
        match &task.kind {
            &TaskKind::Collective { role, kind, bytes, .. } => {
                collectives.entry((kind.name(), role.0)).or_default().add(times, bytes.0);
            }
            &TaskKind::Send { to: peer, bytes, .. } | &TaskKind::Receive { from: peer, bytes, .. } => {
                let sends = matches!(task.kind, TaskKind::Send { .. });
                let what = if sends { "send to" } else { "receive from" };
                messages.entry((what, peer)).or_default().add(times, bytes.0);
            }
            TaskKind::Compute(Work::Ops { flop: ops, .. }) => {
                flop = flop.saturating_add(ops.0.saturating_mul(times));
            }
            _ => {}
        }
    }
    let label = |task: u32| {
        let at = &graph.tasks[task as usize];
        if at.name.is_empty() {
            format!("{} {}", workload.layer_name(at.layer), at.part.name())
        } else {
            describe(at, task)
        }
    };
    let view = |index: usize| {
        let task = &graph.tasks[index];
        let (what, bytes) = match task.kind {
            TaskKind::Compute(_) => ("compute".to_owned(), 0),
            TaskKind::Collective { role, kind, bytes, .. } => {
                (format!("{kind} over {}", workload.roles[role.index()].name), bytes.0)
            }
            TaskKind::Send { to, bytes, .. } => (format!("send to {to}"), bytes.0),
            TaskKind::Receive { from, bytes, .. } => (format!("receive from {from}"), bytes.0),
            TaskKind::Memory(_) => ("memory".to_owned(), 0),
            TaskKind::Join => ("join".to_owned(), 0),
        };
        let waits_for = graph.dependencies(index as u32).into_iter().map(|on| {
            let before = match (on.lag, graph.micro_batches) {
                (0, _) => "",
                (_, 1) => " of the previous iteration",
                _ => " of the previous micro-batch",
            };
            format!("{}{before}", label(on.task))
        });
        TaskView {
            task: label(index as u32),
            what,
            layer: workload.layer_name(task.layer).to_owned(),
            duration_s: durations[index].as_s(),
            times: (graph.micro_batches > 1).then(|| graph.times_a_step(index as u32)),
            bytes,
            waits_for: waits_for.collect(),
        }
    };
    ClassView {
        ranks: ranks.map(|(run, end)| (end - run.first) as usize).sum(),
        tasks: graph.tasks.len(),
        flop,
        compute_s: (0..)
            .zip(durations)
            .map(|(task, duration)| duration.as_s() * f64::from(graph.times_a_step(task)))
            .sum(),
        collectives: collectives
            .into_iter()
            .map(|((kind, role), Total { count, bytes })| CollectiveView {
                kind,
                role: workload.roles[usize::from(role)].name.clone(),
                count,
                bytes,
            })
            .collect(),
        messages: messages
            .into_iter()
            .take(LISTED)
            .map(|((what, peer), Total { count, bytes })| MessageView {
                what,
                peer: peer.to_string(),
                count,
                bytes,
            })
            .collect(),
        listed: (0..graph.tasks.len().min(LISTED)).map(view).collect(),
    }
}
