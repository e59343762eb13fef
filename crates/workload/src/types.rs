//! Element types of a training job: the types in which data is computed, stored and sent.
//!
//! Mixed precision (Micikevicius et al. 2018) computes in a short type and accumulates in a longer one, so a single
//! type is wrong for most jobs: with bf16, Megatron-LM keeps parameters in 2 bytes, gradients in 4, and Adam's states
//! and a copy of the parameters in 12. [`Types::uniform`] uses the same type for everything.

use serde::{Deserialize, Serialize};
use syncline_units::DataType;

/// The type of each kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Given")]
pub struct Types {
    /// Operands of matrix products.
    pub compute: DataType,
    /// Parameters, as ranks store and gather them.
    pub parameters: DataType,
    /// Activations that layers pass on and keep.
    pub activations: DataType,
    /// Gradients of parameters, as they are accumulated, stored and reduced over data-parallel ranks.
    pub gradients: DataType,
    /// States of the optimizer, and its copy of the parameters if these have a shorter type.
    pub optimizer: DataType,
    /// Activations and their gradients when they are sent between tensor-parallel ranks and between stages.
    pub communication: DataType,
}

impl Types {
    /// Uses `all` for everything.
    pub const fn uniform(all: DataType) -> Self {
        Self {
            compute: all,
            parameters: all,
            activations: all,
            gradients: all,
            optimizer: all,
            communication: all,
        }
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::uniform(DataType::Float32)
    }
}

/// The optimizer, which determines the memory for its states.
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
    /// Bytes of optimizer state for each parameter: Adam's two moments, and a copy of the parameter if parameters
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

/// One type for everything, or one for each kind of data.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    All(DataType),
    Each(Each),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Each {
    compute: DataType,
    parameters: DataType,
    activations: DataType,
    gradients: DataType,
    optimizer: DataType,
    communication: DataType,
}

impl From<Given> for Types {
    fn from(given: Given) -> Self {
        match given {
            Given::All(all) => Self::uniform(all),
            Given::Each(each) => {
                let Each { compute, parameters, activations, gradients, optimizer, communication } = each;
                Self { compute, parameters, activations, gradients, optimizer, communication }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_type_for_all_or_one_for_each_is_read() {
        let read = |text: &str| serde_json::from_str::<Types>(text).ok();
        assert_eq!(read("\"bf16\""), Some(Types::uniform(DataType::BFloat16)));
        let mixed = Types { gradients: DataType::Float32, ..Types::uniform(DataType::BFloat16) };
        assert_eq!(read(&serde_json::to_string(&mixed).unwrap()), Some(mixed));
        assert_eq!(read("\"bf17\""), None);
        assert_eq!(read(r#"{"compute": "bf16"}"#), None);
    }
}
