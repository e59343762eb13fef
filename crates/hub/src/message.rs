//! The messages on control connections between workers and a hub.

use super::assignment::Cores;
use super::terms::Terms;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use syncline_protocol::fault::{Blame, Trouble};

/// A message from a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromWorker {
    /// Joins a job. This is a worker's first message.
    Open {
        /// What the job asks of the hub; the same from all workers.
        terms: Box<Terms>,
        /// A random number that the worker chooses when it is started, which distinguishes it from earlier runs.
        incarnation: u64,
        /// The interval between its heartbeats, in milliseconds.
        interval_ms: u64,
    },
    /// The worker is connected to all cores of all hubs.
    Ready {
        /// The hubs, which determine the core of each chunk; the same from all workers.
        hubs: Vec<Cores>,
        /// The index of the hub that gets this message.
        hub: u32,
        /// The save from which the job continues, if it does; the same from all workers.
        save: Option<u64>,
    },
    /// A heartbeat.
    Alive,
    /// An exchange has missed its deadline: which workers block it?
    Late {
        /// The vector.
        key: u32,
        /// The step of the vector that the exchange waits for, counted from 1.
        step: u64,
    },
    /// The worker cannot go on.
    GivesUp {
        /// Who is at fault, as far as the worker knows or another hub has reported.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
    /// All hubs of the job that keep saves have this one.
    SavedByAll {
        /// The number of the save.
        number: u64,
    },
    /// The worker leaves, which is no fault.
    Leave,
}

/// A message from a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum FromHub {
    /// The worker may connect to cores.
    Opened {
        /// The job's number at this hub.
        job: u32,
        /// The epoch of its frames.
        epoch: u16,
        /// A random number that the worker must show when it connects to a core.
        ticket: u64,
        /// The number of cores of this hub.
        cores: u32,
        /// The addresses of its interfaces.
        interfaces: Vec<SocketAddr>,
        /// The saves from which the job can continue; `None` if the hub keeps none.
        saves: Option<Vec<u64>>,
        /// Whether the job has begun at this hub, and is still in its memory.
        live: bool,
    },
    /// The worker may not join.
    Refused {
        /// A clause that says why.
        why: String,
        /// Whether another attempt would be refused, too.
        permanent: bool,
    },
    /// The worker may begin.
    Begin {
        /// The number of steps of each vector that the worker has done; `None` for a vector without chunks at this hub.
        steps: Vec<Option<u64>>,
        /// Whether the job begins now.
        fresh: bool,
        /// Whether all hubs must report the same steps. Otherwise the fewest steps count, and steps that are pushed
        /// again count once.
        exact: bool,
    },
    /// A restarted worker wants to take part. Announce it to all cores before the next push.
    Newcomer {
        /// The worker.
        worker: u32,
        /// The random number that it chose when it was started.
        incarnation: u64,
    },
    /// Announce a save to all cores of all hubs, at the end of a step.
    Save {
        /// The number of the hub's last save of the job, or 0.
        above: u64,
    },
    /// A save that the worker has announced is complete at this hub, or has failed.
    Saved {
        /// The number of the save.
        number: u64,
        /// Whether the hub has it.
        done: bool,
    },
    /// A heartbeat.
    Alive,
    /// The hub ends, which is no fault.
    Leave,
    /// The job is over for this worker.
    Verdict {
        /// Who is at fault.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
}
