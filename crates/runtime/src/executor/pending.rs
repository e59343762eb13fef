//! An operation under way, as whoever began it sees it.

use crate::fault::Fault;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What became of an operation.
pub type Outcome = Result<(), Arc<Fault>>;

type Callback = Box<dyn FnOnce(Outcome) + Send>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    callback: Option<Callback>,
}

/// Shared by the lanes and whoever waits.
#[derive(Default)]
pub(crate) struct Completion {
    lanes: AtomicU32,
    state: Mutex<State>,
    ended: Condvar,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({} lanes left)", self.lanes.load(Ordering::Relaxed))
    }
}

impl Completion {
    pub(crate) fn new(lanes: u32) -> Arc<Self> {
        Arc::new(Self { lanes: AtomicU32::new(lanes), ..Self::default() })
    }

    /// One lane is through; whether it was the last.
    pub(crate) fn lane_done(&self) -> bool {
        self.lanes.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is over. Only the first outcome counts.
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(outcome.clone());
        let callback = state.callback.take();
        drop(state);
        self.ended.notify_all();
        if let Some(callback) = callback {
            callback(outcome);
        }
    }
}

/// An operation under way.
#[derive(Clone, Debug)]
pub struct Pending {
    completion: Arc<Completion>,
}

impl Pending {
    pub(crate) fn new(completion: Arc<Completion>) -> Self {
        Self { completion }
    }

    /// What became of it, if it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.completion.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    /// Waits until it is over, or until the time is up: then nothing. (The operation goes on; its communicator ends it when
    /// its own deadline has passed.)
    pub fn wait(&self, most: Duration) -> Option<Outcome> {
        let deadline = Instant::now().checked_add(most);
        let mut state = self.completion.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.outcome.is_none() {
            let left = match deadline {
                Some(deadline) => deadline.checked_duration_since(Instant::now())?,
                None => Duration::from_secs(1 << 20),
            };
            let waited = self.completion.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.outcome.clone()
    }

    /// Has `callback` called once it is over: on a lane's thread, which must not be kept; or at once, where it is over
    /// already. A second callback takes the place of the first.
    pub fn then(&self, callback: impl FnOnce(Outcome) + Send + 'static) {
        let mut state = self.completion.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.outcome.clone() {
            Some(outcome) => {
                drop(state);
                callback(outcome);
            }
            None => state.callback = Some(Box::new(callback)),
        }
    }
}
