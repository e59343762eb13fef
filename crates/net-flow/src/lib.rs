//! The `flow` network model: messages as fluid that shares links fairly (max-min). On any fabric and routing; nothing is
//! lost, queues are empty, and rates are right at once.
//!
//! - [`sharing`]: who gets how much of which link, and when it is through;
//! - `tree`: which of many times is the first;
//! - [`settings`]: what can be set;
//! - [`network`]: that behind the engine's network interface.

pub mod network;
pub mod settings;
pub mod sharing;
mod tree;

pub use network::Flows;
pub use settings::Settings;
