//! The time of one NCCL collective, by a model of its algorithms and protocols with measured constants.
//!
//! - [`call`]: what is asked: an operation, its bytes and elements, and the GPUs that take part;
//! - [`machine`]: the constants of a machine: one set for each operation within a node, one for the network between nodes;
//! - [`mod@estimate`]: the model, which is the entry: it chooses an algorithm and a protocol, and returns seconds and their
//!   parts;
//! - `between_nodes`: the part of the model for groups of several nodes;
//! - [`mod@calibrate`]: finds constants from measured times;
//! - [`experts`]: dispatch and combine of mixtures of experts by `DeepEP`;
//! - [`shots`]: all-reduces in one shot or two, by kernels of inference frameworks.
//!
//! The model keeps the structure of NCCL's own tuning model (`src/graph/tuning.cc` in NVIDIA/nccl): each algorithm and
//! protocol has a latency, which grows with the hops of its ring or tree, and a rate. It differs where measurements do:
//! see [`mod@estimate`].
//!
//! All times are seconds and all rates bytes per second, as `f64`: the results are estimates, not simulated time. An
//! evaluation allocates nothing.

mod between_nodes;
pub mod calibrate;
pub mod call;
mod descent;
pub mod estimate;
pub mod experts;
pub mod machine;
pub mod shots;

pub use calibrate::{Calibrated, Measurement, calibrate, calibrate_network, calibrate_together};
pub use call::{Algorithm, Call, Group, Operation, Protocol};
pub use estimate::{Estimate, Parts, estimate};
pub use experts::{Exchange, Kernels, Phase, Routing, Tokens, calibrate_exchange};
pub use machine::{InNode, LowLatency, LowLatency128, Machine, Network, Nvls, Sharp, Simple, SimpleFrom};
pub use shots::{CustomAllReduce, Shots, calibrate_shots};
