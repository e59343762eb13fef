//! The tests of this crate as one program, which links once.

mod epochs;
mod executor;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
mod many;
mod members;
mod session;
