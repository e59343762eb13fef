//! Costs that record what they are asked for.

use crate::job::Precision;
use crate::layer::Setting;
use crate::machine::{AttentionWork, Collective, Costs, Group, Product};
use std::cell::{Cell, RefCell};

/// A collective that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) collective: Collective,
    /// Bytes, as those of [`Collective`].
    pub(super) bytes: f64,
    pub(super) group: Group,
    /// Its time.
    pub(super) seconds: f64,
}

/// Costs that record collectives, and the bytes of the last kernel that only moves some.
pub(super) struct Recorded<'a, C: Costs> {
    inner: &'a C,
    pub(super) calls: RefCell<Vec<Call>>,
    pub(super) moved: Cell<f64>,
}

impl<'a, C: Costs> Recorded<'a, C> {
    pub(super) fn of(inner: &'a C) -> Self {
        Self { inner, calls: RefCell::default(), moved: Cell::default() }
    }
}

impl<C: Costs> Costs for Recorded<'_, C> {
    fn product(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        self.inner.product(product, precision, m, n, k, groups)
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        self.inner.attention(work)
    }

    fn least_product(&self, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        self.inner.least_product(precision, m, n, k, groups)
    }

    fn least_attention(&self, work: AttentionWork) -> f64 {
        self.inner.least_attention(work)
    }

    fn memory(&self, bytes: f64) -> f64 {
        self.moved.set(bytes);
        self.inner.memory(bytes)
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        let seconds = self.inner.collective(collective, bytes, group);
        self.calls.borrow_mut().push(Call { collective, bytes, group, seconds });
        seconds
    }
}

impl<'a, C: Costs> Setting<'a, C> {
    /// The same with other costs.
    pub(super) const fn with<'b, D: Costs>(&self, costs: &'b D) -> Setting<'b, D>
    where
        'a: 'b,
    {
        Setting { model: self.model, job: self.job, cluster: self.cluster, software: self.software, costs }
    }
}
