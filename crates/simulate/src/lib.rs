//! The run loop: takes a resolved scenario and returns a timeline.
//!
//! Input:
//! - [`scenario`]: the resolved scenario, the contract with the Python package;
//! - `network`, `placement`, `jobs`, `compute`, `plans`: build the fabric, ranks, workload, compute model and plans
//!   from it;
//! - `prepare`: builds and checks all of them; `size`: refuses what is too large;
//! - `faults`: slow or broken parts; `jitter`: random variation;
//! - `several`: jobs that share the fabric; `shared_memory`: checks that they fit into NPUs that they share.
//!
//! Symmetry:
//! - `symmetry`: decides which ranks represent others; `exchanges`: the messages whose routes decide that;
//! - `unfold`: gives every represented rank, group and link its own row again.
//!
//! Running and reporting:
//! - [`run()`]: the run loop; `watch`: its limit on wall time, and cancellation;
//! - `report`: converts the engine's record to tables and a summary;
//! - `tiers`: the dimension or tier to which communication is booked; `moments`: activity over time and the critical
//!   path;
//! - `diagnosis`: the bottleneck of the step; `contention`: which links delayed which messages; `overload`: links that
//!   `analytical` loads with more than they can carry; `loss`: what time-outs cost;
//! - `work_rates`: samples, tokens and operations per second; [`cost()`]: what the fabric costs, and iterations per
//!   dollar.
//!
//! Without running:
//! - [`check`], [`show`]: check and describe a scenario;
//! - [`mod@convert`]: converts one file form into another.

mod astra_native;
mod astra_text;
mod chakra;
mod compute;
mod contention;
pub mod convert;
mod cost;
mod diagnosis;
mod even;
mod exchanges;
mod faults;
mod jitter;
mod jobs;
mod loss;
mod moments;
mod network;
mod overload;
mod own_plan;
mod placement;
mod plans;
mod prepare;
mod report;
mod run;
pub mod scenario;
mod several;
mod shared_memory;
mod show;
mod size;
mod symmetry;
mod tiers;
mod unfold;
mod vocabulary;
mod watch;
mod work_rates;

pub use astra_native::{AstraFiles, astra_scenario};
pub use convert::convert;
pub use cost::cost;
pub use own_plan::{plan_file, plan_to_msccl};
pub use run::run;
pub use scenario::Scenario;
pub use show::show;

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use syncline_diagnostics::Diagnostics;
use syncline_timeline::Timeline;

/// How a caller watches and stops a run.
#[derive(Default)]
pub struct Control<'a> {
    /// Set to true to stop the run; results so far are kept.
    pub cancel: Option<&'a AtomicBool>,
    /// Called about ten times a second of wall time.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
    /// Called once before the first event with the warnings known by then, if there are any. The run's own diagnostics
    /// repeat them.
    pub warn: Option<&'a mut dyn FnMut(&Diagnostics)>,
    /// Wall time that the command took before this call. It counts towards the limit on wall time.
    pub spent: Duration,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Simulated time so far.
    pub simulated_s: f64,
    /// Events so far.
    pub events: u64,
    /// Messages delivered so far.
    pub messages: u64,
    /// Fraction of the job's tasks and of their messages that are done, 0 to 1. Messages are estimated before the run.
    pub done: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Tables, spans and summary.
    pub timeline: Timeline,
    /// Warnings. If a limit or an interruption ended the run, also the reason.
    pub diagnostics: Diagnostics,
}

/// Checks a scenario without simulating it and returns errors or warnings.
pub fn check(scenario: &Scenario) -> Diagnostics {
    match prepare::prepare(scenario, &watch::Watch::default()) {
        Ok(prepared) => prepared.warnings,
        Err(errors) => errors,
    }
}

/// What [`show`] describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// NPUs, dimensions, links.
    Fabric,
    /// Tasks of each rank class, groups, bytes and work.
    Workload,
    /// The plan of each collective that the workload uses.
    Plan,
}
