//! A layer on one rank: its share of the work, and all its exchanges.
//!
//! The kinds of parallelism are builders: each adds its exchanges to the list, and the passes treat all alike.
//!
//! - `tensor`: shares of the work, and what the ranks of one copy exchange;
//! - `data`: how copies reduce gradients, and how ZeRO divides the training state among them;
//! - [`exchanged`]: layers whose rows are divided among the ranks of all copies.

mod data;
mod tensor;

use crate::division::Division;
use crate::exchange::{Exchange, When};
use crate::exchanged;
use crate::layer::{Layer, Work};

/// A layer with its share of work and its exchanges.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LayerShare {
    /// Name of the layer.
    pub name: String,
    /// Whether the rank skips the layer, because only other ranks have it.
    pub absent: bool,
    /// Forward pass.
    pub forward: Work,
    /// Gradient with respect to the input.
    pub input_grad: Work,
    /// Gradient with respect to the parameters.
    pub weight_grad: Work,
    /// Parameter update.
    pub update: Work,
    /// The exchanges.
    pub exchanges: Vec<Exchange>,
    /// The layer that first needs the output, if the layer says so ([`Layer::needed_by`]). Exchanges after the forward
    /// pass block only that layer, and those that provide the gradient of the output start when its input gradient is
    /// computed.
    pub needed_by: Option<usize>,
    /// The block that the layer belongs to.
    pub block: Option<u32>,
    /// Whether it is recomputed under selective recomputation.
    pub selective: bool,
}

impl LayerShare {
    /// The exchanges at one moment, in order.
    pub fn at(&self, when: When) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().filter(move |exchange| exchange.when == when)
    }
}

/// Divides a layer: one rank's share of its work and exchanges. `given` are the exchanges that replace those of the
/// division.
pub fn divide(layer: &Layer, by: &Division, given: Option<Vec<Exchange>>) -> LayerShare {
    let mut share = LayerShare {
        name: layer.name.clone(),
        block: layer.block,
        selective: layer.selective,
        ..tensor::share(layer, by)
    };
    share.update = data::update(layer, by, share.update);
    share.exchanges = given.unwrap_or_else(|| {
        let mut exchanges = tensor::exchanges(layer, by);
        exchanges.extend(exchanged::exchanges(layer, by));
        exchanges.extend(data::exchanges(layer, by));
        exchanges
    });
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Sharding;
    use crate::product::Product;
    use crate::samples::{by, layer};
    use syncline_units::{Bytes, Flops, Time};

    #[test]
    fn tensor_parallelism_follows_the_sharding() {
        let divide_as = |sharding| {
            let layer = Layer { sharding, ..layer("l") };
            divide(&layer, &by(4, 2, 2), None)
        };
        let kinds = |share: &LayerShare| {
            [When::AfterForward, When::AfterInputGrad, When::AfterWeightGrad]
                .map(|when| share.at(when).map(|e| (e.role.0, e.comm.kind.name(), e.comm.bytes.0)).next())
        };
        let grads = |bytes| Some((1, "all_reduce", bytes));
        assert_eq!(
            kinds(&divide_as(Sharding::Gather)),
            [Some((0, "all_gather", 40)), Some((0, "all_reduce", 20)), grads(50)]
        );
        assert_eq!(kinds(&divide_as(Sharding::Column)), [None, Some((0, "all_reduce", 20)), grads(50)]);
        assert_eq!(kinds(&divide_as(Sharding::Row)), [Some((0, "all_reduce", 40)), None, grads(50)]);
        assert_eq!(kinds(&divide_as(Sharding::Divided)), [None, None, grads(50)]);
        assert_eq!(kinds(&divide_as(Sharding::Replicated)), [None, None, grads(200)]);
        assert_eq!(divide_as(Sharding::Replicated).forward, Work::Time(Time(8_000)));
        assert_eq!(divide_as(Sharding::Row).forward, Work::Time(Time(2_000)));
    }

    #[test]
    fn a_vocabulary_is_padded() {
        // 10 tokens of 20 parameters each on 4 ranks: as 12 tokens.
        let layer = Layer { vocabulary: Some(10), sharding: Sharding::Column, ..layer("l") };
        let division = by(4, 2, 2);
        assert_eq!(layer.parameters, 100);
        assert_eq!(division.parameters(&layer), 30);
        assert_eq!(divide(&layer, &division, None).forward, Work::Time(Time(8_000 * 3 / 10)));
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
            let share = divide(&layer, &by(4, 2, 2), None);
            [share.forward, share.input_grad, share.weight_grad].map(|work| match work {
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
