//! A lower bound on the time of a plan: its bytes over the links that they must pass, and its longest chain of
//! messages.
//!
//! - [`traffic`]: how much each rank sends to which other rank, as parts of a chunk;
//! - [`cuts`]: sets of links that these messages must pass, and which messages pass each of them;
//! - [`Bounds`], here: the times of cuts and chains for a vector of a given length.
//!
//! *Cuts.* Messages that must all pass one of a set of links take at least their bytes over the sum of the links' rates
//! (the cut-set bound of network flow), plus the latency before and behind the cut. Rates are added up only over links
//! among which the network model may choose, so an NPU's NVLinks do not add to its network card.
//!
//! *Chain.* If all ranks of a phase run the same program, none ends before the longest chain of dependent messages of
//! one chunk ([`syncline_plan::cost::chain`]). Each message takes at least the least latency in the phase, and its
//! bytes at the best rate in the phase. A chunk goes through its phases one after the other, so their chains add up.
//!
//! Only payload counts: headers and windows make a run slower than its bound. All groups that run a plan share one
//! bound, that of the quickest group. The number of paths looked up is limited; a path left out makes the bound lower,
//! never higher. Neither cuts nor paths depend on the vector's length, so they are found once for all lengths.

mod cuts;
mod traffic;

use super::context::Context;
use cuts::{Cut, Survey};
use std::collections::BTreeMap;
use syncline_engine::{GroupAxis, Lanes, PhasePlan};
use syncline_plan::cost::chain;
use syncline_units::{Bytes, CollectiveKind, Extent, Rate, Time};
use syncline_workload::{Role, RoleId};
use traffic::{Share, held};

/// A plan, as far as its bound depends on it.
pub(super) struct Planned<'a> {
    pub(super) role: &'a Role,
    pub(super) id: RoleId,
    pub(super) phases: &'a [PhasePlan],
    pub(super) chunks: &'a [Extent],
    /// Bytes of an element.
    pub(super) element: u64,
    /// Queues by accounting dimension.
    pub(super) lanes: &'a [Lanes],
}

/// The properties of a phase that decide its messages and paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PhaseKey {
    kind: CollectiveKind,
    axis: GroupAxis,
    cuts: Vec<GroupAxis>,
    root_axes: Vec<GroupAxis>,
    dim: u16,
    algorithm: String,
}

impl PhaseKey {
    fn new(phase: &PhasePlan) -> Self {
        Self {
            kind: phase.kind,
            axis: phase.axis,
            cuts: phase.cuts.clone(),
            root_axes: phase.root_axes.clone(),
            dim: phase.dim,
            algorithm: phase.algorithm.name().to_owned(),
        }
    }
}

/// Computes the bounds of a scenario's plans, and caches the cuts.
#[derive(Default)]
pub(super) struct Bounds {
    known: BTreeMap<(RoleId, Vec<PhaseKey>), Survey>,
}

impl Bounds {
    /// The bound of a plan.
    pub(super) fn of(&mut self, context: &Context<'_>, plan: &Planned<'_>) -> Time {
        let key = (plan.id, plan.phases.iter().map(PhaseKey::new).collect());
        let survey = self.known.entry(key).or_insert_with(|| Survey::new(context, plan));
        let vector = Vector::new(plan);
        let group = |cuts: &Vec<Cut>| cuts.iter().map(|cut| vector.time(cut)).max().unwrap_or(Time::ZERO);
        let cuts = survey.groups.iter().map(group).min().unwrap_or(Time::ZERO);
        cuts.max(chains(plan, &survey.quickest))
    }
}

/// The chunks of a plan's vector.
struct Vector<'a> {
    plan: &'a Planned<'a>,
    /// How many chunks have each length, in elements.
    lengths: BTreeMap<u64, u64>,
}

impl<'a> Vector<'a> {
    fn new(plan: &'a Planned<'a>) -> Self {
        let mut lengths = BTreeMap::new();
        plan.chunks.iter().for_each(|chunk| *lengths.entry(chunk.len()).or_default() += 1);
        Self { plan, lengths }
    }

    /// Least time in which the plan's messages pass a cut.
    fn time(&self, cut: &Cut) -> Time {
        let phases = cut.messages.chunk_by(|one, other| one.0.phase == other.0.phase);
        let bytes = phases.map(|messages| self.bytes(messages)).fold(0, u64::saturating_add);
        if bytes == 0 {
            return Time::ZERO;
        }
        // Ignore a time that is too long to represent: the bound may be lower, never higher.
        let passing = cut.rate.transfer_time(Bytes(bytes)).unwrap_or(Time::ZERO);
        // Transfer times are rounded up to a picosecond, but the ends of flows may be rounded down.
        passing.saturating_add(cut.latency).saturating_sub(Time(1))
    }

    /// Least number of bytes of all chunks in one phase, in which each chunk has `messages`.
    fn bytes(&self, messages: &[(Share, [u64; 2])]) -> u64 {
        let phase = &self.plan.phases[usize::from(messages[0].0.phase)];
        let chunk = |length: u64, way: usize| {
            let held = held(phase, length);
            let message = |&(share, times): &(Share, [u64; 2])| {
                share.bytes(held, self.plan.element).saturating_mul(times[way])
            };
            messages.iter().map(message).fold(0, u64::saturating_add)
        };
        let all = |of: &dyn Fn(u64) -> u64| {
            let bytes = |(&length, &count): (&u64, &u64)| of(length).saturating_mul(count);
            self.lengths.iter().map(bytes).fold(0, u64::saturating_add)
        };
        let lanes = self.plan.lanes[usize::from(phase.dim)];
        let back = u64::from(lanes.backward(phase.kind));
        if back == 0 {
            return all(&|length| chunk(length, 0));
        }
        // Chunks are dealt to queues in turn, and every other queue runs in the opposite direction. The queue of the
        // first chunk is not known, so chunks beyond the last full turn may run in either direction.
        let count = self.plan.chunks.len() as u64;
        let queues = u64::from(lanes.queues_of(phase.kind));
        let turns = count / queues;
        let forth = queues - back;
        let rest = count - turns * (forth + back);
        let shortest = self.lengths.keys().next().copied().unwrap_or(0);
        let (one, other) = (chunk(shortest, 0), chunk(shortest, 1));
        let dealt = [(one, turns * forth), (other, turns * back), (one.min(other), rest)];
        let dealt =
            dealt.map(|(bytes, times)| bytes.saturating_mul(times)).into_iter().fold(0, u64::saturating_add);
        dealt.max(all(&|length| chunk(length, 0).min(chunk(length, 1))))
    }
}

/// Least time of the shortest chunk's chain of messages, over the phases in which all ranks of a group run the same
/// program.
fn chains(plan: &Planned<'_>, quickest: &[(Rate, Time)]) -> Time {
    let shortest = plan.chunks.iter().map(|chunk| chunk.len()).min().unwrap_or(0);
    let time = |(phase, &(rate, latency)): (&PhasePlan, &(Rate, Time))| {
        let message = |bytes: Bytes| match rate.transfer_time(bytes) {
            // With `packet`, an empty message sends no packet and arrives at once.
            _ if bytes == Bytes::ZERO => 0,
            passing => latency.saturating_add(passing.unwrap_or(Time::ZERO)).0,
        };
        chain(&*phase.algorithm, phase.kind, phase.axis.size, held(phase, shortest), plan.element, message)
    };
    let alike = plan.phases.iter().zip(quickest).filter(|(phase, _)| phase.root_axes.is_empty());
    Time(alike.filter_map(time).fold(0, u64::saturating_add))
}
