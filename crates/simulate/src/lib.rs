//! The run loop: a resolved scenario in, a timeline out.
//!
//! - [`scenario`]: the resolved scenario, the contract with the Python package;
//! - `network`, `placement`, `jobs`, `compute`, `plans`: its parts as fabric, ranks, workload, compute model and plans;
//!   `prepare`: all of them, checked, `size`: not too large;
//! - `faults`: what is slow or broken; `jitter`: what varies; `several`: jobs that share the fabric; `shared_memory`: whether they fit into NPUs that
//!   they share;
//! - `symmetry`: which ranks stand for others; `exchanges`: whose messages decide about it; `unfold`: the way back;
//!   `tiers`: by what communication is booked;
//! - [`run()`]: the run loop; `watch`: its clock; `report`: from the engine's record to tables and a summary;
//!   `diagnosis`: what bounds the step, `contention`: which links held back what, `overload`: where they should have, `loss`:
//!   what time-outs cost, `moments`: what happened when, `work_rates`: how much work it gets done, [`cost()`]: what the
//!   fabric costs, and what a dollar buys;
//! - [`check`], [`show`]: what can be said without running;
//! - [`mod@convert`]: one file form into another.

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

/// How a run can be watched and stopped from outside.
#[derive(Default)]
pub struct Control<'a> {
    /// Set to true to stop the run; what was finished is kept.
    pub cancel: Option<&'a AtomicBool>,
    /// Called about ten times a second of wall time.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
    /// Called once before the first event with what is then known to be worth a warning, if anything is. The run's own
    /// diagnostics repeat it.
    pub warn: Option<&'a mut dyn FnMut(&Diagnostics)>,
    /// Wall time that the command has taken before: the limit on wall time counts it.
    pub spent: Duration,
}

/// How far a run is.
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

/// What a run leaves.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Tables, spans and summary.
    pub timeline: Timeline,
    /// Warnings; after a limit or an interruption also the reason.
    pub diagnostics: Diagnostics,
}

/// Everything that can be found wrong without simulating: errors and warnings.
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
