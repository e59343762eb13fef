//! Memory grows with the messages in flight, not with the total number of messages.

use peak_alloc::PeakAlloc;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Peak allocated bytes while 32 ranks run an all-reduce of 1 MiB `iterations` times, and the number of messages.
fn most(iterations: u32) -> (usize, u64) {
    let json = format!(
        r#"{{"schema": "syncline/1", "symmetry": false,
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "1MiB"}}], "iterations": {iterations}}},
            "fabric": {{"dims": [{{"name": "a", "shape": "ring", "size": 8, "rate": "50GB/s"}}, {{"name": "b", "shape": "switch", "size": 4, "rate": "25GB/s"}}]}},
            "collectives": {{"chunks": 64}}, "trace": {{"ranks": []}}}}"#
    );
    let scenario: Scenario = serde_json::from_str(&json).unwrap();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let done = run(&scenario, Control::default()).unwrap();
    (ALLOCATOR.peak_usage() - before, done.timeline.summary.messages)
}

#[test]
fn a_hundred_times_the_messages_take_about_the_same_memory() {
    let (short, few) = most(2);
    let (long, many) = most(200);
    assert_eq!(many, 100 * few);
    // One row of results per collective is kept; a few hundred bytes each, against tens of thousands of messages.
    assert!(long < short + 200 * 4096, "{short} bytes for {few} messages, {long} bytes for {many}");
}
