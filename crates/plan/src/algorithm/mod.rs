//! The library of collective algorithms, one per file. Each file has the same order: the idea and its source, its
//! rounds and bytes, the collectives that it offers, the program, tests.
//!
//! In every file, `N` is the number of ranks and `S` the size of the full vector in bytes.
//!
//! - [`ring`], [`direct`], [`halving_doubling`]: the three that hier2021 Table I selects by the kind of dimension;
//! - [`multi_ring`]: several rings through the same ranks in different orders;
//! - [`tree`], [`double_binary_tree`]: for low latency, and for broadcast and reduce;
//! - [`bcube`]: halving-doubling with a base other than 2;
//! - [`parameter_server`], [`two_level`]: with hubs, and with local and global masters.

pub mod bcube;
pub mod direct;
pub mod double_binary_tree;
pub mod halving_doubling;
pub mod multi_ring;
pub mod parameter_server;
pub mod ring;
pub mod tree;
pub mod two_level;

pub use bcube::BCube;
pub use direct::Direct;
pub use double_binary_tree::DoubleBinaryTree;
pub use halving_doubling::HalvingDoubling;
pub use multi_ring::MultiRing;
pub use parameter_server::{ParameterServer, Placement};
pub use ring::Ring;
pub use tree::{Shape, Tree};
pub use two_level::TwoLevel;

use crate::program::Refusal;
use syncline_units::CollectiveKind;

/// Checks the rule that all algorithms share: each offers certain collectives, for at least one rank.
fn offers_only(
    name: &str,
    offered: &[CollectiveKind],
    kind: CollectiveKind,
    ranks: u32,
) -> Result<(), Refusal> {
    if !offered.contains(&kind) {
        let offered: Vec<&str> = offered.iter().map(|kind| kind.name()).collect();
        return Err(Refusal(format!("`{name}` offers {}, not {kind}", offered.join(", "))));
    }
    if ranks == 0 {
        return Err(Refusal("a collective needs at least 1 rank".to_owned()));
    }
    Ok(())
}

/// The number that `stride` is to be multiplied by to give 1 modulo `ranks`; `None` if they are not coprime (by the
/// extended Euclidean algorithm).
fn inverse(stride: u32, ranks: u32) -> Option<u32> {
    let (mut left, mut right) = (i64::from(ranks), i64::from(stride));
    let (mut of_left, mut of_right) = (0i64, 1i64);
    while right != 0 {
        let quotient = left / right;
        (left, right) = (right, left - quotient * right);
        (of_left, of_right) = (of_right, of_left - quotient * of_right);
    }
    (left == 1).then(|| of_left.rem_euclid(i64::from(ranks)) as u32)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::program::{Algorithm, Op, Seat, program};
    use syncline_units::CollectiveKind;

    /// What one seat sends, as (to, first, count, of), in order: the shortest description of a program.
    pub(crate) fn sends(
        algorithm: &dyn Algorithm,
        kind: CollectiveKind,
        ranks: u32,
        index: u32,
        stream: u32,
    ) -> Vec<(u32, u32, u32, u32)> {
        let seat = Seat { kind, ranks, index, stream, reverse: false };
        program(algorithm, seat)
            .filter_map(|op| match op {
                Op::Send { to, blocks } => Some((to, blocks.first, blocks.count, blocks.of)),
                _ => None,
            })
            .collect()
    }

    /// Proves the algorithm for `kind` on every number of ranks up to `most` that it offers, and returns how many
    /// these are.
    pub(crate) fn proves(algorithm: &dyn Algorithm, kind: CollectiveKind, most: u32) -> usize {
        (1..=most)
            .filter(|&ranks| algorithm.offers(kind, ranks).is_ok())
            .inspect(|&ranks| {
                if let Err(faults) = crate::verify::verify(algorithm, kind, ranks) {
                    panic!("{} {kind} on {ranks}: {faults}", algorithm.name());
                }
            })
            .count()
    }
}
