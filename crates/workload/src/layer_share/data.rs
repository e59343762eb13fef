//! Data parallelism: copies of the model reduce gradients, and may divide the training state.
//!
//! The exchanges are those of ZeRO (Rajbhandari et al. 2020, 7). In stages 1 and 2, gradients are reduce-scattered
//! instead of all-reduced, and updated parameters are gathered; in stage 3, parameters are gathered before each use.

use super::tensor::{PortionOf, work};
use crate::division::{Division, Portion};
use crate::exchange::{Exchange, When};
use crate::layer::{Layer, Work};
use crate::product::Cut;
use syncline_units::{Bytes, CollectiveKind, DataType};

/// What copies exchange.
pub(super) fn exchanges(layer: &Layer, by: &Division) -> Vec<Exchange> {
    if by.data.size == 1 || layer.is_exchanged() {
        return Vec::new();
    }
    let parameters = by.parameters(layer);
    let over_copies = |when, kind, of: DataType| {
        Exchange::new(when, by.data.role, kind, Bytes(parameters.saturating_mul(of.bytes())))
    };
    let reduce = |kind, each_micro_batch| {
        over_copies(When::AfterWeightGrad, kind, by.types.gradients)
            .map(|exchange| Exchange { each_micro_batch, ..exchange })
    };
    if !by.shards(layer) {
        return reduce(CollectiveKind::AllReduce, false).into_iter().collect();
    }
    let gathered = if by.zero > 2 { When::BeforeUse } else { When::AfterUpdate };
    let gather = over_copies(gathered, CollectiveKind::AllGather, by.types.parameters);
    reduce(CollectiveKind::ReduceScatter, by.zero > 1).into_iter().chain(gather).collect()
}

/// A rank's share of the update, if copies divide the training state.
pub(super) fn update(layer: &Layer, by: &Division, update: Work) -> Work {
    let copies = by.data.size;
    let portion = PortionOf { ranks: copies, portion: Portion::one(copies) };
    if by.shards(layer) { work(&update, portion, Cut::Count) } else { update }
}
