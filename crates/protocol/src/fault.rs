//! Faults: what went wrong, and who is at fault.

use crate::operation::{Announcement, Operation, Request};
use crate::wire::Header;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why an operation failed: who is at fault, what happened, and during what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who is at fault.
    pub blame: Blame,
    /// What happened.
    pub trouble: Trouble,
    /// The operation that failed. None for a fault of the communicator as a whole.
    pub during: Option<FailedOperation>,
}

/// An operation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOperation {
    /// What it did.
    pub task: Task,
    /// How long it had run; zero if the communicator had failed before it began.
    pub elapsed: Duration,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A collective among ranks.
    Collective {
        /// Its number in its group.
        number: u64,
        /// The collective.
        operation: Operation,
    },
    /// An exchange of a vector with hubs.
    Exchange {
        /// Its number among the worker's exchanges.
        number: u64,
        /// What the worker asks for.
        request: Request,
        /// The vector's name.
        vector: String,
        /// Number of bytes.
        bytes: u64,
    },
    /// A transfer between two ranks.
    Transfer {
        /// Whether this rank is the sender.
        sends: bool,
        /// The other rank; without it, any rank.
        peer: Option<u32>,
        /// The application's tag. None within a collective.
        tag: Option<i64>,
        /// Number of bytes.
        bytes: u64,
    },
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collective { number, operation } => {
                write!(f, "operation {number}, {operation}, {} bytes", operation.bytes())
            }
            Self::Exchange { number, request, vector, bytes } => {
                write!(f, "operation {number}, {} of `{vector}`, {bytes} bytes", request.name())
            }
            Self::Transfer { sends, peer, tag, bytes } => {
                let (what, way) = if *sends { ("send", "to") } else { ("recv", "from") };
                write!(f, "{what} of {bytes} bytes {way} ")?;
                match peer {
                    Some(peer) => write!(f, "rank {peer}")?,
                    None => f.write_str("any rank")?,
                }
                tag.map_or(Ok(()), |tag| write!(f, ", tag {tag}"))
            }
        }
    }
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// A rank.
    Rank(u32),
    /// The connection between two ranks.
    Link {
        /// The lower rank.
        lower: u32,
        /// The higher rank.
        higher: u32,
    },
    /// A hub of the job, by its index.
    Hub(u32),
    /// The hub of a rack.
    Rack(u32),
    /// The process that coordinates the ranks, if this rank cannot reach it.
    Coordinator,
    /// A rank, but it is not known which.
    SomeRank,
}

impl Blame {
    /// The connection between two ranks, in either order.
    pub fn link(a: u32, b: u32) -> Self {
        Self::Link { lower: a.min(b), higher: a.max(b) }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Link { lower, higher } => write!(f, "the link between rank {lower} and rank {higher}"),
            Self::Hub(hub) => write!(f, "hub {hub}"),
            Self::Rack(rack) => write!(f, "the hub of rack {rack}"),
            Self::Coordinator => f.write_str("the coordinator"),
            Self::SomeRank => f.write_str("some rank"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.blame, self.trouble)?;
        match &self.during {
            Some(FailedOperation { task, elapsed }) => {
                write!(f, " ({task}, after {:.3} s)", elapsed.as_secs_f64())
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// What happened on a connection or to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The kind of trouble.
    pub kind: FaultKind,
    /// A clause that describes it. Its subject is the party at fault.
    pub what: String,
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A connection was closed, for example because a process ended.
    Closed,
    /// A member has announced that it leaves, and is still needed.
    Left,
    /// Nothing arrived for too long.
    Silent,
    /// Invalid bytes or messages arrived.
    Corrupt,
    /// The caller's memory changed while it was being sent.
    Changed,
    /// Ranks request different operations.
    Differs,
    /// An operation took too long.
    Deadline,
}

impl FaultKind {
    /// Its name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Left => "left",
            Self::Silent => "silent",
            Self::Corrupt => "corrupt",
            Self::Changed => "changed",
            Self::Differs => "differs",
            Self::Deadline => "deadline",
        }
    }
}

impl Trouble {
    /// A connection was closed; `how` is the system's description.
    pub fn closed(how: &str) -> Self {
        Self { kind: FaultKind::Closed, what: format!("closed its connection ({how})") }
    }

    /// A member has left and is still needed.
    pub fn left() -> Self {
        Self { kind: FaultKind::Left, what: "has left, but other ranks still need it".to_owned() }
    }

    /// Nothing arrived for this long.
    pub fn silent(silence: Duration) -> Self {
        Self { kind: FaultKind::Silent, what: format!("sent nothing for {:.1} s", silence.as_secs_f64()) }
    }

    /// Part of a message arrived, and then nothing more for this long.
    pub fn stuck(silence: Duration) -> Self {
        let what = format!("stopped in the middle of a message for {:.1} s", silence.as_secs_f64());
        Self { kind: FaultKind::Silent, what }
    }

    /// All others are silent: either this rank is cut off, or all others are gone. It cannot tell which.
    pub fn cut_off() -> Self {
        let what = "receives nothing from any peer: its network is down, or all others have ended".to_owned();
        Self { kind: FaultKind::Silent, what }
    }

    /// Other ranks saw a rank close its connections, and the coordinator, in the process of rank `host`, did not.
    pub fn unseen(rank: u32, host: u32) -> Self {
        let what = format!(
            "carries nothing: other ranks saw rank {rank} close its connections, but the coordinator, on rank {host}'s \
             host, did not"
        );
        Self { kind: FaultKind::Silent, what }
    }

    /// A thread of this program failed, which is always a bug.
    pub fn bug() -> Self {
        let what = "failed, which is a bug in syncline: please report it".to_owned();
        Self { kind: FaultKind::Closed, what }
    }

    /// Memory of an operation changed while it was being sent: the rank at fault wrote to it before the operation
    /// ended.
    pub fn changed(sequence: u64, chunk: u32) -> Self {
        let what = format!(
            "changed the memory of an operation while it was being sent (operation {sequence}, chunk {chunk}): \
             wait for the operation before you write to its memory"
        );
        Self { kind: FaultKind::Changed, what }
    }

    /// The memory of a send changed while it was being sent: this rank wrote to it before the send ended.
    pub fn changed_send(to: u32, tag: i64) -> Self {
        let what = format!(
            "changed the memory of a send to rank {to} (tag {tag}) while it was being sent: wait for the send before \
             you write to its memory"
        );
        Self { kind: FaultKind::Changed, what }
    }

    /// An operation has not ended after this long.
    pub fn deadline(elapsed: Duration) -> Self {
        Self {
            kind: FaultKind::Deadline,
            what: format!("had not completed the operation after {:.1} s", elapsed.as_secs_f64()),
        }
    }
}

impl From<ProtocolError> for Trouble {
    fn from(broken: ProtocolError) -> Self {
        let kind = if matches!(
            broken,
            ProtocolError::Differs { .. } | ProtocolError::NoPlan { .. } | ProtocolError::NoEdition { .. }
        ) {
            FaultKind::Differs
        } else {
            FaultKind::Corrupt
        };
        Self { kind, what: broken.to_string() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Why the bytes that arrive on a connection are invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The frame is of an unknown kind, with this code.
    UnknownFrame(u16),
    /// The checksum of this frame is wrong: the frame changed on its way, or another should have come before it.
    Checksum(Header),
    /// The frame belongs to another epoch.
    Epoch {
        /// The frame's header, which holds its epoch.
        header: Header,
        /// The epoch of this side.
        ours: u16,
    },
    /// This side expects no such operation, chunk or message.
    Unknown(Header),
    /// The same message has come before.
    Twice(Header),
    /// Bytes of collectives that this rank has not begun: more than a peer sends that obeys
    /// [`Hold`](crate::wire::FrameKind::Hold).
    Flood(usize),
    /// A gradient for the vector with this name, whose parameters have not been set.
    NoParameters(String),
    /// The peer runs an operation by an edition of the plan book that this rank does not have.
    NoEdition {
        /// This rank.
        rank: u32,
        /// The edition of the plan book.
        edition: u32,
    },
    /// The peer announces an operation for which this rank has no plan.
    NoPlan {
        /// This rank.
        rank: u32,
        /// The operation.
        operation: Operation,
    },
    /// The peer announces a different operation under the same number.
    Differs {
        /// This rank.
        rank: u32,
        /// What the two announce.
        announced: Box<Announced>,
    },
}

/// What two ranks announce under the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// What this rank asks for.
    pub ours: Announcement,
    /// What the peer asks for.
    pub theirs: Announcement,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFrame(code) => write!(f, "sent a frame of unknown kind {code:#06x}"),
            Self::Checksum(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent a frame that changed on its way or is out of order ")?;
                write!(f, "(operation {sequence}, chunk {chunk})")
            }
            Self::Epoch { header, ours } => {
                write!(f, "sent a frame of epoch {}, but the job is in epoch {ours}", header.epoch)
            }
            Self::Unknown(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent an unexpected message (operation {sequence}, chunk {chunk})")
            }
            Self::Twice(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent the same message twice (operation {sequence}, chunk {chunk})")
            }
            Self::Flood(bytes) => {
                let ahead = *bytes as f64 / 1e6;
                write!(
                    f,
                    "sent {ahead:.0} MB of collectives that this rank has not begun, which is over the limit"
                )
            }
            Self::NoParameters(name) => {
                write!(f, "pushed a gradient for `{name}` before its parameters were set")
            }
            Self::NoPlan { rank, operation } => {
                write!(f, "asks for {operation}, for which rank {rank} has no plan")
            }
            Self::NoEdition { rank, edition } => {
                write!(
                    f,
                    "runs an operation by edition {edition} of the plans, which rank {rank} does not have"
                )
            }
            Self::Differs { rank, announced } => {
                let Announced { ours, theirs } = &**announced;
                if ours.operation == theirs.operation {
                    write!(f, "runs a different plan from rank {rank}'s for {}", ours.operation)?;
                    return write!(f, " ({} chunks instead of {})", theirs.chunks, ours.chunks);
                }
                write!(f, "asks for {}, but rank {rank} asks for {}", theirs.operation, ours.operation)
            }
        }
    }
}

impl std::error::Error for ProtocolError {}
