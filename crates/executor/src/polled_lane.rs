//! Lets callers do the work of lanes while they wait, so that a small operation needs no change of threads.
//!
//! A lane's [`Worker`] belongs to its thread. A caller that polls takes it over, and its thread then sleeps. The thread
//! takes it back once no caller has polled for some time.

use super::pending::Completion;
use super::worker::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use syncline_transport::affinity;
use syncline_transport::lane_waker::LaneWaker;

/// A lane's worker, which its thread and callers use in turn.
pub(super) struct PolledLane {
    /// `None` once it has ended.
    worker: Mutex<Option<Worker>>,
    waker: Arc<LaneWaker>,
    /// Whether a caller has the worker, or waits for the lane's thread to let it go.
    called: AtomicBool,
    /// Until when the lane's thread leaves the worker to callers.
    left_until: Mutex<Instant>,
    /// The lane's thread, once it runs.
    thread: OnceLock<Thread>,
    /// How long callers poll. The lane's thread takes the worker back after this time without a caller.
    patience: Duration,
}

impl std::fmt::Debug for PolledLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolledLane").field("called", &self.called).finish_non_exhaustive()
    }
}

impl PolledLane {
    /// Creates a lane. No caller polls if `patience` is zero.
    pub(super) fn new(worker: Worker, waker: Arc<LaneWaker>, patience: Duration) -> Self {
        Self {
            worker: Mutex::new(Some(worker)),
            waker,
            called: AtomicBool::new(false),
            left_until: Mutex::new(Instant::now()),
            thread: OnceLock::new(),
            patience,
        }
    }

    /// Works until the worker ends: the lane's thread, on one CPU if `cpu` gives one.
    pub(super) fn run(&self, cpu: Option<usize>) {
        // If pinning fails, the system's scheduler places the thread.
        _ = cpu.map(affinity::pin);
        _ = self.thread.set(std::thread::current());
        loop {
            let mut worker = self.lock();
            while !self.called.load(Ordering::SeqCst) {
                if !advance(&mut worker, |worker| worker.step() && worker.wait()) {
                    return;
                }
            }
            drop(worker);
            while let Some(left) = self.until_taken_back() {
                std::thread::park_timeout(left);
            }
        }
    }

    /// How long the lane's thread still leaves the worker to callers.
    fn until_taken_back(&self) -> Option<Duration> {
        if self.called.load(Ordering::SeqCst) {
            return Some(self.patience);
        }
        let until = *self.left_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Locks the worker. No panic leaves it in an invalid state: [`advance`] drops a worker that panics.
    fn lock(&self) -> MutexGuard<'_, Option<Worker>> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the worker for a caller, unless another caller has it.
    fn take(&self) -> Option<Taken<'_>> {
        if self.called.swap(true, Ordering::SeqCst) {
            return None;
        }
        let worker = match self.worker.try_lock() {
            Ok(worker) => worker,
            Err(_) => {
                // The lane's thread has it. It sees that a caller waits when it wakes up.
                self.waker.wake();
                self.lock()
            }
        };
        Some(Taken { worker: Some(worker), lane: self })
    }
}

/// A worker that a caller has taken.
struct Taken<'a> {
    /// `None` only while it is dropped.
    worker: Option<MutexGuard<'a, Option<Worker>>>,
    lane: &'a PolledLane,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let lane = self.lane;
        // The caller may soon wait for another operation. Until then, only what is under way needs the lane's thread.
        let idle = self.worker.as_ref().and_then(|worker| worker.as_ref()).is_some_and(Worker::is_idle);
        let more = if idle { lane.patience } else { Duration::ZERO };
        *lane.left_until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + more;
        drop(self.worker.take());
        lane.called.store(false, Ordering::SeqCst);
        if !idle {
            lane.thread.get().into_iter().for_each(Thread::unpark);
        }
    }
}

/// Lets a worker work. Returns whether it goes on; drops it if it does not.
fn advance(worker: &mut Option<Worker>, work: impl FnOnce(&mut Worker) -> bool) -> bool {
    let Some(present) = worker else { return false };
    match catch_unwind(AssertUnwindSafe(|| work(present))) {
        Ok(true) => return true,
        Ok(false) => {}
        Err(_) => present.report_panic(),
    }
    *worker = None;
    false
}

/// Does the work of lanes until an operation is over, for the lanes' patience or `most` if that is shorter. Returns at once
/// if other callers poll all lanes.
pub(super) fn poll(lanes: &[Arc<PolledLane>], completion: &Completion, most: Duration) {
    let patience = lanes.first().map_or(Duration::ZERO, |lane| lane.patience);
    let until = Instant::now() + patience.min(most);
    let mut taken: Vec<Taken<'_>> = lanes.iter().filter_map(|lane| lane.take()).collect();
    while !taken.is_empty() && !completion.over() {
        taken.retain_mut(|taken| {
            taken
                .worker
                .as_mut()
                .is_some_and(|worker| advance(worker, |worker| worker.step() && worker.look()))
        });
        if completion.over() || Instant::now() >= until {
            break;
        }
        // The processes of this machine may outnumber its CPUs.
        std::thread::yield_now();
    }
}
