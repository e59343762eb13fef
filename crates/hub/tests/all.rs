//! All integration tests of this crate, as one program that is linked once.

mod hub;
#[path = "../../protocol/tests/lending/mod.rs"]
mod lending;
#[path = "../../executor/tests/members/mod.rs"]
mod members;
mod service;
mod tls;
