//! The job: what ranks compute and exchange.

use crate::{Collectives, Compute, Placement, one};
use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, Flops, Time};
use syncline_workload::exchange::Comm;
use syncline_workload::layer::Layer;
use syncline_workload::parallel::Parallel;
use syncline_workload::types::{Optimizer, Types};

/// The job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Layers of a model, and how they are parallelised.
    Layers {
        /// The model's name, for people.
        #[serde(default)]
        model: String,
        /// From input to output. Sizes are for one NPU's share of the batch, before any tensor parallelism.
        layers: Vec<Layer>,
        /// Which ranks share what.
        #[serde(default)]
        parallel: Box<Parallel>,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
        /// Micro-batches of an iteration, whose gradients are summed locally before they are reduced. `layers`
        /// describes one micro-batch.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        micro_batches: u32,
        /// Samples of an iteration over all copies of the model. If given, `micro_batches` follows from it, from
        /// `batch_per_npu` and from the number of copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        global_batch: Option<u32>,
        /// Element types: one for everything, or one for each use.
        #[serde(default)]
        types: Types,
        /// The optimizer, which determines the memory for its state.
        #[serde(default, skip_serializing_if = "is_sgd")]
        optimizer: Optimizer,
        /// Samples of a micro-batch of one copy of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_per_npu: Option<u32>,
        /// What a sample is, for rates of work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sample: Option<Box<Sample>>,
        /// What the layers leave out of the original model, one sentence for each omission.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Collectives alone, one after the other, over all ranks.
    Collectives {
        /// The collectives of each iteration.
        collectives: Vec<Comm>,
        /// Number of iterations.
        #[serde(default = "one")]
        iterations: u32,
    },
    /// A Chakra execution trace per rank: `<prefix>.<rank>.et`.
    Chakra {
        /// Path prefix.
        prefix: String,
        /// Communicator groups, a JSON file in ASTRA-sim's format.
        #[serde(default)]
        groups: Option<String>,
    },
    /// Several jobs, which may share NPUs.
    Jobs {
        /// The jobs, at least one.
        jobs: Vec<JobEntry>,
    },
    /// Operators with servers of their own, each NPU a server.
    Operators {
        /// Path of the file: model and strategy.
        file: String,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
    },
    /// A task graph of FlexNet, TopoOpt's simulator; each NPU is a server.
    #[serde(rename = "flexnet")]
    FlexNet {
        /// Path of the file.
        file: String,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
    },
    /// An ASTRA-sim 1 text workload.
    AstraText {
        /// Path of the file.
        file: String,
        /// Training iterations (`num-passes`).
        #[serde(default = "one")]
        iterations: u32,
    },
}

/// One of several jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEntry {
    /// Its name, different from those of all others.
    pub name: String,
    /// What it does.
    pub workload: Box<Workload>,
    /// What turns its work into time.
    #[serde(default)]
    pub compute: Compute,
    /// Memory of an NPU. If absent, whether the job fits is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npu_memory: Option<Bytes>,
    /// Which NPU each of its ranks runs on.
    #[serde(default)]
    pub placement: Placement,
    /// When it begins.
    #[serde(default)]
    pub start: Time,
    /// How its collectives are carried out, if not as the scenario says. Scheduling at endpoints always follows the
    /// scenario.
    #[serde(default)]
    pub collectives: Option<Collectives>,
}

/// The work of a model for one sample, independent of how a job divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Tokens of the sample, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Operations of the matrix products that its forward and backward pass need. Does not count recomputation; in
    /// causal attention, counts only the scores that the mask leaves.
    pub model_flop: Flops,
    /// The same with all scores of attention (Chowdhery et al. 2022, appendix B), if that number differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flop_unmasked: Option<Flops>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}
fn is_sgd(optimizer: &Optimizer) -> bool {
    *optimizer == Optimizer::Sgd
}
