//! The `packet` network model: packets, switches with finite buffers, TCP (dlrm2020, III-C and IV) and RDMA.
//!
//! - [`parameters`]: what can be set; `check`: what of it is impossible; `profile`: the same as connections use it;
//! - [`framing`]: what links add to packets; [`layout`]: links and switches;
//! - [`packet`], [`queue`]: what travels, and what happens next;
//! - [`port`], `marking`: where packets wait, and which are marked; `gate`, `switching`: the same where ports share a
//!   buffer or are told to pause; `round_robin`: which input of a forwarding NPU sends next;
//! - `flow`: a connection and its messages; `ways`: the ports that it leads over; [`tcp`], [`rdma`]: what carries them;
//! - [`simulation`]: all of that on a network, told of by a [`Sink`]; [`meter`]: queues and losses over time; [`stalls`]:
//!   what time-outs cost;
//! - [`network`]: that behind the engine's network interface; `tables`: what it tells.

mod check;
pub(crate) mod flow;
pub mod framing;
mod gate;
pub mod layout;
mod marking;
pub mod meter;
pub mod network;
pub mod packet;
pub mod parameters;
pub mod port;
mod profile;
pub mod queue;
pub mod rdma;
mod round_robin;
pub mod simulation;
pub mod stalls;
mod switching;
mod tables;
pub mod tcp;
mod trips;
mod ways;

pub use framing::Framing;
pub use layout::{Layout, Link, Switch};
pub use network::{Packets, Settings};
pub use parameters::{Congestion, Marking, Parameters, Sharing, Transport};
pub use rdma::Dcqcn;
pub use simulation::{Simulation, Sink};
