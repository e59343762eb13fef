//! How a job divides its work among ranks, as scenarios give it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The axis whose ranks hold parts of layers.
pub const TENSOR: &str = "tensor";
/// The axis whose ranks hold copies of the model and reduce gradients.
pub const DATA: &str = "data";
/// The axis whose ranks hold the stages of a pipeline.
pub const PIPELINE: &str = "pipeline";

/// How the ranks of a job divide its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// Ranks that hold parts of one copy of the model.
    pub tensor: Axes,
    /// Ranks that hold copies and reduce gradients.
    pub data: Axes,
    /// Ranks that hold the stages of a pipeline.
    #[serde(skip_serializing_if = "is_default_pipeline")]
    pub pipeline: Axes,
    /// Further axes by name, for exchanges that layers give. Ranks along them otherwise do the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, Axes>,
    /// Names of all axes from the lowest dimensions up, for axes given as numbers of ranks. Empty means tensor, further
    /// axes by name, data, pipeline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Further meshes by name, over the ranks of each stage. Layers name the one that divides them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meshes: BTreeMap<String, MeshSpec>,
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// The order in which a stage works on micro-batches.
    #[serde(skip_serializing_if = "is_default")]
    pub schedule: Schedule,
    /// Number of parts of the model in each stage.
    #[serde(skip_serializing_if = "is_one")]
    pub virtual_stages: u32,
    /// How much of the training state data-parallel ranks divide (Rajbhandari et al. 2020): 0 nothing, 1 optimizer
    /// states, 2 gradients too, 3 parameters too.
    #[serde(skip_serializing_if = "is_zero")]
    pub zero: u8,
    /// Which activations are recomputed in the backward pass.
    #[serde(skip_serializing_if = "is_default")]
    pub recompute: Recompute,
    /// Whether tensor-parallel ranks divide the block inputs that are kept for recomputation (Rajbhandari et al. 2020,
    /// 6.1), and gather them before recomputing.
    #[serde(skip_serializing_if = "is_false")]
    pub divided_checkpoints: bool,
    /// Whether tensor-parallel ranks divide by tokens the work that each of them would otherwise do in full
    /// (Korthikanti et al. 2022, 4.2.2).
    #[serde(skip_serializing_if = "is_false")]
    pub sequence: bool,
    /// Which communication overlaps the backward pass.
    #[serde(skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// Whether a stage goes forward with a micro-batch while it goes backward with an earlier one, so that each hides the
    /// exchanges of the other.
    #[serde(skip_serializing_if = "is_false")]
    pub combined: bool,
    /// When parameters are updated.
    #[serde(skip_serializing_if = "is_default")]
    pub updates: Updates,
    /// What a stage does while it sends to another one.
    #[serde(skip_serializing_if = "is_default")]
    pub messages: Messages,
}

impl Parallel {
    /// The mesh of all layers that do not name another one.
    pub fn mesh(&self) -> MeshSpec {
        MeshSpec {
            tensor: self.tensor.clone(),
            data: self.data.clone(),
            pipeline: self.pipeline.clone(),
            axes: self.axes.clone(),
            order: self.order.clone(),
        }
    }
}

impl Default for Parallel {
    fn default() -> Self {
        Self {
            tensor: Axes::Rest,
            data: Axes::Rest,
            pipeline: Axes::None,
            axes: BTreeMap::new(),
            order: Vec::new(),
            meshes: BTreeMap::new(),
            backward: BackwardOrder::default(),
            schedule: Schedule::default(),
            virtual_stages: 1,
            zero: 0,
            recompute: Recompute::None,
            divided_checkpoints: false,
            sequence: false,
            overlap: Overlap::default(),
            combined: false,
            updates: Updates::default(),
            messages: Messages::default(),
        }
    }
}

/// The axes of a mesh, and what each of them takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeshSpec {
    /// Ranks that hold parts of a layer.
    pub tensor: Axes,
    /// Ranks that hold copies of a layer and reduce its gradients.
    pub data: Axes,
    /// Ranks that hold the stages of a pipeline; none in a mesh of some layers.
    #[serde(skip_serializing_if = "is_default_pipeline")]
    pub pipeline: Axes,
    /// Further axes by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, Axes>,
    /// Names of all axes from the lowest dimensions up; empty as in [`Parallel::order`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
}

impl Default for MeshSpec {
    fn default() -> Self {
        Parallel::default().mesh()
    }
}

/// What an axis of the mesh takes of the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axes {
    /// Everything that the other axes leave.
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

/// When the parameters of a rank are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Updates {
    /// Those of each layer, once its gradients are reduced.
    #[default]
    Each,
    /// Those of all layers, once all gradients are: an optimizer that limits their norm needs all of them.
    Together,
}

/// What a stage of a pipeline does while it sends to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Messages {
    /// It computes.
    #[default]
    Overlap,
    /// It waits until the message has left.
    Block,
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

fn is_default_pipeline(axes: &Axes) -> bool {
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

/// The settings of a training loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rules {
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// What is recomputed in the backward pass.
    pub recompute: Recompute,
    /// Which communication overlaps the backward pass.
    pub overlap: Overlap,
    /// When parameters are updated.
    pub updates: Updates,
    /// What a stage does while it sends.
    pub messages: Messages,
}

impl From<&Parallel> for Rules {
    fn from(parallel: &Parallel) -> Self {
        let &Parallel { backward, recompute, overlap, updates, messages, .. } = parallel;
        Self { backward, recompute, overlap, updates, messages }
    }
}
