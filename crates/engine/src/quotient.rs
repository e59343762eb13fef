//! The symmetry quotient: of ranks that are indistinguishable, only one is simulated.
//!
//! A [`Symmetry`] says which axes may be turned without any change: fabric, groups, tasks and plans stay the same.
//! The engine runs only one rank of each class, the representative. A message that it sends to some rank goes to the
//! representative of that rank, and its sender is moved by the same turn. The links of a class share one port (the
//! network model does this). Each rank that would send to a representative has a representative of its own, which
//! sends to it at the same time. Messages outside collectives go only to ranks with the same coordinates along turned
//! axes, so a representative sends them to another representative. Nothing is approximated: the omitted events are
//! copies of simulated events.
//!
//! In the engine's tables, ranks are numbered by class. Positions in a group are numbered by *slot*: positions that
//! turns map onto each other share a slot. Without turned axes, both numberings are the ordinary ones.

use crate::job::{Job, PhasePlan, PlanId, roles_of_plans};
use syncline_fabric::Symmetry;
use syncline_timeline::{Flow, Span, Spans};
use syncline_units::{NpuId, RankId};
use syncline_workload::{Axis, Role, RoleId};

/// The index of a rank in the engine's tables: the number of its class. Without symmetric ranks, it equals the rank's
/// own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub(crate) struct RankIndex(pub(crate) u32);

impl RankIndex {
    /// The index into a table.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The classes of ranks, and the resulting tables for groups and plans.
#[derive(Debug)]
pub(crate) struct Quotient<'a> {
    symmetry: &'a Symmetry,
    /// The representative of each class.
    representatives: Vec<RankId>,
    roles: Vec<Slots>,
    /// By plan and phase.
    lines: Vec<Vec<SlotLine>>,
}

/// The slots in the groups of a role.
#[derive(Debug)]
struct Slots {
    axes: Vec<SlotAxis>,
    slots: u32,
}

/// An axis of a group on which positions have different slots.
#[derive(Clone, Copy, Debug)]
struct SlotAxis {
    /// Distance between neighbours, in positions.
    weight: u32,
    /// Number of positions.
    size: u32,
    /// Number of slots: as many as positions, or the turn's step if the axis is turned.
    slots: u32,
    /// Distance between neighbours, in slots.
    between: u32,
}

/// The axis of a phase, measured in slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLine {
    /// Distance between neighbours, in slots.
    pub(crate) weight: u32,
    /// Number of slots along the axis.
    pub(crate) size: u32,
}

impl<'a> Quotient<'a> {
    pub(crate) fn new(job: &'a Job<'_>) -> Self {
        let symmetry = &job.symmetry;
        let representatives = match symmetry.is_none() {
            true => Vec::new(),
            false => (0..symmetry.classes()).map(|class| RankId(symmetry.representative(class).0)).collect(),
        };
        let roles: Vec<Slots> = job.workload.roles.iter().map(|role| Slots::new(role, symmetry)).collect();
        let role_of = roles_of_plans(job.workload, &job.plan_of, job.plans.len());
        let lines = job.plans.iter().zip(role_of).map(|(plan, role)| {
            let slots = &roles[role.map_or(0, RoleId::index)];
            plan.phases.iter().map(|phase| slots.line(phase, symmetry.is_none())).collect()
        });
        let lines = lines.collect();
        Self { symmetry, representatives, roles, lines }
    }

    /// Number of ranks that are simulated.
    pub(crate) fn ranks(&self, all: u32) -> u32 {
        if self.symmetry.is_none() { all } else { self.symmetry.classes() }
    }
    /// Number of ranks that each simulated rank stands for.
    pub(crate) fn members(&self) -> u32 {
        self.symmetry.members()
    }

    /// The rank at `index` in the engine's tables.
    #[inline]
    pub(crate) fn rank(&self, index: RankIndex) -> RankId {
        if self.representatives.is_empty() { RankId(index.0) } else { self.representatives[index.index()] }
    }
    /// The index of `rank` in the engine's tables.
    #[inline]
    pub(crate) fn index(&self, rank: RankId) -> RankIndex {
        RankIndex(if self.representatives.is_empty() { rank.0 } else { self.symmetry.class(NpuId(rank.0)) })
    }

    /// Replaces the spans of representatives by copies for each traced rank.
    pub(crate) fn copy_spans(&self, job: &Job<'_>, spans: &mut Spans) {
        if self.representatives.is_empty() {
            return;
        }
        let own = std::mem::take(&mut spans.spans);
        let like = |span: &Span| {
            let index = self.index(span.rank);
            job.traced.iter().copied().filter(move |&rank| self.index(rank) == index)
        };
        let copies = own.iter().enumerate().flat_map(|(from, span)| like(span).map(move |rank| (from, rank)));
        let mut copies: Vec<(usize, RankId)> = copies.collect();
        let most = usize::try_from(job.max_spans).unwrap_or(usize::MAX);
        spans.left_out += copies.len().saturating_sub(most) as u64;
        copies.truncate(most);
        spans.spans = copies.iter().map(|&(from, rank)| Span { rank, ..own[from] }).collect();
        // Both ends of a message are equally far from their representatives.
        for Flow { from, to } in std::mem::take(&mut spans.flows) {
            let [sent, received] = [from, to].map(|at| &own[at as usize]);
            spans.flows.extend(like(sent).filter_map(|rank| {
                let ends =
                    [(from as usize, rank), (to as usize, RankId(received.rank.0 + (rank.0 - sent.rank.0)))];
                // Copies are sorted by their original, then by rank.
                let [from, to] = ends.map(|end| copies.binary_search(&end).ok().map(|at| at as u32));
                Some(Flow { from: from?, to: to? })
            }));
        }
    }

    /// Number of slots in a group of role `role`.
    pub(crate) fn slots(&self, role: RoleId) -> u32 {
        self.roles[role.index()].slots
    }
    /// The slot of a position.
    #[inline]
    pub(crate) fn slot(&self, role: RoleId, position: u32) -> u32 {
        if self.representatives.is_empty() {
            return position;
        }
        let axes = self.roles[role.index()].axes.iter();
        axes.map(|axis| position / axis.weight % axis.size % axis.slots * axis.between).sum()
    }
    /// The position of the representative of a slot.
    pub(crate) fn position(&self, role: RoleId, slot: u32) -> u32 {
        if self.representatives.is_empty() {
            return slot;
        }
        let axes = self.roles[role.index()].axes.iter();
        axes.map(|axis| slot / axis.between % axis.slots * axis.weight).sum()
    }
    /// The axis of a phase, measured in slots.
    #[inline]
    pub(crate) fn line(&self, plan: PlanId, phase: u8) -> SlotLine {
        self.lines[plan.index()][usize::from(phase)]
    }
    /// The axes of a plan's phases.
    pub(crate) fn lines(&self, plan: PlanId) -> &[SlotLine] {
        &self.lines[plan.index()]
    }
}

impl Slots {
    fn new(role: &Role, symmetry: &Symmetry) -> Self {
        let (mut weight, mut between, mut axes) = (1, 1, Vec::new());
        for &Axis { size, stride, .. } in &role.axes {
            let slots = symmetry.turned(size, stride).map_or(size, |turned| turned.step);
            if slots > 1 {
                axes.push(SlotAxis { weight, size, slots, between });
                between *= slots;
            }
            weight *= size;
        }
        Self { axes, slots: between }
    }

    fn line(&self, phase: &PhasePlan, trivial: bool) -> SlotLine {
        if trivial {
            return SlotLine { weight: phase.axis.weight, size: phase.axis.size };
        }
        let below = self.axes.iter().filter(|axis| axis.weight < phase.axis.weight);
        let weight = below.map(|axis| axis.slots).product();
        SlotLine { weight, size: phase.turned.map_or(phase.axis.size, |turned| turned.step) }
    }
}
