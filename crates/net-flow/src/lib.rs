//! The `flow` network model: messages as fluid. Messages of a connection are served in order, and connections share links
//! fairly (max-min), on any fabric and routing; nothing is lost, queues take no buffers, and rates are right at once.
//!
//! - [`sharing`]: which connection gets how much of which link, and when its messages are through;
//! - `tree`: which of many times is the first;
//! - [`settings`]: what can be set;
//! - [`network`]: that behind the engine's network interface.

pub mod network;
pub mod settings;
pub mod sharing;
mod tree;

pub use network::Flows;
pub use settings::Settings;
