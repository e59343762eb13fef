//! The operations that ranks request: collectives over vectors of elements, and exchanges with parameter hubs.

use std::fmt;
use syncline_reduction::{Element, Reduction, offered};
use syncline_units::CollectiveKind;

/// The order in which contributions that arrive in any order are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// In order of arrival. Sums of floats may differ from run to run within [`syncline_reduction::error_bound`].
    Arrival,
    /// In the order of seats, whatever arrives first, so that the result is bit for bit the same in every run.
    /// Contributions that a plan lets arrive in any order are combined from the lowest seat to the highest, with the
    /// seat's own contribution in its place: `((x0 + x1) + x2) + x3` with a hub and with `direct`.
    Seats,
}

impl Association {
    /// The name in configurations and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Seats => "seats",
        }
    }
}

/// A collective. All its ranks must request the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Which collective.
    pub kind: CollectiveKind,
    /// Elements of the full vector: what a rank contributes to an all-reduce, reduce-scatter or all-to-all, or gets
    /// from an all-gather or broadcast.
    pub elements: u64,
    /// Their type.
    pub element: Element,
    /// How they are combined; ignored by collectives that do not reduce.
    pub reduction: Reduction,
    /// The source of a broadcast, or the destination of a reduce; else 0.
    pub root: u32,
    /// The order in which contributions are combined.
    pub association: Association,
}

impl Operation {
    /// Bytes of the full vector.
    ///
    /// # Panics
    /// If that is 2^64 or more, which [`Operation::check`] rejects.
    pub fn bytes(&self) -> u64 {
        self.elements * self.element.bytes() as u64
    }

    /// The number of binary digits of the size in bytes, by which operations are put into classes of similar sizes. That
    /// of an invalid operation, whose size is not a number, is 64.
    pub fn size_digits(&self) -> u32 {
        let bytes = self.elements.saturating_mul(self.element.bytes() as u64);
        u64::BITS - bytes.leading_zeros()
    }

    /// Whether elements are combined.
    pub const fn reduces(&self) -> bool {
        self.kind.reduces()
    }

    /// Whether ranks contribute or get blocks of their own, so that the length of the vector must be a multiple of
    /// the number of ranks.
    pub const fn by_rank(&self) -> bool {
        self.kind.has_blocks()
    }

    /// Checks that the operation is valid for `ranks` ranks.
    ///
    /// # Errors
    /// A sentence that says which rule the operation breaks.
    pub fn check(&self, ranks: u32) -> Result<(), String> {
        const MOST: u64 = 1 << 48;
        if self.elements > MOST {
            return Err(format!("the vector has {} elements: at most {MOST} are allowed", self.elements));
        }
        if self.by_rank() && !self.elements.is_multiple_of(u64::from(ranks)) {
            let (kind, elements) = (self.kind, self.elements);
            return Err(format!(
                "{kind} of {elements} elements on {ranks} ranks: the number of elements must be a multiple of the \
                 number of ranks"
            ));
        }
        if self.root >= ranks {
            return Err(format!("root rank {} does not exist: ranks are 0 to {}", self.root, ranks - 1));
        }
        if self.reduces() {
            offered(self.element, self.reduction).map_err(|refusal| refusal.to_string())?;
        }
        Ok(())
    }
}

/// What a rank announces about an operation with a `Begin` frame: the collective, and how the rank runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The collective.
    pub operation: Operation,
    /// Identifies the plan and the order of ranks.
    pub digest: u64,
    /// Number of chunks into which the vector is cut.
    pub chunks: u32,
    /// The edition of the plan book that the rank runs it by.
    pub edition: u32,
}

impl Announcement {
    /// Bytes that [`Announcement::encode`] returns.
    pub const ENCODED: usize = 32;

    /// Encodes it, little-endian.
    pub fn encode(&self) -> [u8; Self::ENCODED] {
        let Self { operation, digest, chunks, edition } = self;
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = position(CollectiveKind::ALL, &operation.kind);
        bytes[1] = position(Element::ALL, &operation.element);
        bytes[2] = position(Reduction::ALL, &operation.reduction);
        bytes[3] = u8::from(operation.association == Association::Seats);
        bytes[4..8].copy_from_slice(&operation.root.to_le_bytes());
        bytes[8..16].copy_from_slice(&operation.elements.to_le_bytes());
        bytes[16..24].copy_from_slice(&digest.to_le_bytes());
        bytes[24..28].copy_from_slice(&chunks.to_le_bytes());
        bytes[28..32].copy_from_slice(&edition.to_le_bytes());
        bytes
    }

    /// Decodes what [`Announcement::encode`] returned; none for other bytes.
    pub fn decode(bytes: &[u8; Self::ENCODED]) -> Option<Self> {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let operation = Operation {
            kind: *CollectiveKind::ALL.get(usize::from(bytes[0]))?,
            element: *Element::ALL.get(usize::from(bytes[1]))?,
            reduction: *Reduction::ALL.get(usize::from(bytes[2]))?,
            association: [Association::Arrival, Association::Seats].get(usize::from(bytes[3])).copied()?,
            root: word(4),
            elements: long(8),
        };
        Some(Self { operation, digest: long(16), chunks: word(24), edition: word(28) })
    }
}

fn position<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|each| each == one).expect("it is one of all") as u8
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.kind, self.elements, self.element)?;
        if self.reduces() {
            write!(f, " ({})", self.reduction)?;
        }
        match self.kind {
            CollectiveKind::Broadcast => write!(f, " from rank {}", self.root),
            CollectiveKind::Reduce => write!(f, " to rank {}", self.root),
            _ => Ok(()),
        }
    }
}

/// What a worker asks a parameter hub to do with a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Adds the worker's vector to the step.
    Push,
    /// Adds the worker's vector to the step and returns the result, in one exchange instead of two.
    PushPull,
    /// Returns the vector as it is after everything that this worker has pushed, or later.
    Pull,
    /// Sets the vector to the worker's values, such as the first parameters.
    Set,
}

impl Request {
    /// The name in Python and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::PushPull => "push_pull",
            Self::Pull => "pull",
            Self::Set => "set",
        }
    }

    /// Whether the worker sends a vector.
    pub const fn sends(self) -> bool {
        !matches!(self, Self::Pull)
    }

    /// Whether the worker receives a vector.
    pub const fn receives(self) -> bool {
        matches!(self, Self::PushPull | Self::Pull)
    }
}
