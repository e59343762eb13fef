//! The system layer of each rank: chunks, queues, phases, timers. ASTRA-sim 2, `Sys.cc`.
//!
//! - [`layout`]: the dimensions and algorithms of a collective;
//! - [`plan`]: chunks and phases of a collective;
//! - [`queues`]: which chunk runs when;
//! - [`streams`]: a chunk on a rank, from its first phase to its last;
//! - [`custom`]: algorithms given as execution traces;
//! - [`bus`]: the LogGP model of the memory bus;
//! - [`timers`]: a rank's timers, coalesced by time;
//! - [`tags`]: the tags of messages.

pub(crate) mod bus;
pub(crate) mod custom;
pub(crate) mod layout;
pub(crate) mod plan;
pub(crate) mod queues;
pub(crate) mod streams;
pub(crate) mod tags;
pub(crate) mod timers;
