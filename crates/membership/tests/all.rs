//! The tests of this crate as one program, which links once.

mod admission;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
mod world;
