//! The configuration files of ASTRA-sim 2. A key that ASTRA-sim ignores gets a warning with the nearest valid name
//! (ASTRA-sim silently uses the default of a misspelt key). An absent key gets ASTRA-sim's default and a warning. A
//! value that ASTRA-sim cannot run with is an error.
//!
//! - [`NetworkFile`]: the YAML of the analytical backends, `NetworkParser.cpp`;
//! - [`System`]: the JSON of the system layer, `Sys.cc:initialize_sys`;
//! - [`Memory`]: the JSON of remote memory, `AnalyticalRemoteMemory.cc`;
//! - [`Groups`]: the JSON of communicator groups, `Workload.cc:initialize_comm_groups`;
//! - [`source`]: a file's text and the positions of its keys, for errors that are found later.

pub mod groups;
pub mod json;
pub mod memory;
pub mod network;
mod per_node;
pub mod source;
pub mod system;

pub use groups::Groups;
pub use memory::{Memory, MemoryKind};
pub use network::{Dimension, NetworkFile, Topology};
pub use source::Source;
pub use system::{Algorithm, Custom, Implementation, Optimization, Scheduling, SharedBus, System};
