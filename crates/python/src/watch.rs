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

/// Does `work` and gives its result, and whether Ctrl-C stopped it.
///
/// `work` gets a flag that becomes true when it is to stop, and where to send its progress, which `callback` is then
/// called with. A failing callback stops the work, and its error is raised.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    callback: Option<&Py<PyAny>>,
    work: impl FnOnce(&AtomicBool, Sender<Progress>) -> Result<T> + Send,
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
                if news == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
                let looked = Python::attach(|py| {
                    py.check_signals()?;
                    if let (Ok(state), Some(callback), None) = (news, callback, &raised) {
                        let Progress { simulated_s, events, messages, done } = state;
                        callback.call1(py, (simulated_s, events, messages, done))?;
                    }
                    Ok(())
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
