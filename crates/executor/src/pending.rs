//! An operation under way, as whoever began it sees it.

use super::group::Handle;
use super::worker::Command;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use syncline_protocol::fault::Fault;
use syncline_protocol::lane::transfers::Label;

/// What became of an operation.
pub type Outcome = Result<(), Arc<Fault>>;

type Callback = Box<dyn FnOnce(Outcome) + Send>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    /// Whether it can only fail: a lane has given up.
    sealed: bool,
    callbacks: Vec<Callback>,
}

/// Shared by the lanes and whoever waits.
#[derive(Default)]
pub struct Completion {
    lanes: AtomicU32,
    state: Mutex<State>,
    ended: Condvar,
    /// Which rank of its group the other side of a transfer is, once that is known.
    source: OnceLock<u32>,
    /// How to await a transfer no longer.
    withdrawal: OnceLock<(Handle, Label, u64)>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({} lanes left)", self.lanes.load(Ordering::Relaxed))
    }
}

impl Completion {
    /// A completion that ends once all of `lanes` have.
    pub fn new(lanes: u32) -> Arc<Self> {
        Arc::new(Self { lanes: AtomicU32::new(lanes), ..Self::default() })
    }

    /// Who the other side of a transfer is.
    pub fn came_from(&self, source: u32) {
        _ = self.source.set(source);
    }

    /// One lane is through; whether it was the last.
    pub fn lane_done(&self) -> bool {
        self.lanes.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is over; whether this is what counts. Only the first outcome does, and nothing ends well once a lane has given up.
    pub fn end(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_some() || (state.sealed && outcome.is_ok()) {
            return false;
        }
        state.outcome = Some(outcome.clone());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.ended.notify_all();
        for callback in callbacks {
            // Others are told all the same where one panics, which has said so.
            _ = catch_unwind(AssertUnwindSafe(|| callback(outcome.clone())));
        }
        true
    }

    /// Whether it is over.
    pub fn over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.is_some()
    }

    /// A lane gives up; whether it may, because the operation has not ended well before.
    pub fn seal(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sealed |= state.outcome.is_none();
        !matches!(state.outcome, Some(Ok(())))
    }
}

/// An operation under way.
#[derive(Clone, Debug)]
pub struct Pending {
    completion: Arc<Completion>,
}

impl Pending {
    /// The operation that a completion ends.
    pub fn new(completion: Arc<Completion>) -> Self {
        Self { completion }
    }

    /// It can be withdrawn: by telling that lane its label and number.
    pub(super) fn can_withdraw(&self, lane: Handle, label: Label, number: u64) {
        _ = self.completion.withdrawal.set((lane, label, number));
    }

    /// Which rank of its group the other side of a transfer is, once it is over and has gone well.
    pub fn source(&self) -> Option<u32> {
        self.completion.source.get().copied()
    }

    /// Awaits a transfer no longer. Where nothing of it has come in yet it fails soon; else it goes on. So does what is sent,
    /// and a collective.
    pub fn withdraw(&self) {
        let Some(((commands, bell), label, number)) = self.completion.withdrawal.get() else { return };
        if commands.send(Command::Withdraw(*label, *number)).is_ok() {
            bell.ring();
        }
    }

    /// What became of it, if it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.completion.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    /// Waits until it is over, or until the time is up: then nothing. (The operation goes on; its communicator ends it when
    /// its own deadline has passed.)
    pub fn wait(&self, most: Duration) -> Option<Outcome> {
        // Most operations are small: to sleep and be woken would take longer than they do.
        const LOOKS: usize = 10;
        for _ in 0..LOOKS {
            if self.completion.over() || most.is_zero() {
                break;
            }
            std::thread::yield_now();
        }
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
    /// already. Several callbacks are called in the order in which they were given; one that panics keeps nobody else from
    /// hearing.
    pub fn then(&self, callback: impl FnOnce(Outcome) + Send + 'static) {
        let mut state = self.completion.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.outcome.clone() {
            Some(outcome) => {
                drop(state);
                callback(outcome);
            }
            None => state.callbacks.push(Box::new(callback)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_protocol::fault::{Blame, Trouble};

    #[test]
    fn a_callback_that_panics_keeps_nobody_from_hearing() {
        let completion = Completion::new(1);
        let pending = Pending::new(Arc::clone(&completion));
        let (tell, told) = std::sync::mpsc::channel();
        pending.then(|_| panic!("a test"));
        pending.then(move |outcome| tell.send(outcome.is_ok()).unwrap());
        assert!(completion.end(Ok(())));
        assert_eq!(told.recv(), Ok(true));
    }

    #[test]
    fn once_a_lane_has_given_up_nothing_ends_well() {
        let given_up = Completion::new(2);
        assert!(given_up.seal() && !given_up.end(Ok(())));
        let fault = Fault { blame: Blame::Nobody, trouble: Trouble::left(), during: None };
        assert!(given_up.end(Err(Arc::new(fault))) && given_up.seal());
        let done = Completion::new(1);
        assert!(done.lane_done() && done.end(Ok(())) && !done.seal());
    }

    #[test]
    fn callbacks_come_once_and_late_ones_at_once() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let completion = Completion::new(1);
        let pending = Pending::new(Arc::clone(&completion));
        for number in 1..=2 {
            let sender = sender.clone();
            pending.then(move |outcome| sender.send((number, outcome.is_ok())).unwrap());
        }
        assert!(pending.wait(Duration::from_millis(1)).is_none());
        completion.end(Ok(()));
        completion.end(Ok(()));
        pending.then(move |outcome| sender.send((3, outcome.is_ok())).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
    }
}
