//! The program of a rank in a collective: a sequence of instructions with waits.
//!
//! A plan is *lazy*: an [`Algorithm`] answers "what is instruction `pc` of this seat's program?" and has no state, so
//! 16,384 ranks need no memory. [`crate::dag`] materialises the same programs as a DAG.

use serde::{Deserialize, Serialize};
use syncline_units::{CollectiveKind, Extent, Turn};

/// Storage of a seat that instructions access. All three buffers are addressed in the layout of the full vector, so
/// block `i` of `n` means the same elements in each.
///
/// Storage without data is never read, with one exception: the `Data` of a helper (a hub) starts as the neutral
/// element of the reduction, so that whichever message arrives first may be reduced into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// The rank's input vector, and also its result unless [`Algorithm::result`] says otherwise. In an all-gather, a
    /// rank starts with its own block in it; in a broadcast, rank 0 starts with the whole vector and the others with
    /// nothing.
    Data,
    /// The result of a plan that leaves its input unchanged. All-to-all always collects here: block `i` comes from
    /// rank `i` (and all blocks are as long as the rank's own block of `Data`, see [`Seat::space`]).
    Output,
    /// Intermediate data. Blocks of scratch are slots: slot `k` of `of` has room for the largest of `Data`'s `of`
    /// blocks, and holds what was last written there. Slot numbers may exceed `of`.
    Scratch,
}

/// Blocks `first..first + count` of the `of` blocks that the stream's part of a buffer is cut into
/// (by [`syncline_units::cut()`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Blocks {
    /// The buffer.
    pub buffer: Buffer,
    /// First block.
    pub first: u32,
    /// Number of blocks.
    pub count: u32,
    /// How many blocks the buffer is cut into.
    pub of: u32,
}

impl Blocks {
    /// All of [`Buffer::Data`].
    pub const WHOLE: Self = Self::data(0, 1, 1);

    /// Blocks of [`Buffer::Data`].
    #[inline]
    pub const fn data(first: u32, count: u32, of: u32) -> Self {
        Self { buffer: Buffer::Data, first, count, of }
    }
    /// Blocks of [`Buffer::Output`].
    #[inline]
    pub const fn output(first: u32, count: u32, of: u32) -> Self {
        Self { buffer: Buffer::Output, first, count, of }
    }
    /// The elements that these blocks cover, where the stream's part of the buffer is `whole`.
    #[inline]
    pub fn extent(self, whole: Extent) -> Extent {
        whole.blocks(self.first, self.count, self.of)
    }
}

/// One instruction.
///
/// The `k`-th send from one seat to another on a channel matches that seat's `k`-th receive from it on the same
/// channel. A stream's channel is its own number unless [`Algorithm::channel`] says otherwise.
///
/// A send reads its blocks when it starts. A receive may be posted for blocks whose earlier send has not left yet
/// only if the received message depends on that send (so it cannot arrive too early).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Starts to send `blocks` to seat `to`, and continues at once.
    Send {
        /// Receiving seat.
        to: u32,
        /// The blocks that are sent.
        blocks: Blocks,
    },
    /// Expects a message from seat `from`, and continues at once. Until the next [`Op::Wait`], the blocks may be
    /// accessed only by other receives that reduce, and by instructions that happen before the message is sent,
    /// however the plan is timed.
    Receive {
        /// Sending seat.
        from: u32,
        /// The blocks that the message is written to.
        blocks: Blocks,
        /// Whether the message is combined with the data there; else it replaces the data.
        reduce: bool,
    },
    /// Moves data within the seat. Takes no time in a simulation.
    Copy {
        /// The blocks that are read.
        from: Blocks,
        /// The blocks that are written.
        to: Blocks,
        /// Whether they are combined with the data there; else they replace the data.
        reduce: bool,
    },
    /// Continues when every receive so far in this stream is complete.
    Wait,
    /// Continues when stream `stream` of the same seat has passed its first `ops` instructions. To wait for a receive
    /// among them, count up to the [`Op::Wait`] behind it.
    After {
        /// The other stream.
        stream: u32,
        /// The number of its instructions.
        ops: u32,
    },
}

/// Identifies a program: one stream of one seat in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// The collective.
    pub kind: CollectiveKind,
    /// Number of ranks that take part, at least 1.
    pub ranks: u32,
    /// This seat: `0..ranks` are the ranks in group order; higher ones are helpers such as hubs.
    pub index: u32,
    /// The stream.
    pub stream: u32,
    /// Whether the chunk runs in the reverse direction: +1 neighbours become -1 neighbours. Affects ring-like
    /// algorithms only.
    pub reverse: bool,
}

impl Seat {
    /// The input of a seat: its own elements of the vector `whole`. A helper has none; in a broadcast, only the first
    /// rank has any.
    #[inline]
    pub fn input(&self, whole: Extent) -> Extent {
        let none = self.index >= self.ranks || (self.kind == CollectiveKind::Broadcast && self.index > 0);
        match self.kind {
            _ if none => Extent { start: whole.start, end: whole.start },
            CollectiveKind::AllGather => whole.blocks(self.index, 1, self.ranks),
            CollectiveKind::AllReduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::Broadcast
            | CollectiveKind::Reduce => whole,
        }
    }

    /// The output of a seat: the elements of its result in [`Algorithm::result`]. A helper has none; in a reduce,
    /// only the first rank has any.
    #[inline]
    pub fn output(&self, whole: Extent) -> Extent {
        let none = self.index >= self.ranks || (self.kind == CollectiveKind::Reduce && self.index > 0);
        match self.kind {
            _ if none => Extent { start: whole.start, end: whole.start },
            CollectiveKind::ReduceScatter => whole.blocks(self.index, 1, self.ranks),
            CollectiveKind::AllToAll => self.space(Buffer::Output, whole),
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::Broadcast
            | CollectiveKind::Reduce => whole,
        }
    }

    /// The elements that the blocks of `buffer` are cut from, if the stream's part of the vector is `part`.
    ///
    /// This is `part`, except for the output of all-to-all: rank `i` gets block `i` of every rank's vector, so its
    /// output holds `ranks` blocks of that one length.
    #[inline]
    pub fn space(&self, buffer: Buffer, part: Extent) -> Extent {
        match (buffer, self.kind) {
            (Buffer::Output, CollectiveKind::AllToAll) if self.index < self.ranks => {
                let block = part.blocks(self.index, 1, self.ranks).len();
                Extent::whole(block * u64::from(self.ranks))
            }
            _ => part,
        }
    }
}

/// Why an algorithm does not offer a collective: the broken rule, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Rounds and bytes of an algorithm of the library, if every cut is even.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedForm {
    /// Length of the longest chain of messages.
    pub rounds: u32,
    /// Bytes of all messages, as a multiple of the vector's.
    pub wire: f64,
    /// Bytes that the busiest seat sends, as a multiple of the vector's.
    pub sent: f64,
}

/// A collective algorithm of the library.
pub trait Algorithm: std::fmt::Debug + Send + Sync {
    /// The name in scenarios, tables and files, with the parameters that differ from their defaults: `ring`,
    /// `direct(window=3)`.
    fn name(&self) -> &str;

    /// Whether the algorithm offers `kind` for `ranks` ranks.
    ///
    /// # Errors
    /// The rule that forbids it.
    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal>;

    /// What `kind` costs on `ranks` ranks if every cut is even; `None` if no simple form is known. Called through
    /// [`closed_form`](crate::cost::closed_form), for collectives that [`Algorithm::offers`] allows.
    fn closed_form(&self, _kind: CollectiveKind, _ranks: u32) -> Option<ClosedForm> {
        None
    }

    /// Number of seats: the ranks, and the helpers that have their own NPU.
    fn seats(&self, ranks: u32) -> u32 {
        ranks
    }

    /// Number of independent streams in every seat.
    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        1
    }

    /// Whether each stream works on its own part of the vector: stream `s` on block `s`, of as many blocks as there
    /// are streams; block numbers are relative to that part. Otherwise all streams work on the whole vector, as
    /// MSCCL's thread blocks do.
    fn split(&self) -> bool {
        true
    }

    /// The part of the vector `whole` that a stream works on. Follows from [`Algorithm::split`]; do not override.
    #[inline]
    fn part(&self, kind: CollectiveKind, ranks: u32, stream: u32, whole: Extent) -> Extent {
        part(self.streams(kind, ranks), self.split(), stream, whole)
    }

    /// The channel on which the seat's stream exchanges messages. It differs from the stream's number only in plans
    /// where a stream of one seat exchanges messages with a stream of another number.
    #[inline]
    fn channel(&self, seat: &Seat) -> u32 {
        seat.stream
    }

    /// The buffer with the result of `kind`.
    #[inline]
    fn result(&self, kind: CollectiveKind) -> Buffer {
        if kind == CollectiveKind::AllToAll { Buffer::Output } else { Buffer::Data }
    }

    /// The translation that maps rank 0's program to that of every other rank. Where rank 0 exchanges with rank `r`,
    /// each other rank exchanges with the rank that becomes `r` when the translation moves that other rank to 0. This
    /// holds instruction by instruction, with equal numbers of blocks out of `ranks` (so messages are equal if blocks
    /// are). `None` guarantees nothing.
    fn turn(&self, _kind: CollectiveKind, _ranks: u32) -> Option<Turn> {
        None
    }

    /// Instruction `pc` of the seat's program, or `None` at its end. A seat has finished when its program has ended,
    /// its receives are complete and its sends have left.
    ///
    /// Called only for collectives that [`Algorithm::offers`] allows. Must be cheap (no allocation, constant or
    /// logarithmic time), because the simulator calls it once per instruction.
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op>;
}

/// The part of `whole` that stream `stream` of `streams` works on.
#[inline]
pub fn part(streams: u32, split: bool, stream: u32, whole: Extent) -> Extent {
    if split && streams > 1 { whole.blocks(stream, 1, streams) } else { whole }
}

/// The program of one seat from its first instruction to its end.
pub fn program<'a>(algorithm: &'a dyn Algorithm, seat: Seat) -> impl Iterator<Item = Op> + 'a {
    (0..).map_while(move |pc| algorithm.op(&seat, pc))
}
