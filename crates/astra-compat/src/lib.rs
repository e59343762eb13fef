//! Reproduces ASTRA-sim 2's analytical simulators to the nanosecond: the same inputs, the same state
//! machines, the same rounding. Results can be compared exactly, and ASTRA-sim's peculiarities stay out of
//! the rest of this project. Where ASTRA-sim fails silently, this crate says what is wrong and where.
//!
//! From the outside in:
//!
//! - [`job`]: inputs and options ([`Job`], [`Inputs`], [`Options`]);
//! - `check`: problems that are reported before anything is simulated;
//! - `world`: the state of a simulation and its event loop;
//! - `workload`: the nodes of each rank's trace: slots, computation, remote memory, statistics;
//! - `system`: collectives of each rank: chunks, phases, queues, timers;
//! - [`algorithms`]: the collective algorithms, one file each;
//! - `network`: when messages arrive, with and without congestion;
//! - `stuck`: which ranks wait for what when no events are left;
//! - [`outcome`]: the results of a run, and ASTRA-sim's lines about it;
//! - `events`, `slab`, `table`: the containers that make it fast.
//!
//! One cycle is one nanosecond. Rules are cited by ASTRA-sim 2's file.

pub mod algorithms;
mod check;
mod events;
pub mod job;
mod network;
pub mod outcome;
pub mod report;
mod slab;
mod stuck;
mod system;
mod table;
mod workload;
mod world;

pub use algorithms::Pattern;
pub use job::{Backend, Inputs, Job, Options};
pub use outcome::{CollectiveRecord, Ended, Outcome, RankResult, Roofline};

use syncline_diagnostics::Result;

/// The last nanosecond that is simulated; also the longest single delay.
pub(crate) const MAX_TIME: u64 = 1 << 62;

/// Reads the inputs, checks them and simulates them.
///
/// A run that stops at a limit is not an error: [`Outcome::ended`] says so, and whatever finished is valid.
/// Ranks that wait forever are an error with code `AstraStuck`.
pub fn run(inputs: &Inputs, options: &Options<'_>) -> Result<Outcome> {
    simulate(&Job::load(inputs)?, options)
}

/// Checks and simulates a job.
pub fn simulate(job: &Job, options: &Options<'_>) -> Result<Outcome> {
    let (tasks, warnings) = check::check(job, options)?;
    world::World::new(job, &tasks, options)?.run(options, warnings)
}

/// Checks a job without simulating it; the diagnostics are warnings.
pub fn check(job: &Job, options: &Options<'_>) -> Result<syncline_diagnostics::Diagnostics> {
    check::check(job, options).map(|(_, warnings)| warnings)
}
