//! Operations under way, and the memory that they work on.

use super::Pending;
use crate::errors::{guarded, to_python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use syncline_executor::pending;
use syncline_hub::join::Exchange;

/// What has begun.
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

/// An operation, and whose memory it works on: held until it is over.
pub(super) struct Held {
    pub(super) begun: Begun,
    owner: Mutex<Option<Py<PyAny>>>,
}

impl Held {
    /// The owner, once the operation is over. To be dropped where no lock is held: Python code may run.
    pub(super) fn released(&self) -> Option<Py<PyAny>> {
        let over = self.begun.pending().outcome().is_some();
        over.then(|| self.owner.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }
}

/// Something that runs operations, such as a communicator, until it is closed.
pub(crate) struct Operations<T> {
    /// What it is called.
    name: &'static str,
    inner: Own<Mutex<(Option<T>, UnderWay)>>,
}

/// Something with threads, of the process that made it: one that was forked has none of them, and neither waits for them nor
/// drops what they work on.
pub(crate) struct Own<T> {
    process: u32,
    inner: Option<T>,
}

impl<T> Own<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { process: std::process::id(), inner: Some(inner) }
    }

    /// It, in the process that made it.
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

/// What is under way, the oldest first, and beyond how many all of it is looked through for what is over.
struct UnderWay {
    held: VecDeque<Arc<Held>>,
    many: usize,
}

impl UnderWay {
    const FEW: usize = 64;

    fn new() -> Self {
        Self { held: VecDeque::new(), many: Self::FEW }
    }

    /// Takes out what is over: the oldest at once, the rest once there are many. Every begin costs the same, however many
    /// are under way.
    fn over(&mut self) -> Vec<Arc<Held>> {
        let is_over = |held: &Arc<Held>| held.begun.pending().outcome().is_some();
        let mut over = Vec::new();
        while self.held.front().is_some_and(is_over) {
            over.extend(self.held.pop_front());
        }
        if self.held.len() >= self.many {
            let (more, left): (VecDeque<_>, VecDeque<_>) = self.held.drain(..).partition(is_over);
            over.extend(more);
            self.held = left;
            self.many = (2 * self.held.len()).max(Self::FEW);
        }
        over
    }
}

impl<T: Send> Operations<T> {
    pub(crate) fn new(name: &'static str, runs: T) -> Self {
        Self { name, inner: Own::new(Mutex::new((Some(runs), UnderWay::new()))) }
    }

    /// What it says, unless it is closed.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&T) -> R) -> Option<R> {
        let inner = self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.as_ref().map(question)
    }

    /// That it is closed, or another process's.
    pub(crate) fn closed(&self) -> PyErr {
        if self.inner.get().is_none() {
            let what = format!("the {} is of the process that this one was forked from", self.name);
            return PyValueError::new_err(what);
        }
        PyValueError::new_err(format!("the {} is closed", self.name))
    }

    /// Begins an operation on memory that `owner` keeps where it is.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        owner: Py<PyAny>,
        begin: impl FnOnce(&T) -> syncline_diagnostics::Result<Begun>,
    ) -> PyResult<Pending> {
        // No Python code runs while the lock is held: another thread may wait for it with the interpreter's.
        let Some(inner) = self.inner.get() else { return Err(self.closed()) };
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        let over = inner.1.over();
        let begun = inner.0.as_ref().map(|runs| guarded(|| begin(runs)));
        let mut owner = Some(owner);
        let begun = begun.map(|begun| {
            begun.map(|begun| {
                let held = Arc::new(Held { begun, owner: Mutex::new(owner.take()) });
                inner.1.held.push_back(Arc::clone(&held));
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

    /// Gives away what runs operations, unless it is closed. To be closed once what is under way is over.
    pub(crate) fn take(&self) -> Option<T> {
        self.inner.get()?.lock().unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Ends: what is under way fails, and memory is free again.
    pub(crate) fn close(&self, py: Python<'_>) {
        let Some(inner) = self.inner.get() else { return };
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (runs, under_way) = (inner.0.take(), std::mem::take(&mut inner.1.held));
        drop(inner);
        py.detach(|| drop(runs));
        drop(under_way.iter().map(|held| held.released()).collect::<Vec<_>>());
    }
}
