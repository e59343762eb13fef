//! Runs collectives and transfers on threads and sockets: a [`Communicator`] has one thread for each lane, and one that watches
//! them.
//!
//! - [`group`]: operations and transfers of all its members, or of some, over the same threads and connections;
//! - `worker`: a lane's thread;
//! - `monitor`: the thread that watches them;
//! - [`pending`]: an operation under way;
//! - [`session`]: the members of a job that meet and run them.

pub mod group;
mod monitor;
pub mod pending;
pub mod session;
mod worker;

pub(crate) use group::Gauge;
use group::{Circle, Crew, Group, Shared};
use monitor::Monitor;
use std::ops::Deref;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_membership::arbiter::{Arbiter, Executor};
use syncline_membership::message::Progress;
use syncline_protocol::fault::{Blame, Trouble};
use syncline_protocol::lane::Lane;
use syncline_protocol::operation::Operation;
use syncline_protocol::settings::Settings;
use syncline_protocol::shape::Book;
use syncline_transport::Connection;
use worker::{Command, Report, Worker};

/// The ranks of a job that run collectives together: the [group](Group) of all of them, and what its smaller groups run on.
#[derive(Debug)]
pub struct Communicator {
    group: Group,
    transports: Vec<String>,
    cpus: Vec<usize>,
    lanes: Lanes,
    monitor: Option<JoinHandle<()>>,
}

impl Deref for Communicator {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

/// The communicator's threads, as an arbiter sees them.
#[derive(Debug)]
struct Threads {
    reports: Sender<Report>,
    gauge: Arc<Gauge>,
}

impl Executor for Threads {
    fn verdict(&self, blame: Blame, trouble: Trouble) {
        // Nobody receives it where the communicator is being dropped.
        _ = self.reports.send(Report::Verdict(blame, trouble));
    }

    fn alone(&self) {
        _ = self.reports.send(Report::Alone);
    }

    fn progress(&self, group: u64) -> Progress {
        self.gauge.read(group)
    }

    fn hears(&self) -> Vec<u32> {
        self.gauge.hears()
    }
}

/// What a communicator has moved and keeps, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of plans' messages that came before this rank needed them.
    pub early: u64,
    /// The most that `early` has been.
    pub most_early: u64,
    /// Bytes of transfers that nobody has received yet.
    pub transfers: u64,
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
        Self::begin_threads(book, settings, epoch, connections, Vec::new(), |_| Ok(None))
    }

    /// The same, under a court, and with a CPU for each lane's thread, if any.
    pub(crate) fn under<C: Arbiter + 'static>(
        book: Arc<Book>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
        cpus: Vec<usize>,
        court: impl FnOnce(Box<dyn Executor>) -> std::io::Result<C>,
    ) -> std::io::Result<Self> {
        Self::begin_threads(book, settings, epoch, connections, cpus, |executor| {
            Ok(Some(Box::new(court(executor)?)))
        })
    }

    fn begin_threads(
        book: Arc<Book>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
        cpus: Vec<usize>,
        court: impl FnOnce(Box<dyn Executor>) -> std::io::Result<Option<Box<dyn Arbiter>>>,
    ) -> std::io::Result<Self> {
        assert_eq!(connections.len(), settings.pace.lanes as usize, "connections for every lane");
        let transports = describe(&connections);
        let (reports, listen) = channel();
        let (senders, receivers): (Vec<_>, Vec<_>) = connections.iter().map(|_| channel()).unzip();
        let gauge = Arc::new(Gauge::default());
        // Threads that have begun end, too, where the next cannot.
        let mut lanes = Lanes { commands: Vec::new(), threads: Vec::new() };
        for (index, (connections, commands)) in (0u32..).zip(connections.into_iter().zip(receivers)) {
            let siblings = (0u32..).zip(&senders).filter(|(other, _)| *other != index);
            let siblings = siblings.map(|(_, sender): (u32, &Sender<Command>)| sender.clone()).collect();
            let lane = Lane::new(index, settings.pace, epoch, Arc::clone(&book));
            let (worker, bell) = Worker::new(
                lane,
                connections,
                settings.patience,
                commands,
                siblings,
                (reports.clone(), gauge.lane()),
            )?;
            let cpu = cpus.get(index as usize).copied();
            let thread = std::thread::Builder::new().name(format!("lane {index}"));
            let thread = thread.spawn(move || worker.run(cpu))?;
            lanes.commands.push((senders[index as usize].clone(), bell));
            lanes.threads.push(thread);
        }
        let circle = Circle::whole(book, gauge.whole());
        gauge.listen(lanes.commands.iter().map(|(_, bell)| Arc::clone(bell)).collect(), &circle.book);
        let crew = Arc::new(Crew::new(lanes.commands.clone(), settings, Arc::clone(&gauge), &circle));
        let court = court(Box::new(Threads { reports, gauge }))?;
        let monitor = Monitor::new(Arc::clone(&crew), Arc::clone(&circle), listen, court);
        let monitor = std::thread::Builder::new().name("monitor".to_owned()).spawn(|| monitor.run())?;
        let group = Group::new(crew, circle);
        Ok(Self { group, transports, cpus, lanes, monitor: Some(monitor) })
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

    /// What is kept because nobody has needed it yet.
    pub fn kept(&self) -> Kept {
        self.group.crew().gauge().kept()
    }

    /// The first operation that failed and whose input is gone, because it was not to be kept, or whose input would be if it
    /// failed now: its number, and what it is.
    pub fn consumed(&self) -> Option<(u64, Operation)> {
        lock(self.group.crew().shared()).gone()
    }

    /// Makes a group of some members of the job, by their places in it; this member's is the book's place among them. `name` is
    /// its number on all its members, which no other group has that this one has not left; all members make groups of one
    /// name in the same order. Nobody is waited for: its operations begin once all its members have made it. Its operations
    /// and transfers have its own deadline.
    ///
    /// # Errors
    /// [`Code::BadValue`] where the members are not some of the job's, the number is taken, or there are too many groups.
    pub fn group(
        &self,
        name: u64,
        members: Vec<u32>,
        book: Book,
        deadline: Duration,
    ) -> syncline_diagnostics::Result<Group> {
        let whole = self.group.book();
        let bad =
            |what: &str| Diagnostic::error(Code::BadValue, what.to_owned()).found(format!("{members:?}"));
        let own = members.get(book.member() as usize) == Some(&whole.member());
        let within = members.iter().all(|&member| member < whole.ranks());
        let mut once = members.clone();
        once.sort_unstable();
        once.dedup();
        if !own || !within || once.len() != members.len() || book.members() as usize != members.len() {
            return Err(bad("the ranks of a group are not some of the job's, each once").into());
        }
        let names = members.iter().map(|&member| whole.name(member)).collect();
        Group::made(self.group.crew(), name, members, book.called(names), deadline)
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
struct Lanes {
    commands: Vec<group::Handle>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for (commands, bell) in &self.commands {
            if commands.send(Command::Stop).is_ok() {
                bell.ring();
            }
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            _ = thread.join();
        }
    }
}

impl Drop for Communicator {
    /// Says goodbye to peers. What is under way fails, in all groups.
    fn drop(&mut self) {
        let (commands, threads) =
            (std::mem::take(&mut self.lanes.commands), std::mem::take(&mut self.lanes.threads));
        drop(Lanes { commands, threads });
        if let Some(monitor) = self.monitor.take() {
            _ = monitor.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::UnixStream;
    use std::io::Read;
    use syncline_protocol::lane::Pace;
    use syncline_protocol::memory::Region;
    use syncline_protocol::operation::Association;
    use syncline_protocol::shape::Rule;
    use syncline_reduction::{Element, Reduction};
    use syncline_transport::socket::{Socket, Stream};
    use syncline_units::CollectiveKind;

    /// A lane's connection to another member, and its other end.
    fn connection() -> (UnixStream, Vec<Option<Connection>>) {
        let (a, b) = UnixStream::pair().unwrap();
        (a, vec![None, Some(Box::new(Stream::new(Socket::Unix(b))) as Connection)])
    }

    /// Whoever cannot even hear of trouble.
    struct Faulty;

    impl Arbiter for Faulty {
        fn report(&self, _: u32, _: Trouble) {
            panic!("a test");
        }

        fn late(&self, _: (u64, Vec<u32>), _: u64, _: Trouble) {}
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
        let court = |_: Box<dyn Executor>| Ok(Faulty);
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

    impl Arbiter for Nobody {
        fn report(&self, _: u32, _: Trouble) {}
        fn late(&self, _: (u64, Vec<u32>), _: u64, _: Trouble) {}
    }

    #[test]
    fn threads_that_have_begun_end_where_the_next_cannot() {
        let (mut streams, connections): (Vec<_>, Vec<_>) = (0..2).map(|_| connection()).unzip();
        let settings =
            Settings { pace: Pace { lanes: 2, ..Settings::default().pace }, ..Settings::default() };
        let book = Book::new(0, 2, vec![0, 1], Vec::new()).unwrap();
        let refuse = |_: Box<dyn Executor>| Err::<Nobody, _>(std::io::ErrorKind::OutOfMemory.into());
        assert!(Communicator::under(Arc::new(book), settings, 0, connections, Vec::new(), refuse).is_err());
        // Both lanes have said goodbye and are gone.
        for stream in &mut streams {
            let mut all = Vec::new();
            assert!(stream.read_to_end(&mut all).is_ok() && all.len() == 2 * syncline_protocol::wire::HEADER);
        }
    }
}
