//! What a rank does for a collective: a sequential program with waits.
//!
//! A plan is *lazy*: an [`Algorithm`] answers "what is instruction `pc` of this seat's program?" and holds no state,
//! so that 16,384 ranks cost no memory. [`crate::dag`] materialises the same programs as a DAG.

use serde::{Deserialize, Serialize};
use syncline_units::{CollectiveKind, Extent, Turn};

/// Which storage of a seat an instruction touches. All three are addressed in the layout of the full vector, so
/// that block `i` of `n` means the same elements wherever it lies.
///
/// Storage that holds nothing is never read, with one exception: the `Data` of a helper (a hub) starts as the
/// neutral element of the reduction, so that whichever message comes first may be reduced into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// The rank's input vector; and its result too, unless [`Algorithm::result`] says otherwise. A rank starts an
    /// all-gather with its own block in it, a broadcast with the whole (rank 0) or with nothing.
    Data,
    /// The result of a plan that leaves its input as it is. All-to-all always collects here: block `i` comes from
    /// rank `i` (and all blocks are as long as the rank's own block of `Data`, see [`Seat::space`]).
    Output,
    /// Anything in between. Blocks of scratch are slots: slot `k` of `of` has room for the largest of `Data`'s `of`
    /// blocks and holds what was last put there. Slots may be numbered beyond `of`.
    Scratch,
}

/// Blocks `first..first + count` of the `of` blocks that the stream's part of a buffer is cut into
/// (by [`syncline_units::cut()`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Blocks {
    /// Which storage.
    pub buffer: Buffer,
    /// First block.
    pub first: u32,
    /// Number of blocks.
    pub count: u32,
    /// How many blocks there are in all.
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
/// The `k`-th send from one seat to another on a channel is received by that seat's `k`-th receive from it on the
/// same channel; a stream's channel is its own number unless [`Algorithm::channel`] says otherwise.
///
/// A send reads its blocks when it starts. A receive may be posted for blocks whose earlier send has not left yet
/// only where what arrives depends on that send (it then cannot come too early).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Start to send `blocks` to seat `to`, and go on at once.
    Send {
        /// Receiving seat.
        to: u32,
        /// What is sent.
        blocks: Blocks,
    },
    /// Expect a message from seat `from`, and go on at once. The blocks may not be touched before the next
    /// [`Op::Wait`], save by other receives that reduce, and by what happens before the message is sent, whichever way the
    /// plan is timed.
    Receive {
        /// Sending seat.
        from: u32,
        /// Where the message goes.
        blocks: Blocks,
        /// Whether it is combined with what is there (else it replaces it).
        reduce: bool,
    },
    /// Move data within the seat. Takes no time in a simulation.
    Copy {
        /// What is read.
        from: Blocks,
        /// What is written.
        to: Blocks,
        /// Whether it is combined with what is there (else it replaces it).
        reduce: bool,
    },
    /// Go on when every receive so far in this stream is complete.
    Wait,
    /// Go on when stream `stream` of the same seat has passed its first `ops` instructions. To be sure of a receive
    /// among them, count up to the [`Op::Wait`] behind it.
    After {
        /// The other stream.
        stream: u32,
        /// How many of its instructions.
        ops: u32,
    },
}

/// Whose program is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    /// What the collective promises.
    pub kind: CollectiveKind,
    /// Number of ranks that take part, at least 1.
    pub ranks: u32,
    /// This seat: `0..ranks` are the ranks in group order; higher ones are helpers such as hubs.
    pub index: u32,
    /// Which of the algorithm's streams.
    pub stream: u32,
    /// Whether the chunk runs against the usual direction: +1 neighbours become -1 neighbours. Has an effect on
    /// ring-like algorithms only.
    pub reverse: bool,
}

impl Seat {
    /// What a seat starts with: the elements of the vector `whole` that are its own. A helper has none, nor has any
    /// but the first rank in a broadcast.
    #[inline]
    pub fn input(&self, whole: Extent) -> Extent {
        let none = self.index >= self.ranks || (self.kind == CollectiveKind::Broadcast && self.index > 0);
        match self.kind {
            _ if none => Extent { start: whole.start, end: whole.start },
            CollectiveKind::AllGather => whole.blocks(self.index, 1, self.ranks),
            _ => whole,
        }
    }

    /// What a seat ends with: where its result lies in [`Algorithm::result`]. A helper has none, nor has any but the
    /// first rank in a reduce.
    #[inline]
    pub fn output(&self, whole: Extent) -> Extent {
        let none = self.index >= self.ranks || (self.kind == CollectiveKind::Reduce && self.index > 0);
        match self.kind {
            _ if none => Extent { start: whole.start, end: whole.start },
            CollectiveKind::ReduceScatter => whole.blocks(self.index, 1, self.ranks),
            CollectiveKind::AllToAll => self.space(Buffer::Output, whole),
            _ => whole,
        }
    }

    /// The elements that `buffer`'s blocks are cut from, where the stream's part of the vector is `part`.
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

/// Why an algorithm does not offer a collective: the rule, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// A collective algorithm of the library.
pub trait Algorithm: std::fmt::Debug + Send + Sync {
    /// The name that scenarios, tables and files use, with the parameters that differ from the usual:
    /// `ring`, `direct(window=3)`.
    fn name(&self) -> &str;

    /// Whether the algorithm offers `kind` for `ranks` ranks.
    ///
    /// # Errors
    /// Says the rule that forbids it.
    fn offers(&self, kind: CollectiveKind, ranks: u32) -> Result<(), Refusal>;

    /// Number of seats: the ranks, and the helpers that have an NPU of their own.
    fn seats(&self, ranks: u32) -> u32 {
        ranks
    }

    /// Number of independent streams of every seat.
    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        1
    }

    /// Whether each stream works on a part of the vector of its own, in which its blocks are counted: stream `s` on
    /// block `s` of as many as there are streams. (Else all streams work on the whole, as MSCCL's thread blocks do.)
    fn split(&self) -> bool {
        true
    }

    /// The part of the vector `whole` that a stream works on. Follows from [`Algorithm::split`]; not to be replaced.
    #[inline]
    fn part(&self, kind: CollectiveKind, ranks: u32, stream: u32, whole: Extent) -> Extent {
        part(self.streams(kind, ranks), self.split(), stream, whole)
    }

    /// The channel on which the seat's stream exchanges messages. It differs from the stream's number only in plans
    /// where a stream of one seat talks to a stream with another number.
    #[inline]
    fn channel(&self, seat: &Seat) -> u32 {
        seat.stream
    }

    /// Where the result of `kind` is found.
    #[inline]
    fn result(&self, kind: CollectiveKind) -> Buffer {
        if kind == CollectiveKind::AllToAll { Buffer::Output } else { Buffer::Data }
    }

    /// The translation by which every rank's program follows from rank 0's: what rank 0 does with rank `r`, each other
    /// rank does with the rank that is `r` once it has itself been moved to 0, instruction by instruction, with as many
    /// blocks of `ranks` (so that where blocks are equal, so are messages). `None` promises nothing.
    fn turn(&self, _kind: CollectiveKind, _ranks: u32) -> Option<Turn> {
        None
    }

    /// Instruction `pc` of the seat's program, or `None` at its end. A seat has finished when its program has ended,
    /// its receives are complete and its sends have left it.
    ///
    /// Asked only for what [`Algorithm::offers`] offers. Cheap (no allocation, constant or logarithmic time): the
    /// simulator calls it once per instruction.
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
