//! From a resolved scenario to a job that the engine can run: builds everything that a run needs, and reports
//! everything that is wrong with it.
//!
//! - `network`, `placement`, [`jobs`], [`compute`], [`plans`]: build the fabric, ranks, workload, compute model and plans;
//!   [`astra_text`], [`chakra`] and `flexnet` make workloads of [`files`], which are read once;
//! - [`prepare()`]: builds and checks all of them, for one job (`one_job`) or several; [`size`]: refuses what is too large;
//! - `faults`: slow or broken parts; [`jitter`]: random variation;
//! - [`several`]: jobs that share the fabric; `shared_memory`: checks that they fit into NPUs that they share;
//! - `symmetry`: decides which ranks represent others; `obstacle`: why a rank does not; `exchanges`: the messages whose
//!   routes decide that; `even`: how to make such messages alike; `rank_axis`: an axis of ranks;
//! - [`tiers`]: the dimension or tier to which communication is booked;
//! - [`watch`]: the limit on wall time, and cancellation.

pub mod astra_text;
pub mod chakra;
pub mod compute;
mod even;
mod exchanges;
mod faults;
pub mod files;
mod flexnet;
pub mod jitter;
pub mod jobs;
pub mod network;
mod obstacle;
mod one_job;
mod placement;
pub mod plans;
mod prepare;
mod prepared;
mod rank_axis;
pub mod several;
mod shared_memory;
pub mod size;
mod symmetry;
pub mod tiers;
pub mod watch;

pub use files::Files;
pub use prepare::{in_any_memory, prepare, prepare_from};
pub use prepared::{Member, Prepared};
