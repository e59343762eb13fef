//! The thread of a hub's core, and what others have of it.

use super::shard::{Bounds, Counters, Joined, Queue, Shard, Which, Who};
use super::terms::Contract;
use mio::Waker;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Kind, Trouble};
use syncline_protocol::heartbeat::Patience;
use syncline_transport::Connection;
use syncline_transport::affinity;
use syncline_transport::bell::Bell;
use syncline_transport::wires::Wires;

/// What a core is told.
#[derive(Debug)]
pub(super) enum Command {
    /// A job begins under a number.
    Open(u32, Arc<Contract>, u16),
    /// Which of a job's chunks are this core's, which rack it is in, where there are some, and what it may take.
    Lay(u32, Vec<u32>, Option<u32>, Bounds),
    /// A job ends.
    Close(u32),
    /// Workers are through with a job: it ends once other racks have what they are owed.
    Retire(u32),
    /// A job's worker, or a hub of another rack, has a connection, under a number.
    Attach(u32, Who, u32, Connection),
    /// A job's worker is lost.
    Lose(u32, u32),
    /// A job's worker is lost before the job has begun.
    Forget(u32, u32),
    /// What does a job's worker owe, that is there again?
    Resume(u32, u32, Which),
    /// A job's worker is there again, and another one will say from when on.
    Expect(u32, u32, Which),
    /// Who holds up a job's worker, at a step of a vector?
    HeldUp(u32, u32, u32, u64),
}

/// What a core tells.
#[derive(Debug)]
pub(super) enum Report {
    /// A job's connection is lost: whose.
    Lost(u32, Who, Trouble),
    /// A job cannot go on without a worker that is gone.
    Missed(u32, u32),
    /// A worker is part of a job again, on this core.
    Joined(u32, Joined),
    /// Who holds up a job's worker.
    HeldUp(u32, u32, Queue),
    /// The core cannot go on.
    Failed(String),
}

/// How long what other racks are owed may take once workers are through with a job.
const LEAVING: Duration = Duration::from_secs(5);

/// How often counters are told: to tell them is no work for every message.
const GLANCE: Duration = Duration::from_millis(100);

/// How much was moved on a core, for whoever looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    /// By each job that is under way.
    pub(super) jobs: BTreeMap<u32, Counters>,
    /// By all jobs so far.
    pub(super) all: Counters,
}

/// Where that is told.
type Board = Arc<Mutex<Moved>>;

/// Says so where the thread panics.
struct Farewell {
    reports: Sender<Report>,
    hall: Arc<Waker>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what = "a core failed, which is a bug of syncline: please report it".to_owned();
            _ = self.reports.send(Report::Failed(what));
            _ = self.hall.wake();
        }
    }
}

/// The thread.
struct Core {
    number: u32,
    shard: Shard,
    wires: Wires,
    bell: Arc<Bell>,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    /// Wakes whoever hears reports.
    hall: Arc<Waker>,
    board: Board,
    /// When counters were put on the board last.
    published: Instant,
    /// Jobs that workers are through with, and since when.
    retiring: BTreeMap<u32, Instant>,
}

impl Core {
    /// A core, and what wakes it after a command.
    fn new(
        number: u32,
        patience: Patience,
        commands: Receiver<Command>,
        (reports, hall): (Sender<Report>, Arc<Waker>),
        board: Board,
    ) -> io::Result<(Self, Arc<Bell>)> {
        let (wires, bell) = Wires::new(patience)?;
        Ok((
            Self {
                number,
                shard: Shard::default(),
                bell: Arc::clone(&bell),
                wires,
                commands,
                reports,
                hall,
                board,
                published: Instant::now(),
                retiring: BTreeMap::new(),
            },
            bell,
        ))
    }

    /// Works until nobody is left to tell it anything; on one CPU, if that is given.
    fn run(mut self, cpu: Option<usize>) {
        // Whoever may not choose is placed by the system.
        _ = cpu.map(affinity::pin);
        let _farewell = Farewell { reports: self.reports.clone(), hall: Arc::clone(&self.hall) };
        let mut ended: Option<Instant> = None;
        loop {
            if let Err(error) = self.wires.wait(&self.shard) {
                self.report(Report::Failed(format!("cannot wait for its connections: {error}")));
                return;
            }
            if !self.obey() {
                // What other racks are owed still goes to them.
                if self.retiring.is_empty() || ended.get_or_insert_with(Instant::now).elapsed() > LEAVING {
                    self.wires.leave(&mut self.shard, || {});
                    return;
                }
            }
            for (connection, trouble) in self.wires.work(&mut self.shard, |_| {}) {
                let Some((job, who)) = self.shard.detach(connection) else { continue };
                // Whoever leaves says so to the hub itself.
                if trouble.kind != Kind::Left {
                    self.report(Report::Lost(job, who, trouble));
                }
            }
            // Chunks may be millions: connections of other jobs have their turn in between.
            if self.shard.sweep() {
                self.bell.ring();
            }
            self.tell();
            self.retire();
            if self.published.elapsed() >= GLANCE {
                self.published = Instant::now();
                let moved = Moved { jobs: self.shard.counters(), all: self.shard.moved() };
                *self.board.lock().unwrap_or_else(PoisonError::into_inner) = moved;
            }
        }
    }

    fn report(&self, report: Report) {
        // Nobody listens where the hub is ending.
        if self.reports.send(report).is_ok() {
            _ = self.hall.wake();
        }
    }

    /// Tells what has come of what was heard.
    fn tell(&mut self) {
        while let Some((job, worker)) = self.shard.missed() {
            self.report(Report::Missed(job, worker));
        }
        for joined in self.shard.joined() {
            self.report(Report::Joined(self.number, joined));
        }
        for (job, worker, queue) in self.shard.answers() {
            self.report(Report::HeldUp(job, worker, queue));
        }
        for (job, rack) in self.shard.deserted() {
            self.report(Report::Lost(job, Who::Rack(rack), Trouble::left()));
        }
    }

    /// Ends jobs that workers are through with, once other racks have what they are owed, or have had their time.
    fn retire(&mut self) {
        for (job, given) in self.shard.retired() {
            let since = *self.retiring.entry(job).or_insert_with(Instant::now);
            if given || since.elapsed() > LEAVING {
                self.retiring.remove(&job);
                for connection in self.shard.close(job) {
                    self.wires.part(connection);
                }
            }
        }
    }

    /// A worker's connection is of no use any more.
    fn cut(&mut self, job: u32, worker: u32) {
        if let Some(connection) = self.shard.connection(job, worker) {
            self.wires.remove(connection);
            self.shard.detach(connection);
        }
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Open(job, contract, epoch)) => self.shard.open(job, contract, epoch),
                Ok(Command::Lay(job, chunks, rack, bounds)) => self.shard.lay(job, chunks, rack, bounds),
                Ok(Command::Close(job)) => {
                    for connection in self.shard.close(job) {
                        self.wires.remove(connection);
                    }
                }
                Ok(Command::Retire(job)) => {
                    for connection in self.shard.retire(job) {
                        self.wires.remove(connection);
                    }
                    self.retiring.insert(job, Instant::now());
                }
                Ok(Command::Attach(job, who, number, connection)) => {
                    if !self.shard.attach(number, job, who) {
                        continue;
                    }
                    if let Err(error) = self.wires.add(&mut self.shard, number, connection) {
                        self.shard.detach(number);
                        let trouble = Trouble::closed(&format!("it cannot be waited for: {error}"));
                        self.report(Report::Lost(job, who, trouble));
                    }
                }
                Ok(Command::Forget(job, worker)) => self.cut(job, worker),
                Ok(Command::Lose(job, worker)) => {
                    self.cut(job, worker);
                    self.shard.lose(job, worker);
                }
                Ok(Command::Resume(job, worker, which)) => self.shard.resume(job, worker, which),
                Ok(Command::Expect(job, worker, which)) => self.shard.expect(job, worker, which),
                Ok(Command::HeldUp(job, worker, key, step)) => self.shard.question(job, worker, key, step),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }
}

/// A core, as the hall sees it. It ends once nobody can tell it anything.
#[derive(Debug)]
pub(super) struct Handle {
    commands: Option<Sender<Command>>,
    bell: Arc<Bell>,
    board: Board,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// A core on a thread of its own; on one CPU, if that is given.
    pub(super) fn spawn(
        number: u32,
        patience: Patience,
        tell: (Sender<Report>, Arc<Waker>),
        cpu: Option<usize>,
    ) -> io::Result<Self> {
        let (commands, obey) = channel();
        let board = Board::default();
        let (core, bell) = Core::new(number, patience, obey, tell, Arc::clone(&board))?;
        let thread = std::thread::Builder::new().name(format!("core {number}"));
        let thread = thread.spawn(move || core.run(cpu))?;
        Ok(Self { commands: Some(commands), bell, board, thread: Some(thread) })
    }

    pub(super) fn tell(&self, command: Command) {
        // A core that has ended has said so.
        if self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok()) {
            self.bell.ring();
        }
    }

    /// How much was moved on it.
    pub(super) fn moved(&self) -> Moved {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it works.
    pub(super) fn works(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The core ends, soon.
    pub(super) fn dismiss(&mut self) {
        self.commands = None;
        self.bell.ring();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.dismiss();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}
