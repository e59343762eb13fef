//! The queue of finished operations and their callbacks. Lanes' threads must not wait for the Python
//! interpreter: they put finished operations into the queue, and one Python thread takes them from there.

use super::faults::error;
use super::operations::Held;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use syncline_executor::pending::Outcome;

/// An item of the queue.
enum Item {
    /// An operation is over: call `callback`.
    Over { held: Arc<Held>, callback: Py<PyAny>, outcome: Outcome },
    /// The queue is stopped.
    Stop,
}

struct Queue {
    sender: Sender<Item>,
    receiver: Mutex<Receiver<Item>>,
}

fn queue() -> &'static Queue {
    static QUEUE: OnceLock<Queue> = OnceLock::new();
    QUEUE.get_or_init(|| {
        let (sender, receiver) = channel();
        Queue { sender, receiver: Mutex::new(receiver) }
    })
}

/// Has `callback` put into the queue once an operation is over.
pub(super) fn put(held: &Arc<Held>, callback: Py<PyAny>) {
    let sender = queue().sender.clone();
    let finished = Arc::clone(held);
    held.begun.pending().then(move |outcome| {
        // Does not fail: the queue lives as long as the process.
        _ = sender.send(Item::Over { held: finished, callback, outcome });
    });
}

/// Waits for the next finished operation. Returns its callback and its error, if it failed; `None` once the
/// queue is stopped.
#[pyfunction]
pub(crate) fn next_completion(py: Python<'_>) -> Option<(Py<PyAny>, Option<Py<PyAny>>)> {
    let item = py.detach(|| queue().receiver.lock().unwrap_or_else(PoisonError::into_inner).recv());
    match item {
        Ok(Item::Over { held, callback, outcome }) => {
            drop(held.released());
            let error = outcome.err().map(|fault| error(py, &fault).into_value(py).into_any());
            Some((callback, error))
        }
        Ok(Item::Stop) | Err(_) => None,
    }
}

/// Stops the queue: [`next_completion`] returns `None` after the items that are in it.
#[pyfunction]
pub(crate) fn stop_completions() {
    _ = queue().sender.send(Item::Stop);
}
