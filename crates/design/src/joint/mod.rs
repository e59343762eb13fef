//! The search for a parallelisation strategy and a topology together (topoopt2022 3.2).
//!
//! - [`network`]: a network as the search sees it;
//! - [`step`]: the time of a training step under a strategy.

pub mod network;
pub mod step;

pub use network::Network;
pub use step::{Model, StepTimer};
