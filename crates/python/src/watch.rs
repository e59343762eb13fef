//! Long work away from the interpreter: on a thread of its own, without the lock, while the caller looks for signals.

use crate::errors::{guarded, internal, to_python};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use syncline_diagnostics::Result;
use syncline_simulate::Progress;

/// How often a waiting call looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// What work says while it goes on.
pub(crate) enum News {
    /// How far it is.
    Progress(Progress),
    /// Diagnostics, as JSON.
    Warnings(String),
}

/// Who hears the news.
#[derive(Default)]
pub(crate) struct Listeners {
    /// Called with the fields of [`Progress`].
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
            (News::Warnings(found), _, Some(warn)) => {
                warn.call1(py, (found,))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Does `work` and gives its result, and whether Ctrl-C stopped it.
///
/// `work` gets a flag that becomes true when it is to stop, and where to send its news for the `listeners`. One that
/// fails stops the work, and its error is raised.
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
            worker.join().unwrap_or_else(|_| Err(internal("the thread was lost".to_owned()).into()))
        })
    });
    // A signal may have come after the last look.
    let last = py.check_signals().err();
    match (outcome, raised.or(last)) {
        (_, Some(error)) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(error),
        (Ok(result), raised) => Ok((result, raised.is_some())),
        (Err(_), Some(error)) => Err(error),
        (Err(diagnostics), None) => Err(to_python(py, &diagnostics)),
    }
}
