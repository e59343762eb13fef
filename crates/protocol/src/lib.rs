//! The protocol of ranks that run collectives: state machines without sockets, clocks or threads, which transports drive.
//!
//! In reading order:
//!
//! - [`operation`]: what a rank asks for; [`settings`]: how it is run;
//! - [`script`]: the compiled plan of one rank; [`cut`]: how a vector is split into chunks; [`shape`]: which plan runs which
//!   operation; [`racks`]: rank orders and groups that follow from where ranks are;
//! - [`memory`]: regions of tensors, and buffers of our own;
//! - [`wire`]: frames; [`link`]: one connection's frames in and out; [`codec`]: control messages;
//! - [`machine`]: what every state machine that talks to peers offers to a transport;
//! - [`lane`]: the chunks that one thread works on, with a connection to each peer;
//! - [`handshake`]: how two processes identify each other; [`heartbeat`]: silent and stuck peers;
//! - [`fault`]: what goes wrong, and who is at fault;
//! - [`virtual_network`]: state machines joined in one thread and virtual time, for tests;
//! - [`extract`]: removes entries from a map.

pub mod codec;
pub mod cut;
pub mod extract;
pub mod fault;
pub mod handshake;
pub mod heartbeat;
pub mod lane;
pub mod link;
pub mod machine;
pub mod memory;
pub mod operation;
pub mod racks;
pub mod script;
pub mod settings;
pub mod shape;
pub mod virtual_network;
pub mod wire;
