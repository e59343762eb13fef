//! Sizes that are refused or warned about before the run.

use syncline_diagnostics::{Code, Severity};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, check, run};

fn scenario(shape: &str, size: u32, bytes: u64, rest: &str) -> Scenario {
    let json = format!(
        r#"{{"schema": "syncline/1", "fabric": {{"dims": [{{"name": "d", "shape": "{shape}", "size": {size}, "rate": "1GB/s", "latency": "1us"}}]}},
            "collectives": {{"all_reduce": "baseline", "algorithms": {{"default": {{"all_reduce": "direct"}}}}}},
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "{bytes}B"}}]}} {rest}}}"#
    );
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

fn is_right(scenario: &Scenario) -> bool {
    check(scenario).0.iter().all(|found| found.severity != Severity::Error)
}

#[test]
fn a_full_connection_that_memory_cannot_hold_is_refused() {
    // 1 MB does not divide by 3000, so that all ranks and their 9 million links are simulated.
    let refused = check(&scenario("fully_connected", 3000, 1_000_000, ""));
    let found = &refused;
    assert_eq!(found.0[0].code, Code::TooLarge, "{found}");
    assert_eq!(found.0[0].key.as_deref(), Some("limits.memory"));
    assert!(found.0[0].found.as_deref().unwrap().contains("8997000 links"), "{found}");
    // With an even size one rank represents all; a higher limit is accepted.
    assert!(is_right(&scenario("fully_connected", 3000, 3_000_000 * 64, "")));
    assert!(is_right(&scenario("fully_connected", 3000, 1_000_000, r#", "limits": {"memory": "64GB"}"#)));
}

#[test]
fn the_suggested_size_is_accepted() {
    for (size, bytes) in [(3000, 1_000_000), (2048, 1_000_000), (3000, 10), (2999, 7_777_777)] {
        let found = check(&scenario("fully_connected", size, bytes, ""));
        let help = found.0[0].help.clone().unwrap();
        let larger = help.split_once("give `bytes: ").and_then(|(_, rest)| rest.split_once("B`")).unwrap().0;
        let larger: u64 = larger.parse().unwrap();
        assert!(larger >= bytes, "{help}");
        assert!(check(&scenario("fully_connected", size, larger, "")).0.is_empty(), "{help}");
    }
}

#[test]
fn a_long_run_gives_a_warning() {
    // 16 chunks, of which each of 2048 ranks sends two to 2047 others, and 4192256 links.
    let found = check(&scenario("fully_connected", 2048, 1_000_000, ""));
    assert_eq!(found.0[0].code, Code::ManyRanks, "{found}");
    let help = found.0[0].help.as_deref().unwrap();
    let messages = 2 * 16 * 2048 * 2047_u64;
    assert!(
        help.contains(&format!("{} million messages a step", (messages + 500_000) / 1_000_000)),
        "{help}"
    );
    // A short run gives none.
    assert!(check(&scenario("fully_connected", 200, 1_000_004, "")).0.is_empty());
}

#[test]
fn the_limit_on_memory_is_exact() {
    let own = |memory: u64| {
        scenario("fully_connected", 40, 1_000_004, &format!(r#", "limits": {{"memory": "{memory}B"}}"#))
    };
    let (mut fits, mut refused) = (1u64 << 40, 0u64);
    while fits - refused > 1 {
        let middle = refused + (fits - refused) / 2;
        if is_right(&own(middle)) { fits = middle } else { refused = middle }
    }
    // 40 ranks, 1560 links, 4 chunks of 39 messages at once each, one task each.
    let expected: f64 = 40.0 * (8e3 + 4.0 * 39.0 * 400.0) + 1560.0 * 1.3e3 + 40.0 * 8.0;
    assert_eq!(fits, expected.ceil() as u64);
    run(&own(fits), Control::default()).unwrap();
}
