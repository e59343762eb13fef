//! Layers, as models and files describe them, and how parallelism divides them.

use crate::product::Product;
use crate::types::Types;
use serde::{Deserialize, Serialize};
use syncline_units::{Bytes, CollectiveKind, DataType, Flops, Time};

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
    /// How model parallelism divides the layer.
    #[serde(default)]
    pub sharding: Sharding,
    /// Explicit communication; replaces what the parallelisation would derive.
    #[serde(default)]
    pub communication: Option<LayerCommunication>,
    /// The layer that first needs the output, if that is not the next one: the layers between them do not wait for
    /// this layer's exchange, and its gradient is available once that layer's input gradient is. Only the first layer
    /// may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<String>,
    /// Consecutive layers with the same number form a block. A stage of a pipeline holds blocks whole, and
    /// recomputation recomputes them whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Number of parts, such as heads, that model parallelism may divide it into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Number of distinct tokens, if model-parallel ranks divide the layer by tokens. If they do not divide the
    /// number, their parts are equal all the same: it is padded to the next multiple, as in Megatron-LM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u32>,
    /// Tokens of a sample, which sequence parallelism divides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Whether it is recomputed under [`Recompute::Selective`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub selective: bool,
    /// Bytes that its forward pass keeps for its backward pass, for one NPU's share of the batch and before model
    /// parallelism. Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Bytes>,
    /// As `kept`, under [`Recompute::Selective`] and if the layer is recomputed; absent means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_selective: Option<Bytes>,
    /// The layer whose parameters it uses, such as a table of embeddings shared by the projection. It then has no
    /// parameters of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
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
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// Its size.
    pub bytes: Bytes,
}

/// How model parallelism divides a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// Parameters and outputs are divided; outputs are all-gathered forward, input gradients all-reduced backward
    /// (astra2020 III-A).
    #[default]
    Gather,
    /// Parameters are divided by columns and outputs stay divided: no exchange forward, input gradients all-reduced
    /// backward.
    Column,
    /// Parameters are divided by rows: outputs all-reduced forward, no exchange backward.
    Row,
    /// Work and activations are divided, and nothing is exchanged (attention heads).
    Divided,
    /// Every model-parallel rank computes the whole layer.
    Replicated,
    /// Parameters are divided among the data-parallel ranks, each of which works on the samples of all: outputs are
    /// exchanged by an all-to-all forward, their gradients by another one backward, and no gradients are reduced
    /// (embedding tables, dlrm2020 III-A). A rank's share of the work is that of its own samples.
    Exchange,
}

/// Work, as a time or as operations and memory traffic.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// No work.
    #[default]
    None,
    /// A given time.
    Time(Time),
    /// Operations and bytes, from which a compute model derives the time.
    Ops {
        /// Floating-point operations.
        flop: Flops,
        /// Bytes moved between memory and the compute units.
        memory: Bytes,
        /// The matrix products among these operations. Their operations and bytes are included in the two sums.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        products: Box<[Product]>,
        /// The type that the operations compute in, if that is not the job's [`Types::compute`]: attention, norms and
        /// losses of a job whose linear layers compute in fp8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data_type: Option<DataType>,
    },
}

/// How ranks are divided among the kinds of parallelism. Axes are dimensions of the fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// Ranks that hold parts of one copy of the model.
    pub model: Axes,
    /// Ranks that hold copies and reduce gradients.
    pub data: Axes,
    /// Ranks that hold the stages of a pipeline.
    #[serde(skip_serializing_if = "is_none")]
    pub pipeline: Axes,
    /// Which kind fills the lowest dimensions, and which the ones above, if ranks are counted.
    #[serde(skip_serializing_if = "is_default")]
    pub order: Kinds,
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// The order in which a stage works on micro-batches.
    #[serde(skip_serializing_if = "is_default")]
    pub schedule: Schedule,
    /// Number of parts of the model in each stage.
    #[serde(skip_serializing_if = "is_one")]
    pub virtual_stages: u32,
    /// How much of the training state data-parallel ranks divide (Rajbhandari et al. 2020): 0 nothing, 1 optimiser
    /// states, 2 gradients too, 3 parameters too.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u8,
    /// Which activations are recomputed in the backward pass.
    #[serde(skip_serializing_if = "is_default")]
    pub recompute: Recompute,
    /// Whether model-parallel ranks divide the block inputs that are kept for recomputation (Rajbhandari et al. 2020,
    /// 6.1), and gather them before recomputing.
    #[serde(skip_serializing_if = "is_false")]
    pub divided_checkpoints: bool,
    /// Whether model-parallel ranks divide by tokens the work that each of them would otherwise do in full
    /// (Korthikanti et al. 2022, 4.2.2).
    #[serde(skip_serializing_if = "is_false")]
    pub sequence: bool,
    /// Which communication overlaps the backward pass.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap: Overlap,
}

/// Which communication overlaps compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Gradients are reduced while those of lower layers are computed.
    #[default]
    Gradients,
    /// None: every exchange blocks, and gradients are reduced after the backward pass.
    None,
}

impl Default for Parallel {
    fn default() -> Self {
        Self {
            model: Axes::Rest,
            data: Axes::Rest,
            pipeline: Axes::None,
            order: Kinds::default(),
            backward: BackwardOrder::default(),
            schedule: Schedule::default(),
            virtual_stages: 1,
            zero: 0,
            recompute: Recompute::None,
            divided_checkpoints: false,
            sequence: false,
            overlap: Overlap::default(),
        }
    }
}

fn is_none(axes: &Axes) -> bool {
    *axes == Axes::None
}
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u8) -> bool {
    *number == 0
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(yes: &bool) -> bool {
    !*yes
}

/// A kind of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ranks hold parts of layers.
    Model,
    /// Ranks hold copies of the model.
    Data,
    /// Ranks hold some of the layers.
    Pipeline,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Model, Self::Data, Self::Pipeline];

    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Data => "data",
            Self::Pipeline => "pipeline",
        }
    }
}

/// Kinds of parallelism from the lowest dimensions up. The default is Megatron-LM's: the parts of a model are next to
/// each other, then its copies; stages are farthest apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kinds(pub Vec<Kind>);

impl Default for Kinds {
    fn default() -> Self {
        Self(Kind::ALL.to_vec())
    }
}

/// The order in which a stage of a pipeline works on the micro-batches of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Schedule {
    /// All forward, then all backward (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// Backward as early as possible, so that few micro-batches are in flight (Narayanan et al. 2021, 2.2.1).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// As 1F1B, with several parts of the model in each stage (Narayanan et al. 2021, 2.2.2).
    #[serde(rename = "interleaved")]
    Interleaved,
}

impl Schedule {
    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::Interleaved => "interleaved",
        }
    }
}

/// The optimiser, which determines the memory for its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Stochastic gradient descent without momentum: no states.
    #[default]
    Sgd,
    /// Adam (Kingma and Ba 2015).
    Adam,
    /// None.
    None,
}

impl Optimizer {
    /// Bytes of optimiser state for each parameter: Adam's two moments, and a copy of the parameter if parameters
    /// have a shorter type than states (Rajbhandari et al. 2020, 3.1).
    pub fn bytes(self, types: &Types) -> u64 {
        let state = types.optimizer.bytes();
        let copy = if types.parameters.bytes() < state { state } else { 0 };
        match self {
            Self::Sgd | Self::None => 0,
            Self::Adam => 2 * state + copy,
        }
    }
}

/// Which activations are recomputed in the backward pass instead of being kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// None.
    #[default]
    None,
    /// Those of marked layers: attention's scores and their softmax (Korthikanti et al. 2022, 5).
    Selective,
    /// Those of all blocks; only the inputs of blocks are kept (Chen et al. 2016).
    Full,
}

/// A set of axes of the rank grid.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axes {
    /// Everything that the other kinds leave.
    #[default]
    Rest,
    /// All dimensions.
    All,
    /// None.
    None,
    /// These dimensions.
    Dims(Vec<String>),
    /// This many ranks, filling the lowest dimensions first. A dimension that is filled only partly is split
    /// (hier2021 III).
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
