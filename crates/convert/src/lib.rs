//! Converts one file form into another.
//!
//! | input | output |
//! |---|---|
//! | a resolved scenario (`.json` with `schema`) | Chakra traces `<output>.<rank>.et`, in the dialect of ASTRA-sim 2 |
//! | an ASTRA-sim 1 text workload (`.txt`) and the sizes of the dimensions | the same |
//! | an MSCCL program (`.xml`) | a plan file (JSON) |
//! | a plan file (`.json` with `seats`) | an MSCCL program (XML) |
//!
//! Chakra traces cannot express everything:
//! - All iterations are written out, one after the other.
//! - A computation takes whole microseconds. Times are rounded to the nearest microsecond, and a warning gives the sum
//!   of the changes. A computation rounded to 0 takes one nanosecond in ASTRA-sim 2.
//! - Tasks that take no time are left out. Tasks that depend on them depend on their dependencies instead.
//! - Groups become entries of `<output>.groups.json`, except for all ranks, and for whole dimensions (`involved_dim`).
//!
//! [`convert()`] does this, with `et` for Chakra traces and `aside` for writing all files or none. [`astra_scenario`] reads
//! the input files of ASTRA-sim 2 as a scenario.

mod aside;
mod astra_native;
mod convert;
mod converted;
mod et;

pub use astra_native::{AstraFiles, astra_scenario};
pub use convert::{Options, convert};
pub use converted::Converted;
