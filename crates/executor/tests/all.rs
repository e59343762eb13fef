//! The tests of this crate as one program, so that they link once.

mod epochs;
mod executor;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
mod many;
mod members;
mod on_demand;
mod plans;
mod processes;
mod session;
