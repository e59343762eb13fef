//! Which NPUs exchange messages in a job. The routes of these pairs must be alike for one rank to represent others.

use crate::plans::Plans;
use crate::rank_axis::{RankAxis, axis_of};
use std::collections::{BTreeMap, BTreeSet};
use syncline_engine::PhasePlan;
use syncline_fabric::{Flow, Symmetry};
use syncline_plan::program::program;
use syncline_plan::{Op, Seat};
use syncline_units::NpuId;
use syncline_workload::{Role, Workload};

/// Limit on the routes that are compared with each other, and on the instructions read. More would take many seconds.
const MOST: u64 = 1 << 24;

/// A phase that runs along an axis.
#[derive(Clone, Copy, Debug)]
struct AxisPhase<'a> {
    phase: &'a PhasePlan,
    lanes: u32,
    /// Whether some of the lanes run backwards.
    both_ways: bool,
}

/// A rank that another rank of an axis sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Receiver {
    coordinate: u32,
    /// Its distance according to the plan.
    distance: u32,
}

/// The messages that ranks send along axes, and to single peers.
pub(crate) struct Exchanges<'a> {
    /// The axes of all groups.
    axes: Vec<RankAxis>,
    /// By axis: one phase of each algorithm.
    phases: Vec<Vec<AxisPhase<'a>>>,
    /// By axis and coordinate of the sender: the number of lanes to each receiver.
    known: BTreeMap<(usize, u32), BTreeMap<Receiver, u32>>,
    /// Number of instructions read.
    read: u64,
}

impl<'a> Exchanges<'a> {
    pub(crate) fn new(plans: &'a Plans, roles: &[&Role]) -> Self {
        let (mut axes, mut phases): (Vec<RankAxis>, Vec<Vec<_>>) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for (plan, role) in plans.plans.iter().zip(roles) {
            for phase in &plan.phases {
                let Some(axis) = axis_of(role, phase) else { continue };
                let axis = RankAxis::from(axis);
                let place = axes.iter().position(|known| *known == axis).unwrap_or_else(|| {
                    axes.push(axis);
                    phases.push(Vec::new());
                    axes.len() - 1
                });
                let lanes = plans.dims[usize::from(phase.dim)];
                if seen.insert((place, phase.kind, phase.dim, phase.algorithm.name())) {
                    let (lanes, backward) = (lanes.queues_of(phase.kind), lanes.backward(phase.kind));
                    phases[place].push(AxisPhase { phase, lanes, both_ways: backward > 0 });
                }
            }
        }
        Self { axes, phases, known: BTreeMap::new(), read: 0 }
    }

    /// The messages of the representatives, with their lanes; `None` if there are too many to compare.
    pub(crate) fn flows(&mut self, npus: &Symmetry, workload: &Workload) -> Option<Vec<Flow>> {
        let most = MOST / u64::from(npus.members());
        let mut flows = Vec::new();
        for class in 0..npus.classes() {
            let from = npus.representative(class);
            for at in 0..self.axes.len() {
                let axis = self.axes[at];
                let here = axis.coordinate(from.0);
                for (&Receiver { coordinate: there, distance }, &lanes) in self.receivers(at, axis, here)? {
                    let to = NpuId(from.0 + there * axis.stride - here * axis.stride);
                    // Distances along different axes may be equal. Then more routes are tied than necessary, which is
                    // safe.
                    flows.extend((0..lanes).map(|lane| Flow { from, to, lane, tie: distance }));
                }
            }
            let graph = &workload.classes[workload.class_of(from.0) as usize];
            let peers = graph.peers().into_iter().filter_map(|peer| Some(peer.of(from.0)?.0));
            let peers = peers.filter(|&to| to < workload.ranks && to != from.0);
            flows.extend(peers.map(|to| Flow { from, to: NpuId(to), lane: 0, tie: 0 }));
            if flows.len() as u64 > most {
                return None;
            }
        }
        Some(flows)
    }

    /// The ranks to which the rank at coordinate `here` of an axis sends along that axis; `None` if the limit on
    /// instructions is reached.
    fn receivers(&mut self, at: usize, axis: RankAxis, here: u32) -> Option<&BTreeMap<Receiver, u32>> {
        if !self.known.contains_key(&(at, here)) {
            let mut found: BTreeMap<Receiver, u32> = BTreeMap::new();
            for &AxisPhase { phase, lanes, both_ways } in &self.phases[at] {
                for (stream, reverse) in (0..phase.streams).flat_map(|s| [(s, false), (s, true)]) {
                    if reverse && !both_ways {
                        continue;
                    }
                    let seat = Seat { kind: phase.kind, ranks: axis.size, index: here, stream, reverse };
                    for op in program(&*phase.algorithm, seat) {
                        self.read += 1;
                        if let Op::Send { to, .. } = op {
                            let receiver = Receiver { coordinate: to, distance: phase.distance(here, to) };
                            let known = found.entry(receiver).or_default();
                            *known = lanes.max(*known);
                        }
                    }
                    if self.read > MOST {
                        return None;
                    }
                }
            }
            self.known.insert((at, here), found);
        }
        self.known.get(&(at, here))
    }
}
