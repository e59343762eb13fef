//! A materialised plan: for every seat a DAG of primitives, which the executor runs (luo2020 4.2.2: "a schedule is
//! represented as a DAG where dependencies are edges and nodes are primitives").
//!
//! The primitives are the dissertation's: [`Action::Fetch`], [`Action::Send`], [`Action::Receive`] (with or without
//! reduction), [`Action::Deliver`]; in addition, [`Action::Copy`] moves data within a seat. A rank that has input
//! starts with one fetch, and a rank that gets a result ends with one deliver; helpers have neither.
//!
//! A node may start when all nodes in its `after` are done. A send is done when its data has been taken, a receive
//! when its message is in place. The edges say exactly what the lazy program says: a node depends on the receives
//! before the last wait ahead of it, on copies ahead of it, and on the instructions that an `After` names. Edges
//! implied by others are omitted, and an [`Action::Join`] represents many edges. Messages are numbered, so they match
//! whatever order nodes start in.

mod prove;
mod weave;

use crate::program::{Algorithm, Blocks, Buffer, Seat, part};
use serde::{Deserialize, Serialize};
use syncline_diagnostics::Diagnostics;
use syncline_units::{CollectiveKind, Extent};
use weave::Weaver;

/// Most nodes of a materialised plan.
pub const MAX_NODES: usize = 1 << 24;

/// A whole collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The algorithm's name.
    pub name: String,
    /// The collective that it computes.
    pub kind: CollectiveKind,
    /// Number of ranks.
    pub ranks: u32,
    /// Number of streams of a seat.
    pub streams: u32,
    /// Whether stream `s` works on block `s` of the vector cut into `streams` blocks; else all streams work on the
    /// whole vector.
    pub split: bool,
    /// The buffer with the result.
    pub result: Buffer,
    /// The ranks in order, then the helpers.
    pub seats: Vec<SeatPlan>,
}

/// What one seat does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatPlan {
    /// In an order in which they may be started one after another: edges point backwards.
    pub nodes: Vec<Node>,
}

/// A primitive and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The stream that it belongs to; blocks are relative to the stream's part.
    pub stream: u32,
    /// The primitive.
    pub action: Action,
    /// Numbers of the nodes of this seat that must be done first.
    pub after: Vec<u32>,
}

/// A primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Waits until the seat's own vector is ready.
    Fetch,
    /// Starts to send.
    Send {
        /// Receiving seat.
        to: u32,
        /// The blocks that are sent.
        blocks: Blocks,
        /// The channel.
        channel: u32,
        /// Number of the message, from 0 for each pair of seats and channel.
        number: u32,
    },
    /// Receives a message.
    Receive {
        /// Sending seat.
        from: u32,
        /// The blocks that the message is written to.
        blocks: Blocks,
        /// Whether the message is combined with the data there; else it replaces the data.
        reduce: bool,
        /// The channel.
        channel: u32,
        /// Number of the message, from 0 for each pair of seats and channel.
        number: u32,
    },
    /// Moves data within the seat.
    Copy {
        /// The blocks that are read.
        from: Blocks,
        /// The blocks that are written.
        to: Blocks,
        /// Whether they are combined with the data there; else they replace the data.
        reduce: bool,
    },
    /// Does nothing. Represents the nodes that it depends on, if many nodes depend on the same many nodes.
    Join,
    /// Hands over the result.
    Deliver,
}

impl Plan {
    /// Materialises the plan of `algorithm` for `kind` on `ranks` ranks.
    ///
    /// # Errors
    /// [`Code::NoPlan`] if the algorithm does not offer the collective, [`Code::BadValue`] if it has more than
    /// [`MAX_NODES`] nodes, [`Code::WrongPlan`] if streams wait for each other in a circle.
    ///
    /// [`Code::NoPlan`]: syncline_diagnostics::Code::NoPlan
    /// [`Code::BadValue`]: syncline_diagnostics::Code::BadValue
    /// [`Code::WrongPlan`]: syncline_diagnostics::Code::WrongPlan
    pub fn of(
        algorithm: &dyn Algorithm,
        kind: CollectiveKind,
        ranks: u32,
        reverse: bool,
    ) -> Result<Self, Diagnostics> {
        crate::registry::check(algorithm, kind, ranks)?;
        let streams = algorithm.streams(kind, ranks);
        let mut plan = Self {
            name: algorithm.name().to_owned(),
            kind,
            ranks,
            streams,
            split: streams > 1 && algorithm.split(),
            result: algorithm.result(kind),
            seats: Vec::new(),
        };
        let mut left = MAX_NODES;
        for index in 0..algorithm.seats(ranks) {
            let seat = SeatPlan::within(algorithm, Seat { kind, ranks, index, stream: 0, reverse }, left)?;
            left -= seat.nodes.len();
            plan.seats.push(seat);
        }
        Ok(plan)
    }

    /// The part of the vector `whole` that a stream works on.
    pub fn part(&self, stream: u32, whole: Extent) -> Extent {
        part(self.streams, self.split, stream, whole)
    }

    /// Number of nodes of all seats.
    pub fn nodes(&self) -> usize {
        self.seats.iter().map(|seat| seat.nodes.len()).sum()
    }
}

impl SeatPlan {
    /// Materialises the plan of one seat only: the same as that seat of [`Plan::of`]. `seat.stream` is ignored.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn of(algorithm: &dyn Algorithm, seat: Seat) -> Result<Self, Diagnostics> {
        crate::registry::check(algorithm, seat.kind, seat.ranks)?;
        Self::within(algorithm, seat, MAX_NODES)
    }

    fn within(algorithm: &dyn Algorithm, seat: Seat, most: usize) -> Result<Self, Diagnostics> {
        let streams = algorithm.streams(seat.kind, seat.ranks);
        Ok(Self { nodes: Weaver::new(algorithm, seat, streams, most).weave()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Ring;

    #[test]
    fn nodes_of_a_ring_depend_on_the_previous_receive() {
        let plan = Plan::of(&Ring, CollectiveKind::ReduceScatter, 3, false).unwrap();
        let nodes: Vec<(&str, &[u32])> = plan.seats[0]
            .nodes
            .iter()
            .map(|node| {
                let what = match node.action {
                    Action::Fetch => "fetch",
                    Action::Send { .. } => "send",
                    Action::Receive { .. } => "receive",
                    Action::Copy { .. } => "copy",
                    Action::Join => "join",
                    Action::Deliver => "deliver",
                };
                (what, &node.after[..])
            })
            .collect();
        assert_eq!(
            nodes,
            [
                ("fetch", &[][..]),
                ("send", &[0]),
                ("receive", &[0]),
                ("send", &[2]),
                ("receive", &[2]),
                ("deliver", &[4])
            ]
        );
    }

    #[test]
    fn only_ranks_with_input_fetch_and_only_ranks_with_a_result_deliver() {
        let plan = Plan::of(&Ring, CollectiveKind::Reduce, 3, false).unwrap();
        let has = |seat: usize, action| plan.seats[seat].nodes.iter().any(|node| node.action == action);
        assert!(has(0, Action::Fetch) && has(0, Action::Deliver));
        assert!(has(1, Action::Fetch) && !has(1, Action::Deliver));
        let alone = Plan::of(&Ring, CollectiveKind::AllReduce, 1, false).unwrap();
        assert_eq!(alone.nodes(), 2);
    }

    #[test]
    fn a_plan_without_a_needed_dependency_or_node_is_wrong() {
        let right = Plan::of(&Ring, CollectiveKind::AllReduce, 4, false).unwrap();
        right.verify().unwrap();
        let mut plan = right.clone();
        plan.seats[1].nodes[3].after = vec![0];
        let message = plan.verify().unwrap_err().0.remove(0).message;
        assert!(message.starts_with("seat 1 adds the contribution of rank 1 to block 3"), "{message}");
        let mut plan = right.clone();
        plan.seats[2].nodes.pop();
        plan.seats[2].nodes.pop();
        let message = plan.verify().unwrap_err().0.remove(0).message;
        assert!(message.contains("messages are never received"), "{message}");
        let mut plan = right;
        plan.seats[0].nodes[1].after = vec![7];
        assert!(plan.verify().is_err());
        plan.seats.truncate(2);
        assert!(plan.verify().is_err());
    }

    #[test]
    fn a_plan_round_trips_through_json() {
        let plan = Plan::of(&Ring, CollectiveKind::AllToAll, 4, true).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
