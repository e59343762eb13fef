//! A program as data.

use syncline_plan::custom::MscclEntry;
use syncline_units::CollectiveKind;

/// `algo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// When a runtime may choose it, and by which protocol it runs.
    pub entry: MscclEntry,
    /// What it computes.
    pub kind: CollectiveKind,
    /// Whether input and output are one buffer.
    pub in_place: bool,
    /// Chunks that the full vector is cut into.
    pub chunks: u32,
    /// By id.
    pub gpus: Vec<Gpu>,
}

/// `gpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// Chunks of scratch.
    pub scratch: u32,
    /// `copy`: chunks of the input that are in the output before any step; each is a step of one chunk.
    pub copies: Vec<Step>,
    /// By id.
    pub blocks: Vec<ThreadBlock>,
}

/// `tb`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadBlock {
    /// To whom it sends.
    pub send: Option<u32>,
    /// From whom it receives.
    pub recv: Option<u32>,
    /// On which channel.
    pub channel: u32,
    /// In order.
    pub steps: Vec<Step>,
}

/// `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// What it reads.
    pub source: Chunks,
    /// What it writes.
    pub target: Chunks,
    /// How many chunks.
    pub count: u32,
    /// The thread block and the step that must be done first.
    pub after: Option<(u32, u32)>,
    /// Whether another step waits for this one.
    pub awaited: bool,
    /// Its line in the file; 0 where it is in none.
    pub line: u32,
}

/// The first of some chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Of which buffer.
    pub buffer: Space,
    /// Its number in the buffer.
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
    /// What a step does.
    StepKind {
        /// Sends.
        Send = "s",
        /// Receives.
        Receive = "r",
        /// Receives, keeps, sends.
        ReceiveCopySend = "rcs",
        /// Receives, reduces, sends; keeps nothing.
        ReceiveReduceSend = "rrs",
        /// Receives, reduces, keeps.
        ReceiveReduceCopy = "rrc",
        /// Receives, reduces, keeps, sends.
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

/// Whether a collective hands each GPU a share of the vector, so that the vector must be cut into as many.
pub const fn has_shares(kind: CollectiveKind) -> bool {
    matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll)
}
