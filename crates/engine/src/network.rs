//! The network interface (the "network API" of dlrm2020 III-C): send a message now, be told when it has left and when
//! it has arrived, read counters. Workloads, plans and fabrics never know which model answers.

use crate::activity::Activity;
use crate::calendar::Calendar;
use crate::path::Origin;
use syncline_diagnostics::Diagnostic;
use syncline_timeline::{Packets, Table};
use syncline_units::{Bytes, CollectiveKind, LinkId, NpuId, Time};
use syncline_workload::graph::NO_LAYER;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The layer, or [`NO_LAYER`].
    pub layer: u32,
    /// The collective; none of a message between two ranks alone.
    pub kind: Option<CollectiveKind>,
}

impl Owner {
    /// Nobody asked.
    pub const UNKNOWN: Self = Self { layer: NO_LAYER, kind: None };
}

/// How long messages of one owner were held back by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// The link.
    pub link: LinkId,
    /// Whose messages.
    pub owner: Owner,
    /// How many messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How much later they were through than if each had been alone, summed.
    pub delay: Time,
}

/// A connection stood still until its retransmission timer ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Who sends on it.
    pub from: NpuId,
    /// Who receives.
    pub to: NpuId,
    /// Which of several parallel ways it takes.
    pub lane: u32,
    /// When the timer was started last.
    pub start: Time,
    /// When it ran out.
    pub end: Time,
    /// From here to `end` no link on its ways sent anything: what the time-out cost at least, where others wait for it.
    pub idle_from: Time,
    /// Whether the time-out was the initial one: no round trip had been measured.
    pub initial: bool,
    /// Time-outs without news between them, this one included.
    pub in_a_row: u32,
}

/// A message as a network model sees it.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Number by which the engine knows it; free for reuse once it is delivered.
    pub id: u32,
    /// Sender.
    pub from: NpuId,
    /// Receiver.
    pub to: NpuId,
    /// Which of several parallel ways to take.
    pub lane: u32,
    /// Number of the sender's job among several. Jobs are programs of their own, and so have connections of their own.
    pub job: u32,
    /// Payload.
    pub bytes: Bytes,
    /// Orders events of equal time.
    pub key: u64,
    /// What it is for, where the model asks ([`Network::OWNERS`]).
    pub owner: Owner,
    /// What it comes after on the critical path.
    pub origin: Origin,
}

/// When a message has left its NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// At this time.
    At(Time),
    /// Not known yet: the model says so with [`Calendar::left`].
    Later,
    /// There is no way to the receiver; nothing was sent.
    NoRoute,
    /// The way has more links than the model can count; nothing was sent.
    TooFar,
}

/// What a link did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkUse {
    /// Bytes sent.
    pub bytes: u64,
    /// Messages sent.
    pub messages: u64,
    /// Time in which it was sending.
    pub busy: Time,
    /// Time that messages waited for it.
    pub waited: Time,
}

/// A network model.
pub trait Network {
    /// Whether the model asks what messages are for.
    const OWNERS: bool = false;

    /// Name for reports.
    fn name(&self) -> &'static str;

    /// How many tiers of links it has: those that it names in the calendar's [`trail`](Calendar::trail).
    fn tiers(&self) -> usize {
        0
    }

    /// Takes a message at time `now`. The model puts its delivery, or calls to itself, into the calendar, and says in the
    /// calendar's [`trail`](Calendar::trail) with which stretches it leaves its NPU and arrives.
    fn send(&mut self, now: Time, transfer: &Transfer, calendar: &mut Calendar) -> Sent;

    /// A call that the model asked for with [`Calendar::call_back`].
    fn call(&mut self, now: Time, a: u32, b: u32, calendar: &mut Calendar);

    /// What link `id` did so far.
    fn link_use(&self, id: LinkId) -> LinkUse;

    /// The run ends at `now`, perhaps before all that was begun is over: what ports would do later is not booked.
    fn cut(&mut self, now: Time);

    /// A port that was busy for longer than it took to the end of its last message, which cannot be: its name, and by how
    /// much.
    fn overbooked(&self) -> Option<String>;

    /// When each of the model's ports was busy.
    fn activity(&mut self) -> &mut Activity;

    /// From `now` on nobody asks any more when ports were busy.
    fn stop_activity(&mut self, now: Time);

    /// Events of its own that it handled without the engine.
    fn events(&self) -> u64 {
        0
    }

    /// Why messages that were sent do not come, where the network itself has come to a halt, and what to do about it.
    fn stuck(&self) -> Option<(String, &'static str)> {
        None
    }

    /// What the model cannot do and has come to, where nothing happens any more: told in place of a deadlock, which is no
    /// fault of the job's then.
    fn refusal(&self) -> Option<Diagnostic> {
        None
    }

    /// Visits every stretch of the critical path that the model refers to.
    fn trail(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        let _ = visit;
    }

    /// What became of packets; `None` for a model that has none.
    fn packets(&self) -> Option<Packets> {
        None
    }

    /// What else the model has to tell of a run that ended at `finish`.
    fn tables(&self, finish: Time) -> Vec<Table> {
        let _ = finish;
        Vec::new()
    }

    /// Which links held back whose messages, in any order; nothing in a model where messages do not share links.
    fn contention(&self) -> Vec<Contention> {
        Vec::new()
    }

    /// The longest stalls, in the order in which they ended; nothing in a model without retransmissions.
    fn stalls(&self) -> Vec<Stall> {
        Vec::new()
    }

    /// What repetition in time needs; `None` for a model whose state does not come again.
    fn repeats(&self) -> Option<&dyn Repeats> {
        None
    }

    /// The same, to be moved in time.
    fn repeats_mut(&mut self) -> Option<&mut dyn Repeats> {
        None
    }
}

/// A network model whose state can be compared, and moved in time: iterations that are like earlier ones need not be
/// simulated.
pub trait Repeats {
    /// The message that a call with `a` is about.
    fn message(&self, a: u32) -> u32;

    /// Adds to `state` what a call with `a` will do, relative to `now`; the message that it is about.
    fn pending(&self, now: Time, a: u32, state: &mut Vec<u64>) -> u32;

    /// Adds to `state` what else decides about the future, relative to `now`: two equal states have the same future.
    fn state(&self, now: Time, state: &mut Vec<u64>);

    /// Moves everything `by` later. `key` gives the new key of a message under way.
    fn shift(&mut self, by: Time, key: &mut dyn FnMut(u32) -> u64);

    /// What each of the model's ports did so far.
    fn uses(&self) -> Vec<LinkUse>;

    /// Books `times` over what ports did since they had done `before`.
    fn repeat(&mut self, before: &[LinkUse], times: u32);
}
