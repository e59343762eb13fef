//! Matrix products: the shapes from which a model of a matrix unit computes times.

use serde::{Deserialize, Serialize};
use syncline_units::Bytes;

/// Matrix products of one shape: `m` x `k` times `k` x `n`, done `count` times.
///
/// The meaning of the three sizes depends on the pass that the product belongs to:
///
/// | pass | `m` | `k` | `n` |
/// |---|---|---|---|
/// | forward | rows (samples, tokens, positions) | inputs | outputs |
/// | input gradient | rows | outputs | inputs |
/// | weight gradient | inputs | rows | outputs |
///
/// A convolution is treated as the product after unfolding its windows (im2col): its rows are the positions of all
/// samples, its inputs the elements of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    /// Rows of the left operand and of the result.
    pub m: u64,
    /// Columns of the left operand and rows of the right one, which are summed over.
    pub k: u64,
    /// Columns of the right operand and of the result.
    pub n: u64,
    /// How many products, such as one for each sample and head of attention.
    #[serde(default = "one")]
    pub count: u64,
    /// Bytes that all of them move between memory and the compute units. A convolution moves its image, not the
    /// unfolded windows.
    pub memory: Bytes,
}

const fn one() -> u64 {
    1
}

/// How a product is divided among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Rows of the left operand.
    M,
    /// The size that is summed over.
    K,
    /// Columns of the right operand.
    N,
    /// The number of products; if there are fewer products than ranks, also their rows.
    Count,
}

impl Product {
    /// Operations of all products: a multiplication and an addition for each of the `m` x `k` x `n`. `None` if the
    /// number does not fit 64 bits.
    pub fn flop(&self) -> Option<u64> {
        let sizes = [self.m, self.k, self.n, self.count];
        sizes.iter().try_fold(2u64, |product, &size| product.checked_mul(size))
    }

    /// The share of one rank if `by` ranks divide it, rounded up.
    pub fn share(mut self, by: u32, cut: Cut) -> Self {
        let by = u64::from(by);
        match cut {
            Cut::M => self.m = self.m.div_ceil(by),
            Cut::K => self.k = self.k.div_ceil(by),
            Cut::N => self.n = self.n.div_ceil(by),
            Cut::Count if self.count >= by => self.count = self.count.div_ceil(by),
            Cut::Count => {
                self.m = (u128::from(self.m) * u128::from(self.count)).div_ceil(u128::from(by)) as u64;
                self.count = 1;
            }
        }
        self.memory = Bytes(self.memory.0.div_ceil(by));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Product = Product { m: 10, k: 20, n: 30, count: 4, memory: Bytes(101) };

    #[test]
    fn a_share_is_rounded_up_along_what_is_cut() {
        let sizes = |cut, by| {
            let share = EACH.share(by, cut);
            (share.m, share.k, share.n, share.count, share.memory.0)
        };
        assert_eq!(sizes(Cut::M, 4), (3, 20, 30, 4, 26));
        assert_eq!(sizes(Cut::K, 4), (10, 5, 30, 4, 26));
        assert_eq!(sizes(Cut::N, 4), (10, 20, 8, 4, 26));
        assert_eq!(sizes(Cut::Count, 3), (10, 20, 30, 2, 34));
        assert_eq!(sizes(Cut::Count, 8), (5, 20, 30, 1, 13));
    }

    #[test]
    fn operations_that_do_not_fit_are_none() {
        assert_eq!(EACH.flop(), Some(2 * 10 * 20 * 30 * 4));
        assert_eq!(Product { count: u64::MAX, ..EACH }.flop(), None);
    }
}
