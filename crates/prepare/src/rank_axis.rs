//! An axis that ranks lie along, whichever groups use it.

use syncline_workload::Axis;

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
