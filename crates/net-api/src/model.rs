//! The interface that network models implement (the "network API" of dlrm2020 III-C): send a message now, report when
//! it has left and when it has arrived, read counters. Workloads, plans and fabrics do not know which model is used.

use crate::activity::Activity;
use crate::calendar::{Calendar, Call};
use syncline_critical_path::{Origin, StretchId};
use syncline_diagnostics::Diagnostic;
use syncline_timeline::{Packets, Table};
use syncline_units::{Bytes, CollectiveKind, LinkId, NpuId, Time};

/// What a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Index of the layer; `None` for work outside layers.
    pub layer: Option<u32>,
    /// The collective; `None` for a message between two ranks outside collectives.
    pub kind: Option<CollectiveKind>,
}

impl Owner {
    /// For models that do not record owners.
    pub const UNKNOWN: Self = Self { layer: None, kind: None };
}

/// How long a link delayed the messages of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// The link.
    pub link: LinkId,
    /// The layer and collective of the messages.
    pub owner: Owner,
    /// Number of messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Total delay: how much later the messages were through than if each had had the link to itself.
    pub delay: Time,
}

/// A stall: a connection sent nothing until its retransmission timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Sender.
    pub from: NpuId,
    /// Receiver.
    pub to: NpuId,
    /// Which of several parallel paths it takes.
    pub lane: u32,
    /// When the timer was last started.
    pub start: Time,
    /// When it ran out.
    pub end: Time,
    /// From here to `end` no link on its path sent anything. This is the least that the time-out cost, if others wait
    /// for the connection.
    pub idle_from: Time,
    /// Whether this was the initial time-out, before any round trip was measured.
    pub initial: bool,
    /// Consecutive time-outs without progress, including this one.
    pub in_a_row: u32,
}

/// A message as a network model sees it.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Number of the message in the engine; reused once the message is delivered.
    pub id: u32,
    /// Sender.
    pub from: NpuId,
    /// Receiver.
    pub to: NpuId,
    /// Which of several parallel paths to take.
    pub lane: u32,
    /// Number of the sender's job. Jobs are separate programs, so each has its own connections.
    pub job: u32,
    /// Payload.
    pub bytes: Bytes,
    /// Orders events at the same time.
    pub key: u64,
    /// What it belongs to, for models that need it ([`NetworkModel::OWNERS`]).
    pub owner: Owner,
    /// What it follows on the critical path.
    pub origin: Origin,
}

/// When a message has left its NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It leaves at this time.
    At(Time),
    /// Not known yet: the model calls [`Calendar::left`] once it is.
    Later,
    /// There is no path to the receiver; nothing was sent.
    NoRoute,
    /// The path has more links than the model can count; nothing was sent.
    TooFar,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkUse {
    /// Bytes sent.
    pub bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Time in which it sent.
    pub busy: Time,
    /// Time that messages waited for it, summed.
    pub waited: Time,
}

/// What can be read from a model, during a run and after it.
pub trait Measurements {
    /// Counters of link `id` so far.
    fn link_use(&self, id: LinkId) -> LinkUse;

    /// When each of the model's ports was busy.
    fn activity(&mut self) -> &mut Activity;

    /// Packet counters; `None` for models without packets.
    fn packets(&self) -> Option<Packets> {
        None
    }

    /// Further tables of a run that ended at `finish`.
    fn tables(&self, finish: Time) -> Vec<Table> {
        let _ = finish;
        Vec::new()
    }

    /// Which links delayed which messages, in any order; empty in models where messages do not share links.
    fn contention(&self) -> Vec<Contention> {
        Vec::new()
    }

    /// The longest stalls, in the order in which they ended; empty in models without retransmissions.
    fn stalls(&self) -> Vec<Stall> {
        Vec::new()
    }
}

/// A network that delivers nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// Why messages do not arrive.
    pub why: String,
    /// What to do about it.
    pub help: &'static str,
}

/// A network model.
pub trait NetworkModel: Measurements {
    /// Whether the model needs the owners of messages.
    const OWNERS: bool = false;

    /// The model's name in reports.
    fn name(&self) -> &'static str;

    /// Number of tiers of links that the model names in the calendar's [`trail`](Calendar::trail).
    fn tiers(&self) -> usize {
        0
    }

    /// Accepts a message at time `now`. The model adds its delivery, or calls to itself, to the calendar, and tells
    /// the calendar's [`trail`](Calendar::trail) the stretches with which the message leaves its NPU and arrives.
    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent;

    /// Handles a call that the model requested with [`Calendar::call_back`] or
    /// [`Calendar::call_last`].
    fn call(&mut self, now: Time, call: Call, calendar: &mut Calendar);

    /// The run ends at `now`, perhaps early: the model does not book what ports would do later.
    fn cut(&mut self, now: Time);

    /// Names a port that was busy for longer than the time to the end of its last message, which is impossible, and
    /// says by how much.
    fn overbooked(&self) -> Option<String>;

    /// Stops recording when ports were busy. Called at `now`.
    fn stop_activity(&mut self, now: Time);

    /// Number of events that the model handled in its own queue.
    fn events(&self) -> u64 {
        0
    }

    /// Why the network itself has come to a halt, if it has.
    fn stuck(&self) -> Option<Halt> {
        None
    }

    /// An error about something that the model cannot do, if no event is left because of it. Reported instead of a
    /// deadlock, since the job is not at fault.
    fn refusal(&self) -> Option<Diagnostic> {
        None
    }

    /// Visits every stretch of the critical path that the model refers to.
    fn visit_stretches(&mut self, visit: &mut dyn FnMut(&mut StretchId)) {
        let _ = visit;
    }

    /// Support for skipping repeated iterations; `None` for models whose state does not recur.
    fn repeats(&self) -> Option<&dyn Repeats> {
        None
    }

    /// Mutable access to [`NetworkModel::repeats`].
    fn repeats_mut(&mut self) -> Option<&mut dyn Repeats> {
        None
    }
}

/// A network model whose state can be compared and moved in time, so that iterations that repeat earlier ones can be
/// skipped.
pub trait Repeats {
    /// The message that a call about `subject` concerns.
    fn message(&self, subject: u32) -> u32;

    /// Appends what a call about `subject` will do to `state`, relative to `now`. Returns the message that the call
    /// concerns.
    fn pending(&self, now: Time, subject: u32, state: &mut Vec<u64>) -> u32;

    /// Appends everything else that the future depends on to `state`, relative to `now`. Equal states have equal
    /// futures.
    fn state(&self, now: Time, state: &mut Vec<u64>);

    /// Moves everything `by` later. `key` returns the new key of a message under way.
    fn shift(&mut self, by: Time, key: &mut dyn FnMut(u32) -> u64);

    /// Counters of each of the model's ports so far.
    fn uses(&self) -> Vec<LinkUse>;

    /// Adds `times` times the difference between the ports' present counters and `before`.
    fn repeat(&mut self, before: &[LinkUse], times: u32);
}
