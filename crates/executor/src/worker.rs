//! The work of a lane: executes commands, and moves bytes between the lane and its connections.

use super::command::{Command, LaneTransfer};
use super::counters::LaneCounters;
use super::pending::Completion;
use super::report::Report;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};
use syncline_membership::connector_thread::Requester;
use syncline_protocol::extract::take_out;
use syncline_protocol::fault::{Blame, FailedOperation, Fault, FaultKind, Trouble};
use syncline_protocol::heartbeat::{LostPeer, Patience};
use syncline_protocol::lane::transfers::{Delivery, Mismatch};
use syncline_protocol::lane::{Desertion, Lane, OperationId, PeerError, StartedOperation, WantedPeer};
use syncline_protocol::machine::Machine;
use syncline_transport::Connection;
use syncline_transport::connections::Connections;
use syncline_transport::handshaking;
use syncline_transport::lane_status::LaneStatus;
use syncline_transport::lane_waker::LaneWaker;

/// Sends commands that are not urgent to another lane's thread, without waking it.
pub(super) type Sibling = Sender<Command>;

/// How the thread of a lane hears from other threads, and what it tells them.
pub(super) struct Channels {
    pub commands: Receiver<Command>,
    pub siblings: Vec<Sibling>,
    pub reports: Sender<Report>,
    /// Asks for connections when they are first needed; `None` if there are all of them.
    pub requester: Option<Requester>,
}

/// Reports [`Report::Stopped`] when the worker is dropped.
#[derive(Debug)]
struct StopReporter {
    reports: Sender<Report>,
    aborted: bool,
}

impl Drop for StopReporter {
    fn drop(&mut self) {
        // Fails only if the monitor has ended.
        _ = self.reports.send(Report::Stopped { aborted: self.aborted });
    }
}

/// The work of a lane.
pub(super) struct Worker {
    lane: Lane,
    connections: Connections,
    patience: Patience,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    siblings: Vec<Sibling>,
    requester: Option<Requester>,
    /// Since when the thread is to end.
    stopping: Option<Instant>,
    /// Of operations under way.
    completions: BTreeMap<OperationId, Arc<Completion>>,
    /// Transfers under way, by their numbers.
    transfers: BTreeMap<u64, LaneTransfer>,
    counters: Arc<LaneCounters>,
    /// Peers whose connections are lost, and why.
    lost: BTreeMap<u32, Trouble>,
    /// Peers that could not be connected so far, and why.
    unreachable: BTreeMap<u32, Trouble>,
    aborted: bool,
    /// The last field, so that it is dropped last: the monitor fails operations once all lanes have reported.
    stop_reporter: StopReporter,
}

impl Drop for Worker {
    /// Restores inputs before the worker reports its end.
    fn drop(&mut self) {
        self.abort();
    }
}

impl Worker {
    /// Creates a worker from its lane and its connections, by member. Also returns what wakes it after a
    /// command.
    pub(super) fn new(
        mut lane: Lane,
        connections: Vec<Option<Connection>>,
        patience: Patience,
        channels: Channels,
        counters: Arc<LaneCounters>,
    ) -> io::Result<(Self, Arc<LaneWaker>)> {
        let Channels { commands, siblings, reports, requester } = channels;
        if requester.is_some() {
            lane.connect_on_demand();
        }
        let peers = connections;
        let (mut connections, waker) = Connections::new(patience)?;
        for (peer, connection) in (0u32..).zip(peers) {
            if let Some(connection) = connection {
                connections.add(&mut lane, peer, connection)?;
                lane.send_heartbeat(peer);
            }
        }
        let aborted = false;
        let stop_reporter = StopReporter { reports: reports.clone(), aborted };
        let worker = Self {
            lane,
            connections,
            patience,
            commands,
            reports,
            siblings,
            requester,
            stopping: None,
            completions: BTreeMap::new(),
            transfers: BTreeMap::new(),
            counters,
            lost: BTreeMap::new(),
            unreachable: BTreeMap::new(),
            aborted,
            stop_reporter,
        };
        Ok((worker, waker))
    }

    /// What the thread knows about its peers, for other threads.
    pub(super) fn status(&self) -> Arc<LaneStatus> {
        self.connections.status()
    }

    /// Executes the commands that have arrived, and moves bytes. Returns whether the worker goes on: not after
    /// [`Command::Stop`], or if no sender of commands is left.
    pub(super) fn step(&mut self) -> bool {
        if !self.execute_commands() {
            return false;
        }
        if self.may_stop() {
            // Tells peers that this rank leaves, and waits until what was sent has arrived.
            self.connections.leave(&mut self.lane, || {});
            return false;
        }
        let Self { lane, connections, completions, transfers, siblings, .. } = self;
        let lost = connections.work(lane, |lane| complete(lane, completions, transfers, siblings));
        for LostPeer { peer, trouble } in lost {
            self.lose_peer(peer, trouble);
        }
        self.report_groups_and_counters();
        self.request_connections();
        true
    }

    /// Sleeps until there is something to do. Returns whether the worker goes on.
    pub(super) fn wait(&mut self) -> bool {
        let waited = self.connections.wait(&self.lane).map(drop);
        self.report_error(waited)
    }

    /// Looks whether there is something to do, without sleeping. Returns whether the worker goes on.
    pub(super) fn look(&mut self) -> bool {
        let looked = self.connections.look().map(drop);
        self.report_error(looked)
    }

    /// Reports that the system cannot wait. Returns whether it can.
    fn report_error(&self, outcome: io::Result<()>) -> bool {
        if let Err(error) = &outcome {
            let what = format!("cannot wait for its connections: {error}");
            _ = self.reports.send(Report::Failed(Trouble { kind: FaultKind::Closed, what }));
        }
        outcome.is_ok()
    }

    /// Whether nothing is under way, and everything is sent.
    pub(super) fn is_idle(&self) -> bool {
        self.completions.is_empty() && self.transfers.is_empty() && !self.connections.has_unsent()
    }

    /// Reports that this worker has panicked.
    pub(super) fn report_panic(&self) {
        _ = self.reports.send(Report::Failed(Trouble::bug()));
    }

    /// Executes the commands that have arrived. Returns whether the thread goes on.
    fn execute_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Start { slot, job, completion }) => self.start(slot, job, completion),
                Ok(Command::Forget(operation)) => {
                    self.completions.remove(&operation);
                    self.lane.forget(operation);
                }
                Ok(Command::Transfer(transfer)) => self.transfer(*transfer),
                Ok(Command::Withdraw { label, number }) => {
                    if self.lane.withdraw(label, number)
                        && let Some(transfer) = self.transfers.remove(&number)
                    {
                        let what = "no longer waits for it".to_owned();
                        let blame = Blame::Rank(transfer.group.own_name());
                        transfer.fail(blame, Trouble { kind: FaultKind::Deadline, what });
                    }
                }
                Ok(Command::Open(opening)) => {
                    if !self.aborted {
                        self.lane.open(opening);
                    }
                }
                Ok(Command::Close { slot, lost, done }) => {
                    self.close(slot, lost);
                    drop(done);
                }
                Ok(Command::Connected { peer, connection }) => self.connected(peer, connection),
                Ok(Command::Unreachable { peer, trouble }) => {
                    if !self.aborted {
                        self.unreachable.insert(peer, trouble);
                        self.report_if_missed(peer);
                    }
                }
                Ok(Command::Traffic(answer)) => {
                    // Fails only if the caller no longer waits.
                    _ = answer.send((self.lane.index(), self.connections.traffic()));
                }
                Ok(Command::Abort) => {
                    self.abort();
                    self.connections.clear();
                    if self.reports.send(Report::Aborted).is_err() {
                        return false;
                    }
                    self.stop_reporter.aborted = true;
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    self.stopping.get_or_insert_with(Instant::now);
                    return true;
                }
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Whether the thread is to end, and frames wait for no peer that is about to be connected.
    fn may_stop(&self) -> bool {
        let gone = |peer: &u32| self.lost.contains_key(peer) || self.unreachable.contains_key(peer);
        let awaited = || self.lane.unconnected().any(|peer| !gone(&peer));
        self.stopping.is_some_and(|since| {
            self.aborted || self.requester.is_none() || since.elapsed() > handshaking::TIMEOUT || !awaited()
        })
    }

    /// Asks for the connections that the lane needs.
    fn request_connections(&mut self) {
        let Some(requester) = &self.requester else { return };
        while let Some(WantedPeer { peer, sends }) = self.lane.next_wanted() {
            // A peer that has something to send connects by itself. If it does not, it may have left.
            let delay = if sends { Duration::ZERO } else { self.patience.interval };
            requester.connect(self.lane.index(), peer, delay);
        }
    }

    /// Begins to use a connection.
    fn connected(&mut self, peer: u32, mut connection: Connection) {
        self.requester.iter().for_each(|requester| requester.arrived(&mut connection));
        if self.aborted || self.lost.contains_key(&peer) {
            return;
        }
        self.unreachable.remove(&peer);
        self.lane.connected(peer);
        // The peer has just taken part in a handshake.
        match self.connections.add_heard(&mut self.lane, peer, connection) {
            Ok(()) => self.lane.send_heartbeat(peer),
            Err(error) => self.lose_peer(peer, Trouble::closed(&error.to_string())),
        }
    }

    /// Begins an operation. Does nothing after an abort: the monitor fails the operation.
    fn start(&mut self, slot: u32, job: Arc<StartedOperation>, completion: Arc<Completion>) {
        if self.aborted {
            return;
        }
        let operation = OperationId { group: slot, sequence: job.sequence };
        self.completions.insert(operation, completion);
        let shape = Arc::clone(&job.shape);
        if let Err(PeerError { rank: peer, error: broken }) = self.lane.start_in(slot, job) {
            // The peer asked for another operation, whether it is still connected or has left since.
            self.connections.remove(peer);
            let trouble = Trouble::from(broken);
            self.lost.insert(peer, trouble.clone());
            _ = self.reports.send(Report::Trouble { peer, trouble });
            return;
        }
        if self.lost.is_empty() && self.unreachable.is_empty() {
            return;
        }
        let needed = shape.script.peers();
        let members = needed.into_iter().map(|seat| self.lane.member(slot, shape.ranks()[seat as usize]));
        let members: Vec<u32> = members.flatten().collect();
        members.into_iter().for_each(|peer| self.report_if_missed(peer));
    }

    /// Reports a peer that is lost or could not be connected, if that matters.
    fn report_if_missed(&self, peer: u32) {
        let lost = self.lost.get(&peer).filter(|trouble| self.matters(peer, trouble));
        let unreachable = || self.unreachable.get(&peer).filter(|_| self.lane.needs(peer));
        if let Some(trouble) = lost.or_else(unreachable) {
            _ = self.reports.send(Report::Trouble { peer, trouble: trouble.clone() });
        }
    }

    /// Whether trouble with a peer matters: the peer is needed, or it has not left. If connections are made when they are
    /// first needed, a peer that leaves may end one that it has not used, and says nothing on it. The coordinator notices
    /// processes that end.
    fn matters(&self, peer: u32, trouble: &Trouble) -> bool {
        let may_have_left = match trouble.kind {
            FaultKind::Left => true,
            FaultKind::Closed => self.requester.is_some(),
            _ => false,
        };
        !may_have_left || self.lane.needs(peer)
    }

    /// Begins a transfer. Does nothing after an abort: the monitor fails the transfer.
    fn transfer(&mut self, begun: LaneTransfer) {
        if self.aborted {
            return;
        }
        let LaneTransfer { sends, transfer, .. } = begun;
        self.transfers.insert(transfer.id, begun);
        match sends {
            true => self.lane.send(transfer),
            false => self.lane.receive(transfer),
        }
        match transfer.peer {
            Some(peer) => self.report_if_missed(peer),
            None => self.lost.keys().for_each(|&peer| self.report_if_missed(peer)),
        }
    }

    /// Leaves a group, and restores the inputs of its operations, except those that have succeeded on all
    /// lanes.
    fn close(&mut self, slot: u32, lost: Option<u32>) {
        for (operation, completion) in take_out(&mut self.completions, |each, _| each.group == slot) {
            if !completion.seal() {
                self.lane.forget(operation);
            }
        }
        self.transfers.retain(|_, transfer| transfer.group.slot != slot);
        self.lane.close(slot, lost);
    }

    /// Reports groups that cannot go on or whose slots are free, and updates the lane's counters.
    fn report_groups_and_counters(&mut self) {
        while let Some(Desertion { slot, member }) = self.lane.deserted() {
            _ = self.reports.send(Report::Deserted { slot, member });
        }
        while let Some(slot) = self.lane.released() {
            _ = self.reports.send(Report::Released { slot });
        }
        let kept = self.lane.kept();
        self.counters.early.store(kept.early as u64, Ordering::Relaxed);
        self.counters.most_early.store(kept.most_early as u64, Ordering::Relaxed);
        self.counters.transfers.store(kept.transfers as u64, Ordering::Relaxed);
    }

    /// Gives up all operations and transfers, and restores the inputs of operations, except those that have
    /// succeeded on all lanes.
    fn abort(&mut self) {
        self.aborted = true;
        for (operation, completion) in std::mem::take(&mut self.completions) {
            if !completion.seal() {
                self.lane.forget(operation);
            }
        }
        self.transfers.clear();
        self.lane.abort();
    }

    /// Records that the connection to a peer is lost, and reports it, if that matters.
    fn lose_peer(&mut self, peer: u32, trouble: Trouble) {
        let trouble = self.lane.reason(peer, trouble);
        if self.matters(peer, &trouble) {
            _ = self.reports.send(Report::Trouble { peer, trouble: trouble.clone() });
        }
        self.lost.insert(peer, trouble);
    }
}

impl LaneTransfer {
    fn fail(self, blame: Blame, trouble: Trouble) {
        let during = Some(FailedOperation { task: self.task, elapsed: self.began.elapsed() });
        self.completion.end(Err(Arc::new(Fault { blame, trouble, during })));
    }

    /// Ends the transfer: it has succeeded, or both ranks disagree about its length.
    fn end(self, outcome: Result<u32, Mismatch>) {
        let group = &self.group;
        let name = |member: u32| group.place(member).map_or(member, |place| group.book.name(place));
        match outcome {
            Ok(peer) => {
                group.place(peer).into_iter().for_each(|place| self.completion.set_source(place));
                self.completion.end(Ok(()));
            }
            Err(mismatch) => {
                let own = group.members[group.book.member() as usize];
                let (from, to) = if self.sends { (own, mismatch.peer) } else { (mismatch.peer, own) };
                let (sent, expected) = (mismatch.sent, mismatch.expected);
                let what = format!("sends {sent} bytes where rank {} expects {expected} bytes", name(to));
                let blame = Blame::Rank(name(from));
                self.fail(blame, Trouble { kind: FaultKind::Differs, what });
            }
        }
    }
}

/// Ends operations and transfers that the lane has finished. A lane keeps a copy of an operation's input
/// until the last lane has finished, because another lane may still fail.
fn complete(
    lane: &mut Lane,
    completions: &mut BTreeMap<OperationId, Arc<Completion>>,
    transfers: &mut BTreeMap<u64, LaneTransfer>,
    siblings: &[Sibling],
) {
    while let Some(operation) = lane.finished() {
        let Some(completion) = completions.get(&operation) else { continue };
        if !completion.lane_done() || !completion.end(Ok(())) {
            continue;
        }
        completions.remove(&operation);
        lane.forget(operation);
        for sibling in siblings {
            _ = sibling.send(Command::Forget(operation));
        }
    }
    while let Some(Delivery { id, outcome }) = lane.delivered() {
        if let Some(transfer) = transfers.remove(&id) {
            transfer.end(outcome);
        }
    }
}
