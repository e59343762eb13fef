//! What happens at a hub, for whoever keeps a log.

use serde::Serialize;
use std::collections::VecDeque;

/// Most events that wait for somebody who keeps a log.
pub const MOST_EVENTS: usize = 1 << 12;

/// Something that happened, for whoever keeps a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What: `job_begins`, `job_ends`, `job_fails`, `rank_is_here`, `rank_leaves`, `rank_is_lost`, `rank_is_refused`,
    /// `connection_is_refused`.
    pub event: &'static str,
    /// The job; of a connection that was refused it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Where a connection came from that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How many connections were refused so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
}

impl Event {
    fn of_job(event: &'static str, job: &str, rank: Option<u32>, why: Option<String>) -> Self {
        Self { event, job: job.to_owned(), rank, why, from: None, refused: None }
    }

    /// A connection was refused before it was known whose it is.
    pub(super) fn refused(from: String, why: String, refused: u64) -> Self {
        let (from, refused) = (Some(from), Some(refused));
        Self { event: "connection_is_refused", job: String::new(), rank: None, why: Some(why), from, refused }
    }
}

/// Events that nobody has looked at: the newest, where they are many.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Event>);

impl Events {
    /// Something has happened to a job.
    pub(super) fn note(&mut self, event: &'static str, job: &str, rank: Option<u32>, why: Option<String>) {
        self.extend([Event::of_job(event, job, rank, why)]);
    }

    /// All that there are, which are looked at now.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}

impl Extend<Event> for Events {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        self.0.extend(events);
        self.0.drain(..self.0.len().saturating_sub(MOST_EVENTS));
    }
}
