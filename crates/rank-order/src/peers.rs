//! Costs of halving-doubling and BCube: rounds in which groups of ranks exchange, each as long as its longest exchange.

use crate::algorithm::Algorithm;
use crate::anneal::Swaps;
use crate::distances::{Distances, Matrix};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_units::{Bytes, Time};

/// Rounds of groups of `base` ranks. In round `i`, a group are ranks that differ in digit `i` alone.
#[derive(Debug)]
pub(crate) struct Rounds {
    base: u32,
    /// Times of the messages of each round.
    pub(crate) matrices: Vec<Matrix>,
}

impl Rounds {
    /// Rounds of an all-reduce of `bytes`.
    ///
    /// # Errors
    /// `BadValue` if the number of hosts is not a power of `base`.
    pub(crate) fn new(base: u32, algorithm: Algorithm, distances: &Distances, bytes: Bytes) -> Result<Self> {
        let hosts = distances.hosts();
        let mut matrices = Vec::new();
        let (mut reached, mut part) = (1, bytes.0);
        while reached < hosts {
            reached = reached.saturating_mul(base);
            part = part.div_ceil(u64::from(base));
            matrices.push(distances.of(Bytes(part)));
        }
        if reached != hosts {
            return Err(Diagnostic::error(
                Code::BadValue,
                format!("the number of hosts is not a power of {base}, which {algorithm} needs"),
            )
            .key("algorithm")
            .found(format!("{hosts} hosts"))
            .help("use `ring`, or leave out hosts")
            .into());
        }
        Ok(Self { base, matrices })
    }

    /// Number of ranks in a group.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// What an order costs: the sum of the longest exchange of each round.
    pub(crate) fn cost(&self, order: &[u32]) -> Time {
        let ranks = order.len() as u32;
        let mut stride = 1;
        let mut sum = Time(0);
        for matrix in &self.matrices {
            let longest = (0..ranks)
                .map(|rank| self.longest_from(matrix, order, rank, stride))
                .max()
                .unwrap_or_default();
            sum += longest;
            stride *= self.base;
        }
        sum
    }

    /// The longest exchange of a rank with those of its group that have higher numbers.
    fn longest_from(&self, matrix: &Matrix, order: &[u32], rank: u32, stride: u32) -> Time {
        let digit = rank / stride % self.base;
        let row = matrix.row(order[rank as usize]);
        (1..self.base - digit)
            .map(|more| row[order[(rank + more * stride) as usize] as usize])
            .max()
            .unwrap_or_default()
    }
}

/// An order, and the longest exchange of each group in each round.
pub(crate) struct RoundsState<'a> {
    rounds: &'a Rounds,
    order: Vec<u32>,
    /// For each round, a tree of maxima over its groups: the entry at 1 is the longest.
    longest: Vec<Vec<Time>>,
    /// Sum of the longest exchanges of all groups of all rounds, which guides the search where maxima do not change.
    sum: u128,
}

impl<'a> RoundsState<'a> {
    pub(crate) fn new(rounds: &'a Rounds, order: Vec<u32>) -> Self {
        let groups = order.len() / rounds.base as usize;
        let mut state =
            Self { rounds, order, longest: vec![vec![Time(0); 2 * groups]; rounds.matrices.len()], sum: 0 };
        for round in 0..rounds.matrices.len() {
            for group in 0..groups as u32 {
                let time = state.group_time(round, group);
                state.longest[round][groups + group as usize] = time;
                state.sum += u128::from(time.0);
            }
            for at in (1..groups).rev() {
                state.longest[round][at] = state.longest[round][2 * at].max(state.longest[round][2 * at + 1]);
            }
        }
        state
    }

    /// The ranks of a group in a round: its first rank, and the distance between them.
    fn group(&self, round: usize, group: u32) -> (u32, u32) {
        let stride = self.rounds.base.pow(round as u32);
        (group / stride * stride * self.rounds.base + group % stride, stride)
    }

    fn group_of(&self, round: usize, rank: u32) -> u32 {
        let stride = self.rounds.base.pow(round as u32);
        rank / (stride * self.rounds.base) * stride + rank % stride
    }

    /// The longest exchange between any two ranks of a group.
    fn group_time(&self, round: usize, group: u32) -> Time {
        let (first, stride) = self.group(round, group);
        let matrix = &self.rounds.matrices[round];
        (0..self.rounds.base)
            .map(|digit| self.rounds.longest_from(matrix, &self.order, first + digit * stride, stride))
            .max()
            .unwrap_or_default()
    }

    fn update(&mut self, round: usize, group: u32) {
        let time = self.group_time(round, group);
        let groups = self.longest[round].len() / 2;
        let tree = &mut self.longest[round];
        let mut at = groups + group as usize;
        self.sum = self.sum + u128::from(time.0) - u128::from(tree[at].0);
        tree[at] = time;
        while at > 1 {
            at /= 2;
            let longer = tree[2 * at].max(tree[2 * at + 1]);
            if tree[at] == longer {
                break;
            }
            tree[at] = longer;
        }
    }
}

impl Swaps for RoundsState<'_> {
    fn order(&self) -> &[u32] {
        &self.order
    }

    fn swap(&mut self, a: u32, b: u32) {
        self.order.swap(a as usize, b as usize);
        for round in 0..self.rounds.matrices.len() {
            let (of_a, of_b) = (self.group_of(round, a), self.group_of(round, b));
            self.update(round, of_a);
            if of_b != of_a {
                self.update(round, of_b);
            }
        }
    }

    fn cost(&self) -> Time {
        // With one group, its entry is both the only leaf and the root.
        self.longest.iter().map(|tree| tree[1]).sum()
    }

    fn sum(&self) -> u128 {
        self.sum
    }
}
