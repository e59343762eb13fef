//! The bytes and times that links are booked with, and the summary's numbers derived from them.

use syncline_simulate::{Control, Run, run};
use syncline_timeline::{Data, Timeline};

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
fn overloaded_links_are_reported() {
    let (analytical, queued) = (direct_on_a_ring("analytical"), direct_on_a_ring("queued"));
    let overloaded = |run: &Run| run.timeline.summary.overload.is_some();
    assert!(overloaded(&analytical) && !overloaded(&queued));
    for run in [&analytical, &queued] {
        let dim = &run.timeline.summary.dims[0];
        assert!(dim.utilization > 0.3 && dim.utilization <= 1.0 + 1e-12, "{dim:?}");
        assert!(dim.utilization_while_busy <= 1.0 + 1e-12, "{dim:?}");
    }
}

#[test]
fn the_busiest_link_is_unknown_if_inner_links_have_no_times() {
    // Each of the 16 links carries an eighth of 1 + 2 + 3 + 4 + 3 + 2 + 1 blocks each way of the ring, 8 MB in all; in
    // the analytical model only the first and the last hop of a message are booked.
    let [analytical, queued] = ["analytical", "queued"].map(|network| direct_on_a_ring(network).timeline);
    let busy = |timeline: &Timeline| timeline.summary.dims[0].busiest_link_busy;
    assert_eq!(busy(&analytical), None);
    let mean = queued.summary.dims[0].utilization;
    assert!(busy(&queued).is_some_and(|busy| busy >= mean && mean > 0.5), "{:?}", queued.summary.dims);
    let shares =
        |timeline: &Timeline| match &timeline.table("links").unwrap().column("utilization").unwrap().data {
            Data::OptionalFloat(shares) => shares.clone(),
            other => panic!("{other:?}"),
        };
    assert!(shares(&analytical).iter().all(Option::is_none));
    assert!(shares(&queued).iter().all(Option::is_some));
}

#[test]
fn ports_of_a_leaf_spine_have_times_and_its_inner_links_have_none() {
    let dims = |network: &str| {
        let text = format!(
            r#"{{"schema": "syncline/1",
                "workload": {{"source": "collectives", "collectives": [{{"kind": "all_to_all", "bytes": "8MB"}}]}},
                "fabric": {{"built": {{"network": {{"leaf_spine": {{"leaves": 2, "hosts_per_leaf": 4, "spines": 2,
                    "rate": "100Gb/s", "uplink_rate": "100Gb/s", "latency": "1us"}}}}}}}},
                "network": {{"model": "{network}"}}}}"#
        );
        run(&serde_json::from_str(&text).unwrap(), Control::default()).unwrap().timeline.summary.dims
    };
    for (network, inner_is_known) in [("analytical", false), ("queued", true)] {
        let dims = dims(network);
        let known: Vec<_> =
            dims.iter().map(|dim| (dim.name.as_str(), dim.busiest_link_busy.is_some())).collect();
        assert_eq!(known, [("host-leaf", true), ("leaf-spine", inner_is_known)], "{network}");
        for dim in &dims {
            let busy = dim.busiest_link_busy.unwrap_or(1.0);
            assert!(dim.utilization > 0.1 && busy >= dim.utilization, "{network} {dim:?}");
            assert!(dim.busiest_link.contains(" -> "), "{network} {dim:?}");
        }
    }
}

#[test]
fn a_fabric_with_one_tier_has_one_name_in_tables_and_sentence() {
    let text = r#"{"schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": "all_to_all", "bytes": "8MB"}]},
        "fabric": {"built": {"network": {"leaf_spine": {"leaves": 1, "hosts_per_leaf": 4, "spines": 0,
            "rate": "100Gb/s", "uplink_rate": "100Gb/s", "latency": "1us"}}}}}"#;
    let timeline = run(&serde_json::from_str(text).unwrap(), Control::default()).unwrap().timeline;
    let summary = &timeline.summary;
    let names: Vec<_> = summary.dims.iter().map(|dim| dim.name.as_str()).collect();
    assert_eq!((names, summary.bottleneck.name()), (vec!["host-leaf"], "host-leaf"), "{}", summary.reason);
    for table in ["links", "phases", "activity"] {
        let Data::Text(names) = &timeline.table(table).unwrap().column("dimension").unwrap().data else {
            panic!()
        };
        assert!(!names.is_empty() && names.iter().all(|name| name == "host-leaf"), "{table} {names:?}");
    }
}
