//! A worker that has joined a job on hubs: the handle with which exchanges begin.

use super::client::HubExchange;
use super::terms::Contract;
use super::worker_thread::{Command, Failure};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_executor::pending::{Completion, Pending};
use syncline_protocol::fault::{Blame, FailedOperation, Fault, Task, Trouble};
use syncline_protocol::memory::{Operands, Region};
use syncline_protocol::operation::Request;
use syncline_transport::lane_waker::LaneWaker;

/// A worker's membership in a job on hubs. Dropping it leaves the job.
#[derive(Debug)]
pub struct Worker {
    pub(super) contract: Arc<Contract>,
    pub(super) rank: u32,
    pub(super) submitted: Mutex<Submitted>,
    pub(super) failed: Failure,
    /// Whether the job began when this worker joined.
    pub(super) fresh: bool,
    pub(super) waker: Arc<LaneWaker>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// What has been submitted to the worker's thread.
#[derive(Debug)]
pub(super) struct Submitted {
    commands: Sender<Command>,
    /// The number of the newest exchange.
    newest: u64,
    /// How often each vector has been pushed.
    steps: Vec<u64>,
    /// The exchanges that are not complete.
    in_flight: Vec<InFlight>,
}

impl Submitted {
    /// Nothing has been submitted. `steps` says how often each vector was pushed before.
    pub(super) const fn new(commands: Sender<Command>, steps: Vec<u64>) -> Self {
        Self { commands, newest: 0, steps, in_flight: Vec::new() }
    }
}

/// An exchange that is not complete, and its memory.
#[derive(Debug)]
struct InFlight {
    sequence: u64,
    request: Request,
    key: u32,
    memory: Operands,
    completion: Arc<Completion>,
}

/// A handle to an exchange that has begun.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The exchange's completion.
    pub pending: Pending,
    /// Set once an exchange with a result is complete.
    contributors: Arc<OnceLock<u16>>,
}

impl Exchange {
    /// Returns the least number of workers that contributed to a chunk of the result, once the exchange is complete.
    /// Fewer than all workers if some were lost.
    ///
    /// `None` without a result: for a push or a set, and for a vector without elements.
    pub fn contributors(&self) -> Option<u16> {
        self.contributors.get().copied()
    }
}

impl Worker {
    /// Returns this worker's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns what the job asks of its hubs.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Returns how often each vector has been pushed, by this worker or before it joined.
    pub fn steps(&self) -> Vec<u64> {
        self.lock().steps.clone()
    }

    /// Returns whether the job began when this worker joined, so that no worker had pushed before.
    pub fn fresh(&self) -> bool {
        self.fresh
    }

    /// Returns the fault that ended the worker, if there is one. No exchange can begin then.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        self.failed.get().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Submitted> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an exchange of a vector. `input` is the memory to send and `output` the memory for the result, which may
    /// be the same; each is empty if the request does not use it. With `keep`, a failed exchange restores the input.
    ///
    /// # Errors
    /// There is no such vector, a region has the wrong length, or an exchange that is not complete uses the same memory
    /// and one of the two writes it. Nothing has begun then. Later failures are the exchange's outcome.
    pub fn begin(
        &self,
        key: u32,
        request: Request,
        input: Region,
        output: Region,
        keep: bool,
    ) -> syncline_diagnostics::Result<Exchange> {
        let keys = self.contract.catalogue.keys();
        let Some(vector) = keys.get(key as usize) else {
            let message = format!("vector {key} does not exist: the job has {} vectors", keys.len());
            return Err(Diagnostic::error(Code::BadValue, message).into());
        };
        let bytes = vector.bytes().unwrap_or(0);
        let length = |there: bool| if there { bytes as usize } else { 0 };
        let lengths =
            [("input", input, length(request.sends())), ("output", output, length(request.receives()))];
        for (name, region, length) in lengths {
            if region.len() != length {
                let message =
                    format!("the {name} of {} of `{}` has the wrong length", request.name(), vector.name);
                return Err(Diagnostic::error(Code::BadValue, message)
                    .found(format!("{} bytes", region.len()))
                    .allowed(format!("{length} bytes"))
                    .into());
            }
        }
        if !input.same(output) && input.overlaps(output) {
            let message =
                format!("input and output of {} of `{}` overlap in part", request.name(), vector.name);
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, or memory that does not overlap")
                .into());
        }
        let completion = Completion::new(1);
        let exchange =
            Exchange { pending: Pending::new(Arc::clone(&completion)), contributors: Arc::default() };
        let memory = Operands { input, output };
        let mut submitted = self.lock();
        submitted.in_flight.retain(|other| !other.completion.over());
        if let Some(other) = submitted.in_flight.iter().find(|other| other.memory.conflicts(memory)) {
            let InFlight { sequence, request: theirs, key, .. } = other;
            let (ours, theirs) = (request.name(), theirs.name());
            let message = format!(
                "memory of {ours} of `{}` is in use by {theirs} of `{}` (exchange {sequence})",
                vector.name, keys[*key as usize].name
            );
            let help = format!("wait for exchange {sequence} before you begin this one");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        submitted.newest += 1;
        let sequence = submitted.newest;
        let in_flight = InFlight { sequence, request, key, memory, completion: Arc::clone(&completion) };
        submitted.in_flight.push(in_flight);
        if matches!(request, Request::Push | Request::PushPull) {
            submitted.steps[key as usize] += 1;
        }
        let hub_exchange = HubExchange { sequence, key, request, input, output, keep };
        let contributors = Arc::clone(&exchange.contributors);
        let start =
            Command::Start { exchange: hub_exchange, completion: Arc::clone(&completion), contributors };
        if submitted.commands.send(start).is_ok() {
            self.waker.wake();
        } else {
            let task = Task::Exchange { number: sequence, request, vector: vector.name.clone(), bytes };
            let during = Some(FailedOperation { task, elapsed: Duration::ZERO });
            let (blame, trouble) = (Blame::Rank(self.rank), Trouble::left());
            completion.end(Err(Arc::new(Fault { blame, trouble, during })));
        }
        Ok(exchange)
    }

    /// Changes the learning rate of a vector or of all, from this worker's next push on. One worker does so for all; if
    /// several do, they must set the same rate before the same step.
    ///
    /// # Errors
    /// The rate is invalid, there is no such vector, or it has no optimizer.
    pub fn set_rate(&self, rate: f64, key: Option<u32>) -> syncline_diagnostics::Result<()> {
        let optimizers = &self.contract.optimizers;
        let optimized = match key {
            Some(key) => optimizers.get(key as usize).is_some_and(Option::is_some),
            None => optimizers.iter().any(Option::is_some),
        };
        if !optimized {
            let message = "there is no optimizer whose learning rate could change";
            let help = "give the vector an optimizer when you join";
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        if !(rate.is_finite() && rate >= 0.0) {
            return Err(Diagnostic::error(Code::BadValue, "the learning rate is invalid")
                .found(rate.to_string())
                .allowed("0 or more")
                .into());
        }
        if self.lock().commands.send(Command::Rate { rate, key }).is_ok() {
            self.waker.wake();
        }
        Ok(())
    }
}

impl Drop for Worker {
    /// Leaves the job. Exchanges that are not complete fail.
    fn drop(&mut self) {
        let (disconnected, _) = channel();
        self.lock().commands = disconnected;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended its exchanges with a fault.
            _ = thread.join();
        }
    }
}
