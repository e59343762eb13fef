//! Describes parts of a scenario as data, from which `syncline show` makes its views.

use crate::Show;
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_diagnostics::Result;
use syncline_fabric::Fabric;
use syncline_fabric::cost::Bill;
use syncline_fabric::measure::Method;
use syncline_fabric::parts::{Layout, LinkKind, VertexKind};
use syncline_prepare::watch::Watch;
use syncline_prepare::{Prepared, in_any_memory};
use syncline_scenario::Scenario;
use syncline_units::LinkId;
use syncline_workload::graph::describe;
use syncline_workload::memory::Footprint;
use syncline_workload::{Peer, TaskKind, Work};

/// Largest number of tasks and of ranks that are listed one by one.
const LISTED: usize = 256;
/// Largest number of links that are listed: as many as a picture can show.
const LINKS: u32 = 4096;

/// A part of a scenario as JSON.
///
/// # Errors
/// As [`crate::run()`].
pub fn show(scenario: &Scenario, what: Show) -> Result<String> {
    let prepared = in_any_memory(scenario, &Watch::default())?;
    let text = match what {
        Show::Fabric => serde_json::to_string(&fabric(&prepared)),
        Show::Workload => serde_json::to_string(&workload(scenario, &prepared)),
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
    /// How a graph's paths are found.
    routing: Option<RoutingView>,
    /// The family of a graph; empty if it was given link by link.
    family: String,
    /// Levels of vertices, the NPUs first.
    levels: Vec<LevelView>,
    /// Tiers of links.
    tiers: Vec<TierView>,
    /// Names and sizes of the axes in which NPUs are naturally arranged.
    axes: Vec<(String, u32)>,
    /// How a picture arranges the vertices.
    layout: Layout,
    /// Number of links between the two NPUs that are farthest apart, if known.
    diameter: Option<u32>,
    /// The rate at which the two halves of the NPUs can send to each other.
    bisection: Option<BisectionView>,
    /// What the fabric costs, if the scenario has prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    bill: Option<Bill>,
    /// Names that the scenario gives the vertices, NPUs first.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    names: Vec<String>,
    /// All links of a small fabric, the first ones of a large graph, none of a large regular fabric.
    listed: Vec<LinkView>,
}

#[derive(Serialize)]
struct LevelView {
    name: String,
    kind: VertexKind,
    height: i8,
    first: u32,
    count: u32,
    /// Number of adjacent vertices that form a group.
    group: u32,
    /// Links that leave the vertex with the fewest, and with the most.
    degree: [u32; 2],
}

#[derive(Serialize)]
struct TierView {
    name: String,
    kind: LinkKind,
    /// Number of the first directed link.
    first: u32,
    /// Number of directed links.
    links: u32,
    rate_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Serialize)]
struct BisectionView {
    /// Rate in one direction.
    rate_bytes_per_s: f64,
    /// What half of the NPUs can send into the network.
    ideal_bytes_per_s: f64,
    method: Method,
}

#[derive(Serialize)]
struct DimView {
    name: String,
    kind: &'static str,
    size: u32,
    count: u32,
    one_way: bool,
    spread: syncline_fabric::Spread,
    links_per_npu: u32,
    lanes: u32,
    stride: u32,
    rate_bytes_per_s: f64,
    rate_per_npu_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Serialize)]
struct RoutingView {
    policy: &'static str,
    /// Seed of the hash.
    seed: Option<u64>,
    /// Number of pairs with an explicit path.
    explicit: usize,
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
    // For a large regular fabric, list no links: its dimensions say more than some of its links.
    let listed = match fabric.links() {
        all if all <= LINKS => all,
        _ if fabric.is_graph() => LINKS,
        _ => 0,
    };
    let parts = fabric.parts().into_owned();
    FabricView {
        levels: levels(fabric),
        tiers: tiers(fabric),
        family: if fabric.is_graph() { parts.family } else { String::new() },
        axes: parts.axes,
        layout: parts.layout,
        diameter: fabric.diameter(),
        bisection: fabric.bisection().map(|found| BisectionView {
            rate_bytes_per_s: found.rate.as_bytes_per_s(),
            ideal_bytes_per_s: found.ideal.as_bytes_per_s(),
            method: found.method,
        }),
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
                spread: dim.spread,
                links_per_npu: dim.egress_links(),
                lanes: dim.lanes(),
                stride: dim.stride(),
                rate_bytes_per_s: dim.rate.as_bytes_per_s(),
                rate_per_npu_bytes_per_s: dim.rate_per_npu().as_bytes_per_s(),
                latency_s: dim.latency.as_s(),
            })
            .collect(),
        routing: fabric.is_graph().then(|| RoutingView {
            policy: match fabric.ecmp() {
                Some(_) => "ecmp",
                None if fabric.in_dimension_order() => "dimension_order",
                None => "shortest",
            },
            seed: fabric.ecmp(),
            explicit: fabric.explicit_paths(),
        }),
        bill: prepared.bill.clone(),
        names: fabric.names().to_vec(),
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

/// Levels of vertices, with their degrees.
fn levels(fabric: &Fabric) -> Vec<LevelView> {
    let parts = fabric.parts();
    let view =
        |(level, degree): (&syncline_fabric::parts::Level, syncline_fabric::measure::Degree)| LevelView {
            name: level.name.clone(),
            kind: level.kind,
            height: level.height,
            first: level.first,
            count: level.count,
            group: level.group,
            degree: [degree.least, degree.most],
        };
    parts.levels.iter().zip(fabric.degrees()).map(view).collect()
}

/// Tiers of links. All links of a tier are alike, except in tiers of kind `Other`, which are left out.
fn tiers(fabric: &Fabric) -> Vec<TierView> {
    let parts = fabric.parts();
    let known = parts.tiers.iter().filter(|tier| tier.kind != LinkKind::Other && tier.links > 0);
    let view = |tier: &syncline_fabric::parts::Tier| {
        let link = fabric.link(LinkId(tier.first));
        TierView {
            name: tier.name.clone(),
            kind: tier.kind,
            first: tier.first,
            links: tier.links,
            rate_bytes_per_s: link.rate.as_bytes_per_s(),
            latency_s: link.latency.as_s(),
        }
    };
    known.map(view).collect()
}

#[derive(Serialize)]
struct WorkloadView {
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

fn workload(scenario: &Scenario, prepared: &Prepared) -> WorkloadView {
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

/// Collectives or messages, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    bytes: u64,
}

impl Total {
    /// Adds `count` of `bytes` bytes each.
    fn add(&mut self, count: u64, bytes: u64) {
        self.count += count;
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(count));
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

#[derive(Serialize)]
struct PlanView {
    /// The group's role.
    group: String,
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
    /// Whether the scenario names no algorithm for it.
    chosen: bool,
    ranks: u32,
    streams: u32,
    queues: u32,
    /// Bytes of one chunk on which the phase's collective works.
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
            let phases = plan.phases.iter().zip(&plans.chosen[index]).map(|(phase, &chosen)| {
                let extent = phase.extent(chunk, 0);
                let sent = first_seat(phase, extent, plan.element);
                PhaseView {
                    dimension: names[usize::from(phase.dim)].clone(),
                    kind: phase.kind.name(),
                    algorithm: phase.algorithm.name().to_owned(),
                    chosen,
                    ranks: phase.axis.size,
                    streams: phase.streams,
                    queues: plans.dims[usize::from(phase.dim)].queues_of(phase.kind),
                    chunk_bytes: extent.len() * plan.element,
                    messages_per_rank: sent.count,
                    sent_bytes_per_rank: sent.bytes,
                }
            });
            PlanView {
                group: plans.groups[index].clone(),
                kind: plan.kind.name(),
                bytes: plan.bytes.0,
                chunks: plan.chunks.len(),
                chunk_bytes: chunk.len() * plan.element,
                bound_s: plan.bound.as_s(),
                uses: plans.plan_of.iter().flatten().filter(|&&of| of == Some(index as u32)).count(),
                phases: phases.collect(),
            }
        })
        .collect()
}

/// Messages and bytes that the phase's first seat sends for one chunk.
fn first_seat(phase: &syncline_engine::PhasePlan, extent: syncline_units::Extent, element: u64) -> Total {
    use syncline_plan::{Op, Seat};
    let mut total = Total::default();
    for stream in 0..phase.streams {
        let seat = Seat { kind: phase.kind, ranks: phase.axis.size, index: 0, stream, reverse: false };
        let part = phase.algorithm.part(phase.kind, phase.axis.size, stream, extent);
        for op in syncline_plan::program::program(&*phase.algorithm, seat) {
            if let Op::Send { blocks, .. } = op {
                total.add(1, blocks.extent(seat.space(blocks.buffer, part)).len() * element);
            }
        }
    }
    total
}
