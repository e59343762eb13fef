//! Tables that are divided among the ranks of all copies (embedding tables, dlrm2020 III-A).

use crate::division::Division;
use crate::exchange::{Exchange, When};
use crate::layer::{Layer, Sharding};
use syncline_units::{Bytes, CollectiveKind};

/// An all-to-all of what was looked up, and another one of its gradients.
pub(super) fn exchanges(layer: &Layer, by: &Division) -> impl Iterator<Item = Exchange> {
    let divided = layer.sharding == Sharding::Exchange && by.data.size > 1;
    let bytes = Bytes(layer.outputs.saturating_mul(by.types.communication.bytes()));
    let role = by.data.role;
    let to_all = move |when| Exchange::new(when, role, CollectiveKind::AllToAll, bytes);
    [When::AfterForward, When::BeforeBackward].into_iter().filter(move |_| divided).filter_map(to_all)
}
