//! A piece of a chain: when it begins, what its time is spent on, and which piece it follows.

use crate::Spent;
use std::num::NonZeroU32;
use syncline_units::TierId;

/// A stretch, by its number; or the sums of a chain's beginning, by theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct StretchId(u32);

impl StretchId {
    /// No stretch: the beginning of a chain.
    pub const START: Self = Self(u32::MAX);

    /// Marks a number of sums.
    const SUM: u32 = 1 << 31;

    /// The stretch at `index`, which is below 2^31.
    #[inline]
    pub(crate) const fn at(index: usize) -> Self {
        Self(index as u32)
    }

    /// The sums at `index`.
    #[inline]
    pub(crate) const fn of_sums(index: usize) -> Self {
        Self(Self::SUM | index as u32)
    }

    /// The index of the stretch; larger than that of any stretch for [`Self::START`] and for sums.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The index of the sums, if it is not a stretch.
    #[inline]
    pub(crate) fn sums(self) -> Option<usize> {
        (self != Self::START && self.0 & Self::SUM != 0).then_some((self.0 & !Self::SUM) as usize)
    }
}

impl Default for StretchId {
    fn default() -> Self {
        Self::START
    }
}

/// No dimension.
const NO_DIM: u16 = u16::MAX;

/// What a stretch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Index of its rank in the engine's tables.
    pub(crate) rank: u32,
    pub(crate) task: u32,
    /// Unique number of a collective or a single message.
    visit: Option<NonZeroU32>,
    dim: u16,
}

impl Purpose {
    /// The purpose of everything while nothing is recorded.
    pub(crate) const UNKNOWN: Self = Self { rank: 0, task: 0, visit: None, dim: NO_DIM };

    /// A task of a rank.
    pub fn task(rank: u32, task: u32) -> Self {
        Self { rank, task, visit: None, dim: NO_DIM }
    }

    /// A message of a point-to-point task.
    pub fn message(rank: u32, task: u32, visit: NonZeroU32) -> Self {
        Self { rank, task, visit: Some(visit), dim: NO_DIM }
    }

    /// Work of a rank in a phase of the collective `visit`.
    pub fn phase(rank: u32, task: u32, visit: NonZeroU32, dim: u16) -> Self {
        Self { rank, task, visit: Some(visit), dim }
    }

    /// The accounting dimension.
    pub(crate) fn dim(&self) -> Option<u16> {
        (self.dim != NO_DIM).then_some(self.dim)
    }

    /// Whether both belong to the same phase of the same collective.
    #[inline]
    pub(crate) fn goes_on(&self, other: &Self) -> bool {
        (self.visit, self.dim) == (other.visit, other.dim) && self.visit.is_some()
    }
}

/// The time of something that others may wait for, and the stretch that ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub(crate) stretch: StretchId,
    /// On the trail's clock (`Trail::clock`).
    pub(crate) at: u64,
}

impl Moment {
    /// Nothing that could be waited for.
    pub const NONE: Self = Self { stretch: StretchId::START, at: 0 };

    /// The stretch.
    pub fn stretch(self) -> StretchId {
        self.stretch
    }

    /// The stretch, for `NetworkModel::visit_stretches`.
    pub fn stretch_mut(&mut self) -> &mut StretchId {
        &mut self.stretch
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::NONE
    }
}

/// A tier, or none, in two bytes: each stretch keeps one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredTier(u16);

impl StoredTier {
    /// No tier, or an unknown one.
    pub(crate) const NONE: Self = Self(u16::MAX);

    #[inline]
    pub(crate) fn new(tier: Option<TierId>) -> Self {
        tier.map_or(Self::NONE, |tier| Self(tier.0))
    }

    #[inline]
    pub(crate) fn get(self) -> Option<TierId> {
        (self != Self::NONE).then_some(TierId(self.0))
    }
}

/// What a stretch is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Compute,
    Memory,
    /// Messages, and combining them. Time that none of the sums covers is latency.
    Messages,
}

/// A piece of a chain, up to the beginning of the next stretch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// When it begins, on the trail's clock.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) queueing: u64,
    pub(crate) reduction: u64,
    pub(crate) before: StretchId,
    pub(crate) of: Purpose,
    pub(crate) tier: StoredTier,
    pub(crate) work: Work,
}

impl Stretch {
    /// The parts of the stretch if the next one begins at `end`. Their lengths sum to its length; their order is
    /// arbitrary.
    pub(crate) fn parts(&self, end: u64) -> [(Spent, u64); 4] {
        let whole = end.saturating_sub(self.start);
        let all = |spent| [(spent, whole), (Spent::Latency, 0), (Spent::Latency, 0), (Spent::Latency, 0)];
        match self.work {
            Work::Compute => all(Spent::Compute),
            Work::Memory => all(Spent::Memory),
            Work::Messages => {
                let queueing = self.queueing.min(whole);
                let bytes = self.bytes.min(whole - queueing);
                let reduction = self.reduction.min(whole - queueing - bytes);
                debug_assert!(self.bytes + self.queueing + self.reduction <= whole, "{self:?} until {end}");
                [
                    (Spent::Queueing(self.tier.get()), queueing),
                    (Spent::Bytes(self.tier.get()), bytes),
                    (Spent::Latency, whole - queueing - bytes - reduction),
                    (Spent::Reduction, reduction),
                ]
            }
        }
    }
}
