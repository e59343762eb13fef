//! The `flow` network model: messages as fluid. A connection serves its messages in order, and connections
//! share links fairly (max-min), on any fabric and routing. Nothing is lost, queues take no buffers, and
//! rates adapt at once.
//!
//! - [`sharing`]: how much of each link each connection gets, and when its messages are complete;
//! - `tree`: the earliest of many times;
//! - [`settings`]: what can be set;
//! - [`network`]: the model behind the engine's network interface.

pub mod network;
pub mod settings;
pub mod sharing;
mod tree;

pub use network::Flows;
pub use settings::FlowSettings;
