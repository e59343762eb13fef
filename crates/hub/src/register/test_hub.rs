//! A register of a hub with two cores, as the tests of the register use it.

use super::{Action, Limits, Register, Shares};
use crate::assignment::{Cores, HubList};
use crate::message::{FromHub, FromWorker};
use crate::optimizer::Optimizers;
use crate::shard::{Attempt, Joined};
use crate::terms::Terms;
use std::collections::BTreeMap;
use std::time::Duration;
use syncline_protocol::heartbeat::Patience;

pub(super) const NOW: Duration = Duration::ZERO;

/// Long enough for inquiries and lost connections to be decided, and too short for a worker to count as silent.
pub(super) const SOON: Duration = Duration::from_millis(700);

pub(super) fn terms(workers: u32, policy: &str) -> Terms {
    let text = format!(
        "{{\"workers\": {workers}, \"policy\": \"{policy}\", \
         \"keys\": [{{\"name\": \"w\", \"element\": \"f32\", \"elements\": 9}}]}}"
    );
    serde_json::from_str(&text).unwrap()
}

/// A register of a hub with two cores.
pub(super) struct Hub(pub(super) Register);

impl Hub {
    const CORES: [Cores; 1] = [Cores { cores: 2, interfaces: 1 }];

    pub(super) fn new() -> Self {
        let interfaces = vec!["127.0.0.1:1".parse().unwrap()];
        // Enough for one job of [`terms`], and for no more.
        let one = terms(2, "wait").contract(&Optimizers::default()).unwrap();
        let shares = Shares::new(&one, &HubList { hubs: Self::CORES.to_vec(), own: 0 }, false);
        let memory = shares.fit(2, 0, 0).unwrap_err();
        let limits = Limits { jobs: 4, memory, ahead: 1 << 20 };
        Self(Register::new(2, interfaces, Optimizers::default(), limits, Patience::default()))
    }

    /// A worker connects as a rank, and opens the job.
    pub(super) fn open(&mut self, connection: u32, rank: u32, terms: &Terms) {
        self.0.connected(connection, "job", rank, NOW);
        let (terms, incarnation) = (Box::new(terms.clone()), u64::from(connection));
        let open = FromWorker::Open { terms, incarnation, interval_ms: 100 };
        self.0.received(connection, open, 1000 + u64::from(connection), NOW);
    }

    /// A worker is connected to all cores.
    pub(super) fn ready(&mut self, connection: u32) {
        self.send_ready(connection);
        self.plan();
    }

    /// A worker says that it is connected to all cores. Leaves it to [`Hub::plan`] which core has which chunk.
    pub(super) fn send_ready(&mut self, connection: u32) {
        let ready = FromWorker::Ready { hubs: Self::CORES.to_vec(), hub: 0, save: None };
        self.0.received(connection, ready, 0, NOW);
    }

    /// Computes which core has which chunk, for all jobs that wait for it. Keeps the actions.
    pub(super) fn plan(&mut self) {
        let actions = self.0.actions();
        for action in &actions {
            if let Action::Plan { job, contract, hubs, saves, .. } = action {
                self.0.planned(*job, Shares::new(contract, hubs, *saves), Ok(BTreeMap::new()));
            }
        }
        let more = self.0.actions();
        self.0.actions.extend(actions.into_iter().chain(more));
    }

    /// The messages to a connection.
    pub(super) fn sent(actions: &[Action], to: u32) -> Vec<&FromHub> {
        let sent = |action| match action {
            &Action::Send { connection, ref message } if connection == to => Some(message),
            _ => None,
        };
        actions.iter().filter_map(sent).collect()
    }

    /// A job of two ranks that has begun, on connections 0 and 1.
    pub(super) fn begun(policy: &str) -> Self {
        let mut hub = Self::new();
        for connection in 0..2 {
            hub.open(connection, connection, &terms(2, policy));
            hub.ready(connection);
        }
        let actions = hub.0.actions();
        let fresh = |connection| {
            let last = Self::sent(&actions, connection).pop().cloned();
            last == Some(FromHub::Begin { steps: vec![Some(0)], fresh: true, exact: false })
        };
        assert!(fresh(0) && fresh(1), "{actions:?}");
        hub
    }

    /// Both cores report the steps that a restarted rank has completed.
    pub(super) fn rejoined(&mut self, rank: u32, number: u64, steps: [u64; 2]) {
        for (core, steps) in (0..).zip(steps) {
            let attempt = Attempt { incarnation: 5, number };
            let joined = Joined { job: 1, worker: rank, attempt, steps: BTreeMap::from([(0, steps)]) };
            self.0.rejoined(core, joined);
        }
    }
}
