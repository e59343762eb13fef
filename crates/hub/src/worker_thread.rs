//! A worker's thread: moves bytes between the worker's vectors and the cores of its hubs, and serves the control
//! connections to the hubs.

use super::client::{Client, FinishedExchange, HubExchange, Newcomer};
use super::message::{FromHub, FromWorker};
use super::terms::{Contract, LossPolicy};
use super::worker_settings::WorkerSettings;
use mio::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use syncline_executor::pending::Completion;
use syncline_protocol::fault::{Blame, FailedOperation, Fault, FaultKind, Task, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, LostPeer, Patience};
use syncline_protocol::operation::Request;
use syncline_transport::connections::Connections;
use syncline_transport::control_connection::ControlConnection;

/// A command to the thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an exchange.
    Start { exchange: HubExchange, completion: Arc<Completion>, contributors: Arc<OnceLock<u16>> },
    /// Change the learning rate of one vector, or of all.
    Rate { rate: f64, key: Option<u32> },
}

/// An exchange that is not complete.
struct InFlight {
    exchange: HubExchange,
    /// The step of its vector that the exchange waits for.
    step: u64,
    completion: Arc<Completion>,
    contributors: Arc<OnceLock<u16>>,
    began: Instant,
}

/// An exchange that has missed its deadline.
#[derive(Clone, Copy)]
struct LateExchange {
    sequence: u64,
    /// Number of incomplete chunks at the last report to the hubs.
    left: usize,
}

/// A save that this worker has announced, until all hubs that keep saves have it.
struct SaveRound {
    number: u64,
    /// When it was announced.
    since: Instant,
    /// Hubs that have not reported.
    waiting: BTreeSet<usize>,
    /// Whether all others have it.
    done: bool,
}

/// How long a save that was announced may take before a hub that asks for another one gets it.
const ABANDONED: Duration = Duration::from_secs(60);

/// A fault that a hub may explain better.
struct Suspicion {
    since: Instant,
    blame: Blame,
    trouble: Trouble,
}

/// The fault after which no exchange can begin, once there is one.
pub(super) type Failure = Arc<OnceLock<Arc<Fault>>>;

/// A worker, as its thread runs it.
pub(super) struct WorkerThread {
    rank: u32,
    hubs: Vec<SocketAddr>,
    contract: Arc<Contract>,
    client: Client,
    /// The connections to cores.
    cores: Connections,
    /// The control connection to each hub.
    controls: Vec<ControlConnection>,
    /// Hubs that keep saves.
    saving_hubs: BTreeSet<usize>,
    /// The save under way. Another one begins only after it, so that hubs have at least one save in common.
    save: Option<SaveRound>,
    /// A hub asks for a save beyond this number, once the one under way is over.
    save_wanted: Option<u64>,
    /// Hubs that are lost: leaving does not wait for them.
    lost_hubs: BTreeSet<usize>,
    commands: Receiver<Command>,
    exchanges: BTreeMap<u64, InFlight>,
    patience: Patience,
    deadline: Duration,
    /// Heartbeats of hubs.
    heartbeats: Heartbeats,
    started: Instant,
    /// When timers were last advanced.
    ticked: Duration,
    /// The exchange that has missed its deadline, once it was reported to the hubs.
    late: Option<LateExchange>,
    /// What seems wrong from here. A hub may know better.
    suspicion: Option<Suspicion>,
    /// The oldest exchange that is not complete.
    oldest: Option<u64>,
    /// Since when it is the oldest.
    oldest_since: Instant,
    failed: Failure,
}

/// The control connections to hubs.
pub(super) struct HubControls {
    /// One for each hub.
    pub(super) controls: Vec<ControlConnection>,
    /// The indices of hubs that keep saves.
    pub(super) saving: BTreeSet<usize>,
    /// A hub has asked for a save beyond this number.
    pub(super) save_wanted: Option<u64>,
}

/// The token of the first hub's control connection. Those of other hubs count up from it.
const CONTROLS: usize = 1 << 32;

impl WorkerThread {
    pub(super) fn new(
        settings: &WorkerSettings,
        contract: Arc<Contract>,
        client: Client,
        cores: Connections,
        hubs: HubControls,
        commands: Receiver<Command>,
        failed: Failure,
    ) -> io::Result<Self> {
        let HubControls { mut controls, saving: saving_hubs, save_wanted } = hubs;
        let mut heartbeats = Heartbeats::new(settings.patience, Duration::ZERO);
        for (hub, connection) in controls.iter_mut().enumerate() {
            connection.socket.watch(cores.registry(), Token(CONTROLS + hub))?;
            heartbeats.join(hub, Duration::ZERO);
            heartbeats.heard(hub, Duration::ZERO);
        }
        Ok(Self {
            rank: settings.rank,
            hubs: settings.hubs.clone(),
            contract,
            client,
            cores,
            controls,
            saving_hubs,
            save: None,
            save_wanted,
            lost_hubs: BTreeSet::new(),
            commands,
            exchanges: BTreeMap::new(),
            patience: settings.patience,
            deadline: settings.deadline,
            heartbeats,
            started: Instant::now(),
            ticked: Duration::ZERO,
            late: None,
            suspicion: None,
            oldest: None,
            oldest_since: Instant::now(),
            failed,
        })
    }

    /// Works until the worker's handle is dropped. If the thread panics, which is a bug, exchanges end with a fault, so
    /// that no caller waits forever.
    pub(super) fn run(mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_ok() {
            return;
        }
        // Inputs that cannot be restored are lost.
        _ = catch_unwind(AssertUnwindSafe(|| {
            self.cores.clear();
            self.client.abort();
        }));
        self.end(Blame::Rank(self.rank), Trouble::bug());
        while let Ok(command) = self.commands.recv() {
            self.begin(command);
        }
    }

    fn work(&mut self) {
        let mut control_ready = true;
        loop {
            match self.cores.wait(&self.client) {
                Ok(others) => control_ready |= !others.is_empty(),
                Err(error) => {
                    let what = format!("cannot wait for its connections: {error}");
                    let trouble = Trouble { kind: FaultKind::Closed, what };
                    self.fail(Blame::Rank(self.rank), trouble);
                    // New exchanges still end with this fault. Nothing else is left to do.
                    std::thread::sleep(self.heartbeats.interval());
                }
            }
            if !self.carry_out_commands() {
                self.leave();
                return;
            }
            self.follow_save();
            let lost = self.cores.work(&mut self.client, |client| {
                while let Some(FinishedExchange { sequence, contributors }) = client.finished() {
                    client.forget(sequence);
                    if let Some(exchange) = self.exchanges.remove(&sequence) {
                        if let Some(contributors) = contributors {
                            _ = exchange.contributors.set(contributors);
                        }
                        exchange.completion.end(Ok(()));
                    }
                }
            });
            for LostPeer { peer: core, trouble } in lost {
                self.lose_core(core, trouble);
            }
            let now = self.started.elapsed();
            if control_ready || now >= self.ticked + self.heartbeats.interval() {
                self.receive();
                if now >= self.ticked + self.heartbeats.interval() {
                    self.ticked = now;
                    self.tick();
                }
                self.controls.iter_mut().for_each(|connection| _ = connection.write());
                control_ready = false;
            }
        }
    }

    /// Carries out commands. Returns false if the worker's handle is dropped.
    fn carry_out_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.begin(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn begin(&mut self, command: Command) {
        match (command, self.failed.get()) {
            (Command::Start { exchange, completion, contributors }, failed) => {
                let pushes = matches!(exchange.request, Request::Push | Request::PushPull);
                let step = self.client.steps()[exchange.key as usize] + u64::from(pushes);
                let in_flight = InFlight { exchange, step, completion, contributors, began: Instant::now() };
                if let Some(fault) = failed {
                    let during = Some(self.failed(&in_flight));
                    in_flight.completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
                    return;
                }
                self.exchanges.insert(exchange.sequence, in_flight);
                self.client.start(exchange);
            }
            (Command::Rate { rate, key }, None) => self.client.set_rate(rate, key),
            (Command::Rate { .. }, Some(_)) => {}
        }
    }

    fn failed(&self, in_flight: &InFlight) -> FailedOperation {
        let HubExchange { sequence, key, request, .. } = in_flight.exchange;
        let key = &self.contract.catalogue.keys()[key as usize];
        let (vector, bytes) = (key.name.clone(), key.bytes().unwrap_or(0));
        let task = Task::Exchange { number: sequence, request, vector, bytes };
        FailedOperation { task, elapsed: in_flight.began.elapsed() }
    }

    /// Handles the loss of the connection to a core. Its hub may still say why.
    fn lose_core(&mut self, core: u32, mut trouble: Trouble) {
        let hub = self.client.hub(core);
        trouble.what = format!("at {} {}", self.hubs[hub as usize], trouble.what);
        // A lost connection replaces the suspicion about a late exchange.
        if self.late.take().is_some() {
            self.suspicion = None;
        }
        self.suspicion.get_or_insert(Suspicion { since: Instant::now(), blame: Blame::Hub(hub), trouble });
    }

    /// Receives messages from hubs.
    fn receive(&mut self) {
        let now = self.started.elapsed();
        for hub in 0..self.controls.len() {
            let closed = self.controls[hub].read();
            loop {
                match self.controls[hub].receive::<FromHub>() {
                    Ok(Some(message)) => {
                        self.heartbeats.heard(hub, now);
                        self.received(hub, message);
                    }
                    Ok(None) => break,
                    Err(what) => {
                        self.lose_hub(hub, FaultKind::Corrupt, what);
                        break;
                    }
                }
            }
            if let Err(how) = closed {
                self.lose_hub(hub, FaultKind::Closed, format!("closed its connection ({how})"));
            }
        }
    }

    fn received(&mut self, hub: usize, message: FromHub) {
        match message {
            FromHub::Verdict { blame, trouble } => self.fail(blame, trouble),
            FromHub::Leave => self.lose_hub(hub, FaultKind::Left, "is shutting down".to_owned()),
            FromHub::Newcomer { worker, incarnation } => {
                self.client.admit(Newcomer { worker, incarnation });
            }
            FromHub::Save { above } => {
                // A hub that asks again after so long does not have all of the save: a rank that was lost since had
                // announced another one, which took its place.
                if let Some(save) = self.save.as_mut().filter(|save| save.since.elapsed() >= ABANDONED) {
                    save.done &= !save.waiting.remove(&hub);
                }
                self.save_wanted = self.save_wanted.max(Some(above));
                self.follow_save();
            }
            FromHub::Saved { number, done } => {
                if let Some(save) = self.save.as_mut().filter(|save| save.number == number) {
                    save.waiting.remove(&hub);
                    save.done &= done;
                    self.follow_save();
                }
            }
            FromHub::Alive | FromHub::Opened { .. } | FromHub::Refused { .. } | FromHub::Begin { .. } => {}
        }
    }

    /// Ends the save under way if all hubs have reported, and asks for the next one.
    fn follow_save(&mut self) {
        self.note_announced_save();
        if let Some(save) = self.save.take_if(|save| save.waiting.is_empty())
            && save.done
        {
            let all = FromWorker::SavedByAll { number: save.number };
            self.controls.iter_mut().for_each(|connection| connection.send(&all));
        }
        if self.save.is_none()
            && let Some(above) = self.save_wanted.take()
            && self.failed.get().is_none()
        {
            self.client.save(above);
            // It is announced now, unless a step is under way.
            self.note_announced_save();
        }
    }

    fn note_announced_save(&mut self) {
        if let Some(number) = self.client.take_announced_save() {
            let waiting = self.saving_hubs.clone();
            self.save = Some(SaveRound { number, since: Instant::now(), waiting, done: true });
        }
    }

    fn lose_hub(&mut self, hub: usize, kind: FaultKind, what: String) {
        self.heartbeats.leave(hub);
        let what = format!("at {} {what}", self.hubs[hub]);
        self.fail(Blame::Hub(hub as u32), Trouble { kind, what });
    }

    /// Advances timers: heartbeats, the suspicion and the deadline of the oldest exchange.
    fn tick(&mut self) {
        let now = self.started.elapsed();
        for hub in self.heartbeats.due(now) {
            self.controls[hub].send(&FromWorker::Alive);
        }
        for (hub, silence) in self.heartbeats.silent(now) {
            let Trouble { kind, what } = Trouble::silent(silence);
            self.lose_hub(hub, kind, what);
        }
        // The late exchange may be complete after all, because hubs have removed what blocked it.
        if self.late.is_some_and(|late| !self.exchanges.contains_key(&late.sequence)) {
            (self.late, self.suspicion) = (None, None);
        }
        if let Some(Suspicion { since, blame, trouble }) = &self.suspicion {
            // Wait until a silent hub would have been found.
            if since.elapsed() <= 2 * self.patience.silence {
                return;
            }
            // Give a large vector that makes progress another deadline, at most: hubs may have removed what blocked it.
            let goes_on = self.late.is_some_and(|late| self.client.left(late.sequence) < late.left);
            if !goes_on || self.oldest_since.elapsed() > 2 * self.deadline {
                let (blame, trouble) = (*blame, trouble.clone());
                return self.fail(blame, trouble);
            }
            (self.late, self.suspicion) = (None, None);
        }
        let first = self
            .exchanges
            .first_key_value()
            .map(|(&sequence, exchange)| (sequence, exchange.exchange.key, exchange.step));
        let oldest = first.map(|(sequence, ..)| sequence);
        if self.oldest != oldest {
            (self.oldest, self.oldest_since) = (oldest, Instant::now());
        }
        let elapsed = self.oldest_since.elapsed();
        if let Some((sequence, key, step)) =
            first.filter(|_| elapsed > self.deadline && self.failed.get().is_none())
        {
            let late = FromWorker::Late { key, step };
            self.controls.iter_mut().for_each(|connection| connection.send(&late));
            self.late = Some(LateExchange { sequence, left: self.client.left(sequence) });
            let trouble = Trouble::deadline(elapsed);
            self.suspicion = Some(Suspicion { since: Instant::now(), blame: Blame::SomeRank, trouble });
        }
    }

    /// Ends all exchanges with a fault. Only the first fault counts. Inputs are restored before exchanges end.
    fn fail(&mut self, blame: Blame, trouble: Trouble) {
        if let Blame::Hub(hub) = blame {
            self.lost_hubs.insert(hub as usize);
        }
        if self.failed.get().is_some() {
            return;
        }
        self.suspicion = None;
        self.cores.clear();
        self.client.abort();
        self.end(blame, trouble.clone());
        // Tell hubs that still expect this worker. Under policy `fail` they pass the fault on to the other workers. No
        // job outlives a hub.
        let last = match self.contract.terms.policy {
            LossPolicy::Fail => FromWorker::GivesUp { blame, trouble },
            _ if matches!(blame, Blame::Hub(_)) => FromWorker::GivesUp { blame, trouble },
            LossPolicy::Shrink | LossPolicy::Wait => FromWorker::Leave,
        };
        self.controls.iter_mut().for_each(|connection| connection.send(&last));
    }

    /// Ends all exchanges that are not complete.
    fn end(&mut self, blame: Blame, trouble: Trouble) {
        let fault = Fault { blame, trouble, during: None };
        _ = self.failed.set(Arc::new(fault.clone()));
        for exchange in std::mem::take(&mut self.exchanges).into_values() {
            let during = Some(self.failed(&exchange));
            exchange.completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
        }
    }

    /// Leaves the job.
    fn leave(&mut self) {
        const LEAVING: Duration = Duration::from_secs(1);
        if self.failed.get().is_none() {
            let (controls, heartbeats, started) = (&mut self.controls, &mut self.heartbeats, self.started);
            self.cores.leave(&mut self.client, || {
                // Hubs treat a silent worker as lost, and the last pushes may take long to send.
                for hub in heartbeats.due(started.elapsed()) {
                    controls[hub].send(&FromWorker::Alive);
                    _ = controls[hub].write();
                }
            });
            self.controls.iter_mut().for_each(|connection| connection.send(&FromWorker::Leave));
        }
        let mut hubs = 0..;
        self.controls.retain(|_| hubs.next().is_some_and(|hub| !self.lost_hubs.contains(&hub)));
        let started = Instant::now();
        while started.elapsed() < LEAVING && !self.controls.is_empty() {
            self.controls.retain_mut(|connection| !connection.close());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.fail(Blame::Rank(self.rank), Trouble::left());
    }
}
