//! The thread that serves a member's connection to the coordinator.

use crate::Member;
use crate::coordinator_link::{CoordinatorLink, Executor};
use crate::coordinator_thread::CoordinatorThread;
use crate::member::PlanNews;
use crate::member_connection::MemberConnection;
use crate::message::{FromCoordinator, LateOperation, PlanProposal, Verdict};
use mio::{Events, Waker};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::heartbeat::Patience;
use syncline_transport::loss_watch::LossWatch;

/// Why no other epoch can begin, unless the coordinator has given another reason.
const LOST: &str = "has lost the coordinator, without which no other epoch can begin";

/// A command to the thread.
enum Command {
    /// Report trouble with a peer.
    Report { peer: u32, trouble: Trouble },
    /// Report an operation that takes too long.
    Late(LateOperation),
    /// Propose new plans for a group.
    ProposePlans(PlanProposal),
    /// Answer a request to prepare plans.
    AnswerPlans { edition: u32, group: u64, answer: Result<u64, String> },
    /// End, and give the connection back.
    Recall,
}

/// A handle of the thread that serves the connection to the coordinator. Dropping it makes the member leave the job.
/// If the coordinator runs in this process, it then ends too.
pub struct MemberThread {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    /// Ranks that wait for the next epoch.
    waiting: Arc<Mutex<Vec<u32>>>,
    thread: Option<JoinHandle<Result<MemberConnection, String>>>,
    /// Dropped last, after the member has left.
    coordinator: Option<CoordinatorThread>,
}

impl CoordinatorLink for Arc<MemberThread> {
    fn report(&self, peer: u32, trouble: Trouble) {
        self.send(Command::Report { peer, trouble });
    }

    fn late(&self, late: LateOperation) {
        self.send(Command::Late(late));
    }

    fn propose_plans(&self, proposal: PlanProposal) {
        self.send(Command::ProposePlans(proposal));
    }

    fn answer_plans(&self, edition: u32, group: u64, answer: Result<u64, String>) {
        self.send(Command::AnswerPlans { edition, group, answer });
    }
}

impl MemberThread {
    /// Starts a thread that serves `connection`. `coordinator` is the coordinator's thread, if it runs in this
    /// process.
    pub fn start(
        connection: MemberConnection,
        patience: Patience,
        executor: Box<dyn Executor>,
        coordinator: Option<CoordinatorThread>,
    ) -> std::io::Result<Self> {
        let (sender, commands) = channel();
        let waker = Arc::clone(&connection.waker);
        let waiting = Arc::default();
        let member_loop =
            MemberLoop { connection, executor, commands, patience, waiting: Arc::clone(&waiting) };
        let thread = std::thread::Builder::new().name("member".to_owned()).spawn(|| member_loop.run())?;
        Ok(Self { commands: sender, waker, waiting, thread: Some(thread), coordinator })
    }

    /// The ranks that wait for the next epoch.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the thread without a message to the coordinator. Returns the connection, and the coordinator's thread if
    /// it runs in this process. Instead of a lost connection, returns a clause about this rank that says why it is
    /// lost.
    pub fn recall(mut self) -> (Result<MemberConnection, String>, Option<CoordinatorThread>) {
        self.send(Command::Recall);
        let lost = || Err(LOST.to_owned());
        let connection =
            self.thread.take().map_or_else(lost, |thread| thread.join().unwrap_or_else(|_| lost()));
        (connection, self.coordinator.take())
    }

    fn send(&self, command: Command) {
        // This fails only if the thread has ended, after it delivered its verdict.
        if self.commands.send(command).is_ok() {
            _ = self.waker.wake();
        }
    }
}

impl Drop for MemberThread {
    fn drop(&mut self) {
        // Disconnects the channel, which makes the thread leave.
        let (disconnected, _) = channel();
        self.commands = disconnected;
        _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The state of the thread.
struct MemberLoop {
    connection: MemberConnection,
    executor: Box<dyn Executor>,
    commands: Receiver<Command>,
    patience: Patience,
    waiting: Arc<Mutex<Vec<u32>>>,
}

impl MemberLoop {
    /// Runs until the member leaves, or takes its connection back.
    fn run(mut self) -> Result<MemberConnection, String> {
        let started = Instant::now();
        let mut member = Member::new(self.patience, started.elapsed());
        let mut losses = LossWatch::default();
        let mut events = Events::with_capacity(8);
        let (mut verdict_delivered, mut reported_departure, mut leaving) = (false, false, None);
        loop {
            if self.connection.wait(&mut events, member.interval()).is_err() {
                return Err(LOST.to_owned());
            }
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Report { peer, trouble }) => member.report(peer, trouble),
                    Ok(Command::Late(late)) => member.report_late(late),
                    Ok(Command::ProposePlans(proposal)) => member.propose_plans(proposal),
                    Ok(Command::AnswerPlans { edition, group, answer }) => {
                        member.answer_plans(edition, group, answer);
                    }
                    Ok(Command::Recall) => {
                        let lost =
                            member.verdict().is_some_and(|verdict| verdict.blame == Blame::Coordinator);
                        return match member.dismissed() {
                            Some(why) => Err(why.to_owned()),
                            None if lost || member.coordinator_left() => Err(LOST.to_owned()),
                            None => Ok(self.connection),
                        };
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        if leaving.is_none() {
                            member.leave();
                            leaving = Some(Instant::now());
                        }
                        break;
                    }
                }
            }
            member.set_hears(self.executor.hears());
            let mut lost = self.connection.control.read().err().map(|how| Trouble::closed(&how));
            loop {
                match self.connection.control.receive::<FromCoordinator>() {
                    Ok(Some(message)) => {
                        member.receive(message, |group| self.executor.progress(group), started.elapsed());
                    }
                    Ok(None) => break,
                    Err(what) => {
                        lost = Some(Trouble { kind: FaultKind::Corrupt, what });
                        break;
                    }
                }
            }
            let earlier = std::mem::take(&mut self.connection.plan_news);
            for news in earlier.into_iter().chain(member.take_plan_news()) {
                match news {
                    PlanNews::Prepare { edition, proposal } => self.executor.prepare_plans(edition, proposal),
                    PlanNews::Decide(decision) => self.executor.decide_plans(decision),
                }
            }
            let now = started.elapsed();
            let known = std::iter::once_with(|| (0, self.connection.control.socket.tcp_info()));
            member.set_lossy(losses.look(member.quiet(now), known));
            member.tick(now);
            if *member.waiting() != *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
                *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = member.waiting().to_vec();
            }
            member.take_messages().iter().for_each(|message| self.connection.control.send(message));
            let written = self.connection.control.write().map_err(|how| Trouble::closed(&how));
            if let Some(trouble) = lost.or(written.err()) {
                member.lose_coordinator(trouble);
            }
            if let Some(Verdict { blame, trouble }) = member.verdict().filter(|_| !verdict_delivered) {
                self.executor.verdict(*blame, trouble.clone());
                verdict_delivered = true;
            }
            if member.coordinator_left() && !reported_departure {
                self.executor.coordinator_left();
                reported_departure = true;
            }
            let coordinator_lost =
                || member.verdict().is_some_and(|verdict| verdict.blame == Blame::Coordinator);
            let gone = member.coordinator_left() || verdict_delivered && coordinator_lost();
            if gone {
                // Close the sending direction. A coordinator that leaves waits for that. A lost one may still hear
                // this member and then knows at once who is at fault.
                _ = self.connection.control.socket.shutdown();
            }
            let closed = leaving.is_some_and(|since| {
                self.connection.control.close() || since.elapsed() > Duration::from_secs(1)
            });
            if closed || (gone && leaving.is_some()) {
                return Err(LOST.to_owned());
            }
            if gone {
                // Nothing more arrives. Wait for the communicator to end.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
