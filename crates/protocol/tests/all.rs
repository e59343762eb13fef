//! All integration tests of this crate as one program, so that it is linked only once.

mod interpreter;
mod lanes;
mod lending;
mod transfers;
