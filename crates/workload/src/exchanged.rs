//! Layers with `sharding: exchange`, such as embedding tables: their rows are divided among the data-parallel ranks, each
//! of which looks rows up for the samples of all (dlrm2020 III-A).
//!
//! - What was looked up is exchanged by an all-to-all forward, and its gradients by another one backward.
//! - Every row is on one rank, so no gradients are reduced, and copies have no training state to divide.
//! - Gradients cover only the rows that were looked up, so they take no memory of their own.
//! - The output is needed by the next layer, unless the layer says otherwise ([`Layer::needed_by`]).
//! - Tensor-parallel ranks cannot divide such a layer, too.

use crate::division::Division;
use crate::exchange::{Exchange, When};
use crate::layer::{Layer, Sharding};
use syncline_units::{Bytes, CollectiveKind};

impl Layer {
    /// Whether the layer has `sharding: exchange`.
    pub fn is_exchanged(&self) -> bool {
        self.sharding == Sharding::Exchange
    }
}

/// An all-to-all of what was looked up, and another one of its gradients; none for other layers.
pub(crate) fn exchanges(layer: &Layer, by: &Division) -> impl Iterator<Item = Exchange> {
    let divided = layer.is_exchanged() && by.data.size > 1;
    let bytes = Bytes(layer.outputs.saturating_mul(by.types.communication.bytes()));
    let role = by.data.role;
    let to_all = move |when| Exchange::new(when, role, CollectiveKind::AllToAll, bytes);
    [When::AfterForward, When::BeforeBackward].into_iter().filter(move |_| divided).filter_map(to_all)
}

/// Number of parameters of such a layer that a rank holds.
pub(crate) fn parameters(layer: &Layer, by: &Division) -> u64 {
    layer.parameters.div_ceil(u64::from(by.data.size))
}
