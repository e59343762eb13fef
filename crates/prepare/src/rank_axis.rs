//! An axis that ranks lie along, whichever groups use it, and the axis of a role along which a phase runs.

use syncline_engine::PhasePlan;
use syncline_workload::{Axis, Role};

/// An axis of ranks, which several roles may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankAxis {
    /// Distance between neighbours, in ranks.
    pub(crate) stride: u32,
    /// Number of coordinates.
    pub(crate) size: u32,
}

impl RankAxis {
    /// The coordinate of a rank.
    pub(crate) const fn coordinate(self, rank: u32) -> u32 {
        rank / self.stride % self.size
    }
}

impl From<Axis> for RankAxis {
    fn from(axis: Axis) -> Self {
        Self { stride: axis.stride, size: axis.size }
    }
}

/// The axis of a role that a phase runs along, if it runs along exactly one.
pub(crate) fn axis_of(role: &Role, phase: &PhasePlan) -> Option<Axis> {
    axis_at(role, phase.axis.weight).filter(|axis| role.is_grid() && axis.size == phase.axis.size)
}

/// The axis with `weight` positions between neighbours.
pub(crate) fn axis_at(role: &Role, weight: u32) -> Option<Axis> {
    let mut below = 1;
    for &axis in &role.axes {
        if below == weight && axis.size > 1 {
            return Some(axis);
        }
        below *= axis.size;
    }
    None
}
