//! Why an axis of ranks cannot be turned, so that every rank along it is simulated.

use std::collections::BTreeMap;

/// Why an axis cannot be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// `symmetry: false`.
    Disabled,
    /// The scenario has `jitter`.
    Jitter,
    /// The network model is `packet`.
    PacketOrder,
    /// Links are slow or dead.
    DamagedLinks,
    /// The scenario gives a placement.
    ListedPlacement,
    /// The fabric has more NPUs than the job has ranks.
    UnusedNpus,
    /// The axes of the groups do not form a grid.
    NoGrid,
    /// Groups cover only parts of the axis.
    PartialGroups,
    /// The tasks of ranks differ, or the distances to their peers.
    UnlikeTasks,
    /// Some ranks are slow.
    SlowRanks,
    /// The programs of an algorithm do not follow from one rank's.
    UnlikePrograms,
    /// Blocks differ in length.
    UnevenData,
    /// The pair of NPUs chooses the switch.
    SwitchOfPair,
    /// Shared links have no latency.
    NoLatency,
    /// The network model sends a message over several paths.
    SeveralPaths,
    /// There are too many routes to compare.
    TooManyRoutes,
    /// Routes of ranks that are otherwise alike differ.
    UnlikeRoutes,
    /// ECMP puts flows of ranks that are alike onto the same links.
    HashedOntoSameLinks,
    /// Ranks that are alike share links.
    SharedLinks,
    /// Messages of ranks that are alike queue for the same links.
    SharedQueues,
}

impl Obstacle {
    /// The obstacle as a clause.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Disabled => "`symmetry` is false",
            Self::Jitter => "`jitter` makes every rank differ from the others",
            Self::PacketOrder => {
                "the results of `packet` depend on the order of packets, which no symmetry preserves"
            }
            Self::DamagedLinks => "links are slow or dead",
            Self::ListedPlacement => "the scenario lists the NPU of each rank",
            Self::UnusedNpus => "the job does not use all NPUs",
            Self::NoGrid => "the groups' axes do not form a grid",
            Self::PartialGroups => "groups cover only parts of dimensions",
            Self::UnlikeTasks => "ranks differ in their tasks, or in the distances to their peers",
            Self::SlowRanks => "some ranks are slow",
            Self::UnlikePrograms => "the algorithm does not treat all ranks alike",
            Self::UnevenData => "data is not cut evenly",
            Self::SwitchOfPair => "the pair of NPUs chooses the switch",
            Self::NoLatency => "shared links have no latency",
            Self::SeveralPaths => "messages take several paths",
            Self::TooManyRoutes => "too many pairs of NPUs exchange messages for their routes to be compared",
            Self::UnlikeRoutes => "routes of ranks that are otherwise alike differ",
            Self::HashedOntoSameLinks => "flows of ranks that are alike are hashed onto the same links",
            Self::SharedLinks => "ranks that are alike share links",
            Self::SharedQueues => "messages of ranks that are alike queue for the same links",
        }
    }
}

/// Why axes cannot be turned.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    /// The reasons, as a clause; empty if all axes can be turned.
    pub why: String,
    /// Whether it is a reason that blocks differ in length.
    pub uneven: bool,
    /// Whether it is a reason that shared links have no latency.
    pub no_latency: bool,
}

impl Obstacles {
    /// The obstacles of axes, given by name: `some ranks are slow (ring, fc)`.
    pub(crate) fn of_axes<'a>(axes: impl Iterator<Item = (Obstacle, &'a str)>) -> Self {
        let (mut of, mut uneven, mut no_latency) = (BTreeMap::<&str, Vec<&str>>::new(), false, false);
        for (obstacle, axis) in axes {
            of.entry(obstacle.reason()).or_default().push(axis);
            uneven |= obstacle == Obstacle::UnevenData;
            no_latency |= obstacle == Obstacle::NoLatency;
        }
        let clauses: Vec<String> =
            of.into_iter().map(|(why, axes)| format!("{why} ({})", axes.join(", "))).collect();
        Self { why: clauses.join("; "), uneven, no_latency }
    }
}

impl From<Obstacle> for Obstacles {
    /// An obstacle to turning any axis.
    fn from(obstacle: Obstacle) -> Self {
        Self {
            why: obstacle.reason().to_owned(),
            uneven: obstacle == Obstacle::UnevenData,
            no_latency: obstacle == Obstacle::NoLatency,
        }
    }
}
