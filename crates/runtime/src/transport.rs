//! What carries bytes between the lanes of members.
//!
//! - [`memory`]: within one thread and without time, in an order that a seed decides: for tests.

pub mod memory;
