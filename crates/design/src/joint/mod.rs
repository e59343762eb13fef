//! The search for a parallelisation strategy and a topology together (topoopt2022 3.2).
//!
//! - [`network`]: a network as the search sees it;
//! - [`step`]: the time of a training step under a strategy;
//! - [`demand`](mod@demand): what a strategy sends; [`cluster`]: the network for it;
//! - [`moves`]: changes of a strategy; `memory`: whether it fits into the memory of servers;
//! - [`search`](mod@search): the alternating optimisation, [`chain`] by chain; [`baselines`]: deterministic searches;
//!   [`found`]: what they find;
//! - [`request`]: a search and its answer as JSON.

pub mod baselines;
pub mod chain;
pub mod cluster;
pub mod demand;
pub mod found;
mod memory;
pub mod moves;
pub mod network;
pub mod request;
pub mod search;
pub mod step;

pub use baselines::{exhaustive, greedy};
pub use chain::ChainSettings;
pub use cluster::{Cluster, DirectLinks};
pub use demand::demand;
pub use found::{Found, Improvement, SearchControl};
pub use network::RoutedLinks;
pub use search::{improve, search};
pub use step::{Model, StepTimer};
