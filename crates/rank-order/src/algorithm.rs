//! What an all-reduce costs under an order: the cost models of luo2020 5.2.1.
//!
//! They keep the order of costs, and do not predict times: a ring costs the sum of its hops, and any other algorithm the
//! sum of its rounds, or the longest path of its trees, where each round waits for its longest hop.

use crate::distances::{Distances, Matrix};
use crate::peers::Rounds;
use crate::ring::length;
use crate::trees::Trees;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Bytes, Time};

/// An algorithm of an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Each rank sends to the next one: the sum of all hops, each with the whole vector.
    Ring,
    /// In round `i`, ranks whose numbers differ in bit `i` exchange `1 / 2^(i + 1)` of the vector.
    HalvingDoubling,
    /// Two binary trees, each with half of the vector: the more expensive one. The root of a range of ranks is its middle,
    /// and the second tree has each rank of the first decremented.
    DoubleBinaryTree,
    /// In round `i`, ranks whose numbers differ in digit `i` to this base exchange `1 / base^(i + 1)` of the vector.
    Bcube {
        /// The base, at least 2.
        base: NonZeroU32,
    },
}

impl fmt::Display for Algorithm {
    /// The name of the plan library's algorithm.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring => f.write_str("ring"),
            Self::HalvingDoubling => f.write_str("halving_doubling"),
            Self::DoubleBinaryTree => f.write_str("double_binary_tree"),
            Self::Bcube { base } => write!(f, "bcube(base={base})"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = syncline_diagnostics::Diagnostics;

    fn from_str(name: &str) -> Result<Self> {
        let base = |text: &str| text.parse().ok().filter(|base: &NonZeroU32| base.get() > 1);
        let known = match name {
            "ring" => Some(Self::Ring),
            "halving_doubling" => Some(Self::HalvingDoubling),
            "double_binary_tree" => Some(Self::DoubleBinaryTree),
            "bcube" => base("4").map(|base| Self::Bcube { base }),
            _ => name
                .strip_prefix("bcube(base=")
                .and_then(|rest| base(rest.strip_suffix(')')?))
                .map(|base| Self::Bcube { base }),
        };
        known.ok_or_else(|| {
            Diagnostic::error(Code::BadValue, "no cost model for this algorithm")
                .key("algorithm")
                .found(name)
                .allowed("ring, halving_doubling, double_binary_tree, bcube or bcube(base=B)")
                .into()
        })
    }
}

/// An algorithm's costs on given distances.
#[derive(Debug)]
pub(crate) enum Model {
    /// [`Algorithm::Ring`].
    Ring(Matrix),
    /// [`Algorithm::HalvingDoubling`] and [`Algorithm::Bcube`].
    Rounds(Rounds),
    /// [`Algorithm::DoubleBinaryTree`].
    Trees(Trees),
}

impl Model {
    /// The costs of an all-reduce of `bytes`.
    ///
    /// # Errors
    /// `BadValue` if the algorithm does not work with this number of hosts.
    pub(crate) fn new(algorithm: Algorithm, distances: &Distances, bytes: Bytes) -> Result<Self> {
        Ok(match algorithm {
            Algorithm::Ring => Self::Ring(distances.of(bytes)),
            Algorithm::HalvingDoubling => Self::Rounds(Rounds::new(2, algorithm, distances, bytes)?),
            Algorithm::Bcube { base } => Self::Rounds(Rounds::new(base.get(), algorithm, distances, bytes)?),
            Algorithm::DoubleBinaryTree => Self::Trees(Trees::new(distances.of(Bytes(bytes.0.div_ceil(2))))),
        })
    }

    /// What an order costs.
    pub(crate) fn cost(&self, order: &[u32]) -> Time {
        match self {
            Self::Ring(matrix) => length(matrix, order),
            Self::Rounds(rounds) => rounds.cost(order),
            Self::Trees(trees) => trees.cost(order),
        }
    }
}

/// What an all-reduce of `bytes` costs if host `order[rank]` has each rank.
///
/// # Errors
/// `BadValue`: `order` is not a permutation of the hosts, or the algorithm does not work with this number of hosts.
pub fn cost(algorithm: Algorithm, distances: &Distances, bytes: Bytes, order: &[u32]) -> Result<Time> {
    check(distances, order)?;
    Ok(Model::new(algorithm, distances, bytes)?.cost(order))
}

/// Refuses an order that is not a permutation of the hosts.
pub(crate) fn check(distances: &Distances, order: &[u32]) -> Result<()> {
    let refuse = |message: &str, found: String| {
        Err(Diagnostic::error(Code::BadValue, message).key("order").found(found).into())
    };
    let hosts = distances.hosts();
    if order.len() != hosts as usize {
        return refuse("an order has each host once", format!("{} hosts of {hosts}", order.len()));
    }
    let mut seen = vec![false; hosts as usize];
    for &host in order {
        match seen.get_mut(host as usize) {
            None => {
                return refuse("an order names an unknown host", format!("host {host} of {hosts}"));
            }
            Some(true) => return refuse("an order has a host twice", format!("host {host}")),
            Some(first) => *first = true,
        }
    }
    Ok(())
}
