//! A program as data.

use syncline_plan::custom::MscclEntry;
use syncline_units::CollectiveKind;

/// `algo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// When a runtime may choose it, and its protocol.
    pub entry: MscclEntry,
    /// The collective.
    pub kind: CollectiveKind,
    /// Whether input and output are one buffer.
    pub in_place: bool,
    /// Number of chunks that the full vector is cut into.
    pub chunks: u32,
    /// The GPUs by id.
    pub gpus: Vec<Gpu>,
}

/// `gpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Number of chunks of scratch.
    pub scratch: u32,
    /// `copy`: chunks of the input that are in the output before any step; each is a step of one chunk.
    pub copies: Vec<Step>,
    /// The thread blocks by id.
    pub blocks: Vec<ThreadBlock>,
}

/// `tb`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadBlock {
    /// The GPU that it sends to.
    pub send: Option<u32>,
    /// The GPU that it receives from.
    pub recv: Option<u32>,
    /// The channel.
    pub channel: u32,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its type.
    pub kind: StepKind,
    /// The chunks that it reads.
    pub source: Chunks,
    /// The chunks that it writes.
    pub target: Chunks,
    /// Number of chunks.
    pub count: u32,
    /// The thread block and the step that must be done first.
    pub after: Option<(u32, u32)>,
    /// Whether another step waits for this one.
    pub awaited: bool,
    /// Its line in the file; 0 if it is not from a file.
    pub line: u32,
}

/// The first chunk of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The buffer.
    pub buffer: Space,
    /// The chunk's number in the buffer.
    pub offset: u32,
}

macro_rules! letters {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The name in the file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

letters! {
    /// A GPU's buffers.
    Space {
        /// Input.
        Input = "i",
        /// Output.
        Output = "o",
        /// Scratch.
        Scratch = "s",
    }
}

letters! {
    /// The type of a step.
    StepKind {
        /// Sends.
        Send = "s",
        /// Receives.
        Receive = "r",
        /// Receives, stores, sends.
        ReceiveCopySend = "rcs",
        /// Receives, reduces, sends; stores nothing.
        ReceiveReduceSend = "rrs",
        /// Receives, reduces, stores.
        ReceiveReduceCopy = "rrc",
        /// Receives, reduces, stores, sends.
        ReceiveReduceCopySend = "rrcs",
        /// Copies.
        Copy = "cpy",
        /// Reduces.
        Reduce = "re",
        /// Only waits.
        Nop = "nop",
    }
}

impl StepKind {
    /// Whether it sends.
    pub const fn sends(self) -> bool {
        matches!(
            self,
            Self::Send | Self::ReceiveCopySend | Self::ReceiveReduceSend | Self::ReceiveReduceCopySend
        )
    }
    /// Whether it receives.
    pub const fn receives(self) -> bool {
        matches!(
            self,
            Self::Receive
                | Self::ReceiveCopySend
                | Self::ReceiveReduceSend
                | Self::ReceiveReduceCopy
                | Self::ReceiveReduceCopySend
        )
    }
    /// Whether it reads its source.
    pub const fn has_source(self) -> bool {
        !matches!(self, Self::Receive | Self::ReceiveCopySend | Self::Nop)
    }
    /// Whether it writes its target.
    pub const fn has_target(self) -> bool {
        !matches!(self, Self::Send | Self::ReceiveReduceSend | Self::Nop)
    }
}

/// The collectives and their names in the file, the usual one first. The root of a broadcast and a reduce is GPU 0.
pub const COLLECTIVES: [(CollectiveKind, &[&str]); 6] = [
    (CollectiveKind::AllReduce, &["allreduce"]),
    (CollectiveKind::AllGather, &["allgather"]),
    (CollectiveKind::ReduceScatter, &["reducescatter", "reduce_scatter"]),
    (CollectiveKind::AllToAll, &["alltoall"]),
    (CollectiveKind::Broadcast, &["broadcast"]),
    (CollectiveKind::Reduce, &["reduce"]),
];
