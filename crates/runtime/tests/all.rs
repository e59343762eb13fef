//! The tests of this crate as one program, which builds in a fraction of the time of eleven.

mod admission;
mod epochs;
mod executor;
mod hub;
mod interpreter;
mod lanes;
mod lending;
mod many;
mod members;
mod service;
mod session;
mod tls;
mod transfers;
mod world;
