//! NCCL on a machine whose constants were measured: times, algorithms and protocols of collectives.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use syncline_nccl::{Call, CustomAllReduce, Estimate, Exchange, Group, Machine, Operation, Phase, Routing};

/// How far estimates are from the times that they were calibrated with, as `|estimated / measured - 1|`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationErrors {
    /// Measured times.
    pub rows: u64,
    /// Median error.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Largest error.
    pub largest: f64,
}

/// The calls of an operation within a node that constants were calibrated with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCalls {
    /// Fewest and most GPUs.
    pub gpus: [u32; 2],
    /// Smallest and largest size, in bytes.
    pub bytes: [u64; 2],
}

impl MeasuredCalls {
    /// Whether a call within a node is of another number of GPUs, or larger. Smaller ones take the time of a launch and hops,
    /// as the smallest that were measured.
    pub const fn is_beyond(&self, call: &Call) -> bool {
        let gpus = call.group.gpus_per_node;
        call.group.nodes == 1 && (gpus < self.gpus[0] || gpus > self.gpus[1] || call.bytes > self.bytes[1])
    }
}

/// Kernels of an inference framework that carry out some all-reduces in place of NCCL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// The framework and its version, such as `vLLM 0.24.0`.
    pub name: String,
    /// The kernels, and for which all-reduces they are.
    pub kernels: CustomAllReduce,
    /// Their errors.
    pub errors: CalibrationErrors,
}

/// Dispatches, or combines, of `DeepEP` as they were measured with groups of one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredExchange {
    /// Which of the two.
    pub phase: Phase,
    /// Nodes of a group.
    pub nodes: u32,
    /// GPUs of a group, in all nodes.
    pub gpus: u32,
    /// Constants.
    pub constants: Exchange,
    /// Their errors.
    pub errors: CalibrationErrors,
}

impl MeasuredExchange {
    /// Whether groups had this shape.
    pub const fn is_of(&self, group: Group) -> bool {
        self.nodes == group.nodes && self.gpus == group.nodes * group.gpus_per_node
    }
}

/// `DeepEP`, which carries out the all-to-alls of experts in place of NCCL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepEp {
    /// The library that was measured, such as `DeepEP of sglang 0.5.0`.
    pub software: String,
    /// The tokens.
    pub routing: Routing,
    /// The role of the groups whose all-to-alls it carries out; without it, those of all.
    pub group: Option<String>,
    /// What all-to-alls outside of layers are. Those of layers are dispatches before a pass, combines after one.
    pub phase: Option<Phase>,
    /// What was measured with these kernels.
    pub exchanges: Vec<MeasuredExchange>,
}

/// A calibrated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nccl {
    /// Name of the machine.
    pub name: String,
    /// Its accelerator.
    #[serde(default)]
    pub gpu: String,
    /// The library that was measured, such as `NCCL 2.29.2`.
    #[serde(default)]
    pub software: String,
    /// Day of the calibration.
    #[serde(default)]
    pub date: String,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Errors in a node, by operation.
    #[serde(default)]
    pub errors: BTreeMap<String, CalibrationErrors>,
    /// The calls in a node that these are of, by operation; nothing where a file does not say it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, MeasuredCalls>,
    /// Errors between nodes; nothing if the network's constants are assumed.
    #[serde(default)]
    pub network_errors: Option<CalibrationErrors>,
    /// The constants.
    pub constants: Machine,
    /// The framework whose kernels all-reduce small vectors in a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_all_reduce: Option<Framework>,
    /// `DeepEP`, if it carries out all-to-alls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepep: Option<DeepEp>,
}

impl Nccl {
    /// The time of a collective: of the framework's kernels if they are for it, else of NCCL. Nothing if the machine has no
    /// constants for it.
    pub fn estimate(&self, call: &Call) -> Option<Estimate> {
        let custom = self.custom_all_reduce.as_ref().and_then(|framework| framework.kernels.estimate(call));
        custom.or_else(|| syncline_nccl::estimate(&self.constants, call))
    }

    /// The errors of an operation within a node.
    pub fn errors_of(&self, operation: Operation) -> Option<CalibrationErrors> {
        of_operation(&self.errors, operation).copied()
    }

    /// Whether a call within a node is none of those that its constants were calibrated with.
    pub fn extrapolates(&self, call: &Call) -> bool {
        of_operation(&self.measured, call.operation).is_some_and(|measured| measured.is_beyond(call))
    }
}

/// What is known of an operation, or else of the one that is like it.
fn of_operation<T>(known: &BTreeMap<String, T>, operation: Operation) -> Option<&T> {
    let like = match operation {
        Operation::Broadcast => Operation::AllGather,
        Operation::SendRecv => Operation::AllToAll,
        own => own,
    };
    [operation, like].iter().find_map(|of| known.get(of.name()))
}
