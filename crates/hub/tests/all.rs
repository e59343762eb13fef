//! The tests of this crate as one program, which links once.

mod hub;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
#[path = "../../executor/tests/members/mod.rs"]
mod members;
mod service;
mod tls;
