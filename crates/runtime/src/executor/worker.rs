//! The thread of a lane: does what it is told, and has bytes moved between the lane and its connections.

use super::pending::Completion;
use crate::affinity;
use crate::fault::{Blame, Kind, Trouble};
use crate::lane::{Job, Lane};
use crate::machine::Machine;
use crate::pulse::Patience;
use crate::transport::Connection;
use crate::transport::bell::Bell;
use crate::transport::wires::Wires;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

/// What a lane's thread is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an operation.
    Start(Arc<Job>, Arc<Completion>),
    /// Let go of an operation's input.
    Forget(u64),
    /// Give up: restore inputs and say so.
    Abort,
    /// End.
    Stop,
}

/// What a lane's thread tells.
#[derive(Debug)]
pub(super) enum Report {
    /// Something is wrong with a peer.
    Trouble(u32, Trouble),
    /// Whoever decides has decided who is at fault.
    Verdict(Blame, Trouble),
    /// This rank itself cannot go on.
    Failed(Trouble),
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
    completions: BTreeMap<u64, Arc<Completion>>,
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
        reports: Sender<Report>,
    ) -> io::Result<(Self, Arc<Bell>)> {
        let (mut wires, bell) = Wires::new(patience)?;
        for (rank, connection) in (0u32..).zip(connections) {
            if let Some(connection) = connection {
                wires.add(&mut lane, rank, connection)?;
                lane.beat(rank);
            }
        }
        let (completions, gone, aborted) = (BTreeMap::new(), BTreeMap::new(), false);
        let farewell = Farewell { reports: reports.clone(), aborted };
        Ok((Self { lane, wires, commands, reports, siblings, completions, gone, aborted, farewell }, bell))
    }

    /// Works until it is told to end, or nobody is left to tell it; on one CPU, if that is given.
    pub(super) fn run(mut self, cpu: Option<usize>) {
        // Whoever may not choose is placed by the system.
        _ = cpu.map(affinity::pin);
        while self.obey() {
            let Self { lane, wires, completions, siblings, .. } = &mut self;
            let lost = wires.work(lane, |lane| finish(lane, completions, siblings));
            for (rank, trouble) in lost {
                self.lose(rank, trouble);
            }
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
                Ok(Command::Start(job, completion)) => self.start(job, completion),
                Ok(Command::Forget(sequence)) => {
                    self.completions.remove(&sequence);
                    self.lane.forget(sequence);
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
    fn start(&mut self, job: Arc<Job>, completion: Arc<Completion>) {
        if self.aborted {
            return;
        }
        self.completions.insert(job.sequence, completion);
        let shape = Arc::clone(&job.shape);
        if let Err((rank, broken)) = self.lane.start(job) {
            // What the peer asked for stands between us, whether it is still there or has left since.
            self.wires.remove(rank);
            let trouble = Trouble::from(broken);
            self.gone.insert(rank, trouble.clone());
            _ = self.reports.send(Report::Trouble(rank, trouble));
            return;
        }
        let needed = shape.script.peers();
        for rank in needed.into_iter().map(|seat| shape.ranks()[seat as usize]) {
            if let Some(trouble) = self.gone.get(&rank)
                && (trouble.kind != Kind::Left || self.lane.needs(rank))
            {
                _ = self.reports.send(Report::Trouble(rank, trouble.clone()));
            }
        }
    }

    /// Gives up what is not over: its inputs are as they were. What another lane has ended stays.
    fn abort(&mut self) {
        self.aborted = true;
        for (sequence, completion) in std::mem::take(&mut self.completions) {
            if !completion.seal() {
                self.lane.forget(sequence);
            }
        }
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

/// Tells which operations are through. What an input was is kept until the last lane is: until then another may fail.
fn finish(lane: &mut Lane, completions: &mut BTreeMap<u64, Arc<Completion>>, siblings: &[Sibling]) {
    while let Some(sequence) = lane.finished() {
        let Some(completion) = completions.get(&sequence) else { continue };
        if !completion.lane_done() || !completion.end(Ok(())) {
            continue;
        }
        completions.remove(&sequence);
        lane.forget(sequence);
        for sibling in siblings {
            _ = sibling.send(Command::Forget(sequence));
        }
    }
}
