//! What a rank does for a collective: a sequential program with waits.
//!
//! A plan is *lazy*: an [`Algorithm`] answers "what is instruction `pc` of this seat's program?" and holds no state,
//! so that 16,384 ranks cost no memory. [`crate::dag`] materialises the same programs as a DAG.

use syncline_units::{CollectiveKind, Extent};

/// Which storage of a seat an instruction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// The vector that the collective works on, in place. For all-to-all: the vector to be sent.
    Data,
    /// Where all-to-all collects what arrived: block `i` comes from seat `i`.
    Output,
    /// Anything in between.
    Scratch,
}

/// Blocks `first..first + count` of the `of` blocks that the stream's part of a buffer is cut into
/// (by [`syncline_units::cut`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// Blocks of [`Buffer::Data`].
    pub const fn data(first: u32, count: u32, of: u32) -> Self {
        Self { buffer: Buffer::Data, first, count, of }
    }
    /// The elements that these blocks cover, where the stream's part of the buffer is `whole`.
    #[inline]
    pub fn extent(self, whole: Extent) -> Extent {
        whole.blocks(self.first, self.count, self.of)
    }
}

/// One instruction. The `k`-th send from one seat's stream to another seat is received by that seat's `k`-th
/// receive from it in the stream of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Start to send `blocks` to seat `to`, and go on at once.
    Send {
        /// Receiving seat.
        to: u32,
        /// What is sent.
        blocks: Blocks,
    },
    /// Expect a message from seat `from`, and go on at once.
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
    },
    /// Go on when every receive so far in this stream is complete.
    Wait,
    /// Go on when stream `stream` of the same seat has passed its first `ops` instructions (and, where the last of
    /// them is a receive, that receive is complete).
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

/// Why an algorithm does not offer a collective: the rule, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// A collective algorithm of the library.
pub trait Algorithm: std::fmt::Debug + Send + Sync {
    /// The name that scenarios, tables and files use.
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

    /// Number of independent streams. Stream `s` works on block `s` of the data cut into that many blocks.
    fn streams(&self, _kind: CollectiveKind, _ranks: u32) -> u32 {
        1
    }

    /// Instruction `pc` of the seat's program, or `None` at its end. A seat has finished when its program has ended,
    /// its receives are complete and its sends have left it.
    ///
    /// Cheap (no allocation, constant or logarithmic time): the simulator calls it once per instruction.
    fn op(&self, seat: &Seat, pc: u32) -> Option<Op>;
}
