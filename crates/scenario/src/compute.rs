//! What turns work into time.
//!
//! [`Dataflow`] and [`Measured`] have the form of types in `crates/compute`, which this crate does not use: a scenario can
//! be read without the compute models.

use crate::unity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use syncline_units::{DataType, FlopRate, Flops, Frequency, Rate, Time};

/// What turns work into time. Every model takes `compute_power`, by which all times are divided (astra2020 Fig. 18).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compute {
    /// Uses only times that the workload gives.
    Given {
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// The larger of operations over peak rate and bytes over memory bandwidth.
    Roofline {
        /// The accelerator's name, for people.
        #[serde(default)]
        accelerator: String,
        /// Peak rate for the type that the workload computes in.
        peak: FlopRate,
        /// Peak rates for other types in which some of its work is computed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        peaks: BTreeMap<DataType, FlopRate>,
        /// Memory bandwidth.
        memory: Rate,
        /// Fraction of the peak that is reached.
        #[serde(default)]
        efficiency: Efficiency,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// A systolic array with a vector unit beside it (astra2020 IV-A).
    Systolic {
        /// Rows of multiply-accumulate units.
        rows: u32,
        /// Columns of multiply-accumulate units.
        columns: u32,
        /// Cycles per second.
        clock: Frequency,
        /// Memory bandwidth.
        memory: Rate,
        /// Which operand stays in the array.
        #[serde(default)]
        dataflow: Dataflow,
        /// Rate of operations that are not matrix products. If absent, these take no time.
        vector: Option<FlopRate>,
        /// Added to each pass of each layer.
        #[serde(default)]
        delay: Time,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// Matrix products at a fixed rate, all else at memory bandwidth (dlrm2020 Table IV).
    Throughput {
        /// Rate of operations.
        rate: FlopRate,
        /// Memory bandwidth.
        memory: Rate,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// Measured times.
    Table {
        /// Name of the table and of what was measured, for people.
        name: String,
        /// Measured times by layer name.
        layers: BTreeMap<String, Measured>,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// Models of kernels that were fitted to measured ones.
    Measured {
        /// The accelerator's name.
        accelerator: String,
        /// The type that the workload computes in.
        data_type: DataType,
        /// Peak rate of that type by the data sheet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak: Option<FlopRate>,
        /// The text of the file of models.
        models: String,
        /// How many times as fast the memory is as that of the models.
        #[serde(default = "unity")]
        memory_ratio: f64,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
}

impl Default for Compute {
    fn default() -> Self {
        Self::Given { compute_power: unity() }
    }
}

/// Fraction of the peak that work reaches, above 0 up to 1: one for all work, or depending on its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Efficiency {
    /// The same for all.
    Constant(f64),
    /// Points in order of increasing work.
    Curve(Vec<EfficiencyPoint>),
}

impl Default for Efficiency {
    fn default() -> Self {
        Self::Constant(unity())
    }
}

/// One point of an efficiency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficiencyPoint {
    /// Operations of a task.
    pub flop: Flops,
    /// Fraction of the peak that the task reaches.
    pub efficiency: f64,
}

/// Which matrix stays in a systolic array while the others flow through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataflow {
    /// The right operand of a product.
    #[default]
    WeightStationary,
    /// The result.
    OutputStationary,
    /// The left operand.
    InputStationary,
}

/// Measured times of one layer; `None` for a pass that was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measured {
    /// Forward pass.
    pub forward: Option<Time>,
    /// Gradient with respect to the input.
    pub input_grad: Option<Time>,
    /// Gradient with respect to the parameters.
    pub weight_grad: Option<Time>,
    /// Parameter update.
    pub update: Option<Time>,
}
