//! Operations that are over, and whom to tell. Lanes' threads must not wait for the interpreter: they put what is over into a
//! queue, and one thread of Python's takes it from there.

use super::error;
use super::operations::Held;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use syncline_executor::pending::Outcome;

/// What is taken from the queue.
enum Item {
    /// An operation is over: whom to tell.
    Over(Arc<Held>, Py<PyAny>, Outcome),
    /// Nothing more is to be taken.
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
    let over = Arc::clone(held);
    held.begun.pending().then(move |outcome| {
        // The queue lives as long as the process.
        _ = sender.send(Item::Over(over, callback, outcome));
    });
}

/// Waits for the next operation that is over, and gives its callback with the error that it ended with; nothing once the
/// queue is stopped.
#[pyfunction]
pub(crate) fn next_completion(py: Python<'_>) -> Option<(Py<PyAny>, Option<Py<PyAny>>)> {
    let item = py.detach(|| queue().receiver.lock().unwrap_or_else(PoisonError::into_inner).recv());
    match item {
        Ok(Item::Over(held, callback, outcome)) => {
            drop(held.released());
            let error = outcome.err().map(|fault| error(py, &fault).into_value(py).into_any());
            Some((callback, error))
        }
        Ok(Item::Stop) | Err(_) => None,
    }
}

/// Has [`next_completion`] end, after what is in the queue.
#[pyfunction]
pub(crate) fn stop_completions() {
    _ = queue().sender.send(Item::Stop);
}
