//! What a network model needs to know, and nothing of the engine that drives it.
//!
//! - [`model`]: the interface that every model implements, and what messages look like to it;
//! - [`calendar`]: future events, among them a model's own calls and its deliveries; [`radix`]: the heap that files
//!   them by time;
//! - [`activity`]: when ports were busy.

pub mod activity;
pub mod calendar;
pub mod model;
pub mod radix;

/// What models tell of the critical path.
pub use syncline_critical_path::{Origin, Route, StretchId, Tail, Trail};
/// What models report.
pub use syncline_timeline::{Packets, Table, tables};

pub use activity::Activity;
pub use calendar::{Calendar, Call};
pub use model::{
    Contention, Halt, LinkUse, Measurements, NetworkModel, Owner, Repeats, Sent, Stall, Transfer,
};
