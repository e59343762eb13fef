//! What a search finds, and how its caller follows it.

use crate::topology::Topology;
use std::sync::atomic::{AtomicBool, Ordering};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::Time;
use syncline_workload::operators::Strategy;

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best strategy.
    pub strategy: Strategy,
    /// The topology for it; `None` on a given fabric.
    pub topology: Option<Topology>,
    /// Time of a step with this strategy and topology.
    pub time: Time,
    /// The time of data parallelism, from which the search starts, on a network for it.
    pub start: Time,
    /// The improvements of the chain that found it; the first is its start.
    pub trace: Vec<Improvement>,
    /// Proposals over all chains.
    pub proposals: u64,
    /// Proposals that were accepted.
    pub accepted: u64,
    /// Topologies that were tried.
    pub topologies: u64,
    /// Results of the other chains without duplicates, fastest first.
    pub runners_up: Vec<Found>,
}

impl Found {
    /// The result of a search that has only timed its first strategy, after it tried this many topologies for it.
    pub(super) fn start(strategy: Strategy, topology: Option<Topology>, time: Time, tried: u64) -> Self {
        Self {
            strategy,
            topology,
            time,
            start: time,
            trace: vec![Improvement { proposals: 0, time }],
            proposals: 0,
            accepted: 0,
            topologies: tried,
            runners_up: Vec::new(),
        }
    }
}

/// A time that is the best so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Improvement {
    /// Proposals before it.
    pub proposals: u32,
    /// The time of a step.
    pub time: Time,
}

/// How the caller follows a search.
#[derive(Clone, Copy)]
pub struct SearchControl<'a> {
    /// Set to stop the search early; it then fails with `LimitReached`.
    pub cancel: &'a AtomicBool,
    /// Called from time to time with the number of proposals so far, over all chains.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Most threads to use.
    pub threads: usize,
}

impl SearchControl<'_> {
    /// Whether the caller has stopped the search.
    pub(super) fn stopped(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// Proposals between two checks of [`SearchControl`].
pub(super) const CHECK_INTERVAL: u32 = 64;

/// The error of a search that was stopped.
pub(super) fn stop() -> Diagnostics {
    Diagnostic::error(Code::LimitReached, "the search was stopped").into()
}
