//! What a model says about one kernel.

/// What takes most of a kernel's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    /// Matrix units, with the waves in which they work.
    Compute,
    /// Memory, or the cache in front of it.
    Memory,
    /// Starting kernels.
    Launch,
}

impl Bound {
    /// The word for it in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
        }
    }

    /// The bound of a kernel that spends these times.
    pub(crate) fn of(compute: f64, memory: f64, launch: f64) -> Self {
        if launch > compute.max(memory) {
            Self::Launch
        } else if memory > compute {
            Self::Memory
        } else {
            Self::Compute
        }
    }
}

/// The time of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Time from its start to the start of the next kernel, in seconds.
    pub seconds: f64,
    /// What takes most of it.
    pub bound: Bound,
    /// The shape lies outside of what was measured.
    pub extrapolates: bool,
}
