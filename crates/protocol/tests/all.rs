//! The tests of this crate as one program, which links once.

mod interpreter;
mod lanes;
mod lending;
mod transfers;
