//! Spans: what the traced ranks did when.

use syncline_units::{Bytes, RankId, Time};

/// The track on which a span is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// The rank's compute.
    Compute,
    /// Whole collectives and point-to-point transfers, from issue to end.
    Communication,
    /// Time in which compute is idle and waits for the network.
    Exposed,
    /// Time in which compute is idle and waits for a message that another rank has not sent yet.
    Bubble,
    /// Time in which compute is idle and waits for a collective that another rank has not issued yet.
    Skew,
    /// Memory operations.
    Memory,
    /// Messages in one dimension of the fabric.
    Dimension(u16),
}

impl Track {
    /// The tracks that every rank has, in the order in which they are drawn; dimensions follow.
    pub const OWN: [(Self, &str); 6] = [
        (Self::Compute, "compute"),
        (Self::Exposed, "exposed communication"),
        (Self::Bubble, "bubble"),
        (Self::Skew, "skew"),
        (Self::Communication, "communication"),
        (Self::Memory, "memory"),
    ];

    /// The position of the track among those of a rank, from top to bottom.
    pub fn place(self) -> u32 {
        match self {
            Self::Dimension(dim) => Self::OWN.len() as u32 + u32::from(dim),
            own => Self::OWN.iter().position(|&(each, _)| each == own).unwrap_or_default() as u32,
        }
    }
}

/// An activity of a rank that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The rank.
    pub rank: RankId,
    /// The track on which it is drawn.
    pub track: Track,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Index of its label in [`Spans::labels`].
    pub label: u32,
    /// Bytes moved; zero if it moves none.
    pub bytes: Bytes,
}

/// A point-to-point message, as an arrow from the span of its send to the span of its receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Index of the sending span in [`Spans::spans`].
    pub from: u32,
    /// Index of the receiving span in [`Spans::spans`].
    pub to: u32,
}

/// All spans of a run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Spans {
    /// The spans, in the order in which they were recorded.
    pub spans: Vec<Span>,
    /// Messages between spans.
    pub flows: Vec<Flow>,
    /// Distinct labels.
    pub labels: Vec<String>,
    /// Names of the fabric's dimensions, by the number in [`Track::Dimension`].
    pub dims: Vec<String>,
    /// Number of spans that were left out because there were too many.
    pub left_out: u64,
}
