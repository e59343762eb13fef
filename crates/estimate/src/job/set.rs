//! Sets of modules of a layer, which are lists in jobs.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// One of at most eight modules of a layer, numbered from 0.
pub trait Member: Copy + DeserializeOwned + Serialize + 'static {
    /// All modules, in the order of their numbers.
    const ALL: &'static [Self];

    /// The number of this one.
    fn number(self) -> u8;
}

/// A set of modules. In a job it is a list; the order and repetitions mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Vec<M>", into = "Vec<M>", bound = "M: Member")]
pub struct Set<M> {
    bits: u8,
    of: PhantomData<M>,
}

impl<M: Member> Set<M> {
    /// Whether a module is in the set.
    pub fn has(self, module: M) -> bool {
        self.bits & 1 << module.number() != 0
    }

    /// The modules of the set, by number.
    pub fn iter(self) -> impl Iterator<Item = M> {
        M::ALL.iter().copied().filter(move |each| self.has(*each))
    }
}

impl<M> Set<M> {
    /// Whether the set has no modules.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }
}

impl<M> Default for Set<M> {
    fn default() -> Self {
        Self { bits: 0, of: PhantomData }
    }
}

impl<M: Member> From<Vec<M>> for Set<M> {
    fn from(modules: Vec<M>) -> Self {
        let bits = modules.into_iter().fold(0, |all, each| all | 1 << each.number());
        Self { bits, ..Self::default() }
    }
}

impl<M: Member> From<Set<M>> for Vec<M> {
    fn from(set: Set<M>) -> Self {
        set.iter().collect()
    }
}
