//! A plan for every collective that the job uses: phases over its group's axes, an algorithm for each, chunks.
//!
//! - [`named`]: algorithms that the scenario names, and the composition in which all of them have a phase.

mod named;

use crate::scenario::{Collectives, Order, Schedulers};
use crate::watch::Watch;
use crate::{own_plan, size, tiers};
use named::Named;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_engine::{CollectivePlan, Lanes, PhasePlan, Schedule};
use syncline_fabric::Fabric;
use syncline_plan::cost::{chain, least_bytes};
use syncline_plan::{Algorithm, Grid, registry};
use syncline_units::{Bytes, CollectiveKind, DimKind, Extent, Rate, Time, Turn};
use syncline_workload::{Axis, Role, TaskKind, Workload};

/// Tasks between two looks at the clock.
const LOOK: usize = 1 << 8;

/// Plans, and which task uses which.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) plans: Vec<CollectivePlan>,
    pub(crate) plan_of: Vec<Vec<u32>>,
    pub(crate) dims: Vec<Lanes>,
    /// Keys of `collectives` that name an algorithm of a collective that the job has, and that no plan has used.
    pub(crate) unused: BTreeSet<String>,
}

/// What is the same for all plans of a scenario.
struct Planner<'a> {
    spec: &'a Collectives,
    fabric: &'a Fabric,
    /// Whether ranks are placed otherwise than in the order of NPUs.
    placed: bool,
    named: Named<'a>,
    /// The user's own plans.
    own: BTreeMap<CollectiveKind, Arc<dyn Algorithm>>,
    /// Keys of `collectives` that plans have used.
    used: BTreeSet<String>,
    /// Collectives that the job has.
    has: BTreeSet<CollectiveKind>,
}

/// Plans every collective of `workload`.
///
/// # Errors
/// Unknown algorithms and dimensions, collectives that an algorithm does not offer, plans that do not compute theirs;
/// `LimitReached` where `watch` says stop.
pub(crate) fn plans(
    spec: &Collectives,
    workload: &Workload,
    fabric: &Fabric,
    placed: bool,
    watch: &Watch<'_>,
) -> Result<Plans> {
    let mut planner = Planner::new(spec, fabric, placed)?;
    let mut known: BTreeMap<(u16, CollectiveKind, Bytes), u32> = BTreeMap::new();
    let mut plans = Vec::new();
    let mut errors = Diagnostics::new();
    let mut plan_of = Vec::new();
    for graph in &workload.classes {
        let mut of = vec![u32::MAX; graph.tasks.len()];
        for (index, task) in graph.tasks.iter().enumerate() {
            let TaskKind::Collective { role, kind, bytes, .. } = task.kind else { continue };
            if index % LOOK == 0 {
                watch.look("planning the collectives")?;
            }
            let next = known.len() as u32;
            of[index] = *known.entry((role.0, kind, bytes)).or_insert_with(|| {
                match planner.plan(&workload.roles[role.index()], kind, bytes) {
                    Ok(plan) => plans.push(plan),
                    Err(error) => errors.extend(error),
                }
                next
            });
        }
        plan_of.push(of);
    }
    errors.0.dedup();
    errors.into_result()?;
    syncline_engine::keys::check(&plans)?;
    Ok(Plans { plans, plan_of, dims: planner.lanes(), unused: planner.unused() })
}

/// Warnings about keys of `collectives` that no collective of the job uses.
pub(crate) fn without_use(keys: &BTreeSet<String>) -> Diagnostics {
    let warning = |key: &String| {
        Diagnostic::warning(Code::BadValue, "no phase of the job's collectives runs this algorithm")
            .key(format!("collectives.{key}"))
            .help("leave it out; `syncline show plan` says which collectives the job has, and how they are carried out")
    };
    Diagnostics(keys.iter().map(warning).collect())
}

/// How endpoints schedule.
pub(crate) fn schedule(spec: &Collectives) -> Schedule {
    Schedule {
        order: match spec.order {
            Order::Fifo => syncline_engine::Order::Fifo,
            Order::Lifo => syncline_engine::Order::Lifo,
            Order::Priority => syncline_engine::Order::Priority,
        },
        schedulers: match spec.schedulers() {
            Schedulers::PerGroup => syncline_engine::Schedulers::PerGroup,
            Schedulers::PerRank => syncline_engine::Schedulers::PerRank,
        },
        issue_threshold: spec.issue_threshold,
        issue_batch: spec.issue_batch,
        active_chunks: spec.active_chunks,
        outstanding: spec.outstanding,
        concurrent: spec.concurrent,
        endpoint_delay: spec.endpoint_delay,
        injection_latency: spec.injection_latency,
        reduction_rate: spec.reduction_rate,
    }
}

/// Cuts a set into up to `most` chunks, each of a number of elements that every rank of the group can have an equal part
/// of, save the last one.
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

/// The turn of an algorithm's programs; two ranks change places by any.
fn turn(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Option<Turn> {
    algorithm.turn(kind, ranks).map(|turn| if ranks <= 2 { Turn::Cyclic } else { turn })
}

/// A user's plan for `kind`.
fn own_plan(kind: CollectiveKind, file: &str) -> Result<Arc<dyn Algorithm>> {
    let key = format!("collectives.plans.{kind}");
    let (plan, custom) = own_plan::read(file).map_err(|mut errors| {
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

/// How long `bytes` take at least at `rate`, which may be a sum that 64 bits do not hold.
fn at_least(rate: Rate, bytes: Bytes) -> Time {
    if rate.0 == u64::MAX { Time::ZERO } else { rate.transfer_time(bytes).unwrap_or(Time::ZERO) }
}

impl<'a> Planner<'a> {
    fn new(spec: &'a Collectives, fabric: &'a Fabric, placed: bool) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let named = Named::new(spec, fabric).map_err(|found| errors.extend(found));
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
        errors.into_result()?;
        let named = named.expect("errors were returned");
        Ok(Self { spec, fabric, placed, named, own, used: BTreeSet::new(), has: BTreeSet::new() })
    }

    /// Scheduling queues of each dimension, and of what runs in none.
    fn lanes(&self) -> Vec<Lanes> {
        let queues = |natural: u32| if self.spec.queues == 0 { natural } else { self.spec.queues };
        let mut lanes: Vec<Lanes> = self
            .fabric
            .dims()
            .iter()
            .map(|dim| Lanes { queues: queues(dim.lanes()), ways: dim.ways() })
            .collect();
        // What runs in no dimension of its own takes as many lanes as the richest dimension has, both ways round.
        let most = lanes.iter().map(|dim| dim.queues).max().unwrap_or(1);
        lanes.resize(tiers::count(self.fabric) + 1, Lanes { queues: queues(most.max(2)), ways: 2 });
        lanes
    }

    /// Keys that name an algorithm of a collective that the job has, and that no plan has used.
    fn unused(&self) -> BTreeSet<String> {
        let idle =
            |(kind, key): &(CollectiveKind, String)| self.has.contains(kind) && !self.used.contains(key);
        self.named.keys().filter(idle).map(|(_, key)| key).collect()
    }

    fn plan(&mut self, role: &Role, kind: CollectiveKind, bytes: Bytes) -> Result<CollectivePlan> {
        self.has.insert(kind);
        let element = if bytes.0.is_multiple_of(self.spec.element.0) { self.spec.element.0 } else { 1 };
        let whole = Extent::whole(bytes.0 / element);
        let wanted = self.spec.chunks_of.get(&kind).copied().unwrap_or(self.spec.chunks);
        let most = (bytes.0 / self.spec.min_chunk.0.max(1)).clamp(1, u64::from(wanted)) as u32;
        size::chunks(u64::from(most).min(whole.len().div_ceil(u64::from(role.size()))))?;
        let chunks = chunks(whole, most, role.size());
        let phases = match self.own.get(&kind) {
            Some(algorithm) => vec![self.flat(role, kind, Arc::clone(algorithm))?],
            None => self.phases(role, kind)?,
        };
        let volume = self.volume_bound(&phases, whole.len() * element, chunks.len() as u32);
        let bound = volume.max(self.chain_bound(&phases, &chunks, element));
        Ok(CollectivePlan { kind, bytes, element, chunks, phases, bound })
    }

    /// One phase over the whole group.
    fn flat(&self, role: &Role, kind: CollectiveKind, algorithm: Arc<dyn Algorithm>) -> Result<PhasePlan> {
        registry::check(&*algorithm, kind, role.size())?;
        let streams = algorithm.streams(kind, role.size());
        let dim = tiers::count(self.fabric) as u16;
        Ok(PhasePlan {
            kind,
            size: role.size(),
            weight: 1,
            cuts: Vec::new(),
            gates: Vec::new(),
            dim,
            leg: 0,
            turn: turn(&*algorithm, kind, role.size()),
            turned: None,
            algorithm,
            streams,
        })
    }

    fn phases(&mut self, role: &Role, kind: CollectiveKind) -> Result<Vec<PhasePlan>> {
        let sizes: Vec<u32> = role.axes.iter().map(|axis| axis.size).collect();
        let Some(grid) = Grid::new(&sizes) else {
            return Err(Diagnostic::error(Code::BadGroup, "a group is too large").key(&*role.name).into());
        };
        let weights: Vec<u32> = (0..sizes.len()).map(|axis| grid.stride(axis)).collect();
        let mut phases = Vec::new();
        for phase in self.named.composition(role, kind, &grid)?.phases(kind, &grid) {
            let axis = role.axes[phase.axis];
            let algorithm = self.algorithm(axis, phase.size, kind, phase.kind);
            registry::check(&*algorithm, phase.kind, phase.size)?;
            let seats = algorithm.seats(phase.size);
            if seats > phase.size {
                return Err(Diagnostic::error(
                    Code::NoPlan,
                    format!(
                        "`{}` needs {} hubs with NPUs of their own, which this simulation does not place",
                        algorithm.name(),
                        seats - phase.size
                    ),
                )
                .key("collectives.algorithms")
                .help("use a colocated placement such as `parameter_server(placement=CS)`")
                .into());
            }
            let lower =
                |axes: usize| (0..axes).filter(|&a| sizes[a] > 1).map(|a| (weights[a], sizes[a])).collect();
            let gated = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
            phases.push(PhasePlan {
                kind: phase.kind,
                size: phase.size,
                weight: weights[phase.axis],
                cuts: lower(phase.cut),
                gates: if gated { lower(phase.axis) } else { Vec::new() },
                dim: axis.dim.unwrap_or_else(|| self.tier(role, weights[phase.axis], phase.size)),
                leg: u8::from(phase.kind == CollectiveKind::AllGather),
                streams: algorithm.streams(phase.kind, phase.size),
                turn: turn(&*algorithm, phase.kind, phase.size),
                turned: None,
                algorithm,
            });
        }
        Ok(phases)
    }

    /// The accounting dimension of an axis that is no dimension of the fabric.
    fn tier(&self, role: &Role, weight: u32, size: u32) -> u16 {
        let tier = if self.placed { None } else { tiers::of_axis(self.fabric, role, weight, size) };
        tier.unwrap_or_else(|| tiers::count(self.fabric)) as u16
    }

    /// The algorithm for a phase of a `collective`: the one that is named for it, or the one that suits the dimension.
    fn algorithm(
        &mut self,
        axis: Axis,
        ranks: u32,
        collective: CollectiveKind,
        phase: CollectiveKind,
    ) -> Arc<dyn Algorithm> {
        if let Some((key, algorithm)) = self.named.of(axis, ranks, collective, phase) {
            self.used.insert(key);
            // Where its parts run the same by names of their own, so does the whole.
            let whole = self.named.of(axis, ranks, collective, collective);
            self.used.extend(whole.filter(|whole| whole.1.name() == algorithm.name()).map(|whole| whole.0));
            return algorithm;
        }
        self.named.by_shape(axis, phase)
    }

    /// A time that no execution of the phases beats: in each dimension, the latency, and the bytes that some rank must
    /// send or receive at all that an NPU's links there can carry.
    fn volume_bound(&self, phases: &[PhasePlan], bytes: u64, chunks: u32) -> Time {
        let mut by_dim: BTreeMap<u16, u64> = BTreeMap::new();
        for phase in phases.iter().filter(|phase| phase.gates.is_empty()) {
            let held = phase.cuts.iter().fold(bytes, |held, &(_, size)| held / u64::from(size));
            let sum = by_dim.entry(phase.dim).or_default();
            *sum = sum.saturating_add(least_bytes(phase.kind, phase.size, false, Bytes(held)).0);
        }
        let time = |(&dim, &bytes): (&u16, &u64)| {
            let (rate, latency) = self.at_best(dim);
            // Blocks are cut to whole elements: leave out what that may take from a rank.
            let slack =
                self.spec.element.0.saturating_mul(phases.len() as u64).saturating_mul(u64::from(chunks));
            match bytes.saturating_sub(slack) {
                0 => Time::ZERO,
                bytes => at_least(rate, Bytes(bytes)).saturating_add(latency).saturating_sub(Time(1)),
            }
        };
        by_dim.iter().map(time).max().unwrap_or(Time::ZERO)
    }

    /// A time that no execution of the phases beats: what its smallest chunk takes alone, message after message.
    /// Counts phases in which all ranks of a group do alike, so that none ends before the longest chain of messages.
    fn chain_bound(&self, phases: &[PhasePlan], chunks: &[Extent], element: u64) -> Time {
        let smallest = chunks.iter().map(|chunk| chunk.len()).min().unwrap_or(0);
        let time = |phase: &PhasePlan| {
            let elements = phase.cuts.iter().fold(smallest, |held, &(_, size)| held / u64::from(size));
            let (rate, latency) = self.at_best(phase.dim);
            let message = |bytes| latency.saturating_add(at_least(rate, bytes)).0;
            chain(&*phase.algorithm, phase.kind, phase.size, elements, element, message)
        };
        let alike = phases.iter().filter(|phase| phase.gates.is_empty());
        Time(alike.filter_map(time).fold(0, u64::saturating_add))
    }

    /// All that an NPU can send or receive in a dimension, and the least that a message there takes.
    fn at_best(&self, dim: u16) -> (Rate, Time) {
        // Where ranks are placed at will, a group's axis may run along any dimension.
        let own = self.fabric.dims().get(usize::from(dim)).filter(|_| !self.placed);
        match own {
            Some(dim) if dim.kind == DimKind::Switch => {
                (dim.usable_rate_per_npu(), Time(dim.latency.0.saturating_mul(2)))
            }
            Some(dim) => (dim.usable_rate_per_npu(), dim.latency),
            None => (self.fastest_npu(), self.least_latency()),
        }
    }

    /// Latency of the quickest link.
    fn least_latency(&self) -> Time {
        let fabric = self.fabric;
        let dims = fabric.dims().iter().map(|dim| dim.latency);
        let links = (0..fabric.links()).map(|id| fabric.link(syncline_units::LinkId(id)).latency);
        if fabric.is_graph() { links.min() } else { dims.min() }.unwrap_or_default()
    }

    /// What the best connected NPU can receive over all its links.
    fn fastest_npu(&self) -> Rate {
        let fabric = self.fabric;
        if !fabric.dims().is_empty() {
            return Rate(
                fabric.dims().iter().fold(0, |sum, dim| sum.saturating_add(dim.usable_rate_per_npu().0)),
            );
        }
        let mut into = vec![0u64; fabric.vertices() as usize];
        for id in 0..fabric.links() {
            let link = fabric.link(syncline_units::LinkId(id));
            into[link.to as usize] = into[link.to as usize].saturating_add(link.rate.0);
        }
        Rate(into[..fabric.npus() as usize].iter().copied().max().unwrap_or(0))
    }
}
