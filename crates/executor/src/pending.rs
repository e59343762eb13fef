//! An operation or transfer under way, as its caller sees it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
use loom::sync::{Condvar, Mutex};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
#[cfg(not(loom))]
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use syncline_protocol::fault::Fault;

use super::polled_lane::{self, PolledLane};

/// How an operation or transfer ended.
pub type Outcome = Result<(), Arc<Fault>>;

type Callback = Box<dyn FnOnce(Outcome) + Send>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    /// When the operation ended.
    ended: Option<Instant>,
    /// Whether a lane has given up, so that the operation can only fail.
    sealed: bool,
    callbacks: Vec<Callback>,
}

/// Asks a transfer's lane to withdraw it.
type Withdrawal = Box<dyn Fn() + Send + Sync>;

/// The end of an operation or transfer, which lanes set and callers wait for.
#[derive(Default)]
pub struct Completion {
    /// Lanes that have not finished.
    lanes: AtomicU32,
    state: Mutex<State>,
    ended: Condvar,
    /// The rank at the other side of a transfer, by its place in the group, once it is known.
    source: OnceLock<u32>,
    withdrawal: OnceLock<Withdrawal>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({} lanes left)", self.lanes.load(Ordering::Relaxed))
    }
}

impl Completion {
    /// The completion of an operation that runs on this number of lanes.
    pub fn new(lanes: u32) -> Arc<Self> {
        Arc::new(Self { lanes: AtomicU32::new(lanes), ..Self::default() })
    }

    /// Sets the rank at the other side of a transfer, by its place in the group.
    pub fn set_source(&self, source: u32) {
        _ = self.source.set(source);
    }

    /// Counts a lane that has finished. Returns whether it was the last.
    pub fn lane_done(&self) -> bool {
        self.lanes.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Ends the operation, and returns whether this outcome counts. Only the first outcome counts, and
    /// success does not count once a lane has given up.
    pub fn end(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.outcome.is_some() || (state.sealed && outcome.is_ok()) {
            return false;
        }
        state.outcome = Some(outcome.clone());
        state.ended = Some(Instant::now());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.ended.notify_all();
        for callback in callbacks {
            // The other callbacks run even if one panics. The panic hook has reported it.
            _ = catch_unwind(AssertUnwindSafe(|| callback(outcome.clone())));
        }
        true
    }

    /// Whether the operation is over.
    pub fn over(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.is_some()
    }

    /// When the operation ended, if it has succeeded.
    pub(super) fn succeeded(&self) -> Option<Instant> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended.filter(|_| matches!(state.outcome, Some(Ok(()))))
    }

    /// A lane gives up, so the operation can only fail. Returns false, and changes nothing, if it has
    /// succeeded already.
    pub fn seal(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sealed |= state.outcome.is_none();
        !matches!(state.outcome, Some(Ok(())))
    }
}

/// An operation or transfer under way.
#[derive(Clone, Debug)]
pub struct Pending {
    completion: Arc<Completion>,
    /// Lanes that callers poll while they wait.
    polled: Arc<[Arc<PolledLane>]>,
}

impl Pending {
    /// The operation that `completion` ends.
    pub fn new(completion: Arc<Completion>) -> Self {
        Self { completion, polled: Arc::default() }
    }

    /// Makes callers poll these lanes while they wait.
    pub(super) fn polling(self, lanes: &Arc<[Arc<PolledLane>]>) -> Self {
        Self { polled: Arc::clone(lanes), ..self }
    }

    /// Makes [`Pending::withdraw`] call `withdraw`, which asks the transfer's lane to withdraw it.
    pub(super) fn allow_withdrawal(&self, withdraw: impl Fn() + Send + Sync + 'static) {
        _ = self.completion.withdrawal.set(Box::new(withdraw));
    }

    /// The rank at the other side of a transfer that has succeeded, by its place in the group.
    pub fn source(&self) -> Option<u32> {
        self.completion.source.get().copied()
    }

    /// Cancels a receive. It fails soon, unless part of the message has arrived already. Has no effect on
    /// sends and collectives.
    pub fn withdraw(&self) {
        if let Some(withdraw) = self.completion.withdrawal.get() {
            withdraw();
        }
    }

    /// How the operation ended, if it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.completion.state.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    /// Waits until the operation is over, at most for `most`. Returns `None` if it is not over by then. The
    /// operation goes on in that case; its communicator fails it when its own deadline passes.
    pub fn wait(&self, most: Duration) -> Option<Outcome> {
        // Most operations are small: sleeping and waking would take longer than they do.
        const YIELDS: usize = if cfg!(loom) { 0 } else { 10 };
        if !self.polled.is_empty() {
            polled_lane::poll(&self.polled, &self.completion, most);
        }
        for _ in 0..YIELDS {
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

    /// Calls `callback` once the operation is over: on a lane's or the monitor's thread, which it must not
    /// block, or at once if the operation is over already. Callbacks run in the order in which they were
    /// given. If one panics, the others still run.
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

/// Every order in which lanes can end an operation that a caller waits for, by loom.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// Two lanes write the result, each its part, and the last one ends the operation. Waiting callers and callbacks see
    /// the whole result: loom reports a read that is not ordered after a write.
    fn ends(wait: fn(&Pending, &dyn Fn())) {
        loom::model(move || {
            let completion = Completion::new(2);
            let result = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
            for lane in 0..2 {
                let (completion, result) = (Arc::clone(&completion), Arc::clone(&result));
                thread::spawn(move || {
                    // SAFETY: each lane has its own cell.
                    #[allow(unsafe_code)]
                    result[lane].with_mut(|part| unsafe { *part = 7 });
                    if completion.lane_done() {
                        completion.end(Ok(()));
                    }
                });
            }
            let look = || {
                // SAFETY: loom reports it if a lane may still write.
                #[allow(unsafe_code)]
                let parts = [0, 1].map(|lane| result[lane].with(|part| unsafe { *part }));
                assert_eq!(parts, [7, 7]);
            };
            wait(&Pending::new(completion), &look);
        });
    }

    #[test]
    fn a_caller_that_waits_sees_the_result_of_all_lanes() {
        ends(|pending, look| {
            assert!(matches!(pending.wait(Duration::MAX), Some(Ok(()))));
            look();
        });
    }

    #[test]
    fn a_caller_that_polls_sees_the_result_of_all_lanes() {
        ends(|pending, look| {
            if pending.outcome().is_some() {
                look();
            }
        });
    }

    #[test]
    fn a_callback_runs_once_whether_it_comes_before_or_after_the_end() {
        loom::model(|| {
            let completion = Completion::new(1);
            let calls = Arc::new(AtomicU32::new(0));
            let lane = Arc::clone(&completion);
            let ends = thread::spawn(move || {
                assert!(lane.lane_done());
                lane.end(Ok(()));
            });
            let count = Arc::clone(&calls);
            Pending::new(completion).then(move |outcome| {
                assert!(outcome.is_ok());
                count.fetch_add(1, Ordering::Relaxed);
            });
            ends.join().unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use syncline_protocol::fault::{Blame, Trouble};

    #[test]
    fn a_callback_that_panics_does_not_stop_the_next() {
        let completion = Completion::new(1);
        let pending = Pending::new(Arc::clone(&completion));
        let (sender, receiver) = std::sync::mpsc::channel();
        pending.then(|_| panic!("a test"));
        pending.then(move |outcome| sender.send(outcome.is_ok()).unwrap());
        assert!(completion.end(Ok(())));
        assert_eq!(receiver.recv(), Ok(true));
    }

    #[test]
    fn an_operation_cannot_succeed_once_a_lane_has_given_up() {
        let given_up = Completion::new(2);
        assert!(given_up.seal() && !given_up.end(Ok(())));
        let fault = Fault { blame: Blame::SomeRank, trouble: Trouble::left(), during: None };
        assert!(given_up.end(Err(Arc::new(fault))) && given_up.seal());
        let done = Completion::new(1);
        assert!(done.lane_done() && done.end(Ok(())) && !done.seal());
    }

    #[test]
    fn callbacks_run_once_and_late_ones_at_once() {
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
