//! A layer divided by its parallelisation: one rank's share of the work, and every exchange with its group and bytes.

use crate::layer::{Comm, Layer, Recompute, Sharding, Work};
use crate::product::Cut;
use crate::role::RoleId;
use crate::types::Types;
use syncline_units::{Bytes, CollectiveKind, DataType, Flops, Time};

/// A collective of a layer: its group, kind and size.
pub type GroupComm = (RoleId, Comm);

/// A layer with its share of work and its communication.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Step {
    /// Name of the layer.
    pub name: String,
    /// Forward pass.
    pub forward: Work,
    /// Gradient with respect to the input.
    pub input_grad: Work,
    /// Gradient with respect to the parameters.
    pub weight_grad: Work,
    /// Parameter update.
    pub update: Work,
    /// Exchange after the forward pass; the next layer waits for it.
    pub forward_comm: Option<GroupComm>,
    /// Exchange after the input gradient; the layer below waits for it.
    pub input_grad_comm: Option<GroupComm>,
    /// Exchange after the weight gradient; the layer's next forward pass waits for it.
    pub weight_grad_comm: Option<GroupComm>,
    /// Whether weight gradients are exchanged in every micro-batch, not only in the last one.
    pub each_micro_batch: bool,
    /// Exchange that provides the inputs of the forward pass.
    pub before_forward: Option<GroupComm>,
    /// Exchange that provides the gradient of the output.
    pub before_backward: Option<GroupComm>,
    /// Exchange that provides the inputs again, for the weight gradient.
    pub before_weight_grad: Option<GroupComm>,
    /// Sum of weight gradients over the ranks of one copy, before the exchange with other copies.
    pub partial_sum: Option<GroupComm>,
    /// Exchange that provides the parameters, before each use.
    pub gather: Option<GroupComm>,
    /// Exchange that distributes updated parameters.
    pub publish: Option<GroupComm>,
    /// Exchange that provides the input that is kept for recomputation, if the layer begins a block.
    pub checkpoint: Option<GroupComm>,
    /// The block that the layer belongs to.
    pub block: Option<u32>,
    /// Whether it is recomputed under selective recomputation.
    pub selective: bool,
}

/// How layers are divided among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Ranks that hold parts of a copy of the model.
    pub model: (RoleId, u32),
    /// Ranks that hold copies.
    pub data: (RoleId, u32),
    /// Element types.
    pub types: Types,
    /// How much of the training state copies divide among them: 0 to 3, the stage of ZeRO.
    pub zero: u8,
    /// Whether the ranks of a copy divide by tokens the work that each of them would otherwise do in full.
    pub sequence: bool,
    /// Whether they divide the block inputs that are kept for recomputation.
    pub divided_checkpoints: bool,
    /// What is recomputed.
    pub recompute: Recompute,
}

impl Division {
    /// A division with undivided training states and without recomputation.
    pub const fn plain(model: (RoleId, u32), data: (RoleId, u32), types: Types) -> Self {
        Self {
            model,
            data,
            types,
            zero: 0,
            sequence: false,
            divided_checkpoints: false,
            recompute: Recompute::None,
        }
    }

    /// Whether the ranks of a copy divide at least the parameters of `layer`.
    pub fn divides(&self, layer: &Layer) -> bool {
        self.model.1 > 1 && layer.sharding != Sharding::Replicated
    }

    /// Number of parameters of `layer` that a rank uses.
    pub fn parameters(&self, layer: &Layer) -> u64 {
        if self.divides(layer) {
            Portion::of(layer, self.model.1).share(layer.parameters)
        } else {
            layer.parameters
        }
    }

    /// Whether copies divide the training state of `layer`, which requires that its gradients are reduced.
    pub fn shards(&self, layer: &Layer) -> bool {
        let given = layer.communication.is_some();
        self.zero > 0
            && self.data.1 > 1
            && layer.parameters > 0
            && !given
            && layer.sharding != Sharding::Exchange
    }

    /// A rank's portion of what the ranks of a copy divide.
    pub(crate) fn portion(&self, layer: &Layer) -> Portion {
        Portion::of(layer, self.model.1)
    }
}

/// A collective over `role` of this many elements; `None` if there are none.
fn comm(role: RoleId, kind: CollectiveKind, elements: u64, of: DataType) -> Option<GroupComm> {
    let bytes = Bytes(elements.saturating_mul(of.bytes()));
    (!bytes.is_zero()).then_some((role, Comm { kind, bytes }))
}

/// One rank's portion of a layer: `part` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    part: u64,
    of: u64,
}

impl Portion {
    /// An equal portion for each of `of` ranks.
    fn one(of: u32) -> Self {
        Self { part: 1, of: u64::from(of) }
    }

    /// The portion of a layer for each of `ranks` ranks. A vocabulary that they do not divide is padded to the next
    /// multiple.
    fn of(layer: &Layer, ranks: u32) -> Self {
        match layer.vocabulary {
            Some(tokens) => Self { part: u64::from(tokens.div_ceil(ranks)), of: u64::from(tokens.max(1)) },
            None => Self::one(ranks),
        }
    }

    /// The portion of an amount, rounded up.
    pub(crate) fn share(self, amount: u64) -> u64 {
        let part = (u128::from(amount) * u128::from(self.part)).div_ceil(u128::from(self.of));
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// Applies a division to a layer: the share of the work, and the exchanges.
///
/// The exchanges of data-parallel ranks are those of ZeRO (Rajbhandari et al. 2020, 7). In stages 1 and 2, gradients
/// are reduce-scattered instead of all-reduced, and updated parameters are gathered; in stage 3, parameters are
/// gathered before each use. The exchanges of sequence parallelism are those of Korthikanti et al. 2022, 4.2.2: an
/// all-reduce becomes a reduce-scatter, plus an all-gather on the other side of the part that is divided by tokens.
pub fn settle(layer: &Layer, by: &Division) -> Step {
    let (model_role, degree) = by.model;
    let (data_role, copies) = by.data;
    let mut step =
        Step { name: layer.name.clone(), block: layer.block, selective: layer.selective, ..share(layer, by) };
    let exchanges = layer.sharding == Sharding::Exchange;
    let parameters = by.parameters(layer);
    if copies > 1 && !exchanges {
        let reduce = |kind| comm(data_role, kind, parameters, by.types.gradients);
        if by.shards(layer) {
            step.weight_grad_comm = reduce(CollectiveKind::ReduceScatter);
            step.each_micro_batch = by.zero > 1;
            let gathered = comm(data_role, CollectiveKind::AllGather, parameters, by.types.parameters);
            if by.zero > 2 { step.gather = gathered } else { step.publish = gathered }
        } else {
            step.weight_grad_comm = reduce(CollectiveKind::AllReduce);
        }
    }
    let of_model = |kind, elements| comm(model_role, kind, elements, by.types.communication);
    let (inputs, outputs) = (layer.inputs, layer.outputs);
    match layer.sharding {
        Sharding::Exchange if copies > 1 => {
            let to_all = comm(data_role, CollectiveKind::AllToAll, outputs, by.types.communication);
            (step.forward_comm, step.input_grad_comm) = (to_all, to_all);
        }
        Sharding::Gather if degree > 1 => {
            step.forward_comm = of_model(CollectiveKind::AllGather, outputs);
            step.input_grad_comm = of_model(CollectiveKind::AllReduce, inputs);
        }
        Sharding::Column if degree > 1 && by.sequence => {
            step.before_forward = of_model(CollectiveKind::AllGather, inputs);
            step.before_weight_grad = step.before_forward;
            step.input_grad_comm = of_model(CollectiveKind::ReduceScatter, inputs);
        }
        Sharding::Row if degree > 1 && by.sequence => {
            step.forward_comm = of_model(CollectiveKind::ReduceScatter, outputs);
            step.before_backward = of_model(CollectiveKind::AllGather, outputs);
        }
        Sharding::Column if degree > 1 => {
            step.input_grad_comm = of_model(CollectiveKind::AllReduce, inputs);
        }
        Sharding::Row if degree > 1 => step.forward_comm = of_model(CollectiveKind::AllReduce, outputs),
        Sharding::Replicated if degree > 1 && by.sequence => {
            let kind = CollectiveKind::AllReduce;
            step.partial_sum = comm(model_role, kind, parameters, by.types.gradients);
        }
        _ => {}
    }
    if degree > 1 && by.recompute == Recompute::Full && by.divided_checkpoints && !by.sequence {
        step.checkpoint = of_model(CollectiveKind::AllGather, inputs);
    }
    if let Some(given) = &layer.communication {
        let over = |role, comm: Option<Comm>| comm.filter(|c| !c.bytes.is_zero()).map(|comm| (role, comm));
        step.forward_comm = over(model_role, given.forward);
        step.input_grad_comm = over(model_role, given.input_grad);
        step.weight_grad_comm = over(data_role, given.weight_grad);
        (step.before_forward, step.before_backward, step.before_weight_grad) = (None, None, None);
        step.partial_sum = None;
    }
    step
}

/// One rank's share of a layer's work.
fn share(layer: &Layer, by: &Division) -> Step {
    let (degree, portion) = (by.model.1, by.portion(layer));
    let whole = degree == 1 || layer.sharding == Sharding::Replicated && !by.sequence;
    let share = |work: &Work, outputs: Cut, inputs: Cut| match layer.sharding {
        _ if whole => work.clone(),
        Sharding::Gather | Sharding::Column => divide(work, (degree, portion), outputs),
        Sharding::Row => divide(work, (degree, portion), inputs),
        Sharding::Divided | Sharding::Replicated | Sharding::Exchange => {
            divide(work, (degree, portion), Cut::Count)
        }
    };
    let update = if by.divides(layer) {
        divide(&layer.update, (degree, portion), Cut::Count)
    } else {
        layer.update.clone()
    };
    let copies = by.data.1;
    Step {
        forward: share(&layer.forward, Cut::N, Cut::K),
        input_grad: share(&layer.input_grad, Cut::K, Cut::N),
        weight_grad: share(&layer.weight_grad, Cut::N, Cut::M),
        update: if by.shards(layer) {
            divide(&update, (copies, Portion::one(copies)), Cut::Count)
        } else {
            update
        },
        ..Step::default()
    }
}

/// One rank's share of `work`, if `by` ranks divide it and `portion` is the rank's portion. `cut` says how they
/// divide its matrix products.
fn divide(work: &Work, (by, portion): (u32, Portion), cut: Cut) -> Work {
    let share = |amount| portion.share(amount);
    match work {
        Work::None => Work::None,
        Work::Time(time) => Work::Time(Time(share(time.0))),
        Work::Ops { flop, memory, products, data_type } => Work::Ops {
            data_type: *data_type,
            flop: Flops(share(flop.0)),
            memory: Bytes(share(memory.0)),
            products: products.iter().map(|product| product.share(by, cut)).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Product;
    use crate::samples::{by, layer};

    #[test]
    fn model_parallelism_follows_the_sharding() {
        let settle_as = |sharding| {
            let layer = Layer { sharding, ..layer("l") };
            settle(&layer, &by(4, 2, 2))
        };
        let kinds = |step: &Step| {
            [step.forward_comm, step.input_grad_comm, step.weight_grad_comm]
                .map(|comm| comm.map(|(role, comm)| (role.0, comm.kind.name(), comm.bytes.0)))
        };
        let grads = |bytes| Some((1, "all_reduce", bytes));
        assert_eq!(
            kinds(&settle_as(Sharding::Gather)),
            [Some((0, "all_gather", 40)), Some((0, "all_reduce", 20)), grads(50)]
        );
        assert_eq!(kinds(&settle_as(Sharding::Column)), [None, Some((0, "all_reduce", 20)), grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Row)), [Some((0, "all_reduce", 40)), None, grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Divided)), [None, None, grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Replicated)), [None, None, grads(200)]);
        assert_eq!(settle_as(Sharding::Replicated).forward, Work::Time(Time(8_000)));
        assert_eq!(settle_as(Sharding::Row).forward, Work::Time(Time(2_000)));
    }

    #[test]
    fn a_vocabulary_is_padded() {
        // 10 tokens of 20 parameters each on 4 ranks: as 12 tokens.
        let layer = Layer { vocabulary: Some(10), sharding: Sharding::Column, ..layer("l") };
        let division = by(4, 2, 2);
        assert_eq!(layer.parameters, 100);
        assert_eq!(division.parameters(&layer), 30);
        assert_eq!(settle(&layer, &division).forward, Work::Time(Time(8_000 * 3 / 10)));
        let even = Layer { vocabulary: Some(20), ..layer.clone() };
        assert_eq!(division.parameters(&even), 25);
        assert_eq!(division.parameters(&Layer { vocabulary: None, ..layer }), 25);
    }

    #[test]
    fn matrix_products_are_divided_like_their_operands() {
        let product = |m, k, n| Product { m, k, n, count: 1, memory: Bytes(400) };
        let work = |product| Work::Ops {
            flop: Flops(8_000),
            memory: Bytes(800),
            products: Box::new([product]),
            data_type: None,
        };
        // 100 rows, 20 inputs, 40 outputs.
        let shares = |sharding| {
            let layer = Layer {
                sharding,
                forward: work(product(100, 20, 40)),
                input_grad: work(product(100, 40, 20)),
                weight_grad: work(product(20, 100, 40)),
                ..layer("l")
            };
            let step = settle(&layer, &by(4, 2, 2));
            [step.forward, step.input_grad, step.weight_grad].map(|work| match work {
                Work::Ops { flop: Flops(2_000), memory: Bytes(200), products, .. } => {
                    assert_eq!(products[0].memory, Bytes(100));
                    (products[0].m, products[0].k, products[0].n)
                }
                other => panic!("{other:?}"),
            })
        };
        let by_outputs = [(100, 20, 10), (100, 10, 20), (20, 100, 10)];
        assert_eq!(shares(Sharding::Gather), by_outputs);
        assert_eq!(shares(Sharding::Column), by_outputs);
        assert_eq!(shares(Sharding::Row), [(100, 5, 40), (100, 40, 5), (5, 100, 40)]);
        // Attention's products are divided by heads; a single product is divided by rows.
        assert_eq!(shares(Sharding::Divided), [(25, 20, 40), (25, 40, 20), (5, 100, 40)]);
    }
}
