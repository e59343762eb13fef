//! The run loop: takes a resolved scenario and returns a timeline.
//!
//! - [`run()`]: prepares the scenario, steps the engine on the network model, and reports; [`execute`]: without the report;
//! - [`check`]: checks a scenario without running it.

mod run;

pub use run::{execute, run};

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use syncline_diagnostics::Diagnostics;
use syncline_prepare::watch::Watch;
use syncline_scenario::Scenario;
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
    match syncline_prepare::prepare(scenario, &Watch::default()) {
        Ok(prepared) => prepared.warnings,
        Err(errors) => errors,
    }
}
