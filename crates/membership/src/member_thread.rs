//! The thread that serves a member's connection to the coordinator.

use crate::Member;
use crate::coordinator_link::{CoordinatorLink, Executor};
use crate::coordinator_thread::CoordinatorThread;
use crate::hooks::Wanted;
use crate::join_error::JoinError;
use crate::member::PlanNews;
use crate::member_connection::{LOST, MemberConnection};
use crate::member_settings::MemberSettings;
use crate::message::{FromCoordinator, LateOperation, PlanProposal, Verdict};
use mio::{Events, Waker};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::heartbeat::Patience;
use syncline_transport::loss_watch::LossWatch;

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
    /// Starts a thread that serves `connection`. `coordinator` is the coordinator's thread, if this process has one. In an
    /// elastic job the thread finds the coordinator again if it is lost.
    pub fn start(
        connection: MemberConnection,
        member: MemberSettings,
        patience: Patience,
        executor: Box<dyn Executor>,
        coordinator: Option<CoordinatorThread>,
    ) -> std::io::Result<Self> {
        let (sender, commands) = channel();
        let waker = Arc::clone(&connection.waker);
        let waiting = Arc::default();
        let member_loop = MemberLoop {
            connection,
            settings: member,
            executor,
            commands,
            patience,
            waiting: Arc::clone(&waiting),
        };
        let thread = std::thread::Builder::new().name("member".to_owned()).spawn(|| member_loop.run())?;
        Ok(Self { commands: sender, waker, waiting, thread: Some(thread), coordinator })
    }

    /// The ranks that wait for the next epoch.
    pub fn waiting(&self) -> Vec<u32> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The addresses on which this process coordinates the job; `None` if another one does.
    pub fn coordinates_at(&self) -> Option<Vec<SocketAddr>> {
        let thread = self.coordinator.as_ref()?;
        let standby = thread.standby();
        standby.coordinates().then(|| match thread.addresses() {
            [] => standby.place().addresses.clone(),
            first => first.to_vec(),
        })
    }

    /// Ends the thread without a message to the coordinator. Returns the connection, and the coordinator's thread if
    /// this process has one. Instead of a connection that is lost for good, returns a clause about this rank that says
    /// why. Calls `wanted` while the thread looks for another coordinator, and ends the search once that fails.
    pub fn recall(
        mut self,
        wanted: &mut Wanted<'_>,
    ) -> Result<(Result<MemberConnection, String>, Option<CoordinatorThread>), JoinError> {
        self.send(Command::Recall);
        let lost = || Err(LOST.to_owned());
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            wanted()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let connection =
            self.thread.take().map_or_else(lost, |thread| thread.join().unwrap_or_else(|_| lost()));
        Ok((connection, self.coordinator.take()))
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
    settings: MemberSettings,
    executor: Box<dyn Executor>,
    commands: Receiver<Command>,
    patience: Patience,
    waiting: Arc<Mutex<Vec<u32>>>,
}

impl MemberLoop {
    /// Runs until the member leaves, or takes its connection back.
    fn run(mut self) -> Result<MemberConnection, String> {
        let started = Instant::now();
        let mut member = Member::new(self.connection.host(), self.patience, started.elapsed());
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
                    Ok(Command::Recall) => return self.give_back(&member),
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
            member.set_lossy(losses.look(&member.quiet(now), known, now));
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
                self.connection.lose(true);
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
            // A coordinator that leaves is usually the first to end a job that is over. One may also be lost after a
            // verdict about another rank.
            let looks = verdict_delivered
                && member.coordinator_lost()
                && member.dismissed().is_none()
                && leaving.is_none();
            if looks && self.connection.can_find_another() {
                return self.find_coordinator();
            }
            if gone {
                // Nothing more arrives. Wait for the communicator to end.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Gives the connection back, or says why no other epoch can begin with it.
    fn give_back(mut self, member: &Member) -> Result<MemberConnection, String> {
        if let Some(why) = member.dismissed() {
            return Err(why.to_owned());
        }
        if member.coordinator_lost() || member.coordinator_left() {
            if !self.connection.can_find_another() {
                return Err(LOST.to_owned());
            }
            self.connection.lose(member.coordinator_left());
        }
        Ok(self.connection)
    }

    /// Finds the coordinator again, and keeps the connection to it until it is recalled. This epoch is over.
    fn find_coordinator(mut self) -> Result<MemberConnection, String> {
        self.connection.lose(false);
        let (mut recalled, commands) = (false, &self.commands);
        // All other commands are about the epoch that is over.
        let mut stop = || loop {
            match commands.try_recv() {
                Ok(Command::Recall) => recalled = true,
                Ok(_) => {}
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err("has left the job".to_owned()),
            }
        };
        self.connection.find_coordinator(&self.settings, self.patience, &mut stop)?;
        if recalled { Ok(self.connection) } else { self.run() }
    }
}
