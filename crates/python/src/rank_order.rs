//! The search for a cheap order of ranks.

use crate::errors::to_python;
use crate::watch::{Listeners, News, watched};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use syncline_diagnostics::Result;
use syncline_rank_order::{Algorithm, Distances, Effort, Matrix, completed, cost, exchanges, search};
use syncline_units::{Bytes, Rate, Time};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RankOrder>()?;
    module.add_function(wrap_pyfunction!(complete_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(exchanging_ranks, module)?)
}

/// An all-reduce on measured distances.
///
/// Latencies are `(host, host, picoseconds)` and rates `(host, host, bits per second)`; missing pairs are filled in.
#[pyclass(frozen, module = "syncline._core")]
struct RankOrder {
    algorithm: Algorithm,
    distances: Distances,
    bytes: Bytes,
    /// Times of messages of all bytes.
    times: Matrix,
    filled: u64,
}

#[pymethods]
impl RankOrder {
    /// An all-reduce of `nbytes` between hosts of which some pairs were measured.
    #[staticmethod]
    fn of_pairs(
        py: Python<'_>,
        hosts: u32,
        latencies: Vec<(u32, u32, u64)>,
        rates: Option<Vec<(u32, u32, u64)>>,
        algorithm: &str,
        nbytes: u64,
    ) -> PyResult<Self> {
        let made = || -> Result<Self> {
            let latencies: Vec<_> = latencies.into_iter().map(|(a, b, ps)| (a, b, Time(ps))).collect();
            let rates: Option<Vec<_>> =
                rates.map(|rates| rates.into_iter().map(|(a, b, rate)| (a, b, Rate(rate))).collect());
            let (distances, filled) = Distances::of_pairs(hosts, &latencies, rates.as_deref())?;
            let (algorithm, bytes) = (algorithm.parse()?, Bytes(nbytes));
            let times = distances.of(bytes);
            Ok(Self { algorithm, distances, bytes, times, filled })
        };
        made().map_err(|problems| to_python(py, &problems))
    }

    /// Pairs whose latency was not measured, and is filled in.
    const fn filled(&self) -> u64 {
        self.filled
    }

    /// What an order costs, in seconds.
    fn cost(&self, py: Python<'_>, order: Vec<u32>) -> PyResult<f64> {
        let found = cost(self.algorithm, &self.distances, self.bytes, &order);
        found.map(Time::as_s).map_err(|problems| to_python(py, &problems))
    }

    /// Times of messages of all bytes, in seconds: from each host to those with lower numbers.
    fn times(&self) -> Vec<Vec<f64>> {
        (0..self.times.hosts()).map(|a| (0..a).map(|b| self.times.between(a, b).as_s()).collect()).collect()
    }

    /// Searches for the cheapest order. Returns the order, what it costs, what `start` costs and what no order goes below,
    /// in seconds, and whether the time limit ended the search.
    ///
    /// Calls `progress(part)` with the part that is done, from 0 to 1. Ctrl-C raises `KeyboardInterrupt`.
    #[pyo3(signature = (start, proposals, chains, seed, limit_s = None, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
    fn search(
        &self,
        py: Python<'_>,
        start: Vec<u32>,
        proposals: u64,
        chains: u32,
        seed: u64,
        limit_s: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Vec<u32>, f64, f64, f64, bool)> {
        let listeners = Listeners { progress, warn: None };
        let end = limit_s.and_then(|limit| Some(Instant::now() + Duration::try_from_secs_f64(limit).ok()?));
        let all = proposals.saturating_mul(u64::from(chains)).max(1) as f64;
        let mut limited = false;
        let (found, interrupted) = watched(py, &listeners, |cancel, sender| {
            let mut report = |done: u64| {
                // Sending fails once the search has been interrupted, because the receiver is gone.
                let _ = sender.send(News::Searched((done as f64 / all).min(1.0)));
                limited = end.is_some_and(|end| Instant::now() >= end);
                !limited && !cancel.load(Ordering::Relaxed)
            };
            let effort = Effort { proposals, chains, seed };
            search(self.algorithm, &self.distances, self.bytes, &start, effort, &mut report)
        })?;
        if interrupted {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
        Ok((found.order, found.cost.as_s(), found.before.as_s(), found.bound.as_s(), limited))
    }
}

/// The pairs of ranks that exchange in an algorithm: `(round, lower rank, higher rank)`.
#[pyfunction]
fn exchanging_ranks(py: Python<'_>, algorithm: &str, ranks: u32) -> PyResult<Vec<(u32, u32, u32)>> {
    let algorithm: Algorithm = algorithm.parse().map_err(|problems| to_python(py, &problems))?;
    Ok(exchanges(algorithm, ranks).into_iter().map(|each| (each.round, each.low, each.high)).collect())
}

/// A value for each two hosts, row by row, from `(host, host, value)` of some: for others the least that some path has as
/// its largest value.
#[pyfunction]
fn complete_pairs(py: Python<'_>, hosts: u32, pairs: Vec<(u32, u32, u64)>) -> PyResult<Vec<u64>> {
    completed(hosts, &pairs).map(|(all, _)| all).map_err(|problems| to_python(py, &problems))
}
