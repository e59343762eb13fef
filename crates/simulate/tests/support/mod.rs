//! Runs scenarios.

pub(crate) mod library;
pub(crate) mod shared;

use serde_json::Value;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::Timeline;

pub(crate) fn simulate(value: &Value) -> Timeline {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}\n{value}")).timeline
}
