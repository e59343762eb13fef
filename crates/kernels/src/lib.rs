//! Times of single kernels on an accelerator, from models that were fitted to measured kernels.
//!
//! - [`gemm`]: matrix products, also many in one kernel;
//! - [`attention`]: fused attention, forward and backward;
//! - [`memory_bound`]: kernels that only move bytes;
//! - [`lattice`]: corrections at measured shapes, interpolated between them;
//! - [`estimate`]: what a model says about a kernel: time, bound, and whether it extrapolates;
//! - [`file`](mod@file): the files that hold fitted models.
//!
//! The models know tiles, waves, bandwidths and launch times; a handful of constants for each machine and data type is
//! fitted to measured kernels. Times are floating-point seconds: a caller that simulates rounds them once. All functions
//! are pure; a time takes less than a microsecond to compute and allocates nothing.

pub mod attention;
pub mod estimate;
pub mod file;
pub mod gemm;
pub mod lattice;
pub mod memory_bound;

pub use attention::{Attention, AttentionShape, Library, Pass};
pub use estimate::{Bound, Estimate};
pub use file::Kernels;
pub use gemm::{Gemm, GemmLibrary, GemmShape, Layout};
pub use memory_bound::MemoryBound;
