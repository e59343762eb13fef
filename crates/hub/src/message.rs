//! What workers and a hub say to each other about a job, beside the connections for chunks.

use super::assignment::Cores;
use super::terms::Terms;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use syncline_protocol::fault::{Blame, Trouble};

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Up {
    /// It joins, under these terms. It is the first thing that a worker says.
    Open {
        /// What the job asks of the hub: the same of all workers.
        terms: Box<Terms>,
        /// Tells a worker that is started again from what it was before: a random number.
        incarnation: u64,
        /// How often it shows that it lives, in milliseconds.
        interval_ms: u64,
    },
    /// It is connected with all cores of all hubs.
    Ready {
        /// The hubs, from which follows which chunks go where: the same of all workers.
        hubs: Vec<Cores>,
        /// Which of them this one is.
        hub: u32,
    },
    /// A sign of life.
    Alive,
    /// An order takes too long: who holds it up?
    Late {
        /// Whose vector it is.
        key: u32,
        /// The step of it that the order waits for, counted from 1.
        step: u64,
    },
    /// It cannot go on.
    GivesUp {
        /// Who is at fault, as far as it knows, or as another hub has told it.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
    /// It leaves, and that is no fault.
    Leave,
}

/// What a hub says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Down {
    /// The worker may connect with cores.
    Opened {
        /// The job's number at this hub.
        job: u32,
        /// What its frames bear.
        epoch: u16,
        /// What connections with cores have to show: a random number.
        ticket: u64,
        /// Cores of this hub.
        cores: u32,
        /// Where its interfaces listen.
        interfaces: Vec<SocketAddr>,
    },
    /// The worker may not join.
    Refused {
        /// A clause that says why.
        why: String,
        /// Whether that will be so next time.
        lasts: bool,
    },
    /// The worker may begin.
    Begin {
        /// How many steps of each vector are behind it; 2^64 - 1 of one of which this hub has no chunk.
        steps: Vec<u64>,
        /// Whether the job begins with it.
        fresh: bool,
        /// Whether all hubs have to say the same: where not, the fewest steps count, and what was pushed before counts once.
        exact: bool,
    },
    /// Another worker wants to be part of the job: it is from here on, if cores are told so before the next push.
    Newcomer {
        /// The worker.
        worker: u32,
        /// Which one that bears its number.
        incarnation: u64,
    },
    /// A sign of life.
    Alive,
    /// The hub ends, and that is no fault.
    Leave,
    /// Who is at fault. Nothing more is done for this worker.
    Verdict {
        /// Who.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
}
