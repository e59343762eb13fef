//! Collectives as data: which rank sends, receives, reduces or copies which chunk to whom, after what.
//!
//! The simulator times a plan; the runtime executes the same plan. This crate knows neither.
//!
//! - [`program`]: the primitives and the lazy form, [`Algorithm`];

pub mod program;

pub use program::{Algorithm, Blocks, Buffer, Op, Refusal, Seat};
