//! Bytes in which positions are rotated into queries and keys (rotary embedding).

use crate::job::{ELEMENT_BYTES, Job};
use crate::machine::Software;
use crate::model::{Attention, Latent, Model};

/// Bytes that rotations of a layer move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rotation {
    /// By one kernel, in the forward pass; the backward pass moves twice as many.
    pub fused: u64,
    /// By kernels of `PyTorch`, one for each operation, in the forward pass and in the backward pass.
    pub apart: [u64; 2],
}

impl Rotation {
    /// Of whole heads, with `elements` elements of queries and keys.
    ///
    /// By operations of `_apply_rotary_pos_emb_bshd` of Megatron Core, in 16 bits: a product with the cosines (2 + 2), half of
    /// the elements negated (1 + 1), both halves put together (2 + 2), a product with the sines (2 + 2), their sum
    /// (4 + 2), and one more copy, to which an empty tensor of elements that do not rotate is joined (2 + 2). Backward: both
    /// products (4 + 4), the negation (2), the halves (4), the sum of both gradients (6), and that of zeros for the
    /// elements that do not rotate (2 + 6).
    pub(crate) const fn whole(elements: u64) -> Self {
        Self { fused: 2 * ELEMENT_BYTES * elements, apart: [24 * elements, 28 * elements] }
    }

    /// Of latent attention, with `heads` heads of all tokens.
    ///
    /// One kernel reads and writes the part of queries with position; another one reads keys and values without positions,
    /// and writes keys with them and values.
    ///
    /// Apart, by `qkv_up_proj_and_rope_apply` of Megatron Core: the part with position is put into the order of halves
    /// (2 + 2) and rotated as [`Self::whole`]; queries are joined with it, keys with the one that all heads share, and values
    /// copied. Backward: the gradients of that one are summed (2), those of keys and values joined, and those of queries;
    /// each of two slices of the part with position becomes zeros and a copy (4 + 4), and both are summed (6).
    pub(crate) const fn latent(latent: Latent, heads: u64) -> Self {
        let Latent { nope_dim: nope, rope_dim: rope, value_dim: value, .. } = latent;
        let fused = heads * (2 * rope + (nope + value) + (nope + rope + value)) * ELEMENT_BYTES;
        let [forward, backward] = Self::whole(rope).apart;
        let (queries, keys) = (4 * (nope + rope), 4 * nope + 2 * rope);
        let apart = [
            heads * (forward + 4 * rope + queries + keys + 4 * value),
            heads * (backward + (4 + 4 + 6) * rope + queries + 2 * rope + 4 * (nope + value)),
        ];
        Self { fused, apart }
    }
}

/// Whether one kernel rotates queries and keys: not where the software does not let it, nor where its kernel cannot scale
/// them for `YaRN`. Kernels for latent attention take scaled angles.
pub(crate) const fn is_fused(model: &Model, job: &Job, software: &Software) -> bool {
    let scaled = model.yarn && !matches!(model.attention, Attention::Latent(_));
    job.rope_fusion && (software.fused_yarn || !scaled)
}
