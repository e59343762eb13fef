//! Newtypes for the things that are counted, so that a rank is never taken for an NPU.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(/// A job's process. Ranks count from 0 within a job.
    RankId, "rank ");
id!(/// An accelerator endpoint of the fabric.
    NpuId, "NPU ");
id!(/// A directed link of the fabric.
    LinkId, "link ");
id!(/// A process group of a workload.
    GroupId, "group ");
id!(/// A task of one rank class's task graph.
    TaskId, "task ");
id!(/// A job on a cluster that may run several.
    JobId, "job ");
