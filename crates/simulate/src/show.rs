//! Parts of a scenario, described as data for a person's view of them.

use crate::Show;
use crate::prepare::{Prepared, prepare};
use crate::scenario::Scenario;
use crate::watch::Watch;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_diagnostics::Result;
use syncline_units::LinkId;
use syncline_workload::graph::describe;
use syncline_workload::{TaskKind, Work};

/// Most links or tasks that are listed one by one.
const LISTED: usize = 256;

/// A part of a scenario as JSON.
///
/// # Errors
/// As [`crate::run()`].
pub fn show(scenario: &Scenario, what: Show) -> Result<String> {
    let prepared = prepare(scenario, &Watch::default())?;
    let text = match what {
        Show::Fabric => serde_json::to_string(&fabric(&prepared)),
        Show::Workload => serde_json::to_string(&workload(&prepared)),
        Show::Plan => serde_json::to_string(&plans(&prepared)),
    };
    Ok(text.expect("views are plain data"))
}

#[derive(Serialize)]
struct FabricView {
    shape: Option<String>,
    npus: u32,
    switches: u32,
    links: u32,
    dims: Vec<DimView>,
    /// Links of a graph, as far as they are listed.
    listed: Vec<LinkView>,
}

#[derive(Serialize)]
struct DimView {
    name: String,
    kind: &'static str,
    size: u32,
    count: u32,
    one_way: bool,
    links_per_npu: u32,
    lanes: u32,
    stride: u32,
    rate_bytes_per_s: f64,
    rate_per_npu_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Serialize)]
struct LinkView {
    from: String,
    to: String,
    rate_bytes_per_s: f64,
    latency_s: f64,
}

fn fabric(prepared: &Prepared) -> FabricView {
    let fabric = &prepared.fabric;
    let listed = if fabric.is_graph() { fabric.links().min(LISTED as u32) } else { 0 };
    FabricView {
        shape: fabric.shape().map(|shape| shape.to_string()),
        npus: fabric.npus(),
        switches: fabric.vertices() - fabric.npus(),
        links: fabric.links(),
        dims: fabric
            .dims()
            .iter()
            .map(|dim| DimView {
                name: dim.name.clone(),
                kind: dim.kind.name(),
                size: dim.size,
                count: dim.count,
                one_way: dim.direction == syncline_fabric::Direction::OneWay,
                links_per_npu: dim.egress_links(),
                lanes: dim.lanes(),
                stride: dim.stride(),
                rate_bytes_per_s: dim.rate.as_bytes_per_s(),
                rate_per_npu_bytes_per_s: dim.rate_per_npu().as_bytes_per_s(),
                latency_s: dim.latency.as_s(),
            })
            .collect(),
        listed: (0..listed)
            .map(|id| {
                let link = fabric.link(LinkId(id));
                LinkView {
                    from: fabric.vertex_name(link.from),
                    to: fabric.vertex_name(link.to),
                    rate_bytes_per_s: link.rate.as_bytes_per_s(),
                    latency_s: link.latency.as_s(),
                }
            })
            .collect(),
    }
}

#[derive(Serialize)]
struct WorkloadView {
    name: String,
    ranks: u32,
    iterations: u32,
    /// Where there are several in an iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    micro_batches: Option<u32>,
    layers: usize,
    roles: Vec<RoleView>,
    classes: Vec<ClassView>,
    compute_model: String,
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
struct TaskView {
    task: String,
    what: String,
    layer: String,
    duration_s: f64,
    /// How often in an iteration, where it has several micro-batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u32>,
    bytes: u64,
    waits_for: Vec<String>,
}

fn workload(prepared: &Prepared) -> WorkloadView {
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
        compute_model: prepared.compute.label(),
    }
}

fn class_view(prepared: &Prepared, class: usize) -> ClassView {
    let workload = &prepared.workload;
    let graph = &workload.classes[class];
    let durations = prepared.durations(class);
    let ends = workload.class_runs.iter().skip(1).map(|run| run.0).chain([workload.ranks]);
    let ranks = workload.class_runs.iter().zip(ends).filter(|(run, _)| run.1 as usize == class);
    let mut collectives: BTreeMap<(&'static str, u16), (u64, u64)> = BTreeMap::new();
    let mut flop = 0u64;
    for (index, task) in (0u32..).zip(&graph.tasks) {
        let times = u64::from(graph.times_a_step(index));
        match &task.kind {
            &TaskKind::Collective { role, kind, bytes, .. } => {
                let sum = collectives.entry((kind.name(), role.0)).or_default();
                *sum = (sum.0 + times, sum.1.saturating_add(bytes.0.saturating_mul(times)));
            }
            TaskKind::Compute(Work::Ops { flop: ops, .. }) => {
                flop = flop.saturating_add(ops.0.saturating_mul(times));
            }
            _ => {}
        }
    }
    let layer = |index: u32| workload.layers.get(index as usize).cloned().unwrap_or_default();
    let label = |task: u32| {
        let at = &graph.tasks[task as usize];
        if at.name.is_empty() {
            format!("{} {}", layer(at.layer), at.part.name())
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
                (_, 1) => " of the iteration before",
                _ => " of the micro-batch before",
            };
            format!("{}{before}", label(on.task))
        });
        TaskView {
            task: label(index as u32),
            what,
            layer: layer(task.layer),
            duration_s: durations[index].as_s(),
            times: (graph.micro_batches > 1).then(|| graph.times_a_step(index as u32)),
            bytes,
            waits_for: waits_for.collect(),
        }
    };
    ClassView {
        ranks: ranks.map(|(run, end)| (end - run.0) as usize).sum(),
        tasks: graph.tasks.len(),
        flop,
        compute_s: (0..)
            .zip(durations)
            .map(|(task, duration)| duration.as_s() * f64::from(graph.times_a_step(task)))
            .sum(),
        collectives: collectives
            .into_iter()
            .map(|((kind, role), (count, bytes))| CollectiveView {
                kind,
                role: workload.roles[usize::from(role)].name.clone(),
                count,
                bytes,
            })
            .collect(),
        listed: (0..graph.tasks.len().min(LISTED)).map(view).collect(),
    }
}

#[derive(Serialize)]
struct PlanView {
    kind: &'static str,
    bytes: u64,
    chunks: usize,
    chunk_bytes: u64,
    bound_s: f64,
    /// Tasks of one iteration that use it, over all classes.
    uses: usize,
    phases: Vec<PhaseView>,
}

#[derive(Serialize)]
struct PhaseView {
    dimension: String,
    kind: &'static str,
    algorithm: String,
    ranks: u32,
    streams: u32,
    queues: u32,
    /// What the phase's collective works on, of one chunk.
    chunk_bytes: u64,
    messages_per_rank: u64,
    sent_bytes_per_rank: u64,
}

fn plans(prepared: &Prepared) -> Vec<PlanView> {
    let names = prepared.dim_names();
    let plans = &prepared.plans;
    plans
        .plans
        .iter()
        .enumerate()
        .map(|(index, plan)| {
            let chunk = plan.chunks.first().copied().unwrap_or_default();
            let phases = plan.phases.iter().map(|phase| {
                let extent = phase.extent(chunk, 0);
                let (messages, sent) = first_seat(phase, extent, plan.element);
                PhaseView {
                    dimension: names[usize::from(phase.dim)].clone(),
                    kind: phase.kind.name(),
                    algorithm: phase.algorithm.name().to_owned(),
                    ranks: phase.size,
                    streams: phase.streams,
                    queues: plans.dims[usize::from(phase.dim)].queues,
                    chunk_bytes: extent.len() * plan.element,
                    messages_per_rank: messages,
                    sent_bytes_per_rank: sent,
                }
            });
            PlanView {
                kind: plan.kind.name(),
                bytes: plan.bytes.0,
                chunks: plan.chunks.len(),
                chunk_bytes: chunk.len() * plan.element,
                bound_s: plan.bound.as_s(),
                uses: plans.plan_of.iter().flatten().filter(|&&of| of as usize == index).count(),
                phases: phases.collect(),
            }
        })
        .collect()
}

/// Messages and bytes that the phase's first seat sends for one chunk.
fn first_seat(
    phase: &syncline_engine::PhasePlan,
    extent: syncline_units::Extent,
    element: u64,
) -> (u64, u64) {
    use syncline_plan::{Op, Seat};
    let (mut messages, mut bytes) = (0, 0);
    for stream in 0..phase.streams {
        let seat = Seat { kind: phase.kind, ranks: phase.size, index: 0, stream, reverse: false };
        let part = phase.algorithm.part(phase.kind, phase.size, stream, extent);
        for op in syncline_plan::program::program(&*phase.algorithm, seat) {
            if let Op::Send { blocks, .. } = op {
                messages += 1;
                bytes += blocks.extent(seat.space(blocks.buffer, part)).len() * element;
            }
        }
    }
    (messages, bytes)
}
