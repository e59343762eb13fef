//! Tensor parallelism: the ranks of one copy divide layers.
//!
//! The exchanges of sequence parallelism are those of Korthikanti et al. 2022, 4.2.2: an all-reduce becomes a
//! reduce-scatter, plus an all-gather on the other side of the part that is divided by tokens.

use super::LayerShare;
use crate::division::{Division, Portion};
use crate::exchange::{Exchange, When};
use crate::layer::{Layer, Sharding, Work};
use crate::parallel::Recompute;
use crate::product::Cut;
use syncline_units::{Bytes, CollectiveKind, Flops, Time};

/// What the ranks of one copy exchange.
pub(super) fn exchanges(layer: &Layer, by: &Division) -> Vec<Exchange> {
    if by.tensor.size == 1 {
        return Vec::new();
    }
    let among = |when, kind, elements: u64| {
        let bytes = Bytes(elements.saturating_mul(by.types.communication.bytes()));
        Exchange::new(when, by.tensor.role, kind, bytes)
    };
    let (inputs, outputs) = (layer.inputs, layer.outputs);
    let (all_reduce, all_gather) = (CollectiveKind::AllReduce, CollectiveKind::AllGather);
    let scatter = CollectiveKind::ReduceScatter;
    let of_layer = match layer.sharding {
        Sharding::Gather => vec![
            among(When::AfterForward, all_gather, outputs),
            among(When::AfterInputGrad, all_reduce, inputs),
        ],
        Sharding::Column if by.sequence => vec![
            among(When::BeforeForward, all_gather, inputs),
            among(When::BeforeWeightGrad, all_gather, inputs),
            among(When::AfterInputGrad, scatter, inputs),
        ],
        Sharding::Row if by.sequence => vec![
            among(When::AfterForward, scatter, outputs),
            among(When::BeforeBackward, all_gather, outputs),
        ],
        Sharding::Column => vec![among(When::AfterInputGrad, all_reduce, inputs)],
        Sharding::Row => vec![among(When::AfterForward, all_reduce, outputs)],
        Sharding::Replicated if by.sequence => {
            let bytes = Bytes(by.parameters(layer).saturating_mul(by.types.gradients.bytes()));
            vec![Exchange::new(When::AfterWeightGrad, by.tensor.role, all_reduce, bytes)]
        }
        Sharding::Replicated | Sharding::Divided | Sharding::Exchange => Vec::new(),
    };
    let divided = by.recompute == Recompute::Full && by.divided_checkpoints && !by.sequence;
    let checkpoint = divided.then(|| among(When::BeforeRecompute, all_gather, inputs)).flatten();
    of_layer.into_iter().flatten().chain(checkpoint).collect()
}

/// One rank's share of a layer's work.
pub(super) fn share(layer: &Layer, by: &Division) -> LayerShare {
    let portion = PortionOf { ranks: by.tensor.size, portion: by.portion(layer) };
    let whole = by.tensor.size == 1 || layer.sharding == Sharding::Replicated && !by.sequence;
    let share = |pass: &Work, outputs: Cut, inputs: Cut| match layer.sharding {
        _ if whole => pass.clone(),
        Sharding::Gather | Sharding::Column => work(pass, portion, outputs),
        Sharding::Row => work(pass, portion, inputs),
        Sharding::Divided | Sharding::Replicated | Sharding::Exchange => work(pass, portion, Cut::Count),
    };
    let update = &layer.update;
    LayerShare {
        forward: share(&layer.forward, Cut::N, Cut::K),
        input_grad: share(&layer.input_grad, Cut::K, Cut::N),
        weight_grad: share(&layer.weight_grad, Cut::N, Cut::M),
        update: if by.divides(layer) { work(update, portion, Cut::Count) } else { update.clone() },
        ..LayerShare::default()
    }
}

/// What a rank has of something that several ranks divide.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortionOf {
    /// How many ranks divide it.
    pub(super) ranks: u32,
    /// The rank's portion.
    pub(super) portion: Portion,
}

/// One rank's share of `pass`. `cut` says how the ranks divide its matrix products.
pub(super) fn work(pass: &Work, by: PortionOf, cut: Cut) -> Work {
    let share = |amount| by.portion.share(amount);
    match pass {
        Work::None => Work::None,
        Work::Time(time) => Work::Time(Time(share(time.0))),
        Work::Ops { flop, memory, products, data_type } => Work::Ops {
            data_type: *data_type,
            flop: Flops(share(flop.0)),
            memory: Bytes(share(memory.0)),
            products: products.iter().map(|product| product.share(by.ranks, cut)).collect(),
        },
    }
}
