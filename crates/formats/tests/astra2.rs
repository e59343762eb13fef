//! ASTRA-sim 2's configuration files: correct files are read, and no input makes a reader panic.

use proptest::prelude::*;
use syncline_formats::astra2::{
    Algorithm, Groups, Memory, MemoryKind, NetworkFile, Optimization, Scheduling, Source, System, Topology,
};

fn source(text: &str) -> Source {
    Source::new("file", text)
}

#[test]
fn a_network_file_is_read() {
    let text = "# speeds are a guess\ntopology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 8, 4, 2 ]\n\
                bandwidth: [ 200, 100.5, 5e1 ]  # GB/s\nlatency: [ 0, 0.5, 2000.0 ]\n";
    let (network, warnings) = NetworkFile::parse(source(text)).expect("a network");
    assert!(warnings.0.is_empty());
    assert_eq!(network.npus(), 64);
    let dim = network.dims[1];
    assert_eq!(
        (dim.topology, dim.npus, dim.bandwidth, dim.latency),
        (Topology::FullyConnected, 4, 100.5, 0.5)
    );
    assert_eq!(network.dims[2].bandwidth, 50.0);
}

#[test]
fn byte_order_marks_are_ignored() {
    let plain = r#"{"preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"]}"#;
    let parse = |text: &str| System::parse(source(text)).expect("a system");
    assert_eq!(format!("{:?}", parse(&format!("\u{feff}{plain}"))), format!("{:?}", parse(plain)));
}

#[test]
fn invalid_yaml_has_reworded_errors() {
    let told = |text: &str| NetworkFile::parse(source(text)).expect_err("no YAML").to_string();
    for (text, expected) in [
        ("latency: [ 1 ]\nlatency: [ 2 ]\n", "is not valid YAML: key `latency` is given twice"),
        ("latency: [ .nan ]\n", "is not valid YAML: `.nan` is not a finite number"),
        ("latency:\n\t- 1\n", "is not valid YAML: a tab in the indentation"),
    ] {
        let told = told(text);
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn missing_files_are_reported_without_an_error_number() {
    let told = NetworkFile::read(std::path::Path::new("no/such/file")).expect_err("no file").to_string();
    assert!(told.contains("the file cannot be read: no such file"), "{told}");
    assert!(!told.contains("os error"), "{told}");
}

#[test]
fn a_system_file_is_read() {
    let text = r#"{"scheduling-policy": "EXPLICIT", "collective-optimization": "baseline", "endpoint-delay": 12.0,
        "active-chunks-per-dimension": 2, "preferred-dataset-splits": 64, "local-mem-bw": 1555.5, "peak-perf": 312,
        "roofline-enabled": 1, "all-reduce-implementation": ["oneDirect12"],
        "all-gather-implementation": ["ring", "doubleBinaryTree", "halvingDoubling"]}"#;
    let (system, warnings) = System::parse(source(text)).expect("a system");
    assert!(warnings.0.is_empty());
    assert_eq!(system.scheduling, Scheduling::Explicit);
    assert_eq!(system.optimization, Some(Optimization::Baseline));
    assert_eq!((system.endpoint_delay, system.active_chunks, system.splits), (Some(12), 2, Some(64)));
    assert!(system.roofline && system.all_to_all.is_none());
    let all_reduce = system.all_reduce.expect("a list");
    assert_eq!(all_reduce[0].algorithm, Algorithm::Direct { window: Some(12) });
    assert!(all_reduce[0].flat);
    assert_eq!(all_reduce[0].name(), "oneDirect12");
}

#[test]
fn an_empty_system_warns_of_each_default() {
    let (system, warnings) = System::parse(source("{}")).expect("a system");
    assert_eq!(system, System { source: source("{}"), ..System::default() });
    assert_eq!(warnings.0.len(), 6);
}

#[test]
fn memory_and_group_files_are_read() {
    let text = r#"{"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50.5,
        "num-nodes": 2, "num-npus-per-node": 4}"#;
    let (memory, warnings) = Memory::parse(source(text)).expect("a memory");
    assert!(warnings.0.is_empty());
    assert_eq!(memory.kind, MemoryKind::PerNode { nodes: 2, npus_per_node: 4 });
    assert_eq!((memory.latency, memory.bandwidth), (100, 50.5));
    let groups = Groups::parse(source(r#"{"2": [7, 3], "10": [1]}"#)).expect("groups");
    assert_eq!(groups.members[&2], [7, 3]);
    assert!(Groups::ignored("x/empty.json".as_ref()) && !Groups::ignored("groups.json".as_ref()));
}

#[test]
fn a_key_is_found_in_the_outermost_object_only() {
    let text = "{\n  \"a\": {\"b\": [\"b\", \"x,{\"]},\n  \"\\u0062\": 1\n}";
    let place = source(text).json_key("b");
    assert_eq!((place.line, place.column, place.text.as_str()), (3, 3, "  \"\\u0062\": 1"));
    assert_eq!(source(text).json_key("c").line, 0);
}

proptest! {
    #[test]
    fn no_text_makes_them_panic(text in r#"[\[\]{}:,"0-9a-z\n .&*!|>-]{0,80}"#) {
        let _ = NetworkFile::parse(source(&text));
        let _ = System::parse(source(&text));
        let _ = Memory::parse(source(&text));
        let _ = Groups::parse(source(&text));
    }

    #[test]
    fn no_value_makes_them_panic(
        key in prop::sample::select(vec![
            "scheduling-policy", "endpoint-delay", "preferred-dataset-splits", "local-mem-bw", "peak-perf",
            "roofline-enabled", "all-reduce-implementation", "model-shared-bus", "L", "memory-type", "remote-mem-bw",
            "num-nodes", "remote-mem-latency", "1",
        ]),
        value in prop::sample::select(vec![
            "null", "true", "-1", "0", "1e308", "1e999", "99999999999999999999", "0.5", "\"x\"", "[]", "[1]", "[\"ring\"]",
            "[\"direct99999\"]", "[\"direct999999\"]", "[\"oneé\"]", "{}", "{\"a\": [1]}",
        ]),
    ) {
        let text = format!("{{\"{key}\": {value}}}");
        let _ = System::parse(source(&text));
        let _ = Memory::parse(source(&text));
        let _ = Groups::parse(source(&text));
    }
}
