//! Which ranks exchange in an all-reduce, so that an order can be explained.

use crate::algorithm::Algorithm;
use crate::trees::Trees;

/// Two ranks that exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exchange {
    /// Its round, from 0; for a double binary tree, the tree.
    pub round: u32,
    /// The lower rank.
    pub low: u32,
    /// The higher rank.
    pub high: u32,
}

/// The exchanges of an algorithm between ranks `0..ranks`, by round and rank, each once.
///
/// The number of ranks is one that the algorithm works with.
pub fn exchanges(algorithm: Algorithm, ranks: u32) -> Vec<Exchange> {
    let mut found: Vec<Exchange> = match algorithm {
        Algorithm::Ring => (0..ranks).map(|rank| (0, rank, (rank + 1) % ranks)).map(sorted).collect(),
        Algorithm::HalvingDoubling => rounds(2, ranks),
        Algorithm::Bcube { base } => rounds(base.get(), ranks),
        Algorithm::DoubleBinaryTree => (0..2)
            .flat_map(|tree| Trees::links(ranks, tree).map(move |(a, b)| sorted((tree, a, b))))
            .collect(),
    };
    found.retain(|exchange| exchange.low != exchange.high);
    found.sort_unstable();
    found.dedup();
    found
}

fn rounds(base: u32, ranks: u32) -> Vec<Exchange> {
    let mut found = Vec::new();
    let (mut round, mut stride) = (0, 1);
    while stride < ranks {
        for rank in 0..ranks {
            let higher = 1..base - rank / stride % base;
            found.extend(higher.map(|more| sorted((round, rank, rank + more * stride))));
        }
        round += 1;
        stride *= base;
    }
    found
}

fn sorted((round, a, b): (u32, u32, u32)) -> Exchange {
    Exchange { round, low: a.min(b), high: a.max(b) }
}
