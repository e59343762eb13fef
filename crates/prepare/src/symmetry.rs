//! Finds the axes of ranks that can be turned without changing anything, so that one rank represents many.
//!
//! In a regular fabric, the axes are its dimensions. In a graph, and if groups take parts of dimensions, they are the
//! axes along which the job's groups lie, and routes are compared ([`Symmetry::compared`]). An axis is turned if all of
//! the following holds; otherwise every rank along it is simulated:
//!
//! - the fabric is undamaged, and rank `i` is on NPU `i`;
//! - messages outside collectives go to ranks with the sender's coordinate on this axis;
//! - ranks that differ only on this axis have the same tasks, compute durations and slowdowns, and send to and receive
//!   from ranks at the same distances;
//! - each group covers the axis completely, or not at all; where the axis of a group consists of several, only the highest
//!   of them is turned;
//! - the plans along the axis follow from one rank's ([`Algorithm::turn`](syncline_plan::Algorithm::turn)), all by the
//!   same turn, and no phase treats coordinate 0 specially;
//! - all blocks have the same length: data that is cut along the axis divides evenly;
//! - the fabric looks the same after the turn. This holds for every dimension, except as a rule where the pair of NPUs
//!   chooses the switch. Where routes are compared, it must hold for all routes in use, perhaps only after a turn by
//!   several coordinates, such as the number of hosts of a leaf;
//! - its links have latency, or are not shared, so that the order of ranks does not matter among events at the same
//!   time.

use crate::exchanges::Exchanges;
use crate::obstacle::{Obstacle, Obstacles};
use crate::plans::Plans;
use crate::rank_axis::{axis_at, axis_of};
use std::collections::BTreeSet;
use syncline_engine::{CollectivePlan, GroupAxis, Slowdowns, roles_of_plans};
use syncline_fabric::{Dimension, Fabric, Inside, NpuAxis, Symmetry, Unlike};
use syncline_scenario::NetworkSettings;
use syncline_units::{DimKind, NpuId, RankId, Turn, Turned};
use syncline_workload::{Axis, Peer, Role, RoleId, TaskGraph, Workload};

/// Routes are compared in a regular fabric only if it has at most this many links, because classes are then kept for
/// each link.
const MAX_LINKS: u32 = 1 << 22;

/// What the symmetry of a run depends on.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub fabric: &'a Fabric,
    pub workload: &'a Workload,
    pub placement: &'a [NpuId],
    pub slow: &'a Slowdowns,
    pub network: &'a NetworkSettings,
}

/// Finds the axes that can be turned, and marks the phases that run along them. Also returns why other axes cannot.
pub(crate) fn find(subject: Subject<'_>, plans: &mut Plans) -> (Symmetry, Obstacles) {
    let Subject { fabric, workload, .. } = subject;
    if let Some(obstacle) = obstacle_to_all(subject) {
        return (Symmetry::none(fabric), obstacle.into());
    }
    let roles = roles_of_plans(workload, &plans.plan_of, plans.plans.len());
    let role = |role: Option<RoleId>| &workload.roles[role.expect("a plan has a task").index()];
    let roles: Vec<&Role> = roles.into_iter().map(role).collect();
    let (mut symmetry, mut obstacles) = (Symmetry::none(fabric), Obstacles::default());
    let mut in_parts = fabric.is_graph();
    if !fabric.is_graph() {
        let search = Search::over_dims(subject).run(plans, &roles);
        in_parts = search.in_parts && fabric.links() <= MAX_LINKS;
        symmetry = Symmetry::new(fabric, &search.found());
        obstacles = search.obstacles();
    }
    if in_parts && let Some(search) = Search::over_groups(subject) {
        let (found, others) = search.run(plans, &roles).by_routes(plans, &roles);
        if fabric.is_graph() || found.members() > symmetry.members() {
            (symmetry, obstacles) = (found, others);
        }
    } else if fabric.is_graph() {
        obstacles = Obstacle::NoGrid.into();
    }
    for (plan, role) in plans.plans.iter_mut().zip(&roles) {
        for phase in &mut plan.phases {
            phase.turned =
                axis_of(role, phase).and_then(|Axis { size, stride, .. }| symmetry.turned(size, stride));
        }
    }
    (symmetry, obstacles)
}

/// Why no axis at all can be turned, if there is such a reason.
fn obstacle_to_all(Subject { fabric, workload, placement, .. }: Subject<'_>) -> Option<Obstacle> {
    if fabric.is_damaged() {
        return Some(Obstacle::DamagedLinks);
    }
    if !placement.is_empty() {
        return Some(Obstacle::ListedPlacement);
    }
    (workload.ranks != fabric.npus()).then_some(Obstacle::UnusedNpus)
}

/// How an axis may be turned, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turning {
    /// Not at all.
    Fixed,
    /// In any way.
    Any,
    /// Only in this way.
    By(Turn),
}

impl Turning {
    /// The turn to use, if there is one.
    fn turn(self) -> Option<Turn> {
        match self {
            Self::Fixed => None,
            Self::Any => Some(Turn::Cyclic),
            Self::By(turn) => Some(turn),
        }
    }
}

/// An axis of ranks, which may turn out to be turnable.
#[derive(Debug)]
struct Candidate {
    name: String,
    size: u32,
    stride: u32,
    /// The fabric's dimension that is this axis.
    dim: Option<usize>,
    turning: Turning,
    /// Why it cannot be turned, if it cannot.
    obstacle: Option<Obstacle>,
}

impl Candidate {
    fn new(name: String, size: u32, stride: u32) -> Self {
        Self { name, size, stride, dim: None, turning: Turning::Any, obstacle: None }
    }

    fn coordinate(&self, rank: u32) -> u32 {
        rank / self.stride % self.size
    }

    /// Marks the axis as not turnable.
    fn rule_out(&mut self, obstacle: Obstacle) {
        self.turning = Turning::Fixed;
        // Report the first obstacle: it is the one to remove first.
        self.obstacle.get_or_insert(obstacle);
    }
}

/// Finds the turns that the job and its plans allow.
struct Search<'a> {
    subject: Subject<'a>,
    /// Lowest first. Together they number all ranks.
    axes: Vec<Candidate>,
    /// Whether the axis of some group is not among `axes`.
    in_parts: bool,
}

/// Where the axis of a group is among the candidates.
#[derive(Clone, Copy)]
enum Spot {
    /// It is this candidate.
    At(usize),
    /// It is not a candidate. All candidates that it shares coordinates with are already marked as not turnable.
    RuledOut,
    /// The group has no such axis.
    Nowhere,
}

impl<'a> Search<'a> {
    /// A search among the whole dimensions of a regular fabric.
    fn over_dims(subject: Subject<'a>) -> Self {
        let axes = subject.fabric.dims().iter().enumerate().map(|(index, dim)| Candidate {
            dim: Some(index),
            ..Candidate::new(dim.name.clone(), dim.size, dim.stride())
        });
        let mut search = Self { subject, axes: axes.collect(), in_parts: false };
        // Check only the cyclic turn: where the sum of coordinates chooses the switch, no other turn preserves more.
        search.rule_out_dims(Obstacle::SwitchOfPair, |dim| !dim.turns(Turn::Cyclic));
        search.rule_out_dims(Obstacle::NoLatency, |dim| {
            dim.latency.is_zero() && dim.size > 1 && dim.kind != DimKind::FullyConnected
        });
        search
    }

    /// A search among the axes along which groups lie; `None` if they do not form a grid.
    fn over_groups(subject: Subject<'a>) -> Option<Self> {
        let Subject { fabric, workload, .. } = subject;
        let known: Vec<(String, u32)> = match fabric.dims() {
            [] => fabric.axes().to_vec(),
            dims => dims.iter().map(|dim| (dim.name.clone(), dim.size)).collect(),
        };
        let mut cuts = BTreeSet::from([1, workload.ranks]);
        for axis in workload.roles.iter().flat_map(|role| &role.axes).filter(|axis| axis.size > 1) {
            cuts.extend([axis.stride, axis.stride.checked_mul(axis.size)?]);
        }
        let cuts: Vec<u32> = cuts.into_iter().collect();
        let name = |size: u32, stride: u32| {
            let mut below = 1;
            let own = known.iter().find(|(_, known)| {
                let found = (*known, below) == (size, stride);
                below *= known;
                found
            });
            let along =
                |role: &&Role| role.axes.iter().any(|axis| (axis.size, axis.stride) == (size, stride));
            let role = || workload.roles.iter().find(along).map(|role| role.name.clone());
            own.map(|(name, _)| name.clone()).or_else(role).unwrap_or_else(|| format!("{size} x {stride}"))
        };
        let axes = cuts.windows(2).map(|cut| {
            let [stride, end] = [cut[0], cut[1]];
            let size = end.checked_div(stride).filter(|size| size * stride == end)?;
            Some(Candidate::new(name(size, stride), size, stride))
        });
        Some(Self { subject, axes: axes.collect::<Option<_>>()?, in_parts: false })
    }

    /// Marks the axes that cannot be turned because of the job or its plans.
    fn run(mut self, plans: &Plans, roles: &[&Role]) -> Self {
        self.classes();
        self.slow();
        for role in roles {
            self.group(role);
        }
        for (plan, role) in plans.plans.iter().zip(roles) {
            self.phases(plan, role);
        }
        // An axis that cannot be turned may cut data unevenly, which can affect other axes. Repeat until nothing
        // changes.
        loop {
            let before = self.turning();
            for (plan, role) in plans.plans.iter().zip(roles) {
                self.blocks(plan, role);
            }
            if self.turning() == before {
                return self;
            }
        }
    }

    fn turning(&self) -> usize {
        self.axes.iter().filter(|axis| axis.turning != Turning::Fixed).count()
    }

    /// The turn that was found for each axis.
    fn found(&self) -> Vec<Option<Turn>> {
        self.axes.iter().map(|axis| axis.turning.turn()).collect()
    }

    fn rule_out_all(&mut self, obstacle: Obstacle) {
        self.axes.iter_mut().for_each(|axis| axis.rule_out(obstacle));
    }

    /// Marks those axes as not turnable that so far are, and for which `applies` is true.
    fn rule_out_where(&mut self, obstacle: Obstacle, applies: impl Fn(&Candidate) -> bool) {
        for axis in self.axes.iter_mut().filter(|axis| axis.turning != Turning::Fixed) {
            if applies(axis) {
                axis.rule_out(obstacle);
            }
        }
    }

    fn rule_out_dims(&mut self, obstacle: Obstacle, applies: impl Fn(&Dimension) -> bool) {
        let dims = self.subject.fabric.dims();
        self.rule_out_where(obstacle, |axis| axis.dim.is_some_and(|dim| applies(&dims[dim])));
    }

    /// Why axes cannot be turned, and which axes.
    fn obstacles(&self) -> Obstacles {
        Obstacles::of_axes(self.axes.iter().filter_map(|axis| Some((axis.obstacle?, &*axis.name))))
    }

    /// The index of a role's axis among the candidates.
    fn place(&self, axis: Option<Axis>) -> Option<usize> {
        let Axis { size, stride, .. } = axis?;
        self.axes.iter().position(|own| (own.size, own.stride) == (size, stride))
    }

    /// The highest of several candidates that together are the axis of a group; all others of these are not turned.
    fn highest(&self, axis: Axis) -> Option<usize> {
        let end = axis.stride.checked_mul(axis.size)?;
        let starts = self.axes.iter().any(|own| own.stride == axis.stride);
        let ends = |own: &Candidate| {
            own.size > 1 && own.stride > axis.stride && own.stride.checked_mul(own.size) == Some(end)
        };
        self.axes.iter().position(ends).filter(|_| starts)
    }

    fn spot(&self, axis: Option<Axis>) -> Spot {
        match (axis, self.place(axis)) {
            (_, Some(place)) => Spot::At(place),
            (Some(axis), None) => self.highest(axis).map_or(Spot::RuledOut, Spot::At),
            (None, None) => Spot::Nowhere,
        }
    }

    /// Marks the axis of a group as not turnable; marks all axes if the group has no such axis.
    fn rule_out_at(&mut self, spot: Spot, obstacle: Obstacle) {
        match spot {
            Spot::At(place) => self.axes[place].rule_out(obstacle),
            Spot::RuledOut => {}
            Spot::Nowhere => self.rule_out_all(obstacle),
        }
    }

    fn classes(&mut self) {
        let workload = self.subject.workload;
        let peers: Vec<Vec<Peer>> = workload.classes.iter().map(TaskGraph::peers).collect();
        let alone = peers.iter().all(Vec::is_empty);
        if workload.class_runs.len() < 2 && alone {
            return;
        }
        let graphs = &workload.classes;
        let class_of = |rank: u32| workload.class_of(rank) as usize;
        self.rule_out_where(Obstacle::UnlikeTasks, |axis| {
            let same = |rank: u32| {
                let first = rank - axis.coordinate(rank) * axis.stride;
                let (class, of_first) = (class_of(rank), class_of(first));
                // Peers are given by rank, so ranks with peers may differ even if they share a class.
                if peers[class].is_empty() && peers[of_first].is_empty() {
                    return class == of_first;
                }
                let relative = || peers[class].iter().all(|peer| matches!(peer, Peer::Ahead(_)));
                peers[class]
                    .iter()
                    .all(|peer| axis.coordinate(peer.of_checked(rank).0) == axis.coordinate(rank))
                    && (class == of_first && relative()
                        || graphs[class].is_like(RankId(rank), &graphs[of_first], RankId(first)))
            };
            !(0..workload.ranks).all(same)
        });
    }

    fn slow(&mut self) {
        let Subject { slow, workload, .. } = self.subject;
        if slow.is_empty() {
            return;
        }
        self.rule_out_where(Obstacle::SlowRanks, |axis| {
            let first = |rank: u32| rank - axis.coordinate(rank) * axis.stride;
            !(0..workload.ranks).all(|rank| slow.alike(RankId(rank), RankId(first(rank))))
        });
    }

    fn group(&mut self, role: &Role) {
        if !role.is_grid() {
            return self.rule_out_all(Obstacle::PartialGroups);
        }
        for &axis in role.axes.iter().filter(|axis| axis.size > 1) {
            if self.place(Some(axis)).is_some() {
                continue;
            }
            self.in_parts = true;
            if let Some(highest) = self.highest(axis) {
                // A turn of the highest is one of the whole axis. One of the others would leave the group's order.
                let end = self.axes[highest].stride;
                let others = self.axes.iter_mut().filter(|own| own.size > 1);
                others
                    .filter(|own| (axis.stride..end).contains(&own.stride))
                    .for_each(|own| own.rule_out(Obstacle::PartialGroups));
                continue;
            }
            // Mark all candidates that share coordinates with this axis. If the axis does not line up with their
            // bounds, mark all axes.
            let end = axis.stride.saturating_mul(axis.size);
            let fits = |own: &Candidate| {
                let own_end = own.stride * own.size;
                let inside = axis.stride >= own.stride && end <= own_end;
                own_end <= axis.stride
                    || end <= own.stride
                    || inside && axis.stride.is_multiple_of(own.stride) && own_end.is_multiple_of(end)
                    || own.stride >= axis.stride && own_end <= end && own.stride.is_multiple_of(axis.stride)
            };
            if !self.axes.iter().all(fits) {
                return self.rule_out_all(Obstacle::PartialGroups);
            }
            for own in &mut self.axes {
                if own.size > 1 && own.stride < end && axis.stride < own.stride * own.size {
                    own.rule_out(Obstacle::PartialGroups);
                }
            }
        }
    }

    fn phases(&mut self, plan: &CollectivePlan, role: &Role) {
        for phase in plan.phases.iter().filter(|phase| phase.axis.size > 1) {
            let spot = self.spot(axis_of(role, phase));
            let known = match spot {
                Spot::At(place) => self.axes[place].turning,
                Spot::RuledOut | Spot::Nowhere => Turning::Fixed,
            };
            match (known, phase.turn, spot) {
                (Turning::Any, Some(found), Spot::At(place)) if phase.streams == 1 => {
                    self.axes[place].turning = Turning::By(found);
                }
                (Turning::By(known), Some(found), _) if known == found && phase.streams == 1 => {}
                _ => self.rule_out_at(spot, Obstacle::UnlikePrograms),
            }
            for &GroupAxis { weight, .. } in &phase.root_axes {
                self.rule_out_at(self.spot(axis_at(role, weight)), Obstacle::UnlikePrograms);
            }
        }
    }

    fn blocks(&mut self, plan: &CollectivePlan, role: &Role) {
        // If nothing can be turned any more, block lengths do not matter.
        if self.turning() == 0 {
            return;
        }
        let lengths: BTreeSet<u64> = plan.chunks.iter().map(|chunk| chunk.len()).collect();
        for phase in plan.phases.iter().filter(|phase| phase.axis.size > 1) {
            let mut held = lengths.clone();
            for &GroupAxis { weight, size } in phase.cuts.iter().filter(|axis| axis.size > 1) {
                held = self.cut(&held, self.spot(axis_at(role, weight)), size);
            }
            self.cut(&held, self.spot(axis_of(role, phase)), phase.axis.size);
        }
    }

    /// The lengths of the blocks into which data is cut along an axis. Marks the axis as not turnable if they differ.
    fn cut(&mut self, lengths: &BTreeSet<u64>, spot: Spot, size: u32) -> BTreeSet<u64> {
        let size = u64::from(size);
        if lengths.iter().any(|length| !length.is_multiple_of(size)) {
            self.rule_out_at(spot, Obstacle::UnevenData);
        }
        lengths.iter().flat_map(|length| [length / size, length.div_ceil(size)]).collect()
    }

    /// Tries to turn one axis after the other, by as few coordinates as routes allow.
    fn by_routes(mut self, plans: &Plans, roles: &[&Role]) -> (Symmetry, Obstacles) {
        let fabric = self.subject.fabric;
        let inside = match self.subject.network {
            NetworkSettings::Analytical => Inside::Passed,
            NetworkSettings::Queued => Inside::Queued,
            NetworkSettings::Flow(settings) if settings.paths > 1 => {
                self.rule_out_all(Obstacle::SeveralPaths);
                return (Symmetry::none(fabric), self.obstacles());
            }
            NetworkSettings::Flow(_) | NetworkSettings::Packet(_) => Inside::Shared,
        };
        let stays = |axis: &Candidate| NpuAxis { size: axis.size, stride: axis.stride, turned: None };
        let mut axes: Vec<NpuAxis> = self.axes.iter().map(stays).collect();
        let mut best = Symmetry::none(fabric);
        let mut exchanges = Exchanges::new(plans, roles);
        for at in 0..axes.len() {
            let (Some(turn), size) = (self.axes[at].turning.turn(), axes[at].size) else { continue };
            let steps = (1..size).filter(|step| size.is_multiple_of(*step));
            let mut obstacle = None;
            let found =
                steps.filter(|step| turn == Turn::Cyclic || step.is_power_of_two()).find_map(|step| {
                    let mut tried = axes.clone();
                    tried[at].turned = Some(Turned { turn, step });
                    let npus = Symmetry::of_npus(tried.clone());
                    let found = match exchanges.flows(&npus, self.subject.workload) {
                        Some(flows) => npus
                            .compared(fabric, &flows, inside)
                            .map_err(|unlike| obstacle_of(unlike, fabric)),
                        None => Err(Obstacle::TooManyRoutes),
                    };
                    found.map_err(|found| obstacle = Some(found)).ok().map(|symmetry| (tried, symmetry))
                });
            match found {
                Some(found) => (axes, best) = found,
                None => {
                    if let Some(obstacle) = obstacle {
                        self.axes[at].rule_out(obstacle);
                    }
                }
            }
        }
        (best, self.obstacles())
    }
}

/// What turning an axis would change, after routes were compared.
fn obstacle_of(unlike: Unlike, fabric: &Fabric) -> Obstacle {
    match unlike {
        Unlike::Routes => Obstacle::UnlikeRoutes,
        Unlike::Spread if fabric.ecmp().is_some() => Obstacle::HashedOntoSameLinks,
        Unlike::Spread => Obstacle::SharedLinks,
        Unlike::Latency => Obstacle::NoLatency,
        Unlike::Order => Obstacle::SharedQueues,
    }
}
