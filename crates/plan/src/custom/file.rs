//! The schema of plan files, and the conversion of any algorithm's plan to a plan file.

use crate::program::{Algorithm, Blocks, Buffer, Op, Seat, program};
use serde::{Deserialize, Serialize};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::CollectiveKind;

/// Most instructions of a plan file.
pub const MAX_OPS: usize = 1 << 22;
/// Largest plan file in bytes: enough for [`MAX_OPS`] instructions. Readers check a file's size first.
pub const MAX_BYTES: u64 = 256 << 20;

/// A collective in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The name in scenarios and tables.
    pub name: String,
    /// The collective that it computes.
    pub kind: CollectiveKind,
    /// The number of ranks that it is for.
    pub ranks: u32,
    /// Number of seats that are not ranks, such as hubs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub helpers: u32,
    /// Number of blocks that buffers are cut into, unless an instruction says otherwise.
    pub blocks: u32,
    /// The buffer with the result; if absent, `data`, or `output` for all-to-all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Buffer>,
    /// Whether each stream works on its own part of the vector: stream `s` on block `s`, of as many blocks as there
    /// are streams; block numbers are relative to that part. If absent, all streams work on the whole vector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub split: bool,
    /// What else an MSCCL program specifies. It is kept when the plan is exported as an MSCCL program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msccl: Option<MscclEntry>,
    /// The ranks in order, then the helpers.
    pub seats: Vec<SeatEntry>,
}

/// When MSCCL's runtimes may choose a program, and how they execute it. This changes neither what the plan computes
/// nor how long a simulation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MscclEntry {
    /// NCCL's protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// Smallest size, in bytes, of a call for which it may be chosen.
    #[serde(default)]
    pub min_bytes: u64,
    /// Largest size, in bytes, of a call for which it may be chosen; 0 means no limit.
    #[serde(default)]
    pub max_bytes: u64,
    /// Whether it may be chosen if input and output are the same buffer.
    pub in_place: bool,
    /// Whether it may be chosen if input and output are different buffers.
    pub out_of_place: bool,
}

/// NCCL's protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Protocol {
    /// Large messages, with fences.
    #[default]
    Simple,
    /// Low latency: a flag with every 4 bytes.
    LL,
    /// Low latency: a flag with every 120 bytes.
    LL128,
}

impl Protocol {
    /// Every value.
    pub const ALL: [Self; 3] = [Self::Simple, Self::LL, Self::LL128];
    /// The name in MSCCL programs and plan files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "Simple",
            Self::LL => "LL",
            Self::LL128 => "LL128",
        }
    }
}

/// The programs of one seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatEntry {
    /// Its streams; seats may have different numbers of them.
    pub streams: Vec<StreamEntry>,
}

/// One stream's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamEntry {
    /// The channel on which it exchanges messages; if absent, the number of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// The instructions in order.
    pub ops: Vec<OpEntry>,
}

/// One instruction; see [`Op`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum OpEntry {
    /// Starts to send.
    Send {
        /// Receiving seat.
        to: u32,
        /// First block.
        block: u32,
        /// Number of blocks.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u32,
        /// How many blocks there are; if absent, [`PlanFile::blocks`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
        /// Which buffer.
        #[serde(default = "data", skip_serializing_if = "is_data")]
        buffer: Buffer,
    },
    /// Expects a message.
    Receive {
        /// Sending seat.
        from: u32,
        /// First block.
        block: u32,
        /// Number of blocks.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        count: u32,
        /// How many blocks there are; if absent, [`PlanFile::blocks`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<u32>,
        /// Which buffer.
        #[serde(default = "data", skip_serializing_if = "is_data")]
        buffer: Buffer,
        /// Whether the message is reduced into the data there.
        #[serde(default, skip_serializing_if = "is_default")]
        reduce: bool,
    },
    /// Moves data within the seat.
    Copy {
        /// The blocks that are read.
        from: BlocksEntry,
        /// The blocks that are written.
        to: BlocksEntry,
        /// Whether they are reduced into the data there.
        #[serde(default, skip_serializing_if = "is_default")]
        reduce: bool,
    },
    /// Continues when all receives so far are complete.
    Wait {},
    /// Continues when another stream of the seat has passed its first `ops` instructions.
    After {
        /// The other stream.
        stream: u32,
        /// The number of its instructions.
        ops: u32,
    },
}

/// Blocks of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlocksEntry {
    /// First block.
    pub block: u32,
    /// Number of blocks.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// How many blocks there are; if absent, [`PlanFile::blocks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    /// Which buffer.
    #[serde(default = "data", skip_serializing_if = "is_data")]
    pub buffer: Buffer,
}

const fn one() -> u32 {
    1
}
const fn is_one(count: &u32) -> bool {
    *count == 1
}
const fn data() -> Buffer {
    Buffer::Data
}
fn is_data(buffer: &Buffer) -> bool {
    *buffer == Buffer::Data
}
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl PlanFile {
    /// Reads JSON. Diagnostics name `file`.
    ///
    /// # Errors
    /// [`Code::BadSyntax`] if the text is not JSON, [`Code::BadValue`] if it is not a plan; both with the place.
    pub fn from_json(text: &str, file: &str) -> Result<Self, Diagnostics> {
        serde_json::from_str(text).map_err(|error| {
            let (code, message) = if error.is_data() {
                (Code::BadValue, "the file is not a plan")
            } else {
                (Code::BadSyntax, "the file is not well-formed JSON")
            };
            let mut found = Diagnostic::error(code, message)
                .at(file, u32::try_from(error.line()).unwrap_or(u32::MAX))
                .note(error.to_string());
            if let Some(place) = &mut found.place {
                place.column = u32::try_from(error.column()).unwrap_or(u32::MAX);
            }
            found.into()
        })
    }

    /// Converts the plan of an algorithm for `ranks` ranks to a plan file.
    ///
    /// # Errors
    /// [`Code::NoPlan`] if the algorithm does not offer the collective, [`Code::BadValue`] if the plan is too long
    /// for a file.
    pub fn of(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<Self, Diagnostics> {
        crate::registry::check(algorithm, kind, ranks)?;
        let streams = algorithm.streams(kind, ranks);
        let mut left = MAX_OPS;
        let mut seats = Vec::new();
        for index in 0..algorithm.seats(ranks) {
            let mut entry = SeatEntry::default();
            for stream in 0..streams {
                let seat = Seat { kind, ranks, index, stream, reverse: false };
                let ops: Vec<OpEntry> = program(algorithm, seat).take(left + 1).map(OpEntry::from).collect();
                left = left.checked_sub(ops.len()).ok_or_else(too_long)?;
                let channel = Some(algorithm.channel(&seat)).filter(|&channel| channel != stream);
                entry.streams.push(StreamEntry { channel, ops });
            }
            seats.push(entry);
        }
        Ok(Self {
            name: algorithm.name().to_owned(),
            kind,
            ranks,
            helpers: algorithm.seats(ranks) - ranks,
            blocks: ranks,
            result: Some(algorithm.result(kind)).filter(|&result| result != usual_result(kind)),
            split: streams > 1 && algorithm.split(),
            msccl: None,
            seats,
        })
    }
}

pub(super) fn usual_result(kind: CollectiveKind) -> Buffer {
    if kind == CollectiveKind::AllToAll { Buffer::Output } else { Buffer::Data }
}

pub(super) fn too_long() -> Diagnostics {
    Diagnostic::error(Code::BadValue, "the plan has too many instructions")
        .allowed(format!("at most {MAX_OPS}"))
        .into()
}

impl From<Blocks> for BlocksEntry {
    fn from(Blocks { buffer, first, count, of }: Blocks) -> Self {
        Self { block: first, count, of: Some(of), buffer }
    }
}

impl BlocksEntry {
    fn blocks(self, of: u32) -> Blocks {
        Blocks { buffer: self.buffer, first: self.block, count: self.count, of: self.of.unwrap_or(of) }
    }
}

impl From<Op> for OpEntry {
    fn from(op: Op) -> Self {
        match op {
            Op::Send { to, blocks } => {
                let BlocksEntry { block, count, of, buffer } = blocks.into();
                Self::Send { to, block, count, of, buffer }
            }
            Op::Receive { from, blocks, reduce } => {
                let BlocksEntry { block, count, of, buffer } = blocks.into();
                Self::Receive { from, block, count, of, buffer, reduce }
            }
            Op::Copy { from, to, reduce } => Self::Copy { from: from.into(), to: to.into(), reduce },
            Op::Wait => Self::Wait {},
            Op::After { stream, ops } => Self::After { stream, ops },
        }
    }
}

impl OpEntry {
    pub(super) fn op(&self, blocks: u32) -> Op {
        match *self {
            Self::Send { to, block, count, of, buffer } => {
                Op::Send { to, blocks: BlocksEntry { block, count, of, buffer }.blocks(blocks) }
            }
            Self::Receive { from, block, count, of, buffer, reduce } => {
                Op::Receive { from, blocks: BlocksEntry { block, count, of, buffer }.blocks(blocks), reduce }
            }
            Self::Copy { from, to, reduce } => {
                Op::Copy { from: from.blocks(blocks), to: to.blocks(blocks), reduce }
            }
            Self::Wait {} => Op::Wait,
            Self::After { stream, ops } => Op::After { stream, ops },
        }
    }
}
