//! Libraries whose kernels compute attention, and their rates over that of the measured kernels.

use super::MAX_VARIANTS;
use super::shape::{AttentionShape, Pass};
use serde::{Deserialize, Serialize};

/// Whose kernels compute attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// The library whose kernels were measured.
    #[default]
    Measured,
    /// `FlashAttention` as it is written in Triton, of before `FlashAttention`-2 (MPT's `attn_impl: triton`).
    Triton,
    /// `FlashAttention`-2, which `PyTorch`'s `scaled_dot_product_attention` has, too.
    #[serde(rename = "flash-attention-2")]
    FlashAttention2,
    /// cuDNN, which Transformer Engine takes on Hopper and later.
    Cudnn,
    /// cuDNN in 8 bits with a scale for each block of 32 elements (MXFP8).
    CudnnMxfp8,
}

/// Rates of a library's kernels, over that of the measured forward pass.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    /// Head sizes in increasing order, each with the FLOP per second of its forward pass, and of its backward pass, which
    /// counts five matrix products.
    heads: Vec<(u64, f64, f64)>,
    /// The same with a window, for sizes whose rates differ then.
    #[serde(default)]
    windowed: Vec<(u64, f64, f64)>,
    /// Pairs of a query and a key that the backward pass computes although the mask leaves them out.
    #[serde(default)]
    pub(super) masked: Masked,
    /// Where they come from.
    #[serde(rename = "source")]
    _source: String,
}

/// Pairs that a mask leaves out, and a kernel computes all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Masked {
    /// None: it skips them.
    #[default]
    None,
    /// Those beyond the window.
    Window,
    /// All: those beyond the window, and those of later keys.
    All,
}

impl Masked {
    /// The shape whose pairs a kernel computes.
    pub(super) const fn computed(self, shape: AttentionShape) -> AttentionShape {
        match self {
            Self::None => shape,
            Self::Window => AttentionShape { window: 0, ..shape },
            Self::All => AttentionShape { window: 0, causal: false, ..shape },
        }
    }
}

impl Rates {
    pub(super) fn new(file: Self) -> Result<Self, String> {
        let above =
            |&(size, forward, backward): &(u64, f64, f64)| size > 0 && forward > 0.0 && backward > 0.0;
        let mut all = file.heads.iter().chain(&file.windowed);
        let fits = |heads: &[(u64, f64, f64)]| heads.len() <= MAX_VARIANTS;
        if file.heads.is_empty() || !fits(&file.heads) || !fits(&file.windowed) || !all.all(above) {
            return Err(format!(
                "a library has 1 to {MAX_VARIANTS} heads, whose sizes and rates are above zero"
            ));
        }
        let rising = |heads: &[(u64, f64, f64)]| heads.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !rising(&file.heads) || !rising(&file.windowed) {
            return Err("heads of a library increase".to_owned());
        }
        Ok(file)
    }

    /// Rate of a pass: that of the nearest head size, or of this one with a window, where it has one.
    pub(super) fn of(&self, shape: AttentionShape) -> f64 {
        let window = shape.causal && 0 < shape.window && shape.window < shape.sequence;
        let windowed = self.windowed.iter().find(|each| window && each.0 == shape.head_dim);
        let nearest = || self.heads.iter().min_by_key(|each| each.0.abs_diff(shape.head_dim));
        windowed.or_else(nearest).map_or(1.0, |&(_, forward, backward)| match shape.pass {
            Pass::Forward => forward,
            Pass::Backward => backward,
        })
    }
}
