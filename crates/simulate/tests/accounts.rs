//! What links are booked with, and what the summary makes of it.

use syncline_simulate::{Control, Run, run};
use syncline_timeline::Data;

/// An all-to-all of 8 MB on a ring of 8, every message straight to its receiver.
fn direct_on_a_ring(network: &str) -> Run {
    let text = format!(
        r#"{{"schema": "syncline/1",
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_to_all", "bytes": "8MB"}}]}},
            "fabric": {{"dims": [{{"name": "d", "shape": "ring", "size": 8, "rate": "1GB/s"}}]}},
            "collectives": {{"algorithms": {{"d": {{"all_to_all": "direct"}}}}}},
            "network": {{"model": "{network}"}}}}"#
    );
    run(&serde_json::from_str(&text).unwrap(), Control::default()).unwrap()
}

fn ints<'a>(run: &'a Run, column: &str) -> &'a [i64] {
    match &run.timeline.table("links").unwrap().column(column).unwrap().data {
        Data::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_models_book_every_link_of_a_path() {
    let (analytical, queued) = (direct_on_a_ring("analytical"), direct_on_a_ring("queued"));
    for column in ["carried_bytes", "messages"] {
        assert_eq!(ints(&analytical, column), ints(&queued, column));
    }
    let bytes: i64 = ints(&analytical, "carried_bytes").iter().sum();
    // Seven blocks of 1 MB from each of eight, over 1 + 2 + 3 + 4 + 3 + 2 + 1 links.
    assert_eq!(bytes, 8 * 1_000_000 * (1 + 2 + 3 + 4 + 3 + 2 + 1));
    assert_eq!(analytical.timeline.summary.dims[0].carried_bytes, bytes as u64);
}

#[test]
fn links_that_carry_too_much_are_told() {
    let (analytical, queued) = (direct_on_a_ring("analytical"), direct_on_a_ring("queued"));
    let overloaded = |run: &Run| run.timeline.summary.overload.is_some();
    assert!(overloaded(&analytical) && !overloaded(&queued));
    for run in [&analytical, &queued] {
        let dim = &run.timeline.summary.dims[0];
        assert!(dim.utilization > 0.3 && dim.utilization <= 1.0 + 1e-12, "{dim:?}");
        assert!(dim.utilization_while_busy <= 1.0 + 1e-12, "{dim:?}");
    }
}
