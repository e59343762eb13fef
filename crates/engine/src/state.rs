//! The state of a run: ranks, sets, chunks, messages.

use crate::activity::Recent;
use crate::path::{Moment, Purpose};
use crate::record::CollectiveRecord;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use syncline_units::{Extent, Time};

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Cause {
    /// Nothing was waited for.
    #[default]
    Start,
    /// Compute of the rank itself.
    Compute,
    /// Communication of this layer.
    Communication(u32),
    /// A memory operation.
    Memory,
}

/// A part of the time in which a rank's compute is idle, and the reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) layer: u32,
    /// The role of a collective; the number of roles for other messages; `None` for a memory operation.
    pub(crate) axis: Option<u16>,
    /// Waiting for the network.
    pub(crate) exposed: Time,
    /// As much of that as lies before waiting for others.
    pub(crate) first: Time,
    /// Waiting for a message to be sent.
    pub(crate) bubble: Time,
    /// Waiting for other ranks to issue a collective.
    pub(crate) skew: Time,
}

impl Piece {
    pub(crate) fn length(&self) -> Time {
        self.exposed + self.bubble + self.skew
    }
}

/// Why compute has been idle since it became so, in the order of time.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// Why compute had been idle when a communication or memory task began.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    /// When it began.
    pub(crate) until: Time,
    pub(crate) pieces: Pieces,
}

/// A communication or memory task of a rank that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    /// When it ended.
    pub(crate) until: Time,
    /// As the cause of what begins then.
    pub(crate) cause: Cause,
    /// Why compute has been idle, if it waits for this task.
    pub(crate) pieces: Pieces,
}

/// When a communication of a rank began, and when all that it needs of other ranks was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) since: Time,
    pub(crate) ready: Time,
    /// The role of a collective.
    pub(crate) role: Option<u16>,
}

/// A task of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) iteration: u32,
    pub(crate) task: u32,
}

/// An iteration in progress.
#[derive(Debug)]
pub(crate) struct Iteration {
    /// Dependencies left, by task.
    pub(crate) waits: Box<[u32]>,
    /// Tasks left.
    pub(crate) left: u32,
    /// By task: when the last communication was over that it waited for, besides others.
    pub(crate) reached: BTreeMap<u32, Moment>,
}

/// One serial resource of a rank: its compute, or its path to remote memory.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    pub(crate) ready: BinaryHeap<Reverse<(At, Cause, Moment)>>,
    pub(crate) running: Option<(At, Time)>,
    /// The stretch of what runs.
    pub(crate) stretch: u32,
    /// When it was done with what ran last.
    pub(crate) free: Moment,
    pub(crate) idle_since: Time,
    /// What was booked last of when it was busy.
    pub(crate) recent: Recent,
}

/// Where a rank sits in one role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) group: u32,
    pub(crate) slot: u32,
    /// Index in [`Rank::schedulers`] of the group's scheduler; [`NONE`] if the role has no collective.
    pub(crate) scheduler: u32,
}

/// A finished collective, set or run.
pub(crate) const DONE: u32 = u32::MAX - 1;

/// The collectives of one group that are under way.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Sequence number of the first entry.
    pub(crate) base: u32,
    /// Instances by sequence number; `NONE` for those not begun, `DONE` for those finished.
    pub(crate) instances: VecDeque<u32>,
}

/// A collective of one group, over all its ranks.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) sequence: u32,
    /// Tells it from all others on the critical path.
    pub(crate) visit: u32,
    /// Orders collectives of all roles.
    pub(crate) number: u64,
    /// Set of each slot; `NONE` for those not begun, `DONE` for those finished.
    pub(crate) sets: Vec<u32>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) record: CollectiveRecord,
}

impl Instance {
    /// The run of `chunk` at `slot`, `NONE` or `DONE`.
    #[inline]
    pub(crate) fn run(&self, chunk: u32, slot: u32) -> u32 {
        let chunk = &self.chunks[chunk as usize];
        match chunk.runs.get(slot as usize) {
            Some(&run) => run,
            None if chunk.left == 0 => DONE,
            None => NONE,
        }
    }
}

/// A chunk of a collective, over all ranks of the group.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Run of each slot; empty before the first has begun and after the last has ended.
    pub(crate) runs: Vec<u32>,
    /// Of each phase, of each line along its axis, how many ranks have begun; kept only where endpoints have limits.
    pub(crate) begun: Vec<u32>,
    /// Runs that have not ended.
    pub(crate) left: u32,
}

/// A logical scheduling queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) running: u32,
    /// When a chunk left it last.
    pub(crate) freed: Moment,
    /// `(priority, sequence, chunk, run)`; the first goes first. Others begin out of turn, so they are found in it too.
    pub(crate) waiting: BTreeSet<(u64, u32, u32, u32)>,
}

/// Schedules the chunks of one process group of a rank, or of all its groups ([`crate::Schedulers`]).
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Ready queue: sets with chunks that are not issued yet, as `(priority, set)`.
    pub(crate) ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Chunks in their first phase.
    pub(crate) first_phase: u32,
    /// When a chunk left its first phase last.
    pub(crate) left_first: Moment,
    pub(crate) queues: Vec<Queue>,
}

impl Scheduler {
    pub(crate) fn new(queues: u32) -> Self {
        Self { queues: (0..queues).map(|_| Queue::default()).collect(), ..Self::default() }
    }
}

/// Messages of one sender and tag.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Those that no receive has waited for.
    pub(crate) arrived: VecDeque<Moment>,
    /// Receives that wait, and since when.
    pub(crate) posted: VecDeque<(At, Time, Moment)>,
}

/// A rank.
#[derive(Debug, Default)]
pub(crate) struct Rank {
    pub(crate) class: u32,
    /// Number of the first entry of `iterations`.
    pub(crate) first_iteration: u32,
    pub(crate) iterations: VecDeque<Iteration>,
    /// Iterations opened so far.
    pub(crate) opened: u32,
    pub(crate) tasks_left: u64,
    pub(crate) compute: Resource,
    pub(crate) memory: Resource,
    /// By role.
    pub(crate) places: Vec<Place>,
    /// Sets that wait for their turn because of the limit on concurrent ones: `(priority, set)`.
    pub(crate) held: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) active_sets: u32,
    /// Sets issued so far.
    pub(crate) issued: u64,
    /// Running chunks by accounting dimension.
    pub(crate) running: Vec<u32>,
    /// When the unit that combines received with local data is free.
    pub(crate) reducer_free: Time,
    pub(crate) reducer: Moment,
    /// Stretches of what it has to combine, in the order in which it does.
    pub(crate) reducing: VecDeque<u32>,
    pub(crate) channels: BTreeMap<(u32, u32), Channel>,
    /// Communications under way, and since when.
    pub(crate) communicating: u32,
    pub(crate) communicating_since: Time,
    /// Communications and memory operations that ended last, all at the same time.
    pub(crate) waited: Vec<Waited>,
    /// Of communications and memory operations that began while compute was idle: why it had been.
    pub(crate) before: BTreeMap<At, Before>,
    /// What ended the last wait, for the time after the last compute task.
    pub(crate) last_cause: Cause,
    /// Exposed communication since the last forward or backward compute: the layer's index, and how long. Updates do not
    /// end it: they follow the reductions that a run ends with.
    pub(crate) tail: Vec<(usize, Time)>,
}

impl Rank {
    /// What ended at `now` and was waited for, if `cause` is a communication or a memory operation.
    pub(crate) fn waited_for(&self, cause: Cause, now: Time) -> Option<&Waited> {
        if matches!(cause, Cause::Start | Cause::Compute) {
            return None;
        }
        let over = || self.waited.iter().rev().filter(|waited| waited.until == now);
        over().find(|waited| waited.cause == cause).or_else(|| over().next())
    }
}

/// A collective as one rank sees it.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) rank: u32,
    pub(crate) position: u32,
    pub(crate) slot: u32,
    pub(crate) instance: u32,
    pub(crate) plan: u32,
    /// The task that issued it; `None` while only other ranks have.
    pub(crate) issued: Option<(At, Time)>,
    /// Whether its chunks may be issued.
    pub(crate) active: bool,
    /// Index in [`Rank::schedulers`].
    pub(crate) scheduler: u32,
    pub(crate) priority: u64,
    pub(crate) next_chunk: u32,
    /// Chunks that have not ended.
    pub(crate) left: u32,
    /// Chunks that another rank has begun, as far as this one was told.
    pub(crate) begun: u32,
    /// When its task issued it.
    pub(crate) issue: Moment,
    /// When its task issued it, and then when a chunk ended last.
    pub(crate) reached: Moment,
}

/// A chunk at one rank: all that a message needs, in one place.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) phase: u8,
    pub(crate) stage: Stage,
    pub(crate) instance: u32,
    pub(crate) plan: u32,
    pub(crate) chunk: u32,
    pub(crate) rank: u32,
    pub(crate) set: u32,
    /// Position of coordinate 0 along the phase's axis.
    pub(crate) first: u32,
    /// Coordinate along the phase's axis.
    pub(crate) coordinate: u32,
    /// The rank at coordinate `c` is `peers.0 + c * peers.1`; the step is 0 where ranks must be looked up.
    pub(crate) peers: (u32, u32),
    pub(crate) lane: u32,
    pub(crate) streams_left: u32,
    pub(crate) streams: SmallVec<[Stream; 1]>,
    /// Receives without their message.
    pub(crate) receives: SmallVec<[Receive; 2]>,
    /// What the rank works on in this phase.
    pub(crate) extent: Extent,
    pub(crate) last_sent: Time,
    /// The stretch at whose end its last message leaves.
    pub(crate) last_left: u32,
    /// What it is on the critical path, once it runs.
    pub(crate) purpose: Purpose,
    /// Sums over this phase, booked at its end.
    pub(crate) tally: Tally,
    /// Messages without their receive: of later phases, or of this one before the program came to it.
    pub(crate) early: Vec<Early>,
    /// Sends that have not entered the network, or of which it will say when they have left.
    pub(crate) unsent: u32,
    /// Bit `p` is set where another rank has begun phase `p` of the chunk. A group of 2^32 ranks has 62 phases at most.
    pub(crate) begun: u64,
    pub(crate) queue: u32,
    /// When it entered its stage.
    pub(crate) entered: Time,
    /// When it was ready to begin its phase, and then when its program ended.
    pub(crate) reached: Moment,
}

/// A receive without its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) channel: u32,
    pub(crate) from: u32,
    /// The stream that waits for it.
    pub(crate) stream: u32,
    pub(crate) reduce: bool,
}

/// A message without its receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early {
    pub(crate) phase: u8,
    pub(crate) channel: u32,
    pub(crate) from: u32,
    pub(crate) bytes: u64,
    pub(crate) delay: Time,
    pub(crate) arrived: Moment,
}

/// What a run sums up during a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) messages: u32,
    pub(crate) network_delay: u64,
    pub(crate) reduction: u64,
}

/// A phase of a chunk that a rank has begun first of its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) role: u16,
    pub(crate) group: u32,
    pub(crate) sequence: u32,
    pub(crate) chunk: u32,
    pub(crate) phase: u8,
    pub(crate) position: u32,
    pub(crate) slot: u32,
    /// What it began after.
    pub(crate) after: u32,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the ready queue (and known because another rank has begun it).
    Unissued,
    /// In a scheduling queue.
    Waiting,
    /// Its program runs.
    Running,
    /// Its program has ended, its last send has not left.
    Leaving,
}

/// A program in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) pc: u32,
    /// Receives that are not complete.
    pub(crate) outstanding: u32,
    /// It has come to a wait, and `pc` is that.
    pub(crate) waits: bool,
    pub(crate) done: bool,
    /// When what it has received since it waited last was complete.
    pub(crate) reached: Moment,
}

/// A message under way. One cache line: most of a large run is spent on waiting for them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    pub(crate) sent: Time,
    pub(crate) key: u64,
    /// The receiving run; `NONE` where the message belongs to no collective.
    pub(crate) target: u32,
    /// Coordinate of the sender, or the number of a message that belongs to no collective.
    pub(crate) from: u32,
    pub(crate) channel: u32,
    pub(crate) phase: u8,
    pub(crate) lane: u32,
    /// The sending run.
    pub(crate) run: u32,
    /// By its place in the engine's tables.
    pub(crate) sender: u32,
    /// By its own number.
    pub(crate) receiver: u32,
    /// The stretch of the critical path that it was sent after.
    pub(crate) after: u32,
}

/// A message that belongs to no collective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    /// The task that sends it.
    pub(crate) at: At,
    /// The sender's index.
    pub(crate) from: u32,
    /// The receiver.
    pub(crate) to: u32,
    pub(crate) tag: u32,
    /// The span of its sending, where that is kept.
    pub(crate) span: Option<u32>,
}
