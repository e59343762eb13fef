//! What goes wrong, and who is at fault.

use crate::operation::{Asked, Operation, Request};
use crate::wire::Header;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why an operation failed. It says who is at fault, what was under way, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who is at fault.
    pub blame: Blame,
    /// What happened.
    pub trouble: Trouble,
    /// What was under way: the operation's number (transfers have none), what it is, and how long it took until then; no time
    /// at all, where the communicator had failed before it began.
    pub during: Option<(u64, Errand, Duration)>,
}

/// What was under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// A collective among ranks.
    Collective(Operation),
    /// A vector's exchange with hubs: what is done, with which vector, and its bytes.
    Exchange(Request, String, u64),
    /// Bytes between two ranks.
    Transfer {
        /// Whether this rank sends them.
        sends: bool,
        /// The other rank; any, where it is absent.
        peer: Option<u32>,
        /// The application's tag; absent in a collective.
        tag: Option<i64>,
        /// How many.
        bytes: u64,
    },
}

impl From<Operation> for Errand {
    fn from(operation: Operation) -> Self {
        Self::Collective(operation)
    }
}

impl fmt::Display for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collective(operation) => write!(f, "{operation}, {} bytes", operation.bytes()),
            Self::Exchange(request, key, bytes) => write!(f, "{} of `{key}`, {bytes} bytes", request.name()),
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
    /// The connection between two ranks, the lower first.
    Link(u32, u32),
    /// A hub of the job, by its place among them.
    Hub(u32),
    /// The hub of a rack.
    Rack(u32),
    /// Whoever coordinates the ranks, from where this rank stands.
    Coordinator,
    /// Nobody that is known.
    Nobody,
}

impl Blame {
    /// The connection between two ranks.
    pub fn link(a: u32, b: u32) -> Self {
        Self::Link(a.min(b), a.max(b))
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Link(a, b) => write!(f, "the link between rank {a} and rank {b}"),
            Self::Hub(hub) => write!(f, "hub {hub}"),
            Self::Rack(rack) => write!(f, "the hub of rack {rack}"),
            Self::Coordinator => f.write_str("the coordinator"),
            Self::Nobody => f.write_str("some rank"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.blame, self.trouble)?;
        let Some((sequence, errand, elapsed)) = &self.during else { return Ok(()) };
        match errand {
            Errand::Transfer { .. } => write!(f, " ({errand}")?,
            _ => write!(f, " (operation {sequence}, {errand}")?,
        }
        write!(f, ", after {:.3} s)", elapsed.as_secs_f64())
    }
}

impl std::error::Error for Fault {}

/// What happened on a connection, or to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Which kind of thing.
    pub kind: Kind,
    /// A clause that says it, of which whoever is at fault is the subject.
    pub what: String,
}

/// Kinds of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A connection was closed, as it is when a process ends.
    Closed,
    /// A member has left, as it said, and is needed.
    Left,
    /// Nothing came for too long.
    Silent,
    /// What came cannot be believed.
    Corrupt,
    /// Memory that was being sent has changed under it.
    Changed,
    /// Ranks ask for different things.
    Differs,
    /// An operation takes too long.
    Deadline,
}

impl Trouble {
    /// A connection was closed: how the system says it.
    pub fn closed(how: &str) -> Self {
        Self { kind: Kind::Closed, what: format!("closed its connection ({how})") }
    }

    /// A member has left and is needed.
    pub fn left() -> Self {
        Self { kind: Kind::Left, what: "has left and is needed".to_owned() }
    }

    /// Nothing came for so long.
    pub fn silent(silence: Duration) -> Self {
        Self { kind: Kind::Silent, what: format!("gave no sign of life for {:.1} s", silence.as_secs_f64()) }
    }

    /// A message began to come in, and did not go on for so long.
    pub fn stuck(silence: Duration) -> Self {
        let what = format!("stopped in the middle of a message for {:.1} s", silence.as_secs_f64());
        Self { kind: Kind::Silent, what }
    }

    /// All others are silent: nothing reaches this one, or nobody is there any more, which it cannot tell apart.
    pub fn cut_off() -> Self {
        let what = "hears nobody: it is cut off from all others, or they are all gone".to_owned();
        Self { kind: Kind::Silent, what }
    }

    /// Others saw a rank close its connections; nothing of that came to the coordinator.
    pub fn unseen(rank: u32) -> Self {
        let what = format!(
            "carries nothing: others saw rank {rank} close its connections, and the coordinator, on rank 0's host, did not"
        );
        Self { kind: Kind::Silent, what }
    }

    /// A thread of ours has failed as none should.
    pub fn bug() -> Self {
        let what = "failed, which is a bug of syncline: please report it".to_owned();
        Self { kind: Kind::Closed, what }
    }

    /// The memory of an operation has changed while it was being sent: whoever is at fault wrote to it before it was over.
    pub fn changed(sequence: u64, chunk: u32) -> Self {
        let what = format!(
            "changed the memory of an operation that was under way, while it was being sent (operation {sequence}, chunk {chunk}): \
             wait for the operation first"
        );
        Self { kind: Kind::Changed, what }
    }

    /// The memory of a send has changed while it was being sent: this rank wrote to it before the send was over.
    pub fn changed_send(to: u32, tag: i64) -> Self {
        let what = format!(
            "changed the memory of a send to rank {to} (tag {tag}) while it was being sent: wait for the send first"
        );
        Self { kind: Kind::Changed, what }
    }

    /// An operation is not through after so long.
    pub fn deadline(elapsed: Duration) -> Self {
        Self {
            kind: Kind::Deadline,
            what: format!("was not through with the operation after {:.1} s", elapsed.as_secs_f64()),
        }
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        let kind = if matches!(broken, Broken::Differs(..) | Broken::NoPlan(..)) {
            Kind::Differs
        } else {
            Kind::Corrupt
        };
        Self { kind, what: broken.to_string() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Why what comes in on a connection cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// There is no such kind of frame.
    Kind(u16),
    /// The checksum of this frame does not hold: it changed on its way, or another should have come before it.
    Checksum(Header),
    /// The frame is of another epoch than this.
    Epoch(Header, u16),
    /// No such operation, chunk or message is awaited.
    Unknown(Header),
    /// The message has come before.
    Twice(Header),
    /// Bytes of collectives that have not begun here: more than a peer sends that holds when it is told to.
    Flood(usize),
    /// A gradient for a vector that has no parameters yet: its name.
    NoParameters(String),
    /// The peer runs something for which there is no plan here: who says so, and what.
    NoPlan(u32, Operation),
    /// The peer runs another operation at this place: who says so, ours and theirs.
    Differs(u32, Box<(Asked, Asked)>),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(code) => write!(f, "sent a frame of unknown kind {code:#06x}"),
            Self::Checksum(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent a frame that changed on its way, or is not the next one ")?;
                write!(f, "(operation {sequence}, chunk {chunk})")
            }
            Self::Epoch(header, epoch) => {
                write!(f, "sent a frame of epoch {}, and this is epoch {epoch}", header.epoch)
            }
            Self::Unknown(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent a message that nobody awaits (operation {sequence}, chunk {chunk})")
            }
            Self::Twice(header) => {
                let Header { sequence, chunk, .. } = header;
                write!(f, "sent the same message twice (operation {sequence}, chunk {chunk})")
            }
            Self::Flood(bytes) => {
                let ahead = *bytes as f64 / 1e6;
                write!(f, "sent {ahead:.0} MB of collectives that have not begun here, more than it may")
            }
            Self::NoParameters(name) => {
                write!(f, "pushed a gradient for `{name}`, of which no parameters have been set")
            }
            Self::NoPlan(us, operation) => {
                write!(f, "asks for {operation}, for which rank {us} has no plan")
            }
            Self::Differs(us, both) => {
                let (ours, theirs) = &**both;
                if ours.operation == theirs.operation {
                    write!(f, "runs another plan for {}", ours.operation)?;
                    return write!(f, " than rank {us} ({} and {} chunks)", theirs.chunks, ours.chunks);
                }
                write!(f, "asks for {}, where rank {us} asks for {}", theirs.operation, ours.operation)
            }
        }
    }
}

impl std::error::Error for Broken {}
