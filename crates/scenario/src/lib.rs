//! The resolved scenario, which determines a run completely.
//!
//! The Python package checks a user's YAML, expands names (a model into its layers, an accelerator into its rates,
//! shorthands into dimensions) and passes the result here. Every quantity is a string with a unit; unknown keys are
//! refused.
//!
//! - [`Scenario`]: all of it;
//! - `workload`: the job; `compute`: what turns work into time;
//! - `fabric`: the network, and the NPUs of ranks; `faults`: what is slow or broken, and what varies;
//! - `collectives`: how they are carried out, with its limits in `limit`; `nccl`: as a calibrated NCCL does;
//! - `network`: the network model;
//! - `trace`: what the trace shows, and when a run stops early.

mod collectives;
mod compute;
mod fabric;
mod faults;
mod limit;
mod nccl;
mod network;
mod trace;
mod workload;

pub use collectives::{AlgorithmsOf, AllReduce, Collectives};
pub use compute::{Compute, Dataflow, Efficiency, EfficiencyPoint, Measured};
pub use fabric::{Dim, Ecmp, Fabric, Graph, Placement, Routing};
pub use faults::{Fault, Jitter, LinkName};
pub use nccl::{CalibrationErrors, DeepEp, Framework, MeasuredExchange, Nccl};
pub use network::NetworkSettings;
pub use syncline_fabric::build::BuiltSpec;
pub use syncline_fabric::cost::PriceList;
pub use syncline_fabric::{Direction, GraphLink, Spread};
pub use syncline_workload::exchange::{Comm, GivenExchange, When};
pub use syncline_workload::layer::{Layer, Sharding, Work};
pub use syncline_workload::parallel::{Axes, BackwardOrder, MeshSpec, Parallel, Recompute, Schedule};
pub use syncline_workload::product::Product;
pub use syncline_workload::types::{Optimizer, Types};
pub use trace::{Limits, NamedRanks, TRACED_CLASSES, TRACED_FAULTS, Trace, Traced};
pub use workload::{JobEntry, Sample, Workload};

use serde::{Deserialize, Serialize};
use syncline_units::Bytes;

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of the schema: `syncline/1`.
    pub schema: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// The job.
    pub workload: Workload,
    /// What turns work into time.
    #[serde(default)]
    pub compute: Compute,
    /// Memory of an NPU. If absent, whether the job fits is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npu_memory: Option<Bytes>,
    /// The network.
    pub fabric: Fabric,
    /// Which NPU each rank runs on.
    #[serde(default)]
    pub placement: Placement,
    /// How collectives are carried out.
    #[serde(default)]
    pub collectives: Collectives,
    /// What turns messages into delivery times.
    #[serde(default)]
    pub network: NetworkSettings,
    /// When to stop early.
    #[serde(default)]
    pub limits: Limits,
    /// What is slow or broken.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What varies between ranks and tasks.
    #[serde(default)]
    pub jitter: Jitter,
    /// What the parts of the network cost. If absent, results contain no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceList>,
    /// What the trace shows.
    #[serde(default)]
    pub trace: Trace,
    /// Whether one rank may represent others that behave identically. The results are the same.
    #[serde(default = "yes")]
    pub symmetry: bool,
    /// Whether to write a report into the results folder. It does not change results.
    #[serde(default = "yes")]
    pub report: bool,
}

fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

const fn unity() -> f64 {
    1.0
}
