//! Makes a plan for every collective that the job uses: phases over its group's axes, an algorithm for each phase,
//! chunks.
//!
//! - `named`: algorithms that the scenario names, and the compositions in which all of them have a phase;
//! - `single`: algorithms that the scenario names for the collectives of one group, kind and size;
//! - `chosen`: the phases of a collective, with the named algorithms and the quickest of the library for the others;
//! - `turns`: the symmetry that the algorithms along an axis share, so that one rank can stand for many;
//! - `context`: settings, fabric, placement and network model, as plans see them;
//! - `bound`: a lower bound on the time of a plan;
//! - `nccl`: the plans of a calibrated NCCL, which chooses everything itself.

mod bound;
mod chosen;
mod context;
mod named;
mod nccl;
mod single;
mod turns;

use crate::tiers;
use crate::watch::Watch;
use bound::Bounds;
use chosen::ChosenPhase;
use context::Context;
use named::Named;
pub use nccl::NcclCall;
use nccl::Nodes;
use single::Single;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{CollectivePlan, GroupAxis, Lanes, PhasePlan, PlanId, Schedule, SendPace};
use syncline_fabric::Fabric;
use syncline_nccl::Phase;
use syncline_plan::{Algorithm, Grid, choice, registry};
use syncline_scenario::{Collectives, NetworkSettings};
use syncline_units::{Bytes, CollectiveKind, Extent, NpuId, Rate, Turn};
use syncline_workload::{Role, RoleId, TaskKind, Workload};
use turns::Turns;

/// Largest number of chunks of a collective.
const MAX_CHUNKS: u32 = 1 << 20;

/// Tasks between two checks of the limit on wall time.
const CHECK_INTERVAL: usize = 1 << 8;

/// The plans of a job, and which task uses which plan.
#[derive(Debug, Default)]
pub struct Plans {
    /// The distinct plans.
    pub plans: Vec<CollectivePlan>,
    /// For each phase of each plan, whether its algorithm was chosen rather than named.
    pub chosen: Vec<Vec<bool>>,
    /// Group of each plan: the name of its role.
    pub groups: Vec<String>,
    /// By class and task, its plan; `None` for tasks that are not collectives.
    pub plan_of: Vec<Vec<Option<PlanId>>>,
    /// Scheduling queues of each accounting dimension.
    pub dims: Vec<Lanes>,
    /// Keys of `collectives` that no plan has used.
    pub unused: BTreeSet<String>,
    /// What NCCL chooses for each plan; nothing for plans that are not NCCL's.
    pub nccl: Vec<Option<NcclCall>>,
    /// What the times of NCCL do not cover.
    pub warnings: Diagnostics,
}

/// A collective of the job.
#[derive(Clone, Copy)]
struct Collective<'a> {
    role: &'a Role,
    id: RoleId,
    kind: CollectiveKind,
    bytes: Bytes,
    chunks: u32,
    /// What it is to `DeepEP`, if that carries it out.
    phase: Option<Phase>,
}

/// Plans the collectives of a scenario one by one.
struct Planner<'a> {
    context: Context<'a>,
    named: Named<'a>,
    single: Single,
    /// The user's own plans.
    own: BTreeMap<CollectiveKind, Arc<dyn Algorithm>>,
    lanes: Vec<Lanes>,
    /// The turn that the algorithms along each axis share.
    turns: Turns,
    /// The network along each axis of a role's groups, for the choice of algorithms.
    along: BTreeMap<RoleId, Vec<choice::GroupNetwork>>,
    bounds: Bounds,
    /// Keys of `collectives` that plans have used.
    used: BTreeSet<String>,
    /// Collectives that the job has.
    has: BTreeSet<CollectiveKind>,
    /// How the groups of each role lie on the nodes of NCCL's machine.
    nodes: BTreeMap<RoleId, Result<Nodes>>,
    /// Collectives that the machine has no times of.
    unknown_to_nccl: BTreeSet<CollectiveKind>,
    /// The collective that the fabric slows down most beside the machine, and how much.
    slower: Option<(String, f64)>,
}

/// Plans every collective of `workload`.
///
/// # Errors
/// Unknown algorithms and dimensions, collectives that an algorithm does not offer, plans that do not compute their
/// collective; `LimitReached` if `watch` says to stop.
pub fn plans(
    spec: &Collectives,
    workload: &Workload,
    fabric: &Fabric,
    placement: &[NpuId],
    network: &NetworkSettings,
    watch: &Watch<'_>,
) -> Result<Plans> {
    let mut planner = Planner::new(Context::new(spec, fabric, placement, network))?;
    if spec.nccl.is_none() {
        planner.settle_turns(workload);
    }
    let mut known: BTreeMap<(RoleId, CollectiveKind, Bytes, Option<Phase>), PlanId> = BTreeMap::new();
    let (mut plans, mut chosen, mut groups, mut nccl) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut errors = Diagnostics::new();
    let mut plan_of = Vec::new();
    for graph in &workload.classes {
        let mut of = vec![None; graph.tasks.len()];
        for (index, task) in graph.tasks.iter().enumerate() {
            let TaskKind::Collective { role, kind, bytes, .. } = task.kind else { continue };
            if index % CHECK_INTERVAL == 0 {
                watch.check("planning the collectives")?;
            }
            let of_role = &workload.roles[role.index()];
            let phase = match nccl::phase(spec, of_role, &task.kind) {
                Ok(phase) => phase,
                Err(error) => {
                    errors.extend(error);
                    continue;
                }
            };
            let next = PlanId(known.len() as u32);
            let plan = *known.entry((role, kind, bytes, phase)).or_insert_with(|| {
                match planner.plan(&Collective { role: of_role, id: role, kind, bytes, chunks: 1, phase }) {
                    Ok((plan, is_chosen, of_nccl)) => {
                        plans.push(plan);
                        chosen.push(is_chosen);
                        nccl.push(of_nccl);
                        groups.push(of_role.name.clone());
                    }
                    Err(error) => errors.extend(error),
                }
                next
            });
            of[index] = Some(plan);
        }
        plan_of.push(of);
    }
    errors.0.dedup();
    errors.into_result()?;
    syncline_engine::keys::check(&plans)?;
    let unused = planner.unused();
    let warnings =
        nccl::warnings(spec.nccl.as_ref(), &planner.unknown_to_nccl, planner.slower.as_ref(), &nccl);
    Ok(Plans { plans, chosen, groups, plan_of, dims: planner.lanes, unused, nccl, warnings })
}

/// Checks the part of `spec` that does not depend on the job.
///
/// # Errors
/// Those errors of [`plans`] that do not depend on the job.
pub fn check(spec: &Collectives, fabric: &Fabric, network: &NetworkSettings) -> Result<()> {
    Planner::new(Context::new(spec, fabric, &[], network)).map(drop)
}

/// Warnings about keys of `collectives` that no collective of the job uses.
pub fn without_use(keys: &BTreeSet<String>) -> Diagnostics {
    let warning = |key: &String| {
        let message = if key.starts_with("algorithms_of.") {
            "no collective of the job is of this group, kind and size"
        } else {
            "no phase of the job's collectives runs this algorithm"
        };
        Diagnostic::warning(Code::BadValue, message)
            .key(format!("collectives.{key}"))
            .help("remove it; `syncline show plan` lists the job's collectives and how they are carried out")
    };
    Diagnostics(keys.iter().map(warning).collect())
}

/// What bounds messages between pipeline stages, and other messages of no collective, if a machine is named.
pub fn send_pace(spec: &Collectives) -> Option<Arc<dyn SendPace>> {
    spec.nccl.as_ref().map(|nccl| Arc::new(nccl::Sends::new(nccl)) as Arc<dyn SendPace>)
}

/// The endpoints' scheduling settings. NCCL carries out the collectives of a group one after the other.
pub fn schedule(spec: &Collectives) -> Schedule {
    let own = spec.nccl.is_none();
    Schedule {
        order: spec.order,
        schedulers: spec.schedulers(),
        issue_threshold: spec.issue_threshold.filter(|_| own),
        issue_batch: spec.issue_batch.filter(|_| own),
        active_chunks: if own { spec.active_chunks } else { Some(NonZeroU32::MIN) },
        outstanding: spec.outstanding,
        concurrent: spec.concurrent,
        endpoint_delay: spec.endpoint_delay,
        injection_latency: spec.injection_latency,
        reduction_rate: spec.reduction_rate,
    }
}

/// Checks the number of chunks of a collective, after its size and the smallest chunk have limited it.
///
/// # Errors
/// There are more than `MAX_CHUNKS`.
fn check_chunks(number: u32) -> Result<()> {
    if number <= MAX_CHUNKS {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadValue, "a collective is cut into too many chunks")
        .key("collectives.chunks")
        .found(number.to_string())
        .allowed(format!("at most {MAX_CHUNKS}"))
        .help("give fewer chunks, or a larger `collectives.min_chunk`")
        .into())
}

/// Cuts data into up to `most` chunks. The length of each, except the last, is a multiple of `ranks`.
fn chunks(whole: Extent, most: u32, ranks: u32) -> Vec<Extent> {
    let unit = u64::from(ranks);
    let units = Extent::whole(whole.len().div_ceil(unit));
    let most = units.len().clamp(1, u64::from(most)) as u32;
    let cut = |chunk| {
        let Extent { start, end } = units.blocks(chunk, 1, most);
        Extent { start: start * unit, end: (end * unit).min(whole.len()) }
    };
    (0..most).map(cut).collect()
}

/// The turn of an algorithm's programs. For two ranks all turns are equal, so the cyclic one stands for any.
fn turn(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Option<Turn> {
    algorithm.turn(kind, ranks).map(|turn| if ranks <= 2 { Turn::Cyclic } else { turn })
}

/// A user's plan for `kind`.
fn own_plan(kind: CollectiveKind, file: &str) -> Result<Arc<dyn Algorithm>> {
    let key = format!("collectives.plans.{kind}");
    let (plan, custom) = syncline_formats::plan_file::read(file).map_err(|mut errors| {
        errors
            .0
            .iter_mut()
            .filter(|error| error.key.is_none())
            .for_each(|error| error.key = Some(key.clone()));
        errors
    })?;
    if plan.kind != kind {
        let message = format!("the plan is for {}, not for {kind}", plan.kind);
        return Err(Diagnostic::error(Code::BadValue, message).at(file, 0).key(key).into());
    }
    Ok(Arc::new(custom))
}

impl<'a> Planner<'a> {
    fn new(context: Context<'a>) -> Result<Self> {
        let (spec, fabric) = (context.spec, context.fabric);
        let mut errors = Diagnostics::new();
        let named = Named::new(spec, fabric).map_err(|found| errors.extend(found));
        let single = Single::new(spec).map_err(|found| errors.extend(found));
        let mut positive =
            vec![("chunks".to_owned(), u64::from(spec.chunks)), ("element".to_owned(), spec.element.0)];
        positive.extend(
            spec.chunks_of.iter().map(|(kind, &count)| (format!("chunks_of.{kind}"), u64::from(count))),
        );
        for (key, value) in positive {
            if value == 0 {
                errors.push(
                    Diagnostic::error(Code::BadValue, "must be at least 1")
                        .key(format!("collectives.{key}"))
                        .found("0"),
                );
            }
        }
        if spec.reduction_rate.is_some_and(Rate::is_zero) {
            errors.push(
                Diagnostic::error(Code::BadValue, "a rate must be above zero")
                    .key("collectives.reduction_rate"),
            );
        }
        let mut own: BTreeMap<CollectiveKind, Arc<dyn Algorithm>> = BTreeMap::new();
        for (&kind, file) in &spec.plans {
            match own_plan(kind, file) {
                Ok(algorithm) => {
                    own.insert(kind, algorithm);
                }
                Err(found) => errors.extend(found),
            }
        }
        errors.extend(nccl::conflicts(spec));
        errors.into_result()?;
        let named = named.expect("errors were returned");
        let single = single.expect("errors were returned");
        let lanes = lanes(&context);
        Ok(Self {
            context,
            named,
            single,
            own,
            lanes,
            turns: Turns::default(),
            along: BTreeMap::new(),
            bounds: Bounds::default(),
            used: BTreeSet::new(),
            has: BTreeSet::new(),
            nodes: BTreeMap::new(),
            unknown_to_nccl: BTreeSet::new(),
            slower: None,
        })
    }

    /// Keys that no plan has used: those for kinds of collective that the job has, and those for single collectives.
    fn unused(&self) -> BTreeSet<String> {
        let idle =
            |(kind, key): &(CollectiveKind, String)| self.has.contains(kind) && !self.used.contains(key);
        let single = self.single.keys().filter(|&key| !self.used.contains(key)).map(str::to_owned);
        self.named.keys().filter(idle).map(|(_, key)| key).chain(single).collect()
    }

    /// The plan of a collective, and for each phase whether its algorithm was chosen.
    fn plan(&mut self, of: &Collective<'_>) -> Result<(CollectivePlan, Vec<bool>, Option<NcclCall>)> {
        let &Collective { role, id, kind, bytes, .. } = of;
        self.has.insert(kind);
        if let Some((plan, call)) = self.of_nccl(of)? {
            let chosen = vec![true; plan.phases.len()];
            return Ok((plan, chosen, Some(call)));
        }
        let element = self.element(bytes);
        let count = self.chunk_count(role, kind, bytes);
        check_chunks(count)?;
        let chunks = chunks(Extent::whole(bytes.0 / element), count, role.size());
        let (phases, chosen) = match self.own.get(&kind) {
            Some(algorithm) => (vec![self.flat(role, kind, Arc::clone(algorithm))?], vec![false]),
            None => self.phases(&Collective { chunks: chunks.len() as u32, ..*of })?,
        };
        let planned =
            bound::Planned { role, id, phases: &phases, chunks: &chunks, element, lanes: &self.lanes };
        let bound = self.bounds.of(&self.context, &planned);
        Ok((CollectivePlan { kind, bytes, element, chunks, phases, bound }, chosen, None))
    }

    /// Bytes of an element of a vector.
    fn element(&self, bytes: Bytes) -> u64 {
        let element = self.context.spec.element.0;
        if bytes.0.is_multiple_of(element) { element } else { 1 }
    }

    /// The number of chunks into which a collective is cut.
    fn chunk_count(&self, role: &Role, kind: CollectiveKind, bytes: Bytes) -> u32 {
        let spec = self.context.spec;
        let wanted = spec.chunks_of.get(&kind).copied().unwrap_or(spec.chunks);
        let large = (bytes.0 / spec.min_chunk.0.max(1)).clamp(1, u64::from(wanted)) as u32;
        let units = (bytes.0 / self.element(bytes)).div_ceil(u64::from(role.size()));
        units.clamp(1, u64::from(large)) as u32
    }

    /// One phase over the whole group.
    fn flat(&self, role: &Role, kind: CollectiveKind, algorithm: Arc<dyn Algorithm>) -> Result<PhasePlan> {
        registry::check(&*algorithm, kind, role.size())?;
        let streams = algorithm.streams(kind, role.size());
        let dim = tiers::count(self.context.fabric) as u16;
        Ok(PhasePlan {
            kind,
            axis: GroupAxis { weight: 1, size: role.size() },
            cuts: Vec::new(),
            root_axes: Vec::new(),
            dim,
            leg: 0,
            turn: turn(&*algorithm, kind, role.size()),
            turned: None,
            pace: None,
            algorithm,
            streams,
        })
    }

    /// The phases of a collective, and whether the algorithm of each was chosen.
    fn phases(&mut self, of: &Collective<'_>) -> Result<(Vec<PhasePlan>, Vec<bool>)> {
        let &Collective { role, kind, .. } = of;
        let sizes: Vec<u32> = role.axes.iter().map(|axis| axis.size).collect();
        let Some(grid) = Grid::new(&sizes) else {
            return Err(Diagnostic::error(Code::BadGroup, "a group is too large").key(&*role.name).into());
        };
        let weights: Vec<u32> = (0..sizes.len()).map(|axis| grid.stride(axis)).collect();
        let (mut phases, mut chosen) = (Vec::new(), Vec::new());
        for ChosenPhase { phase, algorithm, is_chosen } in self.choose_phases(of, &grid)? {
            chosen.push(is_chosen);
            registry::check(&*algorithm, phase.kind, phase.size)?;
            let seats = algorithm.seats(phase.size);
            if seats > phase.size {
                return Err(Diagnostic::error(
                    Code::NoPlan,
                    format!(
                        "`{}` needs {} hubs on additional NPUs, which simulations do not support",
                        algorithm.name(),
                        seats - phase.size
                    ),
                )
                .key("collectives.algorithms")
                .help("use a colocated placement such as `parameter_server(placement=CS)`")
                .into());
            }
            let lower = |axes: usize| {
                let axes = (0..axes).filter(|&axis| sizes[axis] > 1);
                axes.map(|axis| GroupAxis { weight: weights[axis], size: sizes[axis] }).collect()
            };
            phases.push(PhasePlan {
                kind: phase.kind,
                axis: GroupAxis { weight: weights[phase.axis], size: phase.size },
                cuts: lower(phase.cut),
                root_axes: if kind.has_root() { lower(phase.axis) } else { Vec::new() },
                dim: role.axes[phase.axis]
                    .dim
                    .unwrap_or_else(|| self.tier(role, weights[phase.axis], phase.size)),
                leg: u8::from(phase.kind == CollectiveKind::AllGather),
                streams: algorithm.streams(phase.kind, phase.size),
                turn: turn(&*algorithm, phase.kind, phase.size),
                turned: None,
                pace: None,
                algorithm,
            });
        }
        Ok((phases, chosen))
    }

    /// The accounting dimension of an axis that is not a dimension of the fabric.
    fn tier(&self, role: &Role, weight: u32, size: u32) -> u16 {
        let fabric = self.context.fabric;
        let tier = if self.context.linear { tiers::of_axis(fabric, role, weight, size) } else { None };
        tier.unwrap_or_else(|| tiers::count(fabric)) as u16
    }
}

/// Scheduling queues of each dimension, and of phases that run in no dimension.
fn lanes(context: &Context<'_>) -> Vec<Lanes> {
    let queues = |natural: u32| context.spec.queues.map_or(natural, NonZeroU32::get);
    let dims = context.fabric.dims().iter();
    let mut lanes: Vec<Lanes> = dims.map(|dim| Lanes::of_all(queues(dim.lanes()), dim.ways())).collect();
    // A phase that runs in no dimension gets as many lanes as the dimension with the most, in both directions. A
    // broadcast or reduce gets both directions only if its root then sends over more links. Otherwise chunks of both
    // directions would share the root's link and arrive at half the rate.
    let most = lanes.iter().map(|dim| dim.queues).max().unwrap_or(1);
    let both = Lanes::of_all(queues(most.max(2)), 2);
    let others = match has_two_ways(context.fabric) {
        true => both,
        false => Lanes { rooted_queues: queues(most), rooted_ways: 1, ..both },
    };
    lanes.resize(tiers::count(context.fabric) + 1, others);
    lanes
}

/// Whether NPU 0 sends over different links to the next NPU and to the last one.
fn has_two_ways(fabric: &Fabric) -> bool {
    let first_link = |to: u32| {
        let mut path = Vec::new();
        fabric.route(NpuId(0), NpuId(to), 0, &mut path);
        path.first().copied()
    };
    fabric.npus() > 2 && first_link(1) != first_link(fabric.npus() - 1)
}
