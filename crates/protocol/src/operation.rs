//! What a rank asks for: one collective over a vector of elements.

use std::fmt;
use syncline_reduction::{Element, Reduction, offered};
use syncline_units::CollectiveKind;

/// In which association contributions that arrive in any order are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Association {
    /// As they arrive. Sums of floats may differ from run to run within [`syncline_reduction::error_bound`].
    Arrival,
    /// In the order of seats, whatever arrives first: bit for bit the same in every run. Contributions that a plan lets
    /// arrive in any order are combined from the lowest seat to the highest, what the seat itself has in its own place
    /// among them: `((x0 + x1) + x2) + x3` with a hub and with `direct`.
    Seats,
}

impl Association {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Seats => "seats",
        }
    }
}

/// One collective, as all its ranks must ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it promises.
    pub kind: CollectiveKind,
    /// Elements of the full vector: what a rank contributes to an all-reduce, reduce-scatter or all-to-all, what it gets
    /// from an all-gather or broadcast.
    pub elements: u64,
    /// What they are.
    pub element: Element,
    /// How they are combined; of no meaning where nothing is.
    pub reduction: Reduction,
    /// The rank that a broadcast comes from, or that a reduce goes to; else 0.
    pub root: u32,
    /// How far the order of arrival may matter.
    pub association: Association,
}

impl Operation {
    /// Bytes of the full vector.
    ///
    /// # Panics
    /// Where that is more than 2^64: [`Operation::check`] refuses it.
    pub fn bytes(&self) -> u64 {
        self.elements * self.element.bytes() as u64
    }

    /// Whether elements are combined at all.
    pub const fn reduces(&self) -> bool {
        matches!(
            self.kind,
            CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce
        )
    }

    /// Whether ranks get or bring blocks of their own, so that the vector must divide by their number.
    pub const fn by_rank(&self) -> bool {
        matches!(
            self.kind,
            CollectiveKind::ReduceScatter | CollectiveKind::AllGather | CollectiveKind::AllToAll
        )
    }

    /// That the operation makes sense for `ranks` ranks.
    ///
    /// # Errors
    /// A sentence that says which rule it breaks.
    pub fn check(&self, ranks: u32) -> Result<(), String> {
        const MOST: u64 = 1 << 48;
        if self.elements > MOST {
            return Err(format!(
                "{} elements are more than the {MOST} that a vector may have",
                self.elements
            ));
        }
        if self.by_rank() && !self.elements.is_multiple_of(u64::from(ranks)) {
            let (kind, elements) = (self.kind, self.elements);
            return Err(format!(
                "{kind} of {elements} elements on {ranks} ranks: the vector must divide by them"
            ));
        }
        if self.root >= ranks {
            return Err(format!(
                "there is no rank {} to be the root: ranks are 0 to {}",
                self.root,
                ranks - 1
            ));
        }
        if self.reduces() {
            offered(self.element, self.reduction).map_err(|refusal| refusal.to_string())?;
        }
        Ok(())
    }
}

/// What a rank asks for, and how it means to do it: what a `Begin` frame carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The collective.
    pub operation: Operation,
    /// Tells plans and the order of ranks apart.
    pub digest: u64,
    /// Into how many chunks the vector is cut.
    pub chunks: u32,
}

impl Asked {
    /// Bytes of [`Asked::encode`].
    pub const ENCODED: usize = 32;

    /// As bytes, little-endian.
    pub fn encode(&self) -> [u8; Self::ENCODED] {
        let Self { operation, digest, chunks } = self;
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = place(CollectiveKind::ALL, &operation.kind);
        bytes[1] = place(Element::ALL, &operation.element);
        bytes[2] = place(Reduction::ALL, &operation.reduction);
        bytes[3] = u8::from(operation.association == Association::Seats);
        bytes[4..8].copy_from_slice(&operation.root.to_le_bytes());
        bytes[8..16].copy_from_slice(&operation.elements.to_le_bytes());
        bytes[16..24].copy_from_slice(&digest.to_le_bytes());
        bytes[24..28].copy_from_slice(&chunks.to_le_bytes());
        bytes
    }

    /// What [`Asked::encode`] wrote; none where it did not write it.
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
        Some(Self { operation, digest: long(16), chunks: word(24) })
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
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
    /// Its name, as Python and messages have it.
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
