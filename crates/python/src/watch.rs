//! Runs long work on its own thread without the interpreter lock, while the calling thread checks for signals.

use crate::errors::{guarded, internal, to_python};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use syncline_diagnostics::Result;
use syncline_simulate::Progress;

/// How often the calling thread checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// A message from the work to its listeners.
pub(crate) enum News {
    /// The run's progress.
    Progress(Progress),
    /// The part of a search that is done, from 0 to 1.
    Searched(f64),
    /// Diagnostics, as JSON.
    Warnings(String),
}

/// Python callables that receive the [`News`].
#[derive(Default)]
pub(crate) struct Listeners {
    /// Called with the fields of [`Progress`], or with the part of a search that is done.
    pub(crate) progress: Option<Py<PyAny>>,
    /// Called with the JSON of [`News::Warnings`].
    pub(crate) warn: Option<Py<PyAny>>,
}

impl Listeners {
    fn tell(&self, py: Python<'_>, news: News) -> PyResult<()> {
        match (news, &self.progress, &self.warn) {
            (News::Progress(state), Some(progress), _) => {
                let Progress { simulated_s, events, messages, done } = state;
                progress.call1(py, (simulated_s, events, messages, done))?;
            }
            (News::Searched(part), Some(progress), _) => {
                progress.call1(py, (part,))?;
            }
            (News::Warnings(found), _, Some(warn)) => {
                warn.call1(py, (found,))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Runs `work` and returns its result, and whether Ctrl-C stopped it.
///
/// `work` gets a flag that becomes true when it must stop, and a sender for messages to the `listeners`. If a listener
/// raises an exception, the work stops and that exception is raised.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    listeners: &Listeners,
    work: impl FnOnce(&AtomicBool, Sender<News>) -> Result<T> + Send,
) -> PyResult<(T, bool)> {
    let cancel = AtomicBool::new(false);
    let mut raised: Option<PyErr> = None;
    let outcome = py.detach(|| {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let flag = &cancel;
            let worker = scope.spawn(move || guarded(|| work(flag, sender)));
            loop {
                let news = receiver.recv_timeout(LOOK);
                if matches!(news, Err(RecvTimeoutError::Disconnected)) {
                    break;
                }
                let looked = Python::attach(|py| {
                    py.check_signals()?;
                    match (news, &raised) {
                        (Ok(news), None) => listeners.tell(py, news),
                        _ => Ok(()),
                    }
                });
                if let Err(error) = looked {
                    cancel.store(true, Ordering::Relaxed);
                    raised.get_or_insert(error);
                }
            }
            worker.join().unwrap_or_else(|_| Err(internal("the worker thread panicked".to_owned()).into()))
        })
    });
    // A signal may have arrived after the last check.
    let last = py.check_signals().err();
    match (outcome, raised.or(last)) {
        (_, Some(error)) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        (Ok(result), raised) => Ok((result, raised.is_some())),
        (Err(_), Some(error)) => Err(error),
        (Err(diagnostics), None) => Err(to_python(py, &diagnostics)),
    }
}
