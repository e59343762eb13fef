//! Plans collectives as NCCL on a calibrated machine carries them out.
//!
//! The model of `syncline-nccl` chooses algorithm and protocol, and gives the time. The plan here has the shape of that
//! algorithm, and its messages are paced ([`Pace`]) so that the collective alone, on links that are as fast as those of the
//! machine, takes exactly that time:
//!
//! - *Axes.* A group lies along axes within a node ([`Nodes`]) and between nodes. Channels of NCCL leave a node over every
//!   interface. So reduce-scatter and all-gather run within nodes, and the rest between GPUs of equal number in their
//!   nodes. All-to-alls go to the GPU with the receiver's number first (PXN), and then between nodes.
//! - *Algorithms.* Rings are rings. What has few hops is an exchange between all: sends, NVLS (switches sum and multicast)
//!   and trees. It takes as many bytes on each link as in NCCL ([`Pace::wire`]). PAT sends to one rank after the other, as a
//!   ring does, if the latency of links leaves time for that: so it takes no more than its part of links that it shares.
//!   All-reduces in one shot or two by a framework's kernels are exchanges between all, too.
//! - *Pieces and pace* (`pieces`). NCCL overlaps transfers within nodes and between nodes. Data is cut into as few pieces
//!   as links need to do so; a queue works on one piece at a time. Each phase gets the time that its links need, and a
//!   share of the rest by its latency and transfer in the model. The messages of a phase share its time evenly.

mod pieces;

use super::{Collective, Planner, chunks};
use pieces::{Timed, cut};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{CollectivePlan, GroupAxis, Pace, PhasePlan, SendPace};
use syncline_nccl::{Algorithm as Choice, Call, Estimate, Group, Machine, Operation, Phase};
use syncline_plan::{Algorithm, Composition, Grid, Phase as PlanPhase, registry};
use syncline_scenario::{Collectives, DeepEp, Framework, Nccl};
use syncline_units::{Bytes, CollectiveKind, Extent, NpuId, Rate, Time};
use syncline_workload::{Role, RoleId, TaskKind};

/// A fabric may be slower than the machine by this part before a warning says so.
const TOLERANCE: f64 = 0.02;
/// Picoseconds in a second.
const PS: f64 = 1e12;

/// A collective as the calibrated NCCL carries it out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NcclCall {
    /// What is called.
    pub call: Call,
    /// What NCCL chooses, and the time alone.
    pub estimate: Estimate,
}

impl NcclCall {
    /// Whether switches between nodes reduce.
    pub fn by_sharp(&self) -> bool {
        match self.estimate.algorithm {
            Choice::CollNetDirect | Choice::CollNetChain => true,
            Choice::Nvls => self.call.group.nodes > 1,
            _ => false,
        }
    }
}

/// The operation of NCCL for a kind of collective; nothing for those that the model does not know.
fn operation(kind: CollectiveKind) -> Option<Operation> {
    match kind {
        CollectiveKind::AllReduce => Some(Operation::AllReduce),
        CollectiveKind::AllGather => Some(Operation::AllGather),
        CollectiveKind::ReduceScatter => Some(Operation::ReduceScatter),
        CollectiveKind::AllToAll => Some(Operation::AllToAll),
        CollectiveKind::Broadcast | CollectiveKind::Reduce => None,
    }
}

/// Checks that a scenario gives nothing that NCCL decides.
pub(super) fn conflicts(spec: &Collectives) -> Diagnostics {
    let usual = Collectives::default();
    let Some(nccl) = &spec.nccl else { return Diagnostics::new() };
    let given = [
        ("all_reduce", spec.all_reduce != usual.all_reduce),
        ("algorithms", spec.algorithms != usual.algorithms),
        ("algorithms_of", spec.algorithms_of != usual.algorithms_of),
        ("plans", spec.plans != usual.plans),
        ("logical", spec.logical != usual.logical),
        ("chunks", spec.chunks != usual.chunks),
        ("chunks_of", spec.chunks_of != usual.chunks_of),
        ("min_chunk", spec.min_chunk != usual.min_chunk),
        ("issue_threshold", spec.issue_threshold != usual.issue_threshold),
        ("issue_batch", spec.issue_batch != usual.issue_batch),
        ("queues", spec.queues != usual.queues),
        ("active_chunks", spec.active_chunks != usual.active_chunks),
        ("outstanding", spec.outstanding != usual.outstanding),
        ("endpoint_delay", spec.endpoint_delay != usual.endpoint_delay),
        ("injection_latency", spec.injection_latency != usual.injection_latency),
        ("reduction_rate", spec.reduction_rate != usual.reduction_rate),
    ];
    let mut errors = Diagnostics::new();
    for (key, _) in given.into_iter().filter(|&(_, is_given)| is_given) {
        errors.push(
            Diagnostic::error(Code::BadValue, format!("NCCL decides `{key}` itself"))
                .key(format!("collectives.{key}"))
                .found(format!("`{key}` together with `nccl: {}`", nccl.name))
                .help(format!("remove `{key}`, or remove `nccl` to plan collectives yourself")),
        );
    }
    errors
}

/// An axis of a group, or a part of one, that lies within nodes or leads from node to node.
#[derive(Clone, Copy, Debug)]
struct Part {
    size: u32,
    /// Index of the role's axis.
    axis: usize,
    /// Whether neighbours are in different nodes.
    far: bool,
}

/// How the groups of a role lie on nodes.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// Lowest first.
    parts: Vec<Part>,
    group: Group,
}

impl Nodes {
    /// # Errors
    /// The groups' ranks are spread unevenly over nodes.
    fn new(planner: &Planner<'_>, nccl: &Nccl, role: &Role) -> Result<Self> {
        let node = |group: u32, position: u32| {
            planner.context.npu(role.rank(group, position)).0 / nccl.gpus_per_node
        };
        let (mut parts, mut weight) = (Vec::new(), 1);
        for (axis, &syncline_workload::Axis { size, .. }) in role.axes.iter().enumerate() {
            let first = node(0, 0);
            let near = (0..size).take_while(|&at| node(0, at * weight) == first).count() as u32;
            let near = if size.is_multiple_of(near) { near } else { 1 };
            for (size, far) in [(near, false), (size / near, true)] {
                if size > 1 {
                    parts.push(Part { size, axis, far });
                }
            }
            weight *= size;
        }
        let product =
            |far: bool| parts.iter().filter(|part| part.far == far).map(|part| part.size).product::<u32>();
        let (gpus_per_node, nodes) = (product(false), product(true));
        let mut sharing: BTreeMap<u32, u32> = BTreeMap::new();
        for group in 0..role.groups() {
            let mut members: BTreeMap<u32, u32> = BTreeMap::new();
            for position in 0..role.size() {
                *members.entry(node(group, position)).or_default() += 1;
            }
            if members.len() != nodes as usize || members.values().any(|&count| count != gpus_per_node) {
                return Err(uneven(nccl, role, &members));
            }
            members.keys().for_each(|&node| *sharing.entry(node).or_default() += 1);
        }
        let concurrent = sharing.values().copied().max().unwrap_or(1);
        Ok(Self { parts, group: Group { gpus_per_node, nodes, concurrent } })
    }
}

fn uneven(nccl: &Nccl, role: &Role, members: &BTreeMap<u32, u32>) -> Diagnostics {
    let counts: BTreeSet<u32> = members.values().copied().collect();
    let counts = counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    Diagnostic::error(
        Code::BadGroup,
        "the ranks of a group are spread unevenly over the nodes of the machine",
    )
    .key("collectives.nccl")
    .found(format!("`{}`: {} ranks on {} nodes, {counts} on each", role.name, role.size(), members.len()))
    .allowed(format!("as many ranks on each of its nodes, which have {} GPUs", nccl.gpus_per_node))
    .help("change `placement` or the degrees of parallelism, or remove `nccl`")
    .into()
}

/// A phase of a plan before it is paced.
struct Stage {
    phase: PlanPhase,
    algorithm: Arc<dyn Algorithm>,
    /// Messages of a rank that follow one another.
    rounds: u32,
    /// Bytes that links carry for each byte of data.
    wire: f64,
    timed: Timed,
}

impl Planner<'_> {
    /// The plan of a collective as NCCL carries it out; nothing if no machine is named, or the model does not know the
    /// collective.
    ///
    /// # Errors
    /// Groups that the machine cannot have.
    pub(super) fn of_nccl(&mut self, of: &Collective<'_>) -> Result<Option<(CollectivePlan, NcclCall)>> {
        let Some(nccl) = &self.context.spec.nccl else { return Ok(None) };
        let &Collective { role, id, kind, bytes, .. } = of;
        let Some(operation) =
            operation(kind).filter(|&operation| nccl.constants.in_node(operation).is_some())
        else {
            self.unknown_to_nccl.insert(kind);
            return Ok(None);
        };
        if role.size() < 2 {
            return Ok(None);
        }
        let nodes = self.nodes(nccl, role, id)?;
        let element = self.element(bytes);
        let group = nodes.group;
        let call = Call { operation, bytes: bytes.0, element_bytes: element.min(8) as u8, group };
        let estimate = match of.phase {
            Some(phase) => of_deepep(nccl, role, &call, phase)?,
            None => nccl.estimate(&call).ok_or_else(|| no_network(nccl, role, group))?,
        };
        let stages = self.stages(role, kind, &nodes, &estimate, &call);
        let whole = Extent::whole(bytes.0 / element);
        let timed: Vec<Timed> = stages.iter().map(|stage| stage.timed).collect();
        let seconds = estimate.seconds();
        let cut = cut(&timed, seconds, |pieces| chunks(whole, pieces, role.size()).len() as u32);
        let slower = cut.links_s / seconds;
        if slower > 1.0 + TOLERANCE && self.slower.as_ref().is_none_or(|known| known.1 < slower) {
            self.slower = Some((format!("{kind} of {bytes} in group `{}`", role.name), slower));
        }
        let weights = weights(&nodes.parts);
        let lower = |parts: usize| {
            let below = nodes.parts[..parts].iter().zip(&weights);
            below.map(|(part, &weight)| GroupAxis { weight, size: part.size }).collect()
        };
        let mut phases = Vec::with_capacity(stages.len());
        for (stage, piece_s) in stages.iter().zip(&cut.piece_s) {
            registry::check(&*stage.algorithm, stage.phase.kind, stage.phase.size)?;
            let least = Time((piece_s * PS / f64::from(stage.rounds)).round() as u64);
            phases.push(PhasePlan {
                kind: stage.phase.kind,
                axis: GroupAxis { weight: weights[stage.phase.axis], size: stage.phase.size },
                cuts: lower(stage.phase.cut),
                root_axes: Vec::new(),
                dim: stage.timed.queue.0,
                leg: stage.timed.queue.1,
                streams: stage.algorithm.streams(stage.phase.kind, stage.phase.size),
                turn: super::turn(&*stage.algorithm, stage.phase.kind, stage.phase.size),
                turned: None,
                algorithm: Arc::clone(&stage.algorithm),
                pace: Some(Pace { least, wire: (stage.wire * f64::from(Pace::WHOLE)).round() as u32 }),
            });
        }
        let chunks = chunks(whole, cut.count, role.size());
        let planned =
            super::bound::Planned { role, id, phases: &phases, chunks: &chunks, element, lanes: &self.lanes };
        let bound = self.bounds.of(&self.context, &planned);
        // Links carry fewer bytes than the plan has where switches sum.
        let least = stages.iter().map(|stage| stage.wire).fold(1.0, f64::min);
        let bound = Time((bound.0 as f64 * least) as u64);
        Ok(Some((
            CollectivePlan { kind, bytes, element, chunks, phases, bound },
            NcclCall { call, estimate },
        )))
    }

    fn nodes(&mut self, nccl: &Nccl, role: &Role, id: RoleId) -> Result<Nodes> {
        if let Some(known) = self.nodes.get(&id) {
            return known.clone();
        }
        let found = Nodes::new(self, nccl, role);
        self.nodes.insert(id, found.clone());
        found
    }

    /// The phases of a collective, with their share of its time.
    fn stages(
        &self,
        role: &Role,
        kind: CollectiveKind,
        nodes: &Nodes,
        estimate: &Estimate,
        call: &Call,
    ) -> Vec<Stage> {
        let sizes: Vec<u32> = nodes.parts.iter().map(|part| part.size).collect();
        let grid = Grid::new(&sizes).expect("a part of a role's grid is no larger than it");
        let weights = weights(&nodes.parts);
        let phases = Composition::Hierarchical2nMerged.phases(kind, &grid);
        let few = ["ring", "direct"].map(|name| registry::by_name(name).expect("the library has it"));
        let bytes = |phase: &PlanPhase| {
            let held = sizes[..phase.cut].iter().map(|&size| f64::from(size)).product::<f64>();
            let size = f64::from(phase.size);
            let passes = if phase.kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
            call.bytes as f64 / held * passes * (size - 1.0) / size
        };
        let rounds = |phase: &PlanPhase, ring: bool| {
            let once = if ring { phase.size - 1 } else { 1 };
            once * if phase.kind == CollectiveKind::AllReduce { 2 } else { 1 }
        };
        let is_far = |phase: &&PlanPhase| nodes.parts[phase.axis].far;
        let sum = |far: bool, of: &dyn Fn(&PlanPhase) -> f64| {
            phases.iter().filter(|phase| is_far(phase) == far).map(of).sum::<f64>()
        };
        let parts = estimate.parts;
        let stage = |&phase: &PlanPhase| {
            let part = nodes.parts[phase.axis];
            let (axis, weight) = (role.axes[part.axis], weights[phase.axis]);
            let (rate, link_latency_s) = self.link(role, weight, phase.size);
            let ring = match estimate.algorithm {
                Choice::Ring => true,
                Choice::Tree | Choice::CollNetChain => !part.far,
                Choice::Pat => {
                    let links_s = f64::from(rounds(&phase, true)) * link_latency_s + bytes(&phase) / rate;
                    links_s <= estimate.seconds()
                }
                Choice::Nvls
                | Choice::NvlsTree
                | Choice::CollNetDirect
                | Choice::Sends
                | Choice::OneShot
                | Choice::TwoShots
                | Choice::Dispatch
                | Choice::Combine
                | Choice::Local => false,
            };
            let (latency_s, transfer_s) = match part.far {
                true => (parts.far_latency_s, parts.far_transfer_s),
                false => (estimate.latency_s - parts.far_latency_s, parts.near_transfer_s),
            };
            let all_bytes = sum(part.far, &bytes);
            let all_rounds = sum(part.far, &|phase| f64::from(rounds(phase, ring)));
            let deepep = self.context.spec.nccl.as_ref().and_then(|nccl| nccl.deepep.as_ref());
            let wire = match (part.far, estimate.algorithm) {
                (true, _) => parts.far_bytes / f64::from(call.group.gpus_per_node) / all_bytes,
                (false, Choice::Nvls | Choice::NvlsTree) => {
                    call.bytes as f64 * (1.0 + 1.0 / f64::from(call.group.gpus_per_node)) / all_bytes
                }
                // Each GPU reads the vectors of all others.
                (false, Choice::OneShot) => {
                    call.bytes as f64 * (f64::from(call.group.gpus_per_node) - 1.0) / all_bytes
                }
                (false, Choice::Dispatch | Choice::Combine) => {
                    deepep.map_or(1.0, |deepep| deepep.routing.near_factor(call.group))
                }
                (false, _) => 1.0,
            };
            let wire = if wire.is_finite() { wire / estimate.protocol.efficiency() } else { 1.0 };
            let dim = axis.dim.unwrap_or_else(|| self.tier(role, weight, phase.size));
            let own_rounds = f64::from(rounds(&phase, ring));
            let transfer_s = if all_bytes > 0.0 { transfer_s * bytes(&phase) / all_bytes } else { 0.0 };
            Stage {
                phase,
                algorithm: Arc::clone(&few[usize::from(!ring)]),
                rounds: rounds(&phase, ring),
                wire,
                timed: Timed {
                    queue: (dim, u8::from(phase.kind == CollectiveKind::AllGather)),
                    lanes: self.lanes[usize::from(dim)].queues_of(phase.kind).max(1),
                    link_latency_s: own_rounds * link_latency_s,
                    link_transfer_s: bytes(&phase) * wire / rate,
                    share: latency_s * own_rounds / all_rounds + transfer_s,
                },
            }
        };
        let mut stages: Vec<Stage> = phases.iter().map(stage).collect();
        // Phases within nodes and between nodes have queues of their own, in one dimension too.
        let far = |stage: &Stage| nodes.parts[stage.phase.axis].far;
        let dims = |wanted: bool| -> BTreeSet<u16> {
            stages.iter().filter(|stage| far(stage) == wanted).map(|stage| stage.timed.queue.0).collect()
        };
        if !dims(true).is_disjoint(&dims(false)) {
            stages.iter_mut().for_each(|stage| stage.timed.queue.1 = u8::from(far(stage)));
        }
        stages
    }

    /// The rate of a link on the way to other ranks along an axis, bytes per second, and the latency of the way, seconds.
    fn link(&self, role: &Role, weight: u32, size: u32) -> (f64, f64) {
        let (mut rate, mut latency) = (f64::INFINITY, 0.0_f64);
        let mut path = Vec::new();
        for distance in [1, size / 2, size - 1] {
            let [from, to] = [0, distance * weight].map(|position| self.context.npu(role.rank(0, position)));
            path.clear();
            self.context.fabric.route(from, to, 0, &mut path);
            let speeds = || path.iter().map(|&link| self.context.fabric.speed(link));
            rate = speeds().map(|(rate, _)| bytes_per_s(rate)).fold(rate, f64::min);
            latency = latency.max(speeds().map(|(_, latency)| latency.as_s()).sum());
        }
        (rate, latency)
    }
}

/// A rate in bytes per second.
fn bytes_per_s(rate: Rate) -> f64 {
    let bytes = 1_000_000_000;
    rate.transfer_time(Bytes(bytes)).map_or(f64::INFINITY, |time| bytes as f64 / time.as_s())
}

/// Distance, in positions, between neighbours along each part.
fn weights(parts: &[Part]) -> Vec<u32> {
    let mut weight = 1;
    let next = |part: &Part| {
        let own = weight;
        weight *= part.size;
        own
    };
    parts.iter().map(next).collect()
}

/// What `DeepEP` does with an all-to-all of a group's role: dispatches or combines. Nothing if NCCL carries it out.
///
/// # Errors
/// The all-to-all belongs to no layer, and the scenario does not say which it is; the bytes are fewer than the tokens.
pub(super) fn phase(spec: &Collectives, role: &Role, task: &TaskKind) -> Result<Option<Phase>> {
    let (Some(DeepEp { routing, group, phase, .. }), &TaskKind::Collective { kind, bytes, when, .. }) =
        (spec.nccl.as_ref().and_then(|nccl| nccl.deepep.as_ref()).as_ref(), task)
    else {
        return Ok(None);
    };
    let own = group.as_ref().is_none_or(|group| *group == role.name);
    if kind != CollectiveKind::AllToAll || !own || role.size() < 2 {
        return Ok(None);
    }
    let copies = u64::from(routing.tokens) * u64::from(routing.experts);
    if bytes.0 < copies {
        return Err(Diagnostic::error(Code::BadValue, "an all-to-all has fewer bytes than copies of tokens")
            .key("collectives.deepep.tokens")
            .found(format!(
                "{} tokens with {} experts each, and {bytes} in group `{}`",
                routing.tokens, routing.experts, role.name
            ))
            .help("an all-to-all has the bytes of a token times `tokens` times `experts`")
            .into());
    }
    let of_layer = when.map(|when| if when.provides() { Phase::Dispatch } else { Phase::Combine });
    of_layer.or(*phase).map(Some).ok_or_else(|| {
        Diagnostic::error(Code::MissingKey, "nothing says whether this all-to-all is a dispatch or a combine")
            .key("collectives.deepep.phase")
            .found(format!("an all-to-all of group `{}` that belongs to no layer", role.name))
            .allowed("dispatch, combine")
            .help("add `phase: dispatch` or `phase: combine` to `deepep`")
            .into()
    })
}

/// The time of a dispatch or a combine.
fn of_deepep(nccl: &Nccl, role: &Role, call: &Call, phase: Phase) -> Result<Estimate> {
    let deepep = nccl.deepep.as_ref().expect("a phase follows from it");
    let measured = deepep.exchanges.iter().filter(|each| each.phase == phase);
    if let Some(each) = measured.clone().find(|each| each.is_of(call.group)) {
        return Ok(deepep.routing.estimate(&each.constants, phase, call));
    }
    let shape = |gpus: u32, nodes: u32| format!("{gpus} GPUs on {}", counted(nodes, "node"));
    let allowed: Vec<String> = measured.map(|each| shape(each.gpus, each.nodes)).collect();
    let Group { gpus_per_node, nodes, .. } = call.group;
    Err(Diagnostic::error(Code::BadGroup, "DeepEP was not measured with groups of this shape")
        .key("collectives.deepep")
        .found(format!("group `{}`: {}", role.name, shape(gpus_per_node * nodes, nodes)))
        .allowed(allowed.join(", "))
        .help("change the axis of experts, or remove `deepep`: NCCL's all-to-alls have all shapes")
        .into())
}

fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn no_network(nccl: &Nccl, role: &Role, group: Group) -> Diagnostics {
    Diagnostic::error(Code::BadGroup, format!("`{}` has no constants for a network between nodes", nccl.name))
        .key("collectives.nccl")
        .found(format!(
            "group `{}` with {} GPUs on {} nodes of {} GPUs",
            role.name,
            role.size(),
            group.nodes,
            nccl.gpus_per_node
        ))
        .allowed(format!("groups within a node of {} GPUs", nccl.gpus_per_node))
        .help("name a machine whose file has a `network`, or keep groups within nodes")
        .into()
}

/// Messages of no collective, each as one `ncclSend` and its `ncclRecv`.
#[derive(Debug)]
pub(super) struct Sends {
    constants: Machine,
    gpus_per_node: u32,
}

impl Sends {
    pub(super) fn new(nccl: &Nccl) -> Self {
        Self { constants: nccl.constants.clone(), gpus_per_node: nccl.gpus_per_node }
    }
}

impl SendPace for Sends {
    fn of(&self, from: NpuId, to: NpuId, bytes: u64) -> Option<Pace> {
        let near = from.0 / self.gpus_per_node == to.0 / self.gpus_per_node;
        let group = match near {
            true => Group::of_one_node(2),
            false => Group { gpus_per_node: 1, nodes: 2, concurrent: 1 },
        };
        if from == to || bytes == 0 {
            return None;
        }
        let call = Call { operation: Operation::SendRecv, bytes, element_bytes: 2, group };
        let estimate = syncline_nccl::estimate(&self.constants, &call)?;
        let wire = f64::from(Pace::WHOLE) / estimate.protocol.efficiency();
        Some(Pace { least: Time((estimate.seconds() * PS).round() as u64), wire: wire.round() as u32 })
    }
}

/// Warnings about what NCCL's times do not cover.
pub(super) fn warnings(
    nccl: Option<&Nccl>,
    unknown: &BTreeSet<CollectiveKind>,
    slower: Option<&(String, f64)>,
    calls: &[Option<NcclCall>],
) -> Diagnostics {
    let mut warnings = Diagnostics::new();
    let Some(nccl) = nccl else { return warnings };
    let in_shots = |call: &NcclCall| matches!(call.estimate.algorithm, Choice::OneShot | Choice::TwoShots);
    if let Some(Framework { name, kernels, .. }) = &nccl.custom_all_reduce
        && !calls.iter().flatten().any(in_shots)
    {
        let largest = Bytes(kernels.largest);
        warnings.push(
            Diagnostic::warning(Code::BadValue, format!("no all-reduce of the job is carried out by {name}"))
                .key("collectives.custom_all_reduce")
                .allowed(format!(
                    "all-reduces of at most {largest} among 2 to {} GPUs of one node",
                    kernels.gpus
                ))
                .help("remove it; all collectives take the times of NCCL"),
        );
    }
    let by_deepep = |call: &NcclCall| matches!(call.estimate.algorithm, Choice::Dispatch | Choice::Combine);
    if let Some(deepep) = &nccl.deepep
        && !calls.iter().flatten().any(by_deepep)
    {
        let of = deepep.group.as_ref().map_or_else(String::new, |group| format!(" of group `{group}`"));
        warnings.push(
            Diagnostic::warning(Code::BadValue, format!("the job has no all-to-all{of} for DeepEP"))
                .key("collectives.deepep")
                .help("remove it, or name another `group`; `syncline show plan` lists the job's collectives"),
        );
    }
    if !unknown.is_empty() {
        let kinds = unknown.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        warnings.push(
            Diagnostic::warning(Code::BadValue, format!("`{}` has no times of {kinds}", nccl.name))
                .key("collectives.nccl")
                .help("these collectives take the time of their plan on the fabric, without calibration"),
        );
    }
    if let Some((what, times)) = slower {
        warnings.push(
            Diagnostic::warning(
                Code::BadFabric,
                format!("the fabric is slower than the machine `{}` that was measured", nccl.name),
            )
            .key("fabric")
            .found(format!("{what} takes at least {times:.2} times as long as measured"))
            .help(format!("give the fabric the links of `{}`, or name another machine", nccl.name)),
        );
    }
    warnings
}
