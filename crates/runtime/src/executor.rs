//! Runs collectives on threads and sockets: a [`Communicator`] has one thread for each lane, and one that watches them.
//!
//! - `worker`: a lane's thread;
//! - `monitor`: the thread that watches them;
//! - [`pending`]: an operation under way.

mod monitor;
pub mod pending;
mod worker;

use crate::control::message::Progress;
use crate::fault::{Blame, Fault, Trouble};
use crate::lane::{Job, Lane, Pace};
use crate::memory::Region;
use crate::operation::Operation;
use crate::pulse::Patience;
use crate::shape::Book;
use crate::transport::Connection;
use crate::transport::bell::Bell;
use monitor::Monitor;
use pending::{Completion, Pending};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::CollectiveKind;
use worker::{Command, Report, Worker};

/// How a communicator goes about its work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lanes, and how lanes go about it.
    pub pace: Pace,
    /// Signs of life.
    pub patience: Patience,
    /// How long an operation may take.
    pub deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let pace = Pace { lanes: 1, window: 512 << 10, ahead: 64 << 20 };
        Self { pace, patience: Patience::default(), deadline: Duration::from_secs(300) }
    }
}

/// A group of ranks that run collectives together.
#[derive(Debug)]
pub struct Communicator {
    book: Arc<Book>,
    transports: Vec<String>,
    cpus: Vec<usize>,
    lanes: Lanes,
    shared: Arc<Mutex<Shared>>,
    gauge: Arc<Gauge>,
    monitor: Option<JoinHandle<()>>,
}

/// Whoever decides who is at fault, if that is not each rank for itself. Dropped when the communicator is.
pub(crate) trait Court: Send {
    /// Something is wrong with a peer, by its name, as it seems from here.
    fn report(&self, peer: u32, trouble: Trouble);
    /// An operation takes too long.
    fn late(&self, sequence: u64, elapsed: Duration);
}

/// Where a court says what it has decided.
#[derive(Clone, Debug)]
pub(crate) struct Verdicts(Sender<Report>);

impl Verdicts {
    /// The decision. Only the first counts.
    pub(crate) fn give(&self, blame: Blame, trouble: Trouble) {
        // Nobody listens where the communicator is being dropped.
        _ = self.0.send(Report::Verdict(blame, trouble));
    }
}

/// How far a communicator is.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    begun: AtomicU64,
    over: AtomicU64,
    /// What lanes hear, and what their peers are called.
    ears: OnceLock<(Vec<Arc<Bell>>, Arc<Book>)>,
}

impl Gauge {
    /// Operations begun, and those that are over.
    pub(crate) fn read(&self) -> Progress {
        Progress { begun: self.begun.load(Ordering::Relaxed), over: self.over.load(Ordering::Relaxed) }
    }

    /// Ranks from which something has come of late, on some lane.
    pub(crate) fn hears(&self) -> Vec<u32> {
        let Some((bells, book)) = self.ears.get() else { return Vec::new() };
        let heard: BTreeSet<u32> = bells.iter().flat_map(|bell| bell.hears()).collect();
        heard.into_iter().map(|peer| book.name(peer)).collect()
    }
}

/// A lane's thread.
#[derive(Debug)]
struct Handle {
    commands: Sender<Command>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// An operation that has begun.
#[derive(Debug)]
struct UnderWay {
    completion: Arc<Completion>,
    operation: Operation,
    began: Instant,
    input: Region,
    output: Region,
    /// Whether the input is gone if it fails.
    consumes: bool,
}

impl UnderWay {
    /// Whether another operation would read what this one writes, or write what it works on.
    fn disturbs(&self, input: Region, output: Region) -> bool {
        let clash = |a: Region, b: Region| !a.is_empty() && !b.is_empty() && a.overlaps(b);
        clash(self.output, input) || clash(self.output, output) || clash(self.input, output)
    }
}

/// What callers and the monitor share.
#[derive(Debug, Default)]
struct Shared {
    newest: u64,
    failed: Option<Arc<Fault>>,
    /// The first operation that failed and whose input is gone.
    consumed: Option<(u64, Operation)>,
    under_way: BTreeMap<u64, UnderWay>,
}

impl Shared {
    /// Forgets what is over. Lanes do not say when that is: whoever waits knows it already, and nobody else is in a hurry.
    fn prune_first(&mut self, gauge: &Gauge) {
        while let Some(first) = self.under_way.first_entry().filter(|first| first.get().completion.over()) {
            first.remove();
            gauge.over.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The same, also of what ended before others that had begun earlier.
    fn prune(&mut self, gauge: &Gauge) {
        let before = self.under_way.len();
        self.under_way.retain(|_, each| !each.completion.over());
        gauge.over.fetch_add((before - self.under_way.len()) as u64, Ordering::Relaxed);
    }
}

/// Whether a collective writes over its input where that is in place.
const fn consumes(kind: CollectiveKind) -> bool {
    !matches!(kind, CollectiveKind::Broadcast | CollectiveKind::AllGather)
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Communicator {
    /// A communicator of the book's member. `connections` has those of each lane, by member; none for the own.
    ///
    /// # Errors
    /// Where the system gives no thread, or nothing to wait on.
    pub fn new(
        book: Arc<Book>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
    ) -> std::io::Result<Self> {
        Self::begin_threads(book, settings, epoch, connections, Vec::new(), |_, _| Ok(None))
    }

    /// The same, under a court, and with a CPU for each lane's thread, if any.
    pub(crate) fn under<C: Court + 'static>(
        book: Arc<Book>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
        cpus: Vec<usize>,
        court: impl FnOnce(Verdicts, Arc<Gauge>) -> std::io::Result<C>,
    ) -> std::io::Result<Self> {
        Self::begin_threads(book, settings, epoch, connections, cpus, |verdicts, gauge| {
            Ok(Some(Box::new(court(verdicts, gauge)?)))
        })
    }

    fn begin_threads(
        book: Arc<Book>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
        cpus: Vec<usize>,
        court: impl FnOnce(Verdicts, Arc<Gauge>) -> std::io::Result<Option<Box<dyn Court>>>,
    ) -> std::io::Result<Self> {
        assert_eq!(connections.len(), settings.pace.lanes as usize, "connections for every lane");
        let transports = describe(&connections);
        let (reports, listen) = channel();
        let (senders, receivers): (Vec<_>, Vec<_>) = connections.iter().map(|_| channel()).unzip();
        // Threads that have begun end, too, where the next cannot.
        let mut lanes = Lanes(Vec::new());
        for (index, (connections, commands)) in (0u32..).zip(connections.into_iter().zip(receivers)) {
            let siblings = (0u32..).zip(&senders).filter(|(other, _)| *other != index);
            let siblings = siblings.map(|(_, sender): (u32, &Sender<Command>)| sender.clone()).collect();
            let lane = Lane::new(index, settings.pace, epoch, Arc::clone(&book));
            let (worker, bell) =
                Worker::new(lane, connections, settings.patience, commands, siblings, reports.clone())?;
            let cpu = cpus.get(index as usize).copied();
            let thread = std::thread::Builder::new().name(format!("lane {index}"));
            let thread = thread.spawn(move || worker.run(cpu))?;
            lanes.0.push(Handle { commands: senders[index as usize].clone(), bell, thread: Some(thread) });
        }
        let shared = Arc::new(Mutex::new(Shared::default()));
        let gauge = Arc::new(Gauge::default());
        let bells = lanes.0.iter().map(|lane| Arc::clone(&lane.bell)).collect();
        _ = gauge.ears.set((bells, Arc::clone(&book)));
        let watched = lanes.0.iter().map(|lane| (lane.commands.clone(), Arc::clone(&lane.bell))).collect();
        let court = court(Verdicts(reports), Arc::clone(&gauge))?;
        let known = (Arc::clone(&book), settings);
        let monitor = Monitor::new(known, watched, listen, (Arc::clone(&shared), Arc::clone(&gauge)), court);
        let monitor = std::thread::Builder::new().name("monitor".to_owned()).spawn(|| monitor.run())?;
        Ok(Self { book, transports, cpus, lanes, shared, gauge, monitor: Some(monitor) })
    }

    /// What is known about how collectives are run.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What carries bytes to and from each member, for people: `shared memory`, `TCP`, and why it is no better. Lanes of one
    /// member may differ. Nothing for the own.
    pub fn transports(&self) -> &[String] {
        &self.transports
    }

    /// The CPU that each lane's thread has to itself; none where the system's scheduler chooses.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Why nothing can begin any more, if that is so.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        lock(&self.shared).failed.clone()
    }

    /// The first operation that failed and whose input is gone, because it was not to be kept, or whose input would be if it
    /// failed now: its number, and what it is.
    pub fn consumed(&self) -> Option<(u64, Operation)> {
        let shared = lock(&self.shared);
        let mut open = shared.under_way.iter().filter(|(_, each)| each.consumes && !each.completion.over());
        shared.consumed.or_else(|| open.next().map(|(&sequence, each)| (sequence, each.operation)))
    }

    /// Begins an operation: the next of this communicator, which all its ranks must begin in the same order. `input` is what
    /// this rank brings and `output` where its result goes, which may be the same memory; either is empty where there is
    /// none. With `keep`, the input is as it was if the operation fails.
    ///
    /// # Errors
    /// The operation is invalid, no plan offers it, a region has another length than it must have, or an operation
    /// that is under way works on the same memory (both may read it). Nothing has begun then. Everything that happens later is the [`Pending`]'s outcome.
    pub fn begin(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
        keep: bool,
    ) -> syncline_diagnostics::Result<Pending> {
        let shape = self.book.shape(operation)?;
        self.check(operation, input, output)?;
        let completion = Completion::new(self.lanes.0.len() as u32);
        let pending = Pending::new(Arc::clone(&completion));
        let mut shared = lock(&self.shared);
        if let Some(fault) = &shared.failed {
            let during = Some((shared.newest + 1, (*operation).into(), Duration::ZERO));
            completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
            return Ok(pending);
        }
        shared.prune_first(&self.gauge);
        let mut others = shared.under_way.iter().filter(|(_, other)| !other.completion.over());
        if let Some((number, other)) = others.find(|(_, other)| other.disturbs(input, output)) {
            let message = format!(
                "memory of {operation} (operation {}) is in use by {} (operation {number})",
                shared.newest + 1,
                other.operation
            );
            let help = format!("wait for operation {number} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        shared.newest += 1;
        let sequence = shared.newest;
        self.gauge.begun.store(sequence, Ordering::Relaxed);
        let under_way = UnderWay {
            completion: Arc::clone(&completion),
            operation: *operation,
            began: Instant::now(),
            input,
            output,
            consumes: !keep && consumes(operation.kind) && input.overlaps(output) && !input.is_empty(),
        };
        shared.under_way.insert(sequence, under_way);
        let job = Arc::new(Job { sequence, shape, input, output, keep });
        // The lock is kept: all lanes get all operations, in their order.
        for lane in &self.lanes.0 {
            if lane.commands.send(Command::Start(Arc::clone(&job), Arc::clone(&completion))).is_ok() {
                lane.bell.ring();
            }
        }
        Ok(pending)
    }

    /// That regions are as long as an operation needs them, and lie where they may.
    fn check(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
    ) -> syncline_diagnostics::Result<()> {
        let (rank, whole) = (self.book.member(), operation.bytes() as usize);
        let block = whole / self.book.ranks() as usize;
        let root = rank == operation.root;
        let (from, to) = match operation.kind {
            _ if rank >= self.book.ranks() => (Some(0), Some(0)),
            CollectiveKind::AllReduce | CollectiveKind::AllToAll => (Some(whole), Some(whole)),
            CollectiveKind::ReduceScatter => (Some(whole), Some(block)),
            CollectiveKind::AllGather => (Some(block), Some(whole)),
            CollectiveKind::Broadcast => (root.then_some(whole), Some(whole)),
            CollectiveKind::Reduce => (Some(whole), Some(if root { whole } else { 0 })),
        };
        for (name, region, length) in [("input", input, from), ("output", output, to)] {
            if length.is_some_and(|length| region.len() != length) {
                return Err(Diagnostic::error(
                    Code::BadValue,
                    format!("the {name} of {operation} has another length"),
                )
                .found(format!("{} bytes", region.len()))
                .allowed(format!("{} bytes", length.unwrap_or(0)))
                .into());
            }
        }
        // A block may lie where it belongs in the whole; anything else would be overwritten before it is read.
        let own = |whole: Region| whole.part(block * rank as usize..block * (rank as usize + 1));
        let alike = match operation.kind {
            _ if rank >= self.book.ranks() || input.is_empty() || output.is_empty() => true,
            CollectiveKind::ReduceScatter => output.same(own(input)),
            CollectiveKind::AllGather => input.same(own(output)),
            _ => input.same(output),
        };
        if !alike && input.overlaps(output) {
            let message = format!("input and output of {operation} overlap");
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, a rank's own block of it, or memory apart")
                .into());
        }
        Ok(())
    }
}

/// What carries bytes to and from each member, over all lanes.
fn describe(connections: &[Vec<Option<Connection>>]) -> Vec<String> {
    let members = connections.first().map_or(0, Vec::len);
    let of = |member: usize| {
        let lanes = connections.iter().filter_map(|lane| lane[member].as_ref());
        let mut words: Vec<String> = lanes.map(|connection| connection.describe()).collect();
        words.dedup();
        words.join(", ")
    };
    (0..members).map(of).collect()
}

/// The threads of lanes. They end when it is dropped, and say goodbye to peers.
#[derive(Debug)]
struct Lanes(Vec<Handle>);

impl Drop for Lanes {
    fn drop(&mut self) {
        for lane in &self.0 {
            if lane.commands.send(Command::Stop).is_ok() {
                lane.bell.ring();
            }
        }
        for lane in &mut self.0 {
            if let Some(thread) = lane.thread.take() {
                // A thread that panicked has said so.
                _ = thread.join();
            }
        }
    }
}

impl Drop for Communicator {
    /// Says goodbye to peers. What is under way fails.
    fn drop(&mut self) {
        drop(Lanes(std::mem::take(&mut self.lanes.0)));
        if let Some(monitor) = self.monitor.take() {
            _ = monitor.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Association;
    use crate::shape::Rule;
    use crate::sum::{Element, Reduction};
    use crate::transport::socket::{Socket, Stream};
    use mio::net::UnixStream;
    use std::io::Read;

    /// A lane's connection to another member, and its other end.
    fn connection() -> (UnixStream, Vec<Option<Connection>>) {
        let (a, b) = UnixStream::pair().unwrap();
        (a, vec![None, Some(Box::new(Stream::new(Socket::Unix(b))) as Connection)])
    }

    /// Whoever cannot even hear of trouble.
    struct Faulty;

    impl Court for Faulty {
        fn report(&self, _: u32, _: Trouble) {
            panic!("a test");
        }

        fn late(&self, _: u64, _: Duration) {}
    }

    #[test]
    fn nobody_waits_for_ever_where_the_thread_that_watches_fails() {
        let (peer, connections) = connection();
        let rule = Rule {
            kind: CollectiveKind::AllReduce,
            up_to: None,
            algorithm: syncline_plan::by_name("ring").unwrap(),
            message: 16 << 10,
        };
        let book = Arc::new(Book::new(0, 2, vec![0, 1], vec![rule]).unwrap());
        let court = |_, _| Ok(Faulty);
        let settings = Settings::default();
        let member = Communicator::under(book, settings, 0, vec![connections], Vec::new(), court).unwrap();
        let operation = Operation {
            kind: CollectiveKind::AllReduce,
            elements: 0,
            element: Element::F32,
            reduction: Reduction::Sum,
            root: 0,
            association: Association::Arrival,
        };
        let begin = || member.begin(&operation, Region::EMPTY, Region::EMPTY, true).unwrap();
        let pending = [begin(), begin()];
        // What is called back may fail, too.
        pending[0].then(|_| panic!("a test"));
        drop(peer);
        for pending in pending.into_iter().chain([begin()]) {
            let fault = pending.wait(Duration::from_secs(60)).unwrap().unwrap_err();
            assert_eq!(fault.blame, Blame::Rank(0), "{fault}");
            assert!(fault.to_string().contains("which is a bug of syncline"), "{fault}");
        }
    }

    struct Nobody;

    impl Court for Nobody {
        fn report(&self, _: u32, _: Trouble) {}
        fn late(&self, _: u64, _: Duration) {}
    }

    #[test]
    fn threads_that_have_begun_end_where_the_next_cannot() {
        let (mut streams, connections): (Vec<_>, Vec<_>) = (0..2).map(|_| connection()).unzip();
        let settings =
            Settings { pace: Pace { lanes: 2, ..Settings::default().pace }, ..Settings::default() };
        let book = Book::new(0, 2, vec![0, 1], Vec::new()).unwrap();
        let refuse = |_, _| Err::<Nobody, _>(std::io::ErrorKind::OutOfMemory.into());
        assert!(Communicator::under(Arc::new(book), settings, 0, connections, Vec::new(), refuse).is_err());
        // Both lanes have said goodbye and are gone.
        for stream in &mut streams {
            let mut all = Vec::new();
            assert!(stream.read_to_end(&mut all).is_ok() && all.len() == 2 * crate::wire::HEADER);
        }
    }
}
