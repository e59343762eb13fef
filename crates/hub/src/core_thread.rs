//! The thread of a hub's core, and the handle of the admission thread to it.

use super::saved::SavedChunk;
use super::shard::{
    Attempt, Bounds, Counters, DepartedRack, Joined, MissedWorker, Peer, RetiredJob, SavedShare, Shard,
    Waits, WaitsReport,
};
use super::terms::Contract;
use mio::Waker;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{FaultKind, Trouble};
use syncline_protocol::heartbeat::{LostPeer, Patience};
use syncline_transport::Connection;
use syncline_transport::affinity;
use syncline_transport::connections::Connections;
use syncline_transport::lane_waker::LaneWaker;

/// A command to a core.
#[derive(Debug)]
pub(super) enum Command {
    /// Open a job.
    OpenJob { job: u32, contract: Arc<Contract>, epoch: u16 },
    /// Take these chunks of a job, in this state if they are saved. `rack` is the rack of this hub, if the job has racks.
    AssignChunks {
        job: u32,
        chunks: Vec<u32>,
        rack: Option<u32>,
        bounds: Bounds,
        saved: BTreeMap<u32, SavedChunk>,
    },
    /// End a job at once.
    EndJob { job: u32 },
    /// End a job whose workers have finished, once other racks have received what they need.
    RetireJob { job: u32 },
    /// Take over a connection to a worker, or to a hub of another rack. No other connection has its number.
    Attach { job: u32, peer: Peer, number: u32, connection: Connection },
    /// A worker is lost or has left.
    LoseWorker { job: u32, worker: u32 },
    /// Close the connection to a worker that was lost before its job began.
    DropWorker { job: u32, worker: u32 },
    /// Let a restarted worker continue where it was, and report the steps that it has completed.
    Resume { job: u32, worker: u32, attempt: Attempt },
    /// Expect another worker to announce a restarted worker, and report then.
    Expect { job: u32, worker: u32, attempt: Attempt },
    /// Report which workers block a step of a vector.
    ReportWaits { job: u32, worker: u32, key: u32, step: u64 },
}

/// A report from a core.
#[derive(Debug)]
pub(super) enum Report {
    /// The connection to a peer is lost.
    Lost { job: u32, peer: Peer, trouble: Trouble },
    /// A job cannot go on without a worker that is gone.
    Missed { job: u32, worker: u32 },
    /// A restarted worker takes part in a job again.
    Joined { core: u32, joined: Joined },
    /// The core's chunks, as a worker has announced that they are to be saved.
    Saved { core: u32, share: SavedShare },
    /// The answer to [`Command::ReportWaits`].
    Waits { job: u32, worker: u32, waits: Waits },
    /// The core cannot go on.
    Failed(String),
}

/// Grace period for sending other racks what they need, once a job's workers have finished.
const LEAVING: Duration = Duration::from_secs(5);

/// How often a core publishes its counters, so that it does not do so for every message.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// The data that a core has moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    /// For each open job.
    pub(super) jobs: BTreeMap<u32, Counters>,
    /// For all jobs so far.
    pub(super) all: Counters,
}

/// Where a core publishes the data that it has moved.
type Published = Arc<Mutex<Moved>>;

/// Reports if the core's thread panics.
struct PanicReporter {
    reports: Sender<Report>,
    admission: Arc<Waker>,
}

impl Drop for PanicReporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "a core failed, which is a bug in syncline: please report it".to_owned();
            _ = self.reports.send(Report::Failed(what));
            _ = self.admission.wake();
        }
    }
}

/// A core, as its thread runs it.
struct Core {
    number: u32,
    shard: Shard,
    connections: Connections,
    waker: Arc<LaneWaker>,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    /// Wakes the admission thread after a report.
    admission: Arc<Waker>,
    published: Published,
    /// When the counters were last published.
    published_at: Instant,
    /// Jobs whose workers have finished, and since when.
    retiring: BTreeMap<u32, Instant>,
}

impl Core {
    /// Creates a core. Returns it and the waker to use after a command.
    fn new(
        number: u32,
        patience: Patience,
        commands: Receiver<Command>,
        reports: Sender<Report>,
        admission: Arc<Waker>,
        published: Published,
    ) -> io::Result<(Self, Arc<LaneWaker>)> {
        let (connections, waker) = Connections::new(patience)?;
        Ok((
            Self {
                number,
                shard: Shard::default(),
                waker: Arc::clone(&waker),
                connections,
                commands,
                reports,
                admission,
                published,
                published_at: Instant::now(),
                retiring: BTreeMap::new(),
            },
            waker,
        ))
    }

    /// Works until its handle is dropped; on one CPU, if that is given.
    fn run(mut self, cpu: Option<usize>) {
        // If pinning fails, the system chooses a CPU.
        _ = cpu.map(affinity::pin);
        let _panic_reporter =
            PanicReporter { reports: self.reports.clone(), admission: Arc::clone(&self.admission) };
        let mut ended: Option<Instant> = None;
        loop {
            if let Err(error) = self.connections.wait(&self.shard) {
                self.report(Report::Failed(format!("cannot wait for its connections: {error}")));
                return;
            }
            if !self.carry_out_commands() {
                // Other racks still get the sums that they need.
                if self.retiring.is_empty() || ended.get_or_insert_with(Instant::now).elapsed() > LEAVING {
                    self.connections.leave(&mut self.shard, || {});
                    return;
                }
            }
            for LostPeer { peer: connection, trouble } in self.connections.work(&mut self.shard, |_| {}) {
                let Some((job, peer)) = self.shard.detach(connection) else { continue };
                // A worker that leaves tells the admission thread itself.
                if trouble.kind != FaultKind::Left {
                    self.report(Report::Lost { job, peer, trouble });
                }
            }
            // There may be millions of chunks: connections of other jobs have their turn in between.
            if self.shard.sweep() {
                self.waker.wake();
            }
            self.send_reports();
            self.end_retired();
            if self.published_at.elapsed() >= PUBLISH_EVERY {
                self.published_at = Instant::now();
                let moved = Moved { jobs: self.shard.counters(), all: self.shard.moved() };
                *self.published.lock().unwrap_or_else(PoisonError::into_inner) = moved;
            }
        }
    }

    fn report(&self, report: Report) {
        // Sending fails if the hub is ending.
        if self.reports.send(report).is_ok() {
            _ = self.admission.wake();
        }
    }

    /// Sends the reports that have come up.
    fn send_reports(&mut self) {
        while let Some(MissedWorker { job, worker }) = self.shard.missed_worker() {
            self.report(Report::Missed { job, worker });
        }
        for joined in self.shard.joined() {
            self.report(Report::Joined { core: self.number, joined });
        }
        for WaitsReport { job, worker, waits } in self.shard.waits_reports() {
            self.report(Report::Waits { job, worker, waits });
        }
        for share in self.shard.saved_shares() {
            self.report(Report::Saved { core: self.number, share });
        }
        for DepartedRack { job, rack } in self.shard.departed_racks() {
            self.report(Report::Lost { job, peer: Peer::Rack(rack), trouble: Trouble::left() });
        }
    }

    /// Ends jobs whose workers have finished, once other racks have received what they need or [`LEAVING`] has passed.
    fn end_retired(&mut self) {
        for RetiredJob { job, delivered } in self.shard.retired() {
            let since = *self.retiring.entry(job).or_insert_with(Instant::now);
            if delivered || since.elapsed() > LEAVING {
                self.retiring.remove(&job);
                for connection in self.shard.close(job) {
                    self.connections.finish(connection);
                }
            }
        }
    }

    /// Closes the connection to a worker.
    fn close_connection(&mut self, job: u32, worker: u32) {
        if let Some(connection) = self.shard.connection(job, worker) {
            self.connections.remove(connection);
            self.shard.detach(connection);
        }
    }

    /// Carries out commands. Returns false if no handle is left.
    fn carry_out_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::OpenJob { job, contract, epoch }) => self.shard.open(job, contract, epoch),
                Ok(Command::AssignChunks { job, chunks, rack, bounds, saved }) => {
                    self.shard.assign(job, chunks, rack, bounds, saved);
                }
                Ok(Command::EndJob { job }) => {
                    for connection in self.shard.close(job) {
                        self.connections.remove(connection);
                    }
                }
                Ok(Command::RetireJob { job }) => {
                    for connection in self.shard.retire(job) {
                        self.connections.remove(connection);
                    }
                    self.retiring.insert(job, Instant::now());
                }
                Ok(Command::Attach { job, peer, number, connection }) => {
                    if !self.shard.attach(number, job, peer) {
                        continue;
                    }
                    if let Err(error) = self.connections.add(&mut self.shard, number, connection) {
                        self.shard.detach(number);
                        let what =
                            format!("could not be served: the hub cannot register its connection ({error})");
                        let trouble = Trouble { kind: FaultKind::Closed, what };
                        self.report(Report::Lost { job, peer, trouble });
                    }
                }
                Ok(Command::DropWorker { job, worker }) => self.close_connection(job, worker),
                Ok(Command::LoseWorker { job, worker }) => {
                    self.close_connection(job, worker);
                    self.shard.lose(job, worker);
                }
                Ok(Command::Resume { job, worker, attempt }) => self.shard.resume(job, worker, attempt),
                Ok(Command::Expect { job, worker, attempt }) => self.shard.expect(job, worker, attempt),
                Ok(Command::ReportWaits { job, worker, key, step }) => {
                    self.shard.report_waits(job, worker, key, step);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

/// The admission thread's handle to a core. The core ends once its handle is dropped.
#[derive(Debug)]
pub(super) struct CoreHandle {
    commands: Option<Sender<Command>>,
    waker: Arc<LaneWaker>,
    published: Published,
    thread: Option<JoinHandle<()>>,
}

impl CoreHandle {
    /// Starts a core on a thread; on one CPU, if that is given.
    pub(super) fn spawn(
        number: u32,
        patience: Patience,
        reports: Sender<Report>,
        admission: Arc<Waker>,
        cpu: Option<usize>,
    ) -> io::Result<Self> {
        let (commands, receiver) = channel();
        let published = Published::default();
        let (core, waker) =
            Core::new(number, patience, receiver, reports, admission, Arc::clone(&published))?;
        let thread = std::thread::Builder::new().name(format!("core {number}"));
        let thread = thread.spawn(move || core.run(cpu))?;
        Ok(Self { commands: Some(commands), waker, published, thread: Some(thread) })
    }

    pub(super) fn send(&self, command: Command) {
        // Sending fails if the core has ended, which it has reported.
        if self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok()) {
            self.waker.wake();
        }
    }

    /// Returns the data that the core has moved, as of its last publication.
    pub(super) fn moved(&self) -> Moved {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the core's thread runs.
    pub(super) fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Tells the core to end, and does not wait for it.
    pub(super) fn stop(&mut self) {
        self.commands = None;
        self.waker.wake();
    }
}

impl Drop for CoreHandle {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
