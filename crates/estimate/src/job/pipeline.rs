//! Schedules of a pipeline, and the division of layers among its stages.

use serde::{Deserialize, Serialize};

/// The schedule of a pipeline: the order in which its stages compute micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All forward passes, then all backward passes (Huang et al. 2019).
    #[serde(rename = "gpipe")]
    GPipe,
    /// Backward passes as early as possible (1F1B); interleaved, with several chunks a stage (Narayanan et al. 2021, 2.2).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// ZB-H1: as 1F1B, with gradients of weights separate, to fill the bubble (Qi et al. 2024).
    ZbH1,
    /// Two chunks a stage in a V (the first stage has the first and the last chunk), with gradients of weights apart (Qi et al.
    /// 2024).
    ZbV,
    /// Micro-batches from both ends of the pipeline, whose forward and backward passes hide each other's messages; two chunks a
    /// stage, so that the pipeline holds the model twice (DeepSeek-V3 report, 3.2.1).
    #[serde(rename = "dualpipe")]
    DualPipe,
    /// The same, cut in half: two chunks a stage in a V, of one copy of the model.
    #[serde(rename = "dualpipe-v")]
    DualPipeV,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::GPipe, Self::OneForwardOneBackward, Self::ZbH1, Self::ZbV, Self::DualPipe, Self::DualPipeV];

    /// The name in jobs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::ZbH1 => "zb-h1",
            Self::ZbV => "zb-v",
            Self::DualPipe => "dualpipe",
            Self::DualPipeV => "dualpipe-v",
        }
    }
}

/// How layers are divided among the chunks of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Equal numbers of layers, the later chunks one more where they do not divide.
    Even,
    /// Embedding, prediction layers and output layer count as a layer each.
    Ends,
    /// All chunks but the last one have the same number of layers, rounded up; the last one has the rest, and the layers for
    /// multi-token prediction (`Et*4|(t*4|)*14tmL` in NVIDIA's recipes of DeepSeek-V3).
    Rest,
    /// Equal cost, by nanotron's rule: a layer costs `4 h^2 + 3 h ffn`, the output layer `vocab h`.
    Cost,
}
