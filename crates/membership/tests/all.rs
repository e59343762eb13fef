//! The tests of this crate as one program, so that they are linked only once.

mod admission;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
mod world;
