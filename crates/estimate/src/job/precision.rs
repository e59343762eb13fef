//! Data types of linear layers.

use serde::{Deserialize, Serialize};

/// Bytes of an element in 16 bits: the type of everything that has no type of its own, such as weights in matrix products, and
/// values between layers.
pub(crate) const ELEMENT_BYTES: u64 = 2;
/// The same as a float.
pub(crate) const ELEMENT: f64 = ELEMENT_BYTES as f64;

/// A data type of linear layers. Logits and values between layers are in 16 bits, and by default attention, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 16 bits.
    Bf16,
    /// 16 bits.
    Fp16,
    /// 8 bits, a scale for each tensor or block.
    Fp8,
    /// 8 bits, a scale for each 32 elements.
    Mxfp8,
    /// 4 bits, a scale for each 16 elements.
    Nvfp4,
}

impl Precision {
    /// Whether operands are cast from 16 bits.
    pub const fn casts(self) -> bool {
        !matches!(self, Self::Bf16 | Self::Fp16)
    }

    /// Bytes of an element, with its part of a scale.
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp8 => 1.0,
            Self::Mxfp8 => 1.0 + 1.0 / 32.0,
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
        }
    }

    /// Bytes of an element, without scales.
    pub const fn data_bytes(self) -> f64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2.0,
            Self::Fp8 | Self::Mxfp8 => 1.0,
            Self::Nvfp4 => 0.5,
        }
    }

    /// The name in files of kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }
}
