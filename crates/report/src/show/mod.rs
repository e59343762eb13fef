//! Describes parts of a scenario as data, from which `syncline show` makes its views.

mod fabric;
mod plans;
mod workload;

use syncline_diagnostics::Result;
use syncline_prepare::in_any_memory;
use syncline_prepare::watch::Watch;
use syncline_scenario::Scenario;

/// A part of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// NPUs, dimensions, links.
    Fabric,
    /// Tasks of each rank class, groups, bytes and work.
    Workload,
    /// The plan of each collective that the workload uses.
    Plan,
}

/// A part of a scenario as JSON.
///
/// # Errors
/// As [`prepare`](syncline_prepare::prepare()), except that the job may not fit into memory.
pub fn show(scenario: &Scenario, what: Show) -> Result<String> {
    let prepared = in_any_memory(scenario, &Watch::default())?;
    let text = match what {
        Show::Fabric => serde_json::to_string(&fabric::view(&prepared)),
        Show::Workload => serde_json::to_string(&workload::view(scenario, &prepared)),
        Show::Plan => serde_json::to_string(&plans::views(&prepared)),
    };
    Ok(text.expect("views are plain data"))
}

/// Collectives or messages, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    bytes: u64,
}

impl Total {
    /// Adds `count` of `bytes` bytes each.
    fn add(&mut self, count: u64, bytes: u64) {
        self.count += count;
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(count));
    }
}
