//! Runs plans for real: collectives over tensors, on the plans that were simulated.
//!
//! The protocol is written without sockets, clocks and threads; transports drive it. In reading order:
//!
//! - [`operation`]: what a rank asks for;
//! - [`script`]: one seat's plan, compiled; [`cut`]: how a vector becomes chunks; [`shape`]: which plan runs what;
//!   [`racks`]: what follows from where ranks are;
//! - [`memory`]: regions of tensors and buffers of our own;
//! - [`wire`]: frames; `link`: one connection's frames in and out;
//! - [`lane`]: the chunks that one thread works on, with a connection to each peer;
//! - [`hub`]: a server that sums for workers; [`machine`]: what all that talk to peers have in common;
//! - [`transport`]: what carries bytes between lanes;
//! - [`executor`]: lanes on threads and sockets, `affinity`: each on a CPU of its own; [`session`]: members that meet over TCP;
//! - `extract`: taking entries out of a map; `descriptors`: how many a process may have;
//! - [`handshake`]: who speaks; [`certificates`]: who may; [`pulse`]: signs of life; [`control`]: members and their coordinator; [`fault`]: what goes wrong, and who is at fault;
//!   [`forks`]: processes that are forked.

mod affinity;
pub mod certificates;
pub mod control;
pub mod cut;
mod descriptors;
pub mod executor;
mod extract;
pub mod fault;
pub mod forks;
pub mod handshake;
pub mod hub;
pub mod lane;
mod link;
pub mod machine;
pub mod memory;
pub mod operation;
pub mod pulse;
pub mod racks;
pub mod script;
pub mod session;
pub mod shape;
pub mod transport;
pub mod wire;
