//! The collective algorithms as state machines, one file each. A machine belongs to one chunk on one rank in
//! one phase. It receives an event (`Happened`) and returns commands (`Command`). It knows neither time nor
//! network.
//!
//! - `ring`: `ring`, and the code that `direct` shares with it;
//! - `direct`: `direct` and `directN`;
//! - `halving_doubling`: the algorithm `halvingDoubling`;
//! - `tree`: the algorithm `doubleBinaryTree`.
//!
//! ASTRA-sim 2, `astraccl/native_collectives/collective_algorithm/*.cc`.

pub(crate) mod direct;
pub(crate) mod halving_doubling;
pub(crate) mod ring;
pub(crate) mod tree;

use crate::system::bus::Insertion;
use halving_doubling::HalvingDoubling;
use ring::Ring;
use tree::Tree;

/// The result that a collective guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pattern {
    /// Every rank ends with the reduction.
    AllReduce,
    /// Every rank ends with every rank's shard.
    AllGather,
    /// Every rank ends with its block of the reduction.
    ReduceScatter,
    /// Every rank ends with its block of every rank.
    AllToAll,
}

impl Pattern {
    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
        }
    }
    /// Returns the key of its implementation list.
    pub const fn key(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce-implementation",
            Self::AllGather => "all-gather-implementation",
            Self::ReduceScatter => "reduce-scatter-implementation",
            Self::AllToAll => "all-to-all-implementation",
        }
    }
}

/// An event of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The phase begins.
    Start,
    /// An insertion has passed the endpoint.
    Inserted,
    /// An expected message has arrived.
    Received,
}

/// A command of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Pass something through the endpoint.
    Insert(Insertion),
    /// Send to one rank, then receive from another.
    Exchange { to: u32, from: u32, bytes: u64 },
    /// Send.
    Send { to: u32, bytes: u64 },
    /// Receive.
    Receive { from: u32, bytes: u64 },
    /// The phase is complete; always the last command.
    Done,
}

/// The ranks of a phase, as one of them sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members<'a> {
    /// Number of ranks.
    pub(crate) count: u32,
    /// The position of this rank.
    pub(crate) me: u32,
    /// The rank at position 0, if `list` is `None`.
    pub(crate) base: u32,
    /// The distance of neighbours, if `list` is `None`.
    pub(crate) stride: u32,
    /// The ranks, if they are listed.
    pub(crate) list: Option<&'a [u32]>,
}

impl Members<'_> {
    /// Returns the rank at a position.
    #[inline]
    pub(crate) fn at(&self, position: u32) -> u32 {
        match self.list {
            Some(list) => list[position as usize],
            None => self.base + position * self.stride,
        }
    }
    /// Returns the rank `distance` positions ahead, or behind if not `forward`.
    #[inline]
    pub(crate) fn beside(&self, distance: u32, forward: bool) -> u32 {
        let shift = if forward { distance } else { self.count - distance };
        let position = self.me + shift;
        self.at(if position >= self.count { position - self.count } else { position })
    }
}

/// The machine of a chunk in a phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Machine {
    /// None yet.
    #[default]
    Idle,
    Ring(Ring),
    HalvingDoubling(HalvingDoubling),
    Tree(Tree),
}

impl Machine {
    /// Passes an event to the machine, and appends its commands to `wants`.
    #[inline]
    pub(crate) fn step(&mut self, happened: Happened, members: &Members<'_>, wants: &mut Vec<Command>) {
        match self {
            Self::Idle => {}
            Self::Ring(ring) => ring.step(happened, members, wants),
            Self::HalvingDoubling(machine) => machine.step(happened, members, wants),
            Self::Tree(tree) => tree.step(happened, wants),
        }
    }
}

/// Returns the bytes that a rank holds after a phase over `count` ranks, on which the next phase works;
/// `None` if they do not fit in 64 bits. (`final_data_size` in `Ring.cc`, `HalvingDoubling.cc`.)
pub(crate) fn bytes_after(pattern: Pattern, bytes: u64, count: u32) -> Option<u64> {
    match pattern {
        Pattern::AllReduce | Pattern::AllToAll => Some(bytes),
        Pattern::AllGather => bytes.checked_mul(count.into()),
        Pattern::ReduceScatter => Some(bytes / u64::from(count)),
    }
}
