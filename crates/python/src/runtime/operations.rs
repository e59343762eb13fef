//! Operations under way, and the memory that they use.

use super::memory::Lent;
use super::pending::Pending;
use crate::errors::{guarded, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use syncline_executor::pending;
use syncline_hub::worker::Exchange;

/// An operation that has begun.
pub(crate) enum Begun {
    /// A collective among ranks.
    Collective(pending::Pending),
    /// A transfer between two ranks.
    Transfer(pending::Pending),
    /// A vector's exchange with hubs.
    Exchange(Exchange),
}

impl Begun {
    pub(super) fn pending(&self) -> &pending::Pending {
        match self {
            Self::Collective(pending) | Self::Transfer(pending) => pending,
            Self::Exchange(exchange) => &exchange.pending,
        }
    }
}

/// An operation, and its memory, which is held until the operation is over.
pub(super) struct Held {
    pub(super) begun: Begun,
    lent: Mutex<Option<Lent>>,
}

impl Held {
    /// Takes the memory once the operation is over. Drop it without holding a lock, because Python code may
    /// run.
    pub(super) fn released(&self) -> Option<Lent> {
        let over = self.begun.pending().outcome().is_some();
        over.then(|| self.lent.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }
}

/// Something that runs operations, such as a communicator, until it is closed.
pub(crate) struct Operations<T> {
    /// Its name in messages, such as `communicator`.
    name: &'static str,
    inner: Own<Mutex<RunnerState<T>>>,
}

/// What runs operations, and those under way.
struct RunnerState<T> {
    /// `None` once it is closed.
    runner: Option<T>,
    under_way: UnderWay,
}

/// A value with threads, for the process that made it. A forked child does not have the threads: it cannot
/// use the value, and does not drop it, because dropping would wait for the threads.
pub(crate) struct Own<T> {
    process: u32,
    inner: Option<T>,
}

impl<T> Own<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { process: std::process::id(), inner: Some(inner) }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.inner.as_ref().filter(|_| self.process == std::process::id())
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.take());
        }
    }
}

/// Operations under way.
struct UnderWay {
    /// The oldest first.
    held: VecDeque<Arc<Held>>,
    /// The number of operations at which all of them are searched for finished ones.
    threshold: usize,
}

impl UnderWay {
    const MIN_THRESHOLD: usize = 64;

    fn new() -> Self {
        Self { held: VecDeque::new(), threshold: Self::MIN_THRESHOLD }
    }

    /// Removes finished operations: the oldest ones at each call, the others at the threshold. The threshold
    /// grows with the number of operations under way, so the average cost of a call does not depend on that
    /// number.
    fn take_finished(&mut self) -> Vec<Arc<Held>> {
        let is_over = |held: &Arc<Held>| held.begun.pending().outcome().is_some();
        let mut over = Vec::new();
        while self.held.front().is_some_and(is_over) {
            over.extend(self.held.pop_front());
        }
        if self.held.len() >= self.threshold {
            let (more, left): (VecDeque<_>, VecDeque<_>) = self.held.drain(..).partition(is_over);
            over.extend(more);
            self.held = left;
            self.threshold = (2 * self.held.len()).max(Self::MIN_THRESHOLD);
        }
        over
    }
}

impl<T: Send> Operations<T> {
    pub(crate) fn new(name: &'static str, runner: T) -> Self {
        Self {
            name,
            inner: Own::new(Mutex::new(RunnerState { runner: Some(runner), under_way: UnderWay::new() })),
        }
    }

    /// Calls `read` on what runs operations, unless it is closed.
    pub(crate) fn ask<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let inner = self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        inner.runner.as_ref().map(read)
    }

    /// The exception that it is closed, or belongs to another process.
    pub(crate) fn closed(&self) -> PyErr {
        if self.inner.get().is_none() {
            let what = format!("the {} belongs to the process that this one was forked from", self.name);
            return PyValueError::new_err(what);
        }
        PyValueError::new_err(format!("the {} is closed", self.name))
    }

    /// Begins an operation on memory that is held until the operation is over. If `begin` panics, the operation may have
    /// begun, and its memory is never released.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        lent: Lent,
        begin: impl FnOnce(&T, &Lent) -> syncline_diagnostics::Result<Begun>,
    ) -> PyResult<Pending> {
        // Run no Python code while this lock is held: another thread may wait for the lock while it holds the
        // interpreter.
        let Some(inner) = self.inner.get() else { return Err(self.closed()) };
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        let over = inner.under_way.take_finished();
        let mut panicked = true;
        let begun = inner.runner.as_ref().map(|runner| {
            guarded(|| {
                let begun = begin(runner, &lent);
                panicked = false;
                begun
            })
        });
        let mut lent = Some(lent);
        if begun.is_some() && panicked {
            std::mem::forget(lent.take());
        }
        let begun = begun.map(|begun| {
            begun.map(|begun| {
                let held = Arc::new(Held { begun, lent: Mutex::new(lent.take()) });
                inner.under_way.held.push_back(Arc::clone(&held));
                held
            })
        });
        drop(inner);
        drop(over);
        match begun {
            Some(Ok(held)) => Ok(Pending { held }),
            Some(Err(diagnostics)) => Err(to_python(py, &diagnostics)),
            None => Err(self.closed()),
        }
    }

    /// Takes what runs operations, unless it is closed. Call [`Operations::close`] once operations under way
    /// are over.
    pub(crate) fn take(&self) -> Option<T> {
        self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner).runner.take()
    }

    /// Drops what runs operations. Operations under way fail, and their memory is released.
    pub(crate) fn close(&self, py: Python<'_>) {
        let Some(inner) = self.inner.get() else { return };
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (runner, under_way) = (inner.runner.take(), std::mem::take(&mut inner.under_way.held));
        drop(inner);
        py.detach(|| drop(runner));
        drop(under_way.iter().map(|held| held.released()).collect::<Vec<_>>());
    }
}
