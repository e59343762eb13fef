//! A worker's thread: moves bytes between its vectors and the cores of its hubs, and keeps its connections to the hubs
//! themselves.

use super::client::{Client, Order};
use super::join::Place;
use super::message::{Down, Up};
use super::terms::{Contract, Policy};
use mio::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use syncline_executor::pending::Completion;
use syncline_protocol::fault::{Blame, Errand, Fault, Kind, Trouble};
use syncline_protocol::heartbeat::{Patience, Pulse};
use syncline_protocol::operation::Request;
use syncline_transport::control_connection::ControlConnection;
use syncline_transport::wires::Wires;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    /// Begin an exchange.
    Start(Order, Arc<Completion>, Arc<AtomicU16>),
    /// Another learning rate, of one vector or of all.
    Rate(f64, Option<u32>),
}

/// An exchange under way.
struct Open {
    order: Order,
    /// The step of its vector that it waits for.
    step: u64,
    completion: Arc<Completion>,
    contributors: Arc<AtomicU16>,
    began: Instant,
}

/// Why nothing can begin any more, once that is so.
pub(super) type Failure = Arc<OnceLock<Arc<Fault>>>;

/// The thread.
pub(super) struct WorkerThread {
    rank: u32,
    hubs: Vec<SocketAddr>,
    contract: Arc<Contract>,
    client: Client,
    wires: Wires,
    connections: Vec<ControlConnection>,
    /// Hubs that will take nothing more: nobody waits for them to.
    gone: BTreeSet<usize>,
    commands: Receiver<Command>,
    open: BTreeMap<u64, Open>,
    patience: Patience,
    deadline: Duration,
    /// Signs of life of hubs.
    pulse: Pulse,
    started: Instant,
    ticked: Duration,
    /// The exchange that takes too long, once hubs have been told, and how many of its chunks were not through then.
    late: Option<(u64, usize)>,
    /// What seems wrong from here, and since when: a hub may know better.
    doubt: Option<(Instant, Blame, Trouble)>,
    /// The oldest exchange under way, and since when it is that.
    oldest: (Option<u64>, Instant),
    failed: Failure,
}

/// The token of the first hub's connection; others count up from it.
const LINES: usize = 1 << 32;

impl WorkerThread {
    pub(super) fn new(
        place: &Place,
        contract: Arc<Contract>,
        client: Client,
        wires: Wires,
        mut connections: Vec<ControlConnection>,
        commands: Receiver<Command>,
        failed: Failure,
    ) -> io::Result<Self> {
        let mut pulse = Pulse::new(place.patience, Duration::ZERO);
        for (hub, connection) in connections.iter_mut().enumerate() {
            connection.socket.watch(wires.registry(), Token(LINES + hub))?;
            pulse.join(hub, Duration::ZERO);
            pulse.heard(hub, Duration::ZERO);
        }
        Ok(Self {
            rank: place.rank,
            hubs: place.hubs.clone(),
            contract,
            client,
            wires,
            connections,
            gone: BTreeSet::new(),
            commands,
            open: BTreeMap::new(),
            patience: place.patience,
            deadline: place.deadline,
            pulse,
            started: Instant::now(),
            ticked: Duration::ZERO,
            late: None,
            doubt: None,
            oldest: (None, Instant::now()),
            failed,
        })
    }

    /// Works until nobody is left to tell it anything. Where that fails, which is a bug, nobody waits for ever: what is under way
    /// ends as it does after any fault.
    pub(super) fn run(mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_ok() {
            return;
        }
        // What cannot be restored is lost, and nobody waits for it.
        _ = catch_unwind(AssertUnwindSafe(|| {
            self.wires.clear();
            self.client.abort();
        }));
        self.end(Blame::Rank(self.rank), Trouble::bug());
        while let Ok(command) = self.commands.recv() {
            self.begin(command);
        }
    }

    fn work(&mut self) {
        let mut look = true;
        loop {
            match self.wires.wait(&self.client) {
                Ok(others) => look |= !others.is_empty(),
                Err(error) => {
                    let trouble = Trouble::closed(&format!("it cannot wait for its connections: {error}"));
                    self.fail(Blame::Rank(self.rank), trouble);
                    // Whoever asks is still told why, and nothing else is left to be done.
                    std::thread::sleep(self.pulse.interval());
                }
            }
            if !self.obey() {
                self.leave();
                return;
            }
            let lost = self.wires.work(&mut self.client, |client| {
                while let Some((sequence, contributors)) = client.finished() {
                    client.forget(sequence);
                    if let Some(open) = self.open.remove(&sequence) {
                        open.contributors.store(contributors, Ordering::Release);
                        open.completion.end(Ok(()));
                    }
                }
            });
            for (core, trouble) in lost {
                self.doubt(core, trouble);
            }
            let now = self.started.elapsed();
            if look || now >= self.ticked + self.pulse.interval() {
                self.hear();
                if now >= self.ticked + self.pulse.interval() {
                    self.ticked = now;
                    self.tick();
                }
                self.connections.iter_mut().for_each(|connection| _ = connection.write());
                look = false;
            }
        }
    }

    /// Does what it is told; whether it goes on.
    fn obey(&mut self) -> bool {
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
            (Command::Start(order, completion, contributors), failed) => {
                let pushes = matches!(order.request, Request::Push | Request::PushPull);
                let step = self.client.steps()[order.key as usize] + u64::from(pushes);
                let open = Open { order, step, completion, contributors, began: Instant::now() };
                if let Some(fault) = failed {
                    let during = Some(self.errand(&open));
                    open.completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
                    return;
                }
                self.open.insert(order.sequence, open);
                self.client.start(order);
            }
            (Command::Rate(rate, key), None) => self.client.set_rate(rate, key),
            (Command::Rate(..), Some(_)) => {}
        }
    }

    fn errand(&self, open: &Open) -> (u64, Errand, Duration) {
        let Order { sequence, key, request, .. } = open.order;
        let key = &self.contract.catalogue.keys()[key as usize];
        let errand = Errand::Exchange(request, key.name.clone(), key.bytes().unwrap_or(0));
        (sequence, errand, open.began.elapsed())
    }

    /// A connection with a core is lost: its hub may say why.
    fn doubt(&mut self, core: u32, mut trouble: Trouble) {
        let hub = self.client.hub(core);
        trouble.what = format!("at {} {}", self.hubs[hub as usize], trouble.what);
        // A connection that is lost is worse news than one that is slow.
        if self.late.take().is_some() {
            self.doubt = None;
        }
        self.doubt.get_or_insert((Instant::now(), Blame::Hub(hub), trouble));
    }

    /// Hears what hubs say.
    fn hear(&mut self) {
        let now = self.started.elapsed();
        for hub in 0..self.connections.len() {
            let closed = self.connections[hub].read();
            loop {
                match self.connections[hub].receive::<Down>() {
                    Ok(Some(message)) => {
                        self.pulse.heard(hub, now);
                        self.heard(hub, message);
                    }
                    Ok(None) => break,
                    Err(what) => {
                        self.lose(hub, Kind::Corrupt, what);
                        break;
                    }
                }
            }
            if let Err(how) = closed {
                self.lose(hub, Kind::Closed, format!("closed its connection ({how})"));
            }
        }
    }

    fn heard(&mut self, hub: usize, message: Down) {
        match message {
            Down::Verdict { blame, trouble } => self.fail(blame, trouble),
            Down::Leave => self.lose(hub, Kind::Left, "ends".to_owned()),
            Down::Newcomer { worker, incarnation } => self.client.admit(worker, incarnation),
            Down::Alive | Down::Opened { .. } | Down::Refused { .. } | Down::Begin { .. } => {}
        }
    }

    fn lose(&mut self, hub: usize, kind: Kind, what: String) {
        self.pulse.leave(hub);
        let what = format!("at {} {what}", self.hubs[hub]);
        self.fail(Blame::Hub(hub as u32), Trouble { kind, what });
    }

    /// Time has passed.
    fn tick(&mut self) {
        let now = self.started.elapsed();
        for hub in self.pulse.due(now) {
            self.connections[hub].send(&Up::Alive);
        }
        for (hub, silence) in self.pulse.silent(now) {
            let Trouble { kind, what } = Trouble::silent(silence);
            self.lose(hub, kind, what);
        }
        // What took too long may be over after all: hubs have seen to it.
        if self.late.is_some_and(|(sequence, _)| !self.open.contains_key(&sequence)) {
            (self.late, self.doubt) = (None, None);
        }
        if let Some((since, blame, trouble)) = &self.doubt {
            // The hub itself would have been found silent by now.
            if since.elapsed() <= 2 * self.patience.silence {
                return;
            }
            // Hubs may have seen to what held it up, and large vectors take their time: as long again at most.
            let goes_on = self.late.is_some_and(|(sequence, left)| self.client.left(sequence) < left);
            if !goes_on || self.oldest.1.elapsed() > 2 * self.deadline {
                let (blame, trouble) = (*blame, trouble.clone());
                return self.fail(blame, trouble);
            }
            (self.late, self.doubt) = (None, None);
        }
        let first =
            self.open.first_key_value().map(|(&sequence, open)| (sequence, open.order.key, open.step));
        if self.oldest.0 != first.map(|(sequence, ..)| sequence) {
            self.oldest = (first.map(|(sequence, ..)| sequence), Instant::now());
        }
        let elapsed = self.oldest.1.elapsed();
        if let Some((sequence, key, step)) =
            first.filter(|_| elapsed > self.deadline && self.failed.get().is_none())
        {
            let late = Up::Late { key, step };
            self.connections.iter_mut().for_each(|connection| connection.send(&late));
            self.late = Some((sequence, self.client.left(sequence)));
            self.doubt = Some((Instant::now(), Blame::Nobody, Trouble::deadline(elapsed)));
        }
    }

    /// The first fault counts. Inputs are as they were before anybody is told.
    fn fail(&mut self, blame: Blame, trouble: Trouble) {
        if let Blame::Hub(hub) = blame {
            self.gone.insert(hub as usize);
        }
        if self.failed.get().is_some() {
            return;
        }
        self.doubt = None;
        self.wires.clear();
        self.client.abort();
        self.end(blame, trouble.clone());
        // A hub that still counts on this worker is told; where all are needed, so that others hear the same.
        let last = match self.contract.terms.policy {
            Policy::Fail => Up::GivesUp { blame, trouble },
            Policy::Shrink | Policy::Wait => Up::Leave,
        };
        self.connections.iter_mut().for_each(|connection| connection.send(&last));
    }

    /// Ends everything that is under way.
    fn end(&mut self, blame: Blame, trouble: Trouble) {
        let fault = Fault { blame, trouble, during: None };
        _ = self.failed.set(Arc::new(fault.clone()));
        for open in std::mem::take(&mut self.open).into_values() {
            let during = Some(self.errand(&open));
            open.completion.end(Err(Arc::new(Fault { during, ..fault.clone() })));
        }
    }

    /// Says goodbye.
    fn leave(&mut self) {
        const LEAVING: Duration = Duration::from_secs(1);
        if self.failed.get().is_none() {
            let (connections, pulse, started) = (&mut self.connections, &mut self.pulse, self.started);
            self.wires.leave(&mut self.client, || {
                // Hubs take whoever is silent for lost, and what was pushed last may take its time.
                for hub in pulse.due(started.elapsed()) {
                    connections[hub].send(&Up::Alive);
                    _ = connections[hub].write();
                }
            });
            self.connections.iter_mut().for_each(|connection| connection.send(&Up::Leave));
        }
        let mut hubs = 0..;
        self.connections.retain(|_| hubs.next().is_some_and(|hub| !self.gone.contains(&hub)));
        let started = Instant::now();
        while started.elapsed() < LEAVING && !self.connections.is_empty() {
            self.connections.retain_mut(|connection| !connection.close());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.fail(Blame::Rank(self.rank), Trouble::left());
    }
}
