//! The `packet` network model: packets, switches with finite buffers, TCP (dlrm2020, III-C and IV) and RDMA.
//!
//! - [`parameters`]: what can be set; `check`: rejects what is impossible; `profile`: parameters in the form
//!   that connections use;
//! - [`framing`]: what links add to packets; [`layout`]: links and switches;
//! - [`packet`], [`queue`]: packets, and the queue of events;
//! - [`port`], `marking`: where packets wait, and which are marked; `pausable_queue`, `switching`: the same for ports
//!   that share a buffer or may be paused; `round_robin`: which input of a forwarding NPU sends next;
//! - `flow`: a connection and its messages; `paths`: the ports on its paths; [`tcp`], [`rdma`]: its transport;
//! - [`simulation`]: all of these on one network, reporting to a [`Sink`]; [`meter`]: queues and losses over
//!   time; [`stalls`]: what time-outs cost;
//! - [`network`]: the model behind the engine's network interface; `trips`: messages on the critical path;
//!   `tables`: result tables.

mod check;
pub(crate) mod flow;
pub mod framing;
pub mod layout;
mod marking;
pub mod meter;
pub mod network;
pub mod packet;
pub mod parameters;
mod paths;
mod pausable_queue;
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

pub use flow::ConnectionKey;
pub use framing::Framing;
pub use layout::{Layout, Link, Switch};
pub use network::{PacketSettings, Packets};
pub use parameters::{Congestion, Marking, Parameters, Sharing, Transport};
pub use rdma::Dcqcn;
pub use simulation::{Simulation, Sink};
