//! The state of a run: ranks, collective sets, chunks, messages.

use crate::job::PlanId;
use crate::quotient::RankIndex;
use crate::record::CollectiveRecord;
use crate::slab::{Id, Life};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::num::NonZeroU32;
use syncline_critical_path::{Moment, Purpose, StretchId};
use syncline_net_api::activity::Recent;
use syncline_units::{Extent, RankId, Time};
use syncline_workload::{RankLine, RoleId};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Cause {
    /// Nothing was waited for.
    #[default]
    Start,
    /// A compute task of the rank.
    Compute,
    /// A communication of this layer.
    Communication(Option<u32>),
    /// A memory operation.
    Memory,
}

/// What compute waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum WaitedFor {
    /// A memory operation.
    #[default]
    Memory,
    /// A collective of a group of this role.
    Collective(RoleId),
    /// A message outside collectives.
    PointToPoint,
}

/// A part of the time in which a rank's compute was idle, and the reason.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) layer: Option<u32>,
    pub(crate) of: WaitedFor,
    /// Time spent waiting for the network.
    pub(crate) exposed: Time,
    /// The part of `exposed` that precedes waiting for others.
    pub(crate) first: Time,
    /// Time spent waiting for a message to be sent.
    pub(crate) bubble: Time,
    /// Time spent waiting for other ranks to issue a collective.
    pub(crate) skew: Time,
}

impl Piece {
    pub(crate) fn length(&self) -> Time {
        self.exposed + self.bubble + self.skew
    }
}

/// Why compute has been idle since it last ran, in time order.
pub(crate) type Pieces = SmallVec<[Piece; 1]>;

/// Why compute had been idle when a communication or memory task began.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    /// When the task began.
    pub(crate) until: Time,
    pub(crate) pieces: Pieces,
}

/// A communication or memory task of a rank that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    /// When it ended.
    pub(crate) until: Time,
    /// Cause of what begins when it ends.
    pub(crate) cause: Cause,
    /// Why compute has been idle, if compute waits for this task.
    pub(crate) pieces: Pieces,
}

/// When a communication of a rank began, and when everything that it needs from other ranks was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) since: Time,
    pub(crate) ready: Time,
    /// The role, for collectives.
    pub(crate) role: Option<RoleId>,
}

/// A task in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    pub(crate) iteration: u32,
    pub(crate) task: u32,
}

/// A task whose dependencies have ended, waiting in `Engine::startable`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartableTask {
    pub(crate) rank: RankIndex,
    pub(crate) at: At,
    pub(crate) cause: Cause,
    /// The stretch of the critical path that it follows.
    pub(crate) after: StretchId,
}

/// A run whose program has ended, waiting in `Engine::ended`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRun {
    pub(crate) run: Id<ChunkRun>,
    /// The stretch of the critical path that its end follows.
    pub(crate) after: StretchId,
}

/// An iteration in progress.
#[derive(Debug)]
pub(crate) struct Iteration {
    /// By task: dependencies left.
    pub(crate) waits: Box<[u32]>,
    /// Tasks left.
    pub(crate) left: u32,
    /// By task: when the latest communication that it waits for was over, if it waits for other things too.
    pub(crate) reached: BTreeMap<u32, Moment>,
}

/// A task that waits for its resource. The order of the fields is the order in which tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadyTask {
    pub(crate) at: At,
    pub(crate) cause: Cause,
    /// When it became ready.
    pub(crate) ready: Moment,
}

/// The task that a resource runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningTask {
    pub(crate) at: At,
    pub(crate) start: Time,
}

/// A serial resource of a rank: its compute, or its path to remote memory.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    pub(crate) ready: BinaryHeap<Reverse<ReadyTask>>,
    pub(crate) running: Option<RunningTask>,
    /// The stretch of the running task.
    pub(crate) stretch: StretchId,
    /// When the previous task ended.
    pub(crate) free: Moment,
    pub(crate) idle_since: Time,
    /// The latest busy time booked.
    pub(crate) recent: Recent,
}

/// A rank in its group of one role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub(crate) group: u32,
    pub(crate) slot: u32,
    /// Index of the group's scheduler in [`Rank::schedulers`]; 0 if the role has no collective, and needs none.
    pub(crate) scheduler: u32,
}

/// A process group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupOfRole {
    pub(crate) role: RoleId,
    /// Number of the group among those of the role.
    pub(crate) group: u32,
}

/// The collectives of one group that are under way.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Sequence number of the first entry.
    pub(crate) base: u32,
    /// Instances by sequence number.
    pub(crate) instances: VecDeque<Life<Instance>>,
}

/// A collective of one group, over all its ranks.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) sequence: u32,
    /// Unique number on the critical path.
    pub(crate) visit: NonZeroU32,
    /// Orders collectives of all roles.
    pub(crate) number: u64,
    /// Set at each slot.
    pub(crate) sets: Vec<Life<CollectiveSet>>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) record: CollectiveRecord,
}

impl Instance {
    /// The run of `chunk` at `slot`.
    #[inline]
    pub(crate) fn run(&self, chunk: u32, slot: u32) -> Life<ChunkRun> {
        let chunk = &self.chunks[chunk as usize];
        match chunk.runs.get(slot as usize) {
            Some(&run) => run,
            None if chunk.left == 0 => Life::OVER,
            None => Life::NOT_BEGUN,
        }
    }
}

/// A chunk of a collective, over all ranks of the group.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// Run at each slot; empty before the first has begun and after the last has ended.
    pub(crate) runs: Vec<Life<ChunkRun>>,
    /// By phase and line along its axis: how many ranks have begun. Used only if endpoints have limits.
    pub(crate) begun: Vec<u32>,
    /// Number of runs that have not ended.
    pub(crate) left: u32,
}

/// A run in a scheduling queue. The order of the fields is the order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuedRun {
    pub(crate) priority: u64,
    pub(crate) sequence: u32,
    pub(crate) chunk: u32,
    pub(crate) run: Id<ChunkRun>,
}

/// A logical scheduling queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) running: u32,
    /// When a chunk last left the queue.
    pub(crate) freed: Moment,
    /// The first entry goes first. A set, because other ranks make runs begin out of turn.
    pub(crate) waiting: BTreeSet<QueuedRun>,
}

/// A set that waits to have its chunks issued. The order of the fields is the order in which sets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueuedSet {
    pub(crate) priority: u64,
    pub(crate) set: Id<CollectiveSet>,
}

/// Schedules the chunks of one process group of a rank, or of all its groups ([`crate::Schedulers`]).
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Ready queue: sets with chunks that are not issued yet.
    pub(crate) ready: BinaryHeap<Reverse<QueuedSet>>,
    /// Number of chunks in their first phase.
    pub(crate) first_phase: u32,
    /// When a chunk last left its first phase.
    pub(crate) left_first: Moment,
    pub(crate) queues: Vec<Queue>,
}

impl Scheduler {
    pub(crate) fn new(queues: u32) -> Self {
        Self { queues: (0..queues).map(|_| Queue::default()).collect(), ..Self::default() }
    }
}

/// What a receive matches messages by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChannelKey {
    pub(crate) sender: RankIndex,
    pub(crate) tag: u32,
}

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedReceive {
    pub(crate) at: At,
    pub(crate) since: Time,
    /// `since`, on the critical path.
    pub(crate) posted: Moment,
}

/// Messages with the same sender and tag.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Arrived messages that no receive has waited for.
    pub(crate) arrived: VecDeque<Moment>,
    /// Receives that wait for a message.
    pub(crate) posted: VecDeque<PostedReceive>,
}

/// Communication that compute waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExposedTime {
    /// Row in the record's layers.
    pub(crate) layer: usize,
    pub(crate) time: Time,
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
    /// By role; `None` if it has no place in the role.
    pub(crate) memberships: Vec<Option<Membership>>,
    /// Sets that wait because of the limit on concurrent sets.
    pub(crate) held: BinaryHeap<Reverse<QueuedSet>>,
    pub(crate) schedulers: Vec<Scheduler>,
    pub(crate) active_sets: u32,
    /// Sets issued so far.
    pub(crate) issued: u64,
    /// Running chunks by accounting dimension.
    pub(crate) running: Vec<u32>,
    /// When the unit that combines received with local data becomes free.
    pub(crate) reducer_free: Time,
    pub(crate) reducer: Moment,
    /// Stretches of the pending combinations, in the order in which they are done.
    pub(crate) reducing: VecDeque<StretchId>,
    pub(crate) channels: BTreeMap<ChannelKey, Channel>,
    /// Number of communications under way.
    pub(crate) communicating: u32,
    pub(crate) communicating_since: Time,
    /// Communications and memory operations that ended most recently, all at the same time.
    pub(crate) waited: Vec<Waited>,
    /// For communications and memory operations that began while compute was idle: why it was idle.
    pub(crate) before: BTreeMap<At, Before>,
    /// What ended the last wait; used for the time after the last compute task.
    pub(crate) last_cause: Cause,
    /// Exposed communication since the last forward or backward compute. Updates do not reset it, because they follow
    /// the reductions at the end of a run.
    pub(crate) tail: Vec<ExposedTime>,
}

impl Rank {
    /// Its place in a role of which it has groups.
    #[inline]
    pub(crate) fn membership(&self, role: RoleId) -> Membership {
        self.memberships[role.index()].expect("a rank takes part only in groups that have it")
    }

    /// The entry that ended at `now` because of `cause`, if `cause` is a communication or a memory operation.
    pub(crate) fn waited_for(&self, cause: Cause, now: Time) -> Option<&Waited> {
        if matches!(cause, Cause::Start | Cause::Compute) {
            return None;
        }
        let over = || self.waited.iter().rev().filter(|waited| waited.until == now);
        over().find(|waited| waited.cause == cause).or_else(|| over().next())
    }
}

/// When a rank issued a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issue {
    /// The task that issued it.
    pub(crate) at: At,
    pub(crate) time: Time,
    /// `time`, on the critical path.
    pub(crate) moment: Moment,
}

/// A collective from the point of view of one rank.
#[derive(Debug)]
pub(crate) struct CollectiveSet {
    pub(crate) rank: RankIndex,
    pub(crate) position: u32,
    pub(crate) slot: u32,
    pub(crate) instance: Id<Instance>,
    pub(crate) plan: PlanId,
    /// `None` if only other ranks have begun it.
    pub(crate) issued: Option<Issue>,
    /// Whether its chunks may be issued.
    pub(crate) active: bool,
    /// Index in [`Rank::schedulers`].
    pub(crate) scheduler: u32,
    pub(crate) priority: u64,
    pub(crate) next_chunk: u32,
    /// Number of chunks that have not ended.
    pub(crate) left: u32,
    /// Number of chunks that another rank is known to have begun.
    pub(crate) begun: u32,
    /// When its task issued it; later, when its latest chunk ended.
    pub(crate) reached: Moment,
}

/// A chunk at one rank. Contains everything that a message needs, so that it is in one place.
#[derive(Debug)]
pub(crate) struct ChunkRun {
    pub(crate) phase: u8,
    pub(crate) stage: ChunkStage,
    pub(crate) instance: Id<Instance>,
    pub(crate) plan: PlanId,
    pub(crate) chunk: u32,
    pub(crate) rank: RankIndex,
    pub(crate) set: Id<CollectiveSet>,
    /// Position of coordinate 0 along the phase's axis.
    pub(crate) first: u32,
    /// Coordinate along the phase's axis.
    pub(crate) coordinate: u32,
    /// The ranks along the phase's axis; `None` if they must be looked up.
    pub(crate) peers: Option<RankLine>,
    pub(crate) lane: u32,
    pub(crate) streams_left: u32,
    pub(crate) streams: SmallVec<[Stream; 1]>,
    /// Receives whose message has not arrived.
    pub(crate) receives: SmallVec<[Receive; 2]>,
    /// The elements that the rank works on in this phase.
    pub(crate) extent: Extent,
    pub(crate) last_sent: Time,
    /// The stretch at whose end its last message leaves.
    pub(crate) last_left: StretchId,
    /// What it belongs to on the critical path, once it runs.
    pub(crate) purpose: Purpose,
    /// Sums over this phase, booked at its end.
    pub(crate) tally: Tally,
    /// Messages that no receive has asked for yet: of later phases, or ahead of the program in this one.
    pub(crate) early: Vec<Early>,
    /// Number of sends that have not entered the network, or whose leaving time the network has yet to report.
    pub(crate) unsent: u32,
    /// Bit `p` is set if another rank has begun phase `p` of the chunk. A group of 2^32 ranks has at most 62 phases.
    pub(crate) begun: u64,
    pub(crate) queue: u32,
    /// When it entered its present stage.
    pub(crate) entered: Time,
    /// When it was ready to begin its phase; later, when its program ended.
    pub(crate) reached: Moment,
}

/// A receive whose message has not arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) channel: u32,
    pub(crate) from: u32,
    /// The stream that waits for it.
    pub(crate) stream: u32,
    pub(crate) reduce: bool,
}

/// A message that no receive has asked for yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Early {
    pub(crate) phase: u8,
    pub(crate) channel: u32,
    pub(crate) from: u32,
    pub(crate) bytes: u64,
    pub(crate) delay: Time,
    pub(crate) arrived: Moment,
}

/// Sums of a run during a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) messages: u32,
    pub(crate) network_delay: u64,
    pub(crate) reduction: u64,
}

/// A task whose message has not left its NPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeavingSend {
    pub(crate) rank: RankIndex,
    pub(crate) at: At,
    /// The stretch that ends when the message leaves.
    pub(crate) stretch: StretchId,
}

/// A phase of a chunk that one rank has begun as the first on its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) role: RoleId,
    pub(crate) group: u32,
    pub(crate) sequence: u32,
    pub(crate) chunk: u32,
    pub(crate) phase: u8,
    pub(crate) position: u32,
    pub(crate) slot: u32,
    /// The stretch that it began after.
    pub(crate) after: StretchId,
}

/// Stage of a chunk at a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkStage {
    /// In the ready queue; known only because another rank has begun it.
    Unissued,
    /// In a scheduling queue.
    Waiting,
    /// Running its program.
    Running,
    /// Its program has ended, but its last send has not left.
    Leaving,
}

/// A stream of a program in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) pc: u32,
    /// Number of receives that are not complete.
    pub(crate) outstanding: u32,
    /// Whether it has reached a wait, which is the instruction at `pc`.
    pub(crate) waits: bool,
    pub(crate) done: bool,
    /// When everything received since its last wait was complete.
    pub(crate) reached: Moment,
}

/// What a message belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageOf {
    /// A collective.
    Collective {
        /// The sending run.
        run: Id<ChunkRun>,
        /// The receiving run.
        target: Id<ChunkRun>,
        /// Coordinate of the sender.
        from: u32,
    },
    /// A send task.
    PointToPoint(Id<PointToPoint>),
}

impl MessageOf {
    /// The sending run, if the message belongs to a collective.
    #[inline]
    pub(crate) fn run(&self) -> Option<Id<ChunkRun>> {
        match self {
            Self::Collective { run, .. } => Some(*run),
            Self::PointToPoint(_) => None,
        }
    }
}

/// A message under way. Fits in one cache line, because a large run spends most of its time on cache misses for
/// messages.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Message {
    pub(crate) bytes: u64,
    pub(crate) sent: Time,
    pub(crate) key: u64,
    /// What it belongs to.
    pub(crate) of: MessageOf,
    pub(crate) channel: u32,
    pub(crate) phase: u8,
    pub(crate) lane: u32,
    pub(crate) sender: RankIndex,
    pub(crate) receiver: RankId,
    /// The stretch of the critical path that it was sent after.
    pub(crate) after: StretchId,
}

/// A message that belongs to no collective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointToPoint {
    /// The sending task.
    pub(crate) at: At,
    pub(crate) from: RankIndex,
    pub(crate) to: RankId,
    pub(crate) tag: u32,
    /// The span of the send, if it is recorded.
    pub(crate) span: Option<u32>,
}
