//! The rule for cutting data that does not divide evenly into blocks.
//!
//! Block `i` of `n` over `len` elements spans `[i*len/n, (i+1)*len/n)` with integer division, so sizes differ by
//! at most one element, every element belongs to exactly one block, and any rank can compute any block.

/// A run of elements `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Extent {
    /// First element.
    pub start: u64,
    /// One past the last element.
    pub end: u64,
}

impl Extent {
    /// The first `len` elements.
    pub const fn whole(len: u64) -> Self {
        Self { start: 0, end: len }
    }
    /// Number of elements.
    #[inline]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }
    /// Whether the run is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// Blocks `first..first + count` of the `of` blocks that this run is cut into.
    #[inline]
    pub fn blocks(self, first: u32, count: u32, of: u32) -> Self {
        Self {
            start: self.start + cut(self.len(), first, of),
            end: self.start + cut(self.len(), first + count, of),
        }
    }
}

/// Where block `index` of `of` starts in `len` elements; `index == of` gives `len`.
#[inline]
pub fn cut(len: u64, index: u32, of: u32) -> u64 {
    match len.checked_mul(u64::from(index)) {
        // Most numbers of blocks are powers of two, and a shift is faster than a division.
        Some(product) if of.is_power_of_two() => product >> of.trailing_zeros(),
        Some(product) => product / u64::from(of),
        None => (u128::from(len) * u128::from(index) / u128::from(of)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_cover_and_differ_by_at_most_one(len in 0u64..1 << 40, of in 1u32..200) {
            let sizes: Vec<u64> = (0..of).map(|i| Extent::whole(len).blocks(i, 1, of).len()).collect();
            prop_assert_eq!(sizes.iter().sum::<u64>(), len);
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }
}
