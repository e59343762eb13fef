//! A communicator: starts the threads of a rank's lanes, and the one that monitors them.

use super::command::{Command, LaneHandle};
use super::counters::{Counters, Kept};
use super::group::Group;
use super::group_info::GroupInfo;
use super::monitor::Monitor;
use super::polled_lane::PolledLane;
use super::report::Report;
use super::signals::{ConnectionSignals, Recording};
use super::state::{LostInput, Shared};
use super::transports::Transports;
use super::worker::{Channels, Worker};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_membership::connector_thread::{ConnectorThread, LaneOwner, OnDemand};
use syncline_membership::coordinator_link::{CoordinatorLink, Executor};
use syncline_membership::message::{PlanDecision, PlanProposal, Progress};
use syncline_protocol::fault::{Blame, Trouble};
use syncline_protocol::lane::Lane;
use syncline_protocol::plan_book::PlanBook;
use syncline_protocol::settings::Settings;
use syncline_transport::Connection;
use syncline_transport::connections::Traffic;

/// The [group](Group) of all ranks of a job, with the threads and connections that its smaller groups use,
/// too.
#[derive(Debug)]
pub struct Communicator {
    group: Group,
    transports: Arc<Transports>,
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

/// The communicator's threads, as a coordinator sees them.
#[derive(Debug)]
struct Threads {
    reports: Sender<Report>,
    shared: Arc<Shared>,
}

impl Executor for Threads {
    fn verdict(&self, blame: Blame, trouble: Trouble) {
        // Fails only while the communicator is being dropped.
        _ = self.reports.send(Report::Verdict { blame, trouble });
    }

    fn coordinator_left(&self) {
        _ = self.reports.send(Report::CoordinatorGone);
    }

    fn prepare_plans(&self, edition: u32, proposal: PlanProposal) {
        _ = self.reports.send(Report::PreparePlans { edition, proposal });
    }

    fn decide_plans(&self, decision: PlanDecision) {
        self.shared.decide_plans(decision);
    }

    fn progress(&self, group: u64) -> Progress {
        self.shared.counters().progress(group)
    }

    fn hears(&self) -> Vec<u32> {
        self.shared.counters().heard_peers()
    }
}

/// The communicator's lanes, as the thread that connects them sees them.
struct ConnectedLanes {
    lanes: Vec<LaneHandle>,
    transports: Arc<Transports>,
    reports: Sender<Report>,
}

impl LaneOwner for ConnectedLanes {
    fn connected(&self, lane: u32, peer: u32, connection: Connection) {
        self.transports.add(peer, &connection);
        self.lanes[lane as usize].send(Command::Connected { peer, connection });
    }

    fn unreachable(&self, lane: u32, peer: u32, trouble: Trouble) {
        self.lanes[lane as usize].send(Command::Unreachable { peer, trouble });
    }

    fn failed(&self, trouble: Trouble) {
        // Fails only while the communicator is being dropped.
        _ = self.reports.send(Report::Failed(trouble));
    }
}

impl Communicator {
    /// Starts the threads of the book's member. `connections` is indexed by lane and member; this member's own
    /// entries are `None`.
    ///
    /// # Errors
    /// The system cannot start a thread, or cannot create what a thread waits on.
    pub fn new(
        book: Arc<PlanBook>,
        settings: Settings,
        epoch: u16,
        connections: Vec<Vec<Option<Connection>>>,
    ) -> std::io::Result<Self> {
        Self::start_threads(book, settings, epoch, (connections, None), Vec::new(), |_| Ok(None))
    }

    /// As [`Communicator::new`], with a coordinator, with what makes connections when they are first needed, if not
    /// all are there, and with a CPU for each lane's thread unless `cpus` is empty.
    pub(crate) fn with_coordinator<C: CoordinatorLink + 'static>(
        book: Arc<PlanBook>,
        settings: Settings,
        epoch: u16,
        connections: (Vec<Vec<Option<Connection>>>, Option<OnDemand>),
        cpus: Vec<usize>,
        coordinator: impl FnOnce(Box<dyn Executor>) -> std::io::Result<C>,
    ) -> std::io::Result<Self> {
        Self::start_threads(book, settings, epoch, connections, cpus, |executor| {
            Ok(Some(Box::new(coordinator(executor)?)))
        })
    }

    fn start_threads(
        book: Arc<PlanBook>,
        settings: Settings,
        epoch: u16,
        (connections, on_demand): (Vec<Vec<Option<Connection>>>, Option<OnDemand>),
        cpus: Vec<usize>,
        coordinator: impl FnOnce(Box<dyn Executor>) -> std::io::Result<Option<Box<dyn CoordinatorLink>>>,
    ) -> std::io::Result<Self> {
        assert_eq!(connections.len(), settings.flow.lanes as usize, "connections for every lane");
        let transports = Arc::new(Transports::new(&connections));
        let (reports, received_reports) = channel();
        let (senders, receivers): (Vec<_>, Vec<_>) = connections.iter().map(|_| channel()).unzip();
        let counters = Arc::new(Counters::default());
        // If a thread cannot start, dropping `lanes` ends the threads before it.
        let mut lanes = Lanes { handles: Vec::new(), threads: Vec::new(), connector: None };
        let mut polled = Vec::new();
        for (index, (connections, commands)) in (0u32..).zip(connections.into_iter().zip(receivers)) {
            let siblings = (0u32..).zip(&senders).filter(|(other, _)| *other != index);
            let siblings = siblings.map(|(_, sender): (u32, &Sender<Command>)| sender.clone()).collect();
            let lane = Lane::new(index, settings.flow, epoch, Arc::clone(&book));
            let requester = on_demand.as_ref().map(OnDemand::requester);
            let channels = Channels { commands, siblings, reports: reports.clone(), requester };
            let (worker, waker) =
                Worker::new(lane, connections, settings.patience, channels, counters.add_lane())?;
            let (status, cpu) = (worker.status(), cpus.get(index as usize).copied());
            let thread = std::thread::Builder::new().name(format!("lane {index}"));
            let lane = Arc::new(PolledLane::new(worker, Arc::clone(&waker), settings.polling));
            if !settings.polling.is_zero() {
                polled.push(Arc::clone(&lane));
            }
            let thread = thread.spawn(move || lane.run(cpu))?;
            lanes.handles.push(LaneHandle { commands: senders[index as usize].clone(), waker, status });
            lanes.threads.push(thread);
        }
        if let Some(on_demand) = on_demand {
            let (lanes_here, transports) = (lanes.handles.clone(), Arc::clone(&transports));
            let owner = ConnectedLanes { lanes: lanes_here, transports, reports: reports.clone() };
            lanes.connector = Some(on_demand.start(Box::new(owner))?);
        }
        let info = GroupInfo::of_job(book, counters.of_job());
        counters.set_peers(lanes.handles.iter().map(|lane| Arc::clone(&lane.status)).collect(), &info.book);
        let shared = Shared::new(
            lanes.handles.clone(),
            polled.into(),
            settings,
            Arc::clone(&counters),
            &info,
            reports.clone(),
        );
        let shared = Arc::new(shared);
        let coordinator = coordinator(Box::new(Threads { reports, shared: Arc::clone(&shared) }))?;
        let monitor = Monitor::new(Arc::clone(&shared), Arc::clone(&info), received_reports, coordinator);
        let monitor = std::thread::Builder::new().name("monitor".to_owned()).spawn(|| monitor.run())?;
        let group = Group::new(shared, info);
        Ok(Self { group, transports, cpus, lanes, monitor: Some(monitor) })
    }

    /// Describes the connections to each member, for people: `shared memory`, or `TCP` and why it is not
    /// shared memory. Lists several if lanes differ. The entries of members that are not connected, and the own
    /// member's, are empty.
    pub fn transports(&self) -> Vec<String> {
        self.transports.describe()
    }

    /// The CPU of each lane's thread, which no other lane of this job uses; empty if the system's scheduler
    /// places the threads.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Received bytes that are kept because this rank has not needed them yet.
    pub fn kept(&self) -> Kept {
        self.group.shared().counters().kept()
    }

    /// Something that reads the traffic with each peer.
    pub fn traffic(&self) -> TrafficReader {
        TrafficReader { lanes: self.lanes.handles.clone(), job: Arc::clone(self.group.info()) }
    }

    /// Begins to record the operations of all groups, or ends it. Returns what was recorded before.
    pub fn record(&self, record: bool) -> Recording {
        let mut state = self.group.shared().lock();
        state.remove_finished();
        let next = record.then(Recording::default);
        std::mem::replace(&mut state.recording, next).unwrap_or_default()
    }

    /// An operation that was begun without `keep` and has failed, so that its input is lost, or else one
    /// under way whose input would be lost if it failed now.
    pub fn consumed(&self) -> Option<LostInput> {
        self.group.shared().lock().lost_input()
    }

    /// Makes a group of some members of the job, given by their places in the job. The book's member is this
    /// member's place in the group. `name` is a number that all members of the group use for it; it must
    /// differ from those of all groups that this member has not left. Members make groups of one name in the
    /// same order. The call does not wait: the group's operations begin once all its members have made it.
    /// `deadline` applies to its operations and transfers.
    ///
    /// # Errors
    /// [`Code::BadValue`] if `members` are not distinct members of the job with this one in its place, `name`
    /// is in use, or this member is in too many groups.
    pub fn group(
        &self,
        name: u64,
        members: Vec<u32>,
        book: PlanBook,
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
            return Err(
                bad("a group consists of distinct ranks of the job, with this rank at its place").into()
            );
        }
        let names = members.iter().map(|&member| whole.name(member)).collect();
        Group::create(self.group.shared(), name, members, book.called(names), deadline)
    }
}

/// Reads the traffic of a communicator with each peer, without a lock on it.
#[derive(Debug)]
pub struct TrafficReader {
    lanes: Vec<LaneHandle>,
    job: Arc<GroupInfo>,
}

impl TrafficReader {
    /// The traffic with each peer on each lane, as far as lanes answer within a second.
    pub fn read(&self) -> Vec<ConnectionSignals> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let (answer, answers) = channel();
        self.lanes.iter().for_each(|lane| lane.send(Command::Traffic(answer.clone())));
        drop(answer);
        let until = Instant::now() + PATIENCE;
        let next = || answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        let book = &self.job.book;
        let mut all: Vec<ConnectionSignals> = std::iter::from_fn(next)
            .flat_map(|(lane, traffic)| {
                traffic.into_iter().map(move |Traffic { peer, sent, received, tcp }| ConnectionSignals {
                    peer: book.name(peer),
                    lane,
                    sent,
                    received,
                    tcp,
                })
            })
            .collect();
        all.sort_by_key(|each| (each.peer, each.lane));
        all
    }
}

/// The lanes' threads. Dropping it tells peers that this member leaves, and ends the threads.
#[derive(Debug)]
struct Lanes {
    handles: Vec<LaneHandle>,
    threads: Vec<JoinHandle<()>>,
    /// Dropped last: frames may wait for connections until the threads have ended.
    connector: Option<ConnectorThread>,
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.handles.iter().for_each(|lane| lane.send(Command::Stop));
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it to the monitor.
            _ = thread.join();
        }
    }
}

impl Drop for Communicator {
    /// Tells peers that this member leaves. Operations and transfers under way fail, in all groups.
    fn drop(&mut self) {
        let (handles, threads) =
            (std::mem::take(&mut self.lanes.handles), std::mem::take(&mut self.lanes.threads));
        drop(Lanes { handles, threads, connector: self.lanes.connector.take() });
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
    use syncline_membership::message::LateOperation;
    use syncline_protocol::lane::FlowControl;
    use syncline_protocol::memory::Region;
    use syncline_protocol::operation::{Association, Operation};
    use syncline_protocol::plan_book::{Rule, Selection};
    use syncline_reduction::{Element, Reduction};
    use syncline_transport::socket::Stream;
    use syncline_units::CollectiveKind;

    /// A lane's connection to another member, and its other end.
    fn connection() -> (UnixStream, Vec<Option<Connection>>) {
        let (a, b) = UnixStream::pair().unwrap();
        (a, vec![None, Some(Box::new(Stream::new(b)) as Connection)])
    }

    /// A coordinator that panics at the first report.
    struct PanickingCoordinator;

    impl CoordinatorLink for PanickingCoordinator {
        fn report(&self, _: u32, _: Trouble) {
            panic!("a test");
        }

        fn late(&self, _: LateOperation) {}
        fn propose_plans(&self, _: PlanProposal) {}
        fn answer_plans(&self, _: u32, _: u64, _: Result<u64, String>) {}
    }

    #[test]
    fn operations_fail_if_the_monitor_panics() {
        let (peer, connections) = connection();
        let rule = Rule::new(CollectiveKind::AllReduce, syncline_plan::by_name("ring").unwrap(), 16 << 10);
        let book = Arc::new(PlanBook::new(0, 2, Selection::of(vec![0, 1], vec![rule])).unwrap());
        let coordinator = |_: Box<dyn Executor>| Ok(PanickingCoordinator);
        let settings = Settings::default();
        let member = Communicator::with_coordinator(
            book,
            settings,
            0,
            (vec![connections], None),
            Vec::new(),
            coordinator,
        )
        .unwrap();
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
        // A callback may panic, too.
        pending[0].then(|_| panic!("a test"));
        drop(peer);
        for pending in pending.into_iter().chain([begin()]) {
            let fault = pending.wait(Duration::from_secs(60)).unwrap().unwrap_err();
            assert_eq!(fault.blame, Blame::Rank(0), "{fault}");
            assert!(fault.to_string().contains("which is a bug in syncline"), "{fault}");
        }
    }

    struct SilentCoordinator;

    impl CoordinatorLink for SilentCoordinator {
        fn report(&self, _: u32, _: Trouble) {}
        fn late(&self, _: LateOperation) {}
        fn propose_plans(&self, _: PlanProposal) {}
        fn answer_plans(&self, _: u32, _: u64, _: Result<u64, String>) {}
    }

    #[test]
    fn lane_threads_end_if_the_coordinator_cannot_start() {
        let (mut streams, connections): (Vec<_>, Vec<_>) = (0..2).map(|_| connection()).unzip();
        let settings =
            Settings { flow: FlowControl { lanes: 2, ..Settings::default().flow }, ..Settings::default() };
        let book = PlanBook::new(0, 2, Selection::of(vec![0, 1], Vec::new())).unwrap();
        let refuse =
            |_: Box<dyn Executor>| Err::<SilentCoordinator, _>(std::io::ErrorKind::OutOfMemory.into());
        assert!(
            Communicator::with_coordinator(
                Arc::new(book),
                settings,
                0,
                (connections, None),
                Vec::new(),
                refuse
            )
            .is_err()
        );
        // Both lanes have sent their last frames and closed their connections.
        for stream in &mut streams {
            let mut all = Vec::new();
            assert!(stream.read_to_end(&mut all).is_ok() && all.len() == 2 * syncline_protocol::wire::HEADER);
        }
    }
}
