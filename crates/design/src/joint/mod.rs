//! The search for a parallelisation strategy and a topology together (topoopt2022 3.2).
//!
//! - [`network`]: a network as the search sees it;
//! - [`step`]: the time of a training step under a strategy;
//! - [`moves`]: changes of a strategy;
//! - [`search`](mod@search): the alternating optimisation, and baselines for it;
//! - [`request`]: a search and its answer as JSON.

pub mod moves;
pub mod network;
pub mod request;
pub mod search;
pub mod step;

pub use network::Network;
pub use search::{Cluster, Control, Found, Settings, demand, exhaustive, greedy, search};
pub use step::{Model, StepTimer};
