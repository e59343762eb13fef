//! Symbolic storage: for every element, which ranks' contributions it contains, and of which element of the vector.
//!
//! There are as many elements as the plan needs to distinguish; each represents a run of the real vector.

use crate::program::Buffer;
use syncline_units::Extent;

/// Origin of an element without a value.
const NOTHING: u32 = u32::MAX;

/// A run of values. For each value: its element of the vector, and the set of ranks that contributed (`words` words
/// of bits).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    origin: Vec<u32>,
    ranks: Vec<u64>,
}

impl Values {
    pub(crate) fn len(&self) -> u64 {
        self.origin.len() as u64
    }
    fn nothing(len: usize, words: usize) -> Self {
        Self { origin: vec![NOTHING; len], ranks: vec![0; len * words] }
    }
}

/// The storage of one seat.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    buffers: [Values; 3],
    /// Whether an empty `Data` is the neutral element of the reduction.
    neutral: bool,
}

/// Most words of storage.
pub(crate) const MAX_WORDS: u64 = 1 << 26;

/// Most words moved.
const MAX_WORK: u64 = 1 << 33;

/// The storage of all seats.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    words: usize,
    elements: usize,
    /// Words by which output and scratch have grown, and words moved. Limited, because plans from files may be large.
    grown: u64,
    moved: u64,
    /// How many words it may grow by.
    most: u64,
    pub(crate) seats: Vec<Memory>,
}

impl Storage {
    /// Empty storage for vectors of `elements` elements, with contributions of `ranks` ranks.
    pub(crate) fn new(ranks: u32, elements: u64) -> Self {
        let words = (ranks as usize).div_ceil(64);
        Self { words, elements: elements as usize, grown: 0, moved: 0, most: MAX_WORDS, seats: Vec::new() }
    }
    /// Limits the growth of output and scratch to `most` words.
    pub(crate) fn within(self, most: u64) -> Self {
        Self { most, ..self }
    }
    /// Adds a seat: a helper, whose `Data` is neutral, or a rank.
    pub(crate) fn add(&mut self, helper: bool) {
        let data = Values::nothing(self.elements, self.words);
        self.seats.push(Memory { buffers: [data, Values::default(), Values::default()], neutral: helper });
    }
    /// Fills in the vector of rank `rank`.
    pub(crate) fn fill(&mut self, seat: usize, rank: u32, extent: Extent) {
        let words = self.words;
        let data = &mut self.seats[seat].buffers[Buffer::Data as usize];
        for element in extent.start as usize..extent.end as usize {
            data.origin[element] = element as u32;
            data.ranks[element * words + rank as usize / 64] |= 1 << (rank % 64);
        }
    }

    /// Reads values.
    pub(crate) fn read(&mut self, seat: usize, buffer: Buffer, extent: Extent) -> Result<Values, String> {
        self.moved += extent.len() * (self.words as u64 + 1);
        if self.moved > MAX_WORK {
            return Err("moves more data than a proof can follow".to_owned());
        }
        let values = &self.seats[seat].buffers[buffer as usize];
        let (start, end) = (extent.start as usize, extent.end as usize);
        let missing = (start..end).find(|&at| values.origin.get(at).is_none_or(|&o| o == NOTHING));
        if let Some(at) = missing {
            return Err(format!("reads {}, which holds nothing yet", self.name(buffer, at)));
        }
        Ok(Values {
            origin: values.origin[start..end].to_vec(),
            ranks: values.ranks[start * self.words..end * self.words].to_vec(),
        })
    }

    /// Writes values, or reduces them into the values there.
    pub(crate) fn write(
        &mut self,
        seat: usize,
        buffer: Buffer,
        extent: Extent,
        what: &Values,
        reduce: bool,
    ) -> Result<(), String> {
        if what.len() != extent.len() {
            return Err(format!("writes {} elements into space for {}", what.len(), extent.len()));
        }
        let (words, start, end) = (self.words, extent.start as usize, extent.end as usize);
        let neutral = self.seats[seat].neutral && buffer == Buffer::Data;
        let values = &mut self.seats[seat].buffers[buffer as usize];
        if values.origin.len() < end {
            self.grown += (end - values.origin.len()) as u64 * (words as u64 + 1);
            if self.grown > self.most {
                return Err("uses more output and scratch than a proof can follow".to_owned());
            }
            values.origin.resize(end, NOTHING);
            values.ranks.resize(end * words, 0);
        }
        if !reduce {
            values.origin[start..end].copy_from_slice(&what.origin);
            values.ranks[start * words..end * words].copy_from_slice(&what.ranks);
            return Ok(());
        }
        for (at, &origin) in (start..end).zip(&what.origin) {
            let there = values.origin[at];
            if there == NOTHING && !neutral {
                return Err(format!("reduces into {}, which holds nothing yet", self.name(buffer, at)));
            }
            if there != NOTHING && there != origin {
                return Err(format!(
                    "reduces element {origin} into {}, which holds element {there}",
                    self.name(buffer, at)
                ));
            }
            values.origin[at] = origin;
            let from = (at - start) * words;
            for word in 0..words {
                let (old, new) = (&mut values.ranks[at * words + word], what.ranks[from + word]);
                if *old & new != 0 {
                    let rank = word as u32 * 64 + (*old & new).trailing_zeros();
                    return Err(format!(
                        "adds the contribution of rank {rank} to {} a second time",
                        self.name(buffer, at)
                    ));
                }
                *old |= new;
            }
        }
        Ok(())
    }

    /// Makes `from` the new `Data`, in the order of `key` of the elements' origins.
    pub(crate) fn turn_over(&mut self, seat: usize, from: Buffer, key: impl Fn(u32) -> u32) {
        let words = self.words;
        let buffers = &mut self.seats[seat].buffers;
        let source = std::mem::take(&mut buffers[from as usize]);
        let mut order: Vec<usize> = (0..source.origin.len()).collect();
        order.sort_by_key(|&at| key(source.origin[at]));
        buffers[Buffer::Data as usize] = Values {
            origin: order.iter().map(|&at| source.origin[at]).collect(),
            ranks: order
                .iter()
                .flat_map(|&at| source.ranks[at * words..(at + 1) * words].iter().copied())
                .collect(),
        };
    }

    /// The elements of a buffer, each with its origin and its only contributor (`None` if there are none or several).
    pub(crate) fn single(&self, seat: usize, buffer: Buffer) -> Vec<(u32, Option<u32>)> {
        let values = &self.seats[seat].buffers[buffer as usize];
        let only = |at: usize| {
            let mut ranks = (0..self.words * 64).filter(|&rank| self.has(values, at, rank));
            let first = ranks.next()?;
            ranks.next().is_none().then_some(first as u32)
        };
        (0..values.origin.len()).map(|at| (values.origin[at], only(at))).collect()
    }

    fn has(&self, values: &Values, at: usize, rank: usize) -> bool {
        values.ranks[at * self.words + rank / 64] >> (rank % 64) & 1 == 1
    }

    /// Compares an element with the expected one: element `origin` with the contributions of `want`.
    pub(crate) fn expect(
        &self,
        seat: usize,
        buffer: Buffer,
        at: u64,
        origin: u64,
        want: Want,
        ranks: u32,
    ) -> Result<(), String> {
        let values = &self.seats[seat].buffers[buffer as usize];
        let at = at as usize;
        let found = values.origin.get(at).copied().unwrap_or(NOTHING);
        if found == NOTHING {
            return Err(format!("ends with nothing in {}", self.name(buffer, at)));
        }
        if u64::from(found) != origin {
            return Err(format!(
                "ends with element {found} in {}, where element {origin} belongs",
                self.name(buffer, at)
            ));
        }
        let there = &values.ranks[at * self.words..(at + 1) * self.words];
        if there.iter().enumerate().all(|(word, &there)| there == want.word(word as u32, ranks)) {
            return Ok(());
        }
        for rank in 0..ranks {
            let (has, wanted) = (self.has(values, at, rank as usize), want.wants(rank));
            if wanted && !has {
                return Err(format!(
                    "ends without the contribution of rank {rank} in {}",
                    self.name(buffer, at)
                ));
            }
            if has && !wanted {
                return Err(format!(
                    "ends with a contribution of rank {rank} in {}, which does not belong there",
                    self.name(buffer, at)
                ));
            }
        }
        Ok(())
    }

    fn name(&self, buffer: Buffer, at: usize) -> String {
        let buffer = match buffer {
            Buffer::Data => "data",
            Buffer::Output => "output",
            Buffer::Scratch => "scratch",
        };
        format!("block {at} of {} of its {buffer}", self.elements)
    }
}

/// The expected contributions to an element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    All,
    Only(u32),
}

impl Want {
    /// Word `word` of the set.
    fn word(self, word: u32, ranks: u32) -> u64 {
        match self {
            Self::All if ranks - word * 64 >= 64 => u64::MAX,
            Self::All => (1 << (ranks - word * 64)) - 1,
            Self::Only(only) if only / 64 == word => 1 << (only % 64),
            Self::Only(_) => 0,
        }
    }
    fn wants(self, rank: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(only) => only == rank,
        }
    }
}
