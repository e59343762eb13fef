//! Optical circuits between servers that change during a training step: TopoOpt-reconfig and SiP-ML (topoopt2022 5.1,
//! Appendices D and E).
//!
//! Every server has a few interfaces; an optical switch joins the sending side of one to the receiving side of another.
//! Periodically, the bytes that still wait between each two servers are measured, and [`allocate()`] chooses circuits
//! for them (Algorithm 5). If these differ from the present ones, all transfers pause while the switch changes. Only
//! servers that a circuit joins can send to each other; there is no forwarding.
//!
//! [`run()`] simulates a job on such a network: transfers between two servers follow each other at the joint rate of
//! their circuits, and an all-reduce is a ring in which all neighbours send at the same time.

mod allocate;
pub mod request;
mod run;

pub use allocate::{PairDemand, allocate};
pub use run::run;

use serde::Deserialize;
use syncline_units::{Rate, Time};

/// A network of reconfigurable circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circuits {
    /// Interfaces of a server.
    pub degree: u32,
    /// Rate of an interface.
    pub rate: Rate,
    /// Latency of a circuit.
    pub latency: Time,
    /// How long all transfers pause while circuits change.
    pub pause: Time,
    /// Time from one measurement of the demand to the next; longer than `pause`.
    pub period: Time,
    /// The worth of further circuits between two servers.
    pub discount: Discount,
}

/// The worth of further circuits between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discount {
    /// Each is worth half of the one before, so that many pairs get a circuit (TopoOpt-reconfig).
    Halving,
    /// Each is worth the same, so that the largest demand gets all interfaces (SiP-ML, as Appendix E modifies it).
    None,
}
