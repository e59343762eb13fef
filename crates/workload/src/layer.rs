//! Layers, as models and files give them, and what parallelism does to them.

use crate::product::Product;
use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, CollectiveKind, Flops, Time};

/// One layer of a model.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Unique within the model.
    pub name: String,
    /// Forward pass.
    #[serde(default)]
    pub forward: Work,
    /// Gradient with respect to the input.
    #[serde(default)]
    pub input_grad: Work,
    /// Gradient with respect to the parameters.
    #[serde(default)]
    pub weight_grad: Work,
    /// Time of the local parameter update after the gradients are reduced.
    #[serde(default)]
    pub update: Work,
    /// Number of parameters.
    #[serde(default)]
    pub parameters: u64,
    /// Elements of the input activations of one NPU's share of the batch.
    #[serde(default)]
    pub inputs: u64,
    /// Elements of the output activations of one NPU's share of the batch.
    #[serde(default)]
    pub outputs: u64,
    /// What model parallelism does to the layer.
    #[serde(default)]
    pub sharding: Sharding,
    /// Communication given explicitly; takes the place of what the parallelisation would derive.
    #[serde(default)]
    pub communication: Option<LayerCommunication>,
}

/// Explicit communication of a layer (ASTRA-sim's layer lines).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerCommunication {
    /// After the forward pass.
    #[serde(default)]
    pub forward: Option<Comm>,
    /// After the input gradient.
    #[serde(default)]
    pub input_grad: Option<Comm>,
    /// After the weight gradient.
    #[serde(default)]
    pub weight_grad: Option<Comm>,
}

/// A collective and its size, as [`CollectiveKind`] defines sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comm {
    /// What it promises.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
}

/// What model parallelism does to a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// Parameters and outputs are divided; outputs are all-gathered forward, input gradients all-reduced backward
    /// (astra2020 III-A).
    #[default]
    Gather,
    /// Parameters are divided by columns, outputs stay divided: nothing forward, input gradients all-reduced backward.
    Column,
    /// Parameters are divided by rows: outputs all-reduced forward, nothing backward.
    Row,
    /// Work and activations are divided, and nothing is exchanged (attention heads).
    Divided,
    /// Every model-parallel rank does it whole.
    Replicated,
}

/// Work, as a time or as operations and memory traffic.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Nothing to do.
    #[default]
    None,
    /// A given time.
    Time(Time),
    /// Operations and bytes, for a compute model.
    Ops {
        /// Floating-point operations.
        flop: Flops,
        /// Bytes moved between memory and the compute units.
        memory: Bytes,
        /// The matrix products among these operations; their operations and bytes are part of the two sums.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        products: Box<[Product]>,
    },
}

/// Which ranks share what. Axes name dimensions of the fabric.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// Ranks that hold parts of one copy of the model.
    pub model: Axes,
    /// Ranks that hold copies and reduce gradients.
    pub data: Axes,
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
}

/// A set of axes of the rank grid.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axes {
    /// What the other strategy leaves.
    #[default]
    Rest,
    /// All dimensions.
    All,
    /// None.
    None,
    /// These dimensions.
    Dims(Vec<String>),
    /// This many ranks, filling the lowest dimensions first; a dimension that it fills partly is split (hier2021 III).
    Degree(u32),
}

/// Order of the two gradients of a layer in the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackwardOrder {
    /// Weight gradient first, so that its all-reduce starts early (ASTRA-sim's data-parallel loop).
    #[default]
    WeightFirst,
    /// Input gradient first, so that its blocking exchange overlaps the weight gradient (ASTRA-sim's Transformer loop).
    InputFirst,
}
