//! Converts one file format into another: a resolved scenario (`.json`), or an ASTRA-sim 1 text workload (`.txt`) and the
//! sizes of the dimensions, into Chakra traces `<prefix>.<rank>.et` in the dialect of ASTRA-sim 2.
//!
//! Chakra traces cannot express everything:
//! - All iterations are written out, one after the other.
//! - A computation takes whole microseconds. Times are rounded to the nearest microsecond, and a warning gives the sum
//!   of the changes. A computation rounded to 0 takes one nanosecond in ASTRA-sim 2.
//! - Tasks that take no time are left out. Tasks that depend on them depend on their dependencies instead.
//! - Groups become entries of `<prefix>.groups.json`, except for all ranks, and for whole dimensions (`involved_dim`).
//!
//! [`to_chakra()`] does this, with `et` for the traces and `aside` for writing all files or none. [`astra_scenario`] reads the
//! input files of ASTRA-sim 2 as a scenario.

mod aside;
mod astra_native;
mod converted;
mod et;
mod to_chakra;

pub use astra_native::{AstraFiles, astra_scenario};
pub use converted::Converted;
pub use to_chakra::{Options, to_chakra};
