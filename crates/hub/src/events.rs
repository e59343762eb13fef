//! Events at a hub, for logs.

use serde::Serialize;
use std::collections::VecDeque;

/// The most events that wait to be taken. The oldest are dropped beyond that.
pub const MAX_EVENTS: usize = 1 << 12;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The first worker of a job was admitted.
    JobOpened,
    /// A job ended, because its workers have left or did not come back.
    JobEnded,
    /// A job failed.
    JobFailed,
    /// A worker joined.
    RankJoined,
    /// A worker left.
    RankLeft,
    /// A worker was lost.
    RankLost,
    /// A worker was refused.
    RankRefused,
    /// A job continues from a save.
    JobRestored,
    /// A save could not be written.
    SaveFailed,
    /// A connection was refused before its job was known.
    ConnectionRefused,
}

/// An event at a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The kind of event.
    #[serde(rename = "event")]
    pub kind: EventKind,
    /// The job; empty for a refused connection, whose job is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// The worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The address that a refused connection came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How many connections were refused so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
}

impl Event {
    fn of_job(kind: EventKind, job: &str, rank: Option<u32>, why: Option<String>) -> Self {
        Self { kind, job: job.to_owned(), rank, why, from: None, refused: None }
    }

    /// Creates the event of a connection that was refused before its job was known.
    pub(super) fn refused(from: String, why: String, refused: u64) -> Self {
        let (from, refused) = (Some(from), Some(refused));
        Self {
            kind: EventKind::ConnectionRefused,
            job: String::new(),
            rank: None,
            why: Some(why),
            from,
            refused,
        }
    }
}

/// Events that have not been taken, at most [`MAX_EVENTS`].
#[derive(Debug, Default)]
pub(super) struct EventLog(VecDeque<Event>);

impl EventLog {
    /// Adds an event of a job.
    pub(super) fn note(&mut self, kind: EventKind, job: &str, rank: Option<u32>, why: Option<String>) {
        self.extend([Event::of_job(kind, job, rank, why)]);
    }

    /// Takes all events.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }
}

impl Extend<Event> for EventLog {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        self.0.extend(events);
        self.0.drain(..self.0.len().saturating_sub(MAX_EVENTS));
    }
}
