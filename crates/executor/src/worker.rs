//! The thread of a lane: does what it is told, and has bytes moved between the lane and its connections.

use super::group::{Circle, Stock};
use super::pending::Completion;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;
use syncline_protocol::extract::take_out;
use syncline_protocol::fault::{Blame, Errand, Fault, Kind, Trouble};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::transfers::{Delivery, Label, Transfer};
use syncline_protocol::lane::{Job, Lane, Opening, key};
use syncline_protocol::machine::Machine;
use syncline_transport::Connection;
use syncline_transport::affinity;
use syncline_transport::bell::Bell;
use syncline_transport::wires::Wires;

/// What a lane's thread is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an operation of a group.
    Start(u32, Arc<Job>, Arc<Completion>),
    /// Let go of an operation's input, by its [key].
    Forget(u64),
    /// Take part in a group.
    Open(Opening),
    /// Leave one, which has lost a member, if that is why; let go of `done` once nothing of it touches callers' memory.
    Close { slot: u32, lost: Option<u32>, done: Sender<()> },
    /// Begin a transfer.
    Transfer(Box<Posted>),
    /// Await one no longer.
    Withdraw(Label, u64),
    /// Give up: restore inputs and say so.
    Abort,
    /// End.
    Stop,
}

/// A transfer that begins.
#[derive(Debug)]
pub(super) struct Posted {
    pub sends: bool,
    pub transfer: Transfer,
    pub completion: Arc<Completion>,
    pub errand: Errand,
    pub began: Instant,
    pub circle: Arc<Circle>,
}

/// What a lane's thread tells.
#[derive(Debug)]
pub(super) enum Report {
    /// Something is wrong with a peer.
    Trouble(u32, Trouble),
    /// Whoever decides has decided who is at fault.
    Verdict(Blame, Trouble),
    /// The coordinator has left, as it said: this rank decides for itself.
    Alone,
    /// This rank itself cannot go on.
    Failed(Trouble),
    /// A group cannot go on without a member, which has left it.
    Deserted(u32, u32),
    /// Nothing of a group that was left can come any more.
    Released(u32),
    /// Inputs are as they were.
    Aborted,
    /// The thread ends, and inputs are as they were; whether it has said so before.
    Stopped { aborted: bool },
}

/// Where to tell another lane's thread something that is not urgent.
pub(super) type Sibling = Sender<Command>;

/// Says that the thread ends, also where it panics.
#[derive(Debug)]
struct Farewell {
    reports: Sender<Report>,
    aborted: bool,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            _ = self.reports.send(Report::Failed(Trouble::bug()));
        }
        // Nobody listens where the communicator is gone.
        _ = self.reports.send(Report::Stopped { aborted: self.aborted });
    }
}

/// The thread of a lane.
pub(super) struct Worker {
    lane: Lane,
    wires: Wires,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    siblings: Vec<Sibling>,
    /// By the operations' [keys](key).
    completions: BTreeMap<u64, Arc<Completion>>,
    transfers: BTreeMap<u64, Posted>,
    stock: Arc<Stock>,
    /// Peers without a connection, and why.
    gone: BTreeMap<u32, Trouble>,
    aborted: bool,
    /// Dropped last: what is under way ends once all threads have said so.
    farewell: Farewell,
}

impl Drop for Worker {
    /// However the thread ends, and be it by a bug, inputs are as they were before anybody is told.
    fn drop(&mut self) {
        self.abort();
    }
}

impl Worker {
    /// A worker with connections to ranks, and what wakes it after a command.
    pub(super) fn new(
        mut lane: Lane,
        connections: Vec<Option<Connection>>,
        patience: Patience,
        commands: Receiver<Command>,
        siblings: Vec<Sibling>,
        (reports, stock): (Sender<Report>, Arc<Stock>),
    ) -> io::Result<(Self, Arc<Bell>)> {
        let (mut wires, bell) = Wires::new(patience)?;
        for (rank, connection) in (0u32..).zip(connections) {
            if let Some(connection) = connection {
                wires.add(&mut lane, rank, connection)?;
                lane.beat(rank);
            }
        }
        let aborted = false;
        let farewell = Farewell { reports: reports.clone(), aborted };
        let worker = Self {
            lane,
            wires,
            commands,
            reports,
            siblings,
            completions: BTreeMap::new(),
            transfers: BTreeMap::new(),
            stock,
            gone: BTreeMap::new(),
            aborted,
            farewell,
        };
        Ok((worker, bell))
    }

    /// Works until it is told to end, or nobody is left to tell it; on one CPU, if that is given.
    pub(super) fn run(mut self, cpu: Option<usize>) {
        // Whoever may not choose is placed by the system.
        _ = cpu.map(affinity::pin);
        while self.obey() {
            let Self { lane, wires, completions, transfers, siblings, .. } = &mut self;
            let lost = wires.work(lane, |lane| finish(lane, completions, transfers, siblings));
            for (rank, trouble) in lost {
                self.lose(rank, trouble);
            }
            self.tell();
            if let Err(error) = self.wires.wait(&self.lane) {
                let what = format!("cannot wait for its connections: {error}");
                _ = self.reports.send(Report::Failed(Trouble { kind: Kind::Closed, what }));
                return;
            }
        }
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Start(slot, job, completion)) => self.start(slot, job, completion),
                Ok(Command::Forget(key)) => {
                    self.completions.remove(&key);
                    self.lane.forget(key);
                }
                Ok(Command::Transfer(posted)) => self.transfer(*posted),
                Ok(Command::Withdraw(label, number)) => {
                    if self.lane.withdraw(label, number)
                        && let Some(posted) = self.transfers.remove(&number)
                    {
                        let what = "does not wait for it any more".to_owned();
                        let us = posted.circle.book.name(posted.circle.book.member());
                        posted.fail(Blame::Rank(us), Trouble { kind: Kind::Deadline, what });
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
                Ok(Command::Abort) => {
                    self.abort();
                    self.wires.clear();
                    if self.reports.send(Report::Aborted).is_err() {
                        return false;
                    }
                    self.farewell.aborted = true;
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    // Says goodbye, and lets what is under way arrive.
                    self.wires.leave(&mut self.lane, || {});
                    return false;
                }
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Begins an operation. After an abort nothing begins; whoever asked is told by whoever aborted.
    fn start(&mut self, slot: u32, job: Arc<Job>, completion: Arc<Completion>) {
        if self.aborted {
            return;
        }
        self.completions.insert(key(slot, job.sequence), completion);
        let shape = Arc::clone(&job.shape);
        if let Err((rank, broken)) = self.lane.start_in(slot, job) {
            // What the peer asked for stands between us, whether it is still there or has left since.
            self.wires.remove(rank);
            let trouble = Trouble::from(broken);
            self.gone.insert(rank, trouble.clone());
            _ = self.reports.send(Report::Trouble(rank, trouble));
            return;
        }
        if self.gone.is_empty() {
            return;
        }
        let needed = shape.script.peers();
        let members = needed.into_iter().map(|seat| self.lane.member(slot, shape.ranks()[seat as usize]));
        let members: Vec<u32> = members.flatten().collect();
        members.into_iter().for_each(|rank| self.miss(rank));
    }

    /// Says that a rank is gone, if it is and is needed.
    fn miss(&self, rank: u32) {
        if let Some(trouble) = self.gone.get(&rank)
            && (trouble.kind != Kind::Left || self.lane.needs(rank))
        {
            _ = self.reports.send(Report::Trouble(rank, trouble.clone()));
        }
    }

    /// Begins a transfer. After an abort none begins, as with operations.
    fn transfer(&mut self, posted: Posted) {
        if self.aborted {
            return;
        }
        let Posted { sends, transfer, .. } = posted;
        self.transfers.insert(transfer.id, posted);
        match sends {
            true => self.lane.send(transfer),
            false => self.lane.receive(transfer),
        }
        match transfer.peer {
            Some(peer) => self.miss(peer),
            None => self.gone.keys().for_each(|&peer| self.miss(peer)),
        }
    }

    /// Leaves a group. What another lane has ended stays.
    fn close(&mut self, slot: u32, lost: Option<u32>) {
        let keys = key(slot, 0)..key(slot + 1, 0);
        for (key, completion) in take_out(&mut self.completions, |key, _| keys.contains(key)) {
            if !completion.seal() {
                self.lane.forget(key);
            }
        }
        self.transfers.retain(|_, posted| posted.circle.slot != slot);
        self.lane.close(slot, lost);
    }

    /// Tells what has become of groups, and what is kept.
    fn tell(&mut self) {
        while let Some((slot, lost)) = self.lane.deserted() {
            _ = self.reports.send(Report::Deserted(slot, lost));
        }
        while let Some(slot) = self.lane.released() {
            _ = self.reports.send(Report::Released(slot));
        }
        let (early, most, transfers) = self.lane.kept();
        self.stock.early.store(early as u64, Ordering::Relaxed);
        self.stock.most_early.store(most as u64, Ordering::Relaxed);
        self.stock.transfers.store(transfers as u64, Ordering::Relaxed);
    }

    /// Gives up what is not over: its inputs are as they were. What another lane has ended stays.
    fn abort(&mut self) {
        self.aborted = true;
        for (sequence, completion) in std::mem::take(&mut self.completions) {
            if !completion.seal() {
                self.lane.forget(sequence);
            }
        }
        self.transfers.clear();
        self.lane.abort();
    }

    /// A connection is gone. Whoever leaves is missed only where it is needed.
    fn lose(&mut self, rank: u32, trouble: Trouble) {
        let trouble = self.lane.reason(rank, trouble);
        if trouble.kind != Kind::Left || self.lane.needs(rank) {
            _ = self.reports.send(Report::Trouble(rank, trouble.clone()));
        }
        self.gone.insert(rank, trouble);
    }
}

impl Posted {
    fn fail(self, blame: Blame, trouble: Trouble) {
        let during = Some((0, self.errand, self.began.elapsed()));
        self.completion.end(Err(Arc::new(Fault { blame, trouble, during })));
    }

    /// It is over.
    fn end(self, outcome: Delivery) {
        let circle = &self.circle;
        let name = |member: u32| circle.place(member).map_or(member, |place| circle.book.name(place));
        match outcome.1 {
            Ok(peer) => {
                circle.place(peer).into_iter().for_each(|place| self.completion.came_from(place));
                self.completion.end(Ok(()));
            }
            Err(mismatch) => {
                let us = circle.members[circle.book.member() as usize];
                let (from, to) = if self.sends { (us, mismatch.peer) } else { (mismatch.peer, us) };
                let (sent, expected) = (mismatch.sent, mismatch.expected);
                let what = format!("sends {sent} bytes where rank {} expects {expected} bytes", name(to));
                let blame = Blame::Rank(name(from));
                self.fail(blame, Trouble { kind: Kind::Differs, what });
            }
        }
    }
}

/// Tells which operations and transfers are through. What an input was is kept until the last lane is: until then another may
/// fail.
fn finish(
    lane: &mut Lane,
    completions: &mut BTreeMap<u64, Arc<Completion>>,
    transfers: &mut BTreeMap<u64, Posted>,
    siblings: &[Sibling],
) {
    while let Some(key) = lane.finished() {
        let Some(completion) = completions.get(&key) else { continue };
        if !completion.lane_done() || !completion.end(Ok(())) {
            continue;
        }
        completions.remove(&key);
        lane.forget(key);
        for sibling in siblings {
            _ = sibling.send(Command::Forget(key));
        }
    }
    while let Some(delivery) = lane.delivered() {
        if let Some(posted) = transfers.remove(&delivery.0) {
            posted.end(delivery);
        }
    }
}
