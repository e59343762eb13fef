//! Checks the jitter of a scenario and converts it for the engine.

use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_engine::Jitter;
use syncline_scenario::{self, Scenario};
use syncline_units::{RankId, Time};

/// Largest coefficient of variation: beyond it, a few tasks take most of the time.
const MOST: f64 = 2.0;

/// The jitter that the engine draws for a scenario.
///
/// # Errors
/// A coefficient of variation out of range.
pub fn of(scenario: &Scenario) -> Result<Jitter> {
    let syncline_scenario::Jitter { start, compute, seed } = scenario.jitter;
    if !(0.0..=MOST).contains(&compute) {
        return Err(Diagnostic::error(Code::BadValue, "the variation of compute times is out of range")
            .key("jitter.compute")
            .found(compute.to_string())
            .allowed(format!("0 to {MOST}"))
            .help("give the standard deviation as a fraction of the mean, such as 0.02 or 2 %")
            .into());
    }
    Ok(Jitter::new(start, compute, seed.unwrap_or(scenario.seed)))
}

/// The seed of one of several jobs, derived from the scenario's seed and the job's name. So a job draws the same values
/// whether it runs alone or beside others, and two equal jobs draw different ones.
pub fn seed_of(scenario: &Scenario, job: &str) -> u64 {
    // FNV-1a (RFC 9923).
    let hash = job.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    scenario.jitter.seed.unwrap_or(scenario.seed) ^ hash
}

/// When each rank begins. `of_jobs` holds, for each rank, the time at which its job begins; empty if all begin at once.
pub fn starts(scenario: &Scenario, jitter: &Jitter, ranks: u32, of_jobs: Vec<Time>) -> Vec<Time> {
    if scenario.jitter.start.is_zero() {
        return of_jobs;
    }
    let begins = |rank: u32| of_jobs.get(rank as usize).copied().unwrap_or_default();
    (0..ranks).map(|rank| begins(rank).saturating_add(jitter.start(RankId(rank)))).collect()
}

/// A note for the summary that says what varies.
pub fn note(scenario: &Scenario) -> Option<String> {
    let syncline_scenario::Jitter { start, compute, seed } = scenario.jitter;
    let starts = (!start.is_zero()).then(|| format!("ranks begin up to {start} late"));
    let varies =
        (compute > 0.0).then(|| format!("compute times vary by {} %", (compute * 1e6).round() / 1e4));
    let what: Vec<String> = starts.into_iter().chain(varies).collect();
    (!what.is_empty()).then(|| {
        format!(
            "{}, drawn with seed {}: this is one of many outcomes (simulate others with `--seeds`)",
            what.join(" and "),
            seed.unwrap_or(scenario.seed)
        )
    })
}
