//! The sums of a chain.

use crate::Spent;
use crate::savings::Savings;
use std::collections::BTreeMap;

/// The length of a chain by what it is spent on, and its savings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sums {
    pub(crate) spent: BTreeMap<Spent, u64>,
    pub(crate) saved: Savings,
}

impl Sums {
    /// Adds the sums of the chain that precedes this one.
    pub(crate) fn append(&mut self, behind: &Self) {
        for (&spent, &length) in &behind.spent {
            *self.spent.entry(spent).or_default() += length;
        }
        self.saved.append(&behind.saved);
    }
}
