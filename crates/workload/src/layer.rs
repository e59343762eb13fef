//! Layers, as models and files give them, and what parallelism does to them.

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
    /// What model parallelism does to the layer.
    #[serde(default)]
    pub sharding: Sharding,
    /// Communication given explicitly; takes the place of what the parallelisation would derive.
    #[serde(default)]
    pub communication: Option<LayerCommunication>,
    /// The layer that first needs the output, where that is not the next one: the layers between them do not wait for
    /// this one's exchange, and its gradient is there once that layer's input gradient is. Only of the first layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<String>,
    /// Layers with one number, which follow each other, are a block: what a stage of a pipeline holds whole, and what is
    /// recomputed as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Parts into which model parallelism may divide it, such as heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Different tokens, where model-parallel ranks divide what it does by these. Ranks that do not divide their number have
    /// equal parts all the same: it is padded to the next multiple, as by Megatron-LM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u32>,
    /// Tokens of a sample, by which sequence parallelism divides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Whether it is computed again under [`Recompute::Selective`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub selective: bool,
    /// Bytes that its forward pass keeps for its backward pass, for one NPU's share of the batch and before any model
    /// parallelism. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Bytes>,
    /// The same under [`Recompute::Selective`], where the layer is computed again; absent means nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_selective: Option<Bytes>,
    /// The layer whose parameters it uses: a table of embeddings that the projection shares. Has none of its own.
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
    /// Parameters are divided among the data-parallel ranks, each of which works for the samples of all: outputs are
    /// exchanged by an all-to-all forward, their gradients by another backward, and no gradients are reduced (embedding
    /// tables, dlrm2020 III-A). A rank's share of the work is that of its own samples.
    Exchange,
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
        /// What the operations compute in, where that is not the job's [`Types::compute`]: attention, norms and losses of a
        /// job whose linear layers compute in fp8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data_type: Option<DataType>,
    },
}

/// Which ranks share what. Axes name dimensions of the fabric.
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
    /// Which kind fills the lowest dimensions, which those above, where ranks are counted.
    #[serde(skip_serializing_if = "is_default")]
    pub order: Kinds,
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// In which order a stage works on micro-batches.
    #[serde(skip_serializing_if = "is_default")]
    pub schedule: Schedule,
    /// Parts of the model that a stage holds.
    #[serde(skip_serializing_if = "is_one")]
    pub virtual_stages: u32,
    /// What of the training state data-parallel ranks divide (Rajbhandari et al. 2020): nothing, optimiser states,
    /// gradients too, parameters too.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u8,
    /// Which activations are computed again in the backward pass.
    #[serde(skip_serializing_if = "is_default")]
    pub recompute: Recompute,
    /// Whether model-parallel ranks divide the inputs of blocks that are kept for recomputation (Rajbhandari et al. 2020,
    /// 6.1), and gather them before.
    #[serde(skip_serializing_if = "is_false")]
    pub divided_checkpoints: bool,
    /// Whether model-parallel ranks divide by tokens what they would otherwise all do (Korthikanti et al. 2022, 4.2.2).
    #[serde(skip_serializing_if = "is_false")]
    pub sequence: bool,
    /// What is reduced while the backward pass goes on.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap: Overlap,
}

/// What communication goes on while compute does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Gradients are reduced while those of layers below are computed.
    #[default]
    Gradients,
    /// None: every exchange blocks, and gradients are reduced when the backward pass is over.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Model, Self::Data, Self::Pipeline];

    /// As scenarios name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Data => "data",
            Self::Pipeline => "pipeline",
        }
    }
}

/// Kinds of parallelism from the lowest dimensions up. The default is Megatron-LM's: a model's parts next to each other,
/// then its copies, stages farthest apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kinds(pub Vec<Kind>);

impl Default for Kinds {
    fn default() -> Self {
        Self(Kind::ALL.to_vec())
    }
}

/// In which order a stage of a pipeline works on the micro-batches of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Schedule {
    /// All forward, then all backward (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// Backward as soon as there is something, so that few micro-batches are under way (Narayanan et al. 2021, 2.2.1).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// The same with several parts of the model in each stage (Narayanan et al. 2021, 2.2.2).
    #[serde(rename = "interleaved")]
    Interleaved,
}

impl Schedule {
    /// As scenarios name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::Interleaved => "interleaved",
        }
    }
}

/// What updates parameters, for the memory that its states take.
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
    /// Bytes of its states for each parameter: Adam's two moments, and a copy of the parameter where parameters have a
    /// shorter type than states (Rajbhandari et al. 2020, 3.1).
    pub fn bytes(self, types: &Types) -> u64 {
        let state = types.optimizer.bytes();
        let copy = if types.parameters.bytes() < state { state } else { 0 };
        match self {
            Self::Sgd | Self::None => 0,
            Self::Adam => 2 * state + copy,
        }
    }
}

/// Which activations are computed again in the backward pass, rather than kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// None.
    #[default]
    None,
    /// Those of layers that say so: attention's scores and their softmax (Korthikanti et al. 2022, 5).
    Selective,
    /// Those of all blocks, whose inputs are kept (Chen et al. 2016).
    Full,
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
