//! The `packet` network model: packets, switches with finite buffers, TCP (dlrm2020, III-C and IV).
//!
//! - [`parameters`]: what can be set;
//! - [`packet`], [`port`], [`queue`]: what travels, where it waits, what happens next;
//! - [`tcp`]: the transport, one direction of a connection;
//! - [`simulation`]: all of that on a network, told of by a [`Sink`];
//! - [`network`]: that behind the engine's network interface; `tables`: what it tells.

pub mod network;
pub mod packet;
pub mod parameters;
pub mod port;
pub mod queue;
pub mod simulation;
mod tables;
pub mod tcp;

pub use network::Packets;
pub use parameters::{Congestion, Parameters};
pub use simulation::{Simulation, Sink};
