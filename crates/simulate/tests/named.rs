//! The algorithms that a scenario names run, or an error says why they cannot.

use serde_json::{Value, json};
use syncline_diagnostics::{Code, Diagnostics};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};
use syncline_timeline::Data;

fn scenario(kind: &str, bytes: &str, shapes: &[(&str, u32)], collectives: Value) -> Value {
    let dim = |(index, (shape, size)): (usize, &(&str, u32))| json!({"name": format!("d{index}"), "shape": shape, "size": size, "rate": "50GB/s", "latency": "500ns"});
    let dims: Vec<Value> = shapes.iter().enumerate().map(dim).collect();
    json!({"schema": "syncline/1",
        "workload": {"source": "collectives", "collectives": [{"kind": kind, "bytes": bytes}]},
        "fabric": {"dims": dims}, "collectives": collectives})
}

fn try_run(value: Value) -> Result<Run, Diagnostics> {
    run(&serde_json::from_value::<Scenario>(value).unwrap(), Control::default())
}

fn time(value: Value) -> f64 {
    try_run(value).unwrap_or_else(|errors| panic!("{errors}")).timeline.summary.total_time_s
}

/// The phases that ran, such as `ring reduce_scatter + ring all_gather`.
fn ran(run: &Run) -> String {
    match &run.timeline.table("collectives").unwrap().column("algorithm").unwrap().data {
        Data::Text(names) => names[0].clone(),
        other => panic!("{other:?}"),
    }
}

fn named(name: &str) -> Value {
    json!({"algorithms": {"default": {"all_reduce": name}}})
}

/// `2(N-1)` steps of two hops' latency and `S/N` bytes.
#[test]
fn a_named_ring_takes_the_time_of_a_ring() {
    let mut settings = named("ring");
    settings["chunks"] = json!(1);
    let expected = 8.0 * (2.0 * 500e-9 + 8e6 / 5.0 / 50e9);
    assert!((expected - 264e-6_f64).abs() < 1e-12);
    let found = time(scenario("all_reduce", "8MB", &[("switch", 5)], settings));
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} s, not {expected} s");
}

/// If the usual composition has no phase for the algorithm, another composition is chosen.
#[test]
fn a_named_tree_runs_in_a_composition_that_has_a_phase_for_it() {
    let shapes = [("switch", 6)];
    let enhanced =
        json!({"all_reduce": "enhanced", "algorithms": {"default": {"all_reduce": "double_binary_tree"}}});
    let named = scenario("all_reduce", "64MB", &shapes, named("double_binary_tree"));
    assert_eq!(time(named.clone()), time(scenario("all_reduce", "64MB", &shapes, enhanced)));
    assert_eq!(ran(&try_run(named).unwrap()), "double_binary_tree all_reduce");
    // One dimension's tree, another's ring.
    let both = json!({"algorithms": {"d0": {"all_reduce": "ring"}, "d1": {"all_reduce": "tree"}}});
    let found = try_run(scenario("all_reduce", "1MB", &[("ring", 4), ("switch", 4)], both)).unwrap();
    assert_eq!(ran(&found), "ring reduce_scatter + tree all_reduce + ring all_gather");
    let first = json!({"algorithms": {"d0": {"all_reduce": "tree"}, "d1": {"all_reduce": "ring"}}});
    let found = try_run(scenario("all_reduce", "1MB", &[("switch", 4), ("ring", 4)], first)).unwrap();
    assert_eq!(ran(&found), "tree all_reduce + ring all_reduce");
}

#[test]
fn a_composition_without_a_phase_for_a_named_algorithm_is_refused() {
    let settings = json!({"all_reduce": "hierarchical_2n",
        "algorithms": {"default": {"all_reduce": "double_binary_tree"}}});
    let errors = try_run(scenario("all_reduce", "1MB", &[("switch", 4)], settings)).unwrap_err();
    let error = &errors.0[0];
    assert_eq!((error.code, errors.0.len()), (Code::NoPlan, 1), "{errors}");
    assert_eq!(error.key.as_deref(), Some("collectives.algorithms.default.all_reduce"));
    assert!(error.message.contains("`double_binary_tree` runs neither"), "{error}");
    assert!(error.allowed.as_deref().unwrap().contains("enhanced"), "{error}");
}

#[test]
fn names_for_parts_take_precedence_over_the_whole() {
    let settings = json!({"all_reduce": "hierarchical_2n",
        "algorithms": {"default": {"all_reduce": "ring", "all_gather": "direct"}}});
    let found = try_run(scenario("all_reduce", "1MB", &[("switch", 4)], settings)).unwrap();
    assert_eq!(ran(&found), "ring reduce_scatter + direct all_gather");
}

#[test]
fn by_shape_chooses_by_the_dimensions_shape() {
    let shapes = [("ring", 4), ("fully_connected", 3), ("switch", 5)];
    let found = try_run(scenario("all_reduce", "1MB", &shapes, named("by_shape"))).unwrap();
    assert_eq!(
        ran(&found),
        "ring reduce_scatter + direct reduce_scatter + halving_doubling reduce_scatter + halving_doubling all_gather + \
         direct all_gather + ring all_gather"
    );
}

/// A named algorithm that no phase runs gives a warning if the job has the collective.
#[test]
fn a_name_without_a_phase_gives_a_warning() {
    let settings = json!({"algorithms": {"d1": {"all_reduce": "ring"}}});
    let found = try_run(scenario("all_reduce", "1MB", &[("switch", 4), ("switch", 1)], settings)).unwrap();
    let warnings: Vec<_> = found.diagnostics.0.iter().filter_map(|warning| warning.key.as_deref()).collect();
    assert_eq!(warnings, ["collectives.algorithms.d1.all_reduce"]);
}

/// All-reduces of two sizes, only one of which has an entry. The entry takes precedence over `algorithms`.
#[test]
fn an_entry_for_one_size_leaves_others_alone() {
    let mut value = scenario("all_reduce", "1MB", &[("switch", 4)], named("ring"));
    value["workload"]["collectives"] =
        json!([{"kind": "all_reduce", "bytes": "1MB"}, {"kind": "all_reduce", "bytes": "2MB"}]);
    value["collectives"]["algorithms_of"] = json!([{"group": "all", "collective": "all_reduce", "bytes": "2MB",
        "phases": ["direct(window=1) reduce_scatter", "halving_doubling all_gather"]}]);
    let found = try_run(value).unwrap();
    assert!(found.diagnostics.0.is_empty(), "{:?}", found.diagnostics);
    let Data::Text(names) = &found.timeline.table("collectives").unwrap().column("algorithm").unwrap().data
    else {
        panic!("names are texts")
    };
    assert_eq!(
        names[..],
        [
            "ring reduce_scatter + ring all_gather",
            "direct(window=1) reduce_scatter + halving_doubling all_gather"
        ]
    );
}

#[test]
fn unusable_entries_for_single_collectives_are_reported() {
    let entry = |bytes: &str, phases: &[&str]| json!({"group": "all", "collective": "all_reduce", "bytes": bytes, "phases": phases});
    let with = |entries: &[Value]| {
        try_run(scenario("all_reduce", "1MB", &[("switch", 4)], json!({"algorithms_of": entries})))
    };
    let ring = ["ring reduce_scatter", "ring all_gather"];
    let found = with(&[entry("3MB", &ring)]).unwrap();
    let warnings: Vec<_> = found.diagnostics.0.iter().filter_map(|warning| warning.key.as_deref()).collect();
    assert_eq!(warnings, ["collectives.algorithms_of.0"]);
    let refused = [
        (
            vec![entry("1MB", &["ring reduce_scatter"])],
            "algorithms_of.0.phases",
            "reduce_scatter, all_gather",
        ),
        (vec![entry("1MB", &ring), entry("1MB", &ring)], "algorithms_of.1", ""),
        (vec![entry("1MB", &["rong all_reduce"])], "algorithms_of.0.phases.0", ""),
        (vec![entry("1MB", &["ring"])], "algorithms_of.0.phases.0", ""),
        (vec![entry("1MB", &["ring all_reuce"])], "algorithms_of.0.phases.0", "all_reduce"),
    ];
    for (entries, key, allowed) in refused {
        let errors = with(&entries).unwrap_err();
        let error = &errors.0[0];
        assert_eq!(
            (error.code, error.key.as_deref()),
            (Code::BadValue, Some(&*format!("collectives.{key}")))
        );
        assert!(error.allowed.as_deref().unwrap_or_default().contains(allowed), "{error}");
    }
}
