//! The protocol of ranks that run collectives: state machines without sockets, clocks or threads, driven by transports.
//!
//! In reading order:
//!
//! - [`operation`]: what a rank requests; [`settings`]: how a communicator runs it;
//! - [`script`]: the compiled plan of one rank; [`cut`]: how a vector is split into chunks; [`shape`]: how an
//!   operation is run; [`plan_book`]: which plan runs which operation; [`racks`]: rank orders and groups from the racks of ranks; [`policy`]: the plans
//!   that a job wants, by name;
//! - [`memory`]: regions of callers' tensors, buffers and their pool;
//! - [`wire`]: frames; [`link`]: one connection's frames in and out; [`codec`]: control messages;
//! - [`machine`]: the interface through which a transport drives every state machine that has peers;
//! - [`lane`]: the chunks that one thread works on, with a connection to each peer;
//! - [`handshake`]: how two processes identify each other; [`heartbeat`]: silent and stuck peers;
//! - [`fault`]: what went wrong, and who is at fault;
//! - [`virtual_network`]: connects state machines in one thread and virtual time, for tests;
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
pub mod plan_book;
pub mod policy;
pub mod racks;
pub mod script;
pub mod settings;
pub mod shape;
pub mod virtual_network;
pub mod wire;
