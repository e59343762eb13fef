//! Every way in which ASTRA-sim 2 aborts, hangs or is silently wrong (reference README 5) is an error here,
//! which says where the problem is and what to do.

mod common;

use common::{Case, collective, first_error};
use std::fs;
use syncline_astra_compat::{Backend, Options, run};
use syncline_diagnostics::{Code, Diagnostic, ExitStatus};
use syncline_formats::chakra::{CollectiveType, IoInfo, Metadata, Node, NodeKind, Value, write_file};

const UNAWARE: Options<'static> = Options {
    backend: Backend::Unaware,
    queues_per_dim: 1,
    injection_scale: 1.0,
    rendezvous: false,
    max_events: None,
    max_time_ns: None,
    cancel: None,
};
const AWARE: Options<'static> = Options { backend: Backend::Aware, ..UNAWARE };

fn compute(id: u64) -> Node {
    Node::compute(id, format!("comp{id}"), 5)
}

/// Runs a job on the congestion-unaware network, and returns the warning with this code.
#[track_caller]
fn warning(case: &Case, code: Code) -> Diagnostic {
    let outcome = case.run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}"));
    outcome.warnings.0.into_iter().find(|problem| problem.code == code).expect("there is such a warning")
}

/// Returns the error of a job on the congestion-unaware network; it must have this code and mention all of
/// `mentions`.
#[track_caller]
fn refused(case: &Case, code: Code, mentions: &[&str]) -> Diagnostic {
    expect(case.error(&UNAWARE), code, mentions)
}

#[track_caller]
fn expect(error: Diagnostic, code: Code, mentions: &[&str]) -> Diagnostic {
    let text = error.to_string();
    assert_eq!(error.code, code, "{text}");
    for mention in mentions {
        assert!(text.contains(mention), "no {mention:?} in:\n{text}");
    }
    error
}

#[test]
fn a_circle_beside_other_work_is_refused() {
    let nodes = [compute(1), compute(2).after(&[4]), compute(3).after(&[2]), compute(4).after(&[3])];
    let case = Case::new(&nodes).rank(5, &nodes[..1]);
    let circle = "2 `comp2` -> 3 `comp3` -> 4 `comp4` -> 2";
    let error = refused(
        &case,
        Code::ChakraGraph,
        &["w.0.et", "rank 0 node 2", "circle", "3 of 4 nodes can never start"],
    );
    assert_eq!(error.found.as_deref(), Some(circle));
    assert_eq!(error.code.exit(), ExitStatus::Input);
}

#[test]
fn a_trace_that_is_one_circle_is_refused() {
    let case = Case::new(&[compute(1).after(&[2]), compute(2).after(&[1])]);
    refused(&case, Code::ChakraGraph, &["circle", "1 `comp1` -> 2 `comp2` -> 1"]);
}

#[test]
fn a_node_that_waits_for_itself_is_refused() {
    refused(
        &Case::new(&[compute(1), compute(7).after(&[7])]),
        Code::ChakraGraph,
        &["node 7 `comp7`", "itself"],
    );
}

#[test]
fn two_nodes_with_the_same_id_are_refused() {
    refused(&Case::new(&[compute(3), compute(3)]), Code::ChakraGraph, &["same id", "node 3"]);
}

#[test]
fn a_dependency_on_a_missing_node_is_refused() {
    let case = Case::new(&[compute(1)]).rank(6, &[compute(1), compute(2).after(&[99])]);
    refused(&case, Code::ChakraGraph, &["w.6.et", "rank 6 node 2 `comp2`", "dependency on node 99"]);
}

#[test]
fn a_receive_without_a_send_is_refused() {
    let case = Case::new(&[compute(1)]).rank(2, &[Node::receive(1, "recv", 3, 2, 100, 0)]);
    refused(
        &case,
        Code::Unmatched,
        &["w.2.et", "rank 2 node 1 `recv`", "a receive has no send", "100 bytes"],
    );
}

#[test]
fn a_send_without_a_receive_is_refused() {
    let case = Case::new(&[compute(1)]).rank(3, &[Node::send(1, "send", 3, 2, 100, 0)]);
    refused(&case, Code::Unmatched, &["w.3.et", "a send has no receive"]);
}

#[test]
fn a_send_and_a_receive_of_different_sizes_are_refused() {
    let case = Case::new(&[compute(1)])
        .rank(3, &[Node::send(1, "send", 3, 2, 100, 0)])
        .rank(2, &[Node::receive(1, "recv", 3, 2, 200, 0)]);
    refused(&case, Code::Unmatched, &["100 bytes", "rank 2 node 1 `recv` has tag 0 and 200 bytes"]);
}

#[test]
fn messages_that_wait_for_each_other_are_reported_as_a_deadlock() {
    let case = Case::new(&[compute(1)])
        .rank(0, &[Node::receive(1, "get", 1, 0, 64, 0), Node::send(2, "put", 0, 1, 64, 0).after(&[1])])
        .rank(1, &[Node::receive(1, "get", 0, 1, 64, 0), Node::send(2, "put", 1, 0, 64, 0).after(&[1])]);
    let error = refused(
        &case,
        Code::AstraStuck,
        &[
            "2 of 8 ranks never finish",
            "w.0.et",
            "rank 0 node 1 `get` waits for 64 bytes from rank 1",
            "rank 1 node 1 `get`",
        ],
    );
    assert_eq!(error.code.exit(), ExitStatus::Deadlock);
}

#[test]
fn a_collective_that_waits_for_a_message_is_reported_as_a_deadlock() {
    // Rank 0 holds its communication slot with a collective that rank 1 only joins after a message from rank 0.
    let reduce = collective(1, CollectiveType::AllReduce);
    let case = Case::new(std::slice::from_ref(&reduce))
        .rank(0, &[reduce.clone(), Node::send(2, "send", 0, 1, 64, 0)])
        .rank(1, &[Node::receive(2, "recv", 0, 1, 64, 0), reduce.after(&[2])]);
    refused(
        &case,
        Code::AstraStuck,
        &[
            "rank 0 node 1 `all_reduce` waits for phase 1 of 1",
            "rank 1 node 2 `recv` waits for 64 bytes from rank 0",
            "stream 0",
        ],
    );
}

#[test]
fn ranks_with_different_collectives_are_refused() {
    let case = Case::all_reduce().rank(4, &[collective(1, CollectiveType::ReduceScatter)]);
    refused(
        &case,
        Code::Unmatched,
        &["rank 4", "all_reduce of 1048576 bytes: 1 times on rank 0, 0 times on rank 4"],
    );
}

#[test]
fn ranks_with_collectives_of_different_sizes_are_refused() {
    let case = Case::all_reduce().rank(4, &[Node::collective(1, "ar", CollectiveType::AllReduce, 77)]);
    refused(&case, Code::Unmatched, &["all_reduce of 77 bytes"]);
}

#[test]
fn collectives_in_different_orders_are_named_if_they_cause_a_deadlock() {
    let (a, b) = (collective(1, CollectiveType::AllReduce), collective(2, CollectiveType::ReduceScatter));
    let case = Case::new(&[a.clone(), b.clone().after(&[1])]).rank(3, &[a.after(&[2]), b]);
    // In ASTRA-sim the first messages of the two match, because their sizes are equal; then rank 3 has no
    // more with that number.
    let errors = case.run(&UNAWARE).expect_err("the ranks wait for each other");
    let told = errors.0.iter().find(|problem| problem.code == Code::Unmatched).expect("a warning");
    assert_eq!(told.severity, syncline_diagnostics::Severity::Warning);
    let text = told.to_string();
    for mention in ["w.3.et", "rank 3 node 2", "different orders", "rank 0 issued in its node 1"] {
        assert!(text.contains(mention), "{text}");
    }
    assert_eq!(first_error(Err(errors)).code, Code::AstraStuck);
}

#[test]
fn collectives_in_different_orders_with_matching_messages_finish_as_in_astra_sim() {
    // On a ring of two, a reduce-scatter of 2 MiB sends one message of 1 MiB, as does an all-gather of 1 MiB:
    // whichever comes first on a rank, every message finds its receiver.
    let gather = collective(1, CollectiveType::AllGather);
    let scatter = Node::collective(2, "scatter", CollectiveType::ReduceScatter, 2 << 20);
    let both = [gather.clone(), scatter.clone().after(&[1])];
    let case =
        Case::new(&both).on(&[("FullyConnected", 2, 50.0, 500.0)]).set("preferred-dataset-splits", "1");
    let in_order = case.cycles(&UNAWARE);
    let swapped = case.rank(1, &[gather.after(&[2]), scatter]);
    let outcome = swapped.run(&UNAWARE).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(outcome.warnings.0.iter().any(|told| told.code == Code::Unmatched));
    // 500 ns and 1 MiB at 50 GiB/s twice; endpoints, and reductions of 1 MiB at 1600 GB/s.
    let (net, endpoint, reduction) =
        (500 + (1 << 20) * 1_000_000_000 / (50 << 30), 10, 3 * ((1 << 20) / 1600));
    assert_eq!(in_order, [2 * (net + 2 * endpoint) + reduction; 2]);
    // Rank 1's second message comes after its reduction, and rank 0 reduces after it.
    assert_eq!(outcome.cycles(), Some(in_order[0] + reduction));
    assert_eq!(outcome.collectives.len(), 2 * 2);
}

#[test]
fn stream_numbers_that_do_not_match_are_reported_as_a_deadlock() {
    // A group's streams count as streams of the rank, so ranks outside the group give the next collective a
    // different number.
    let first = collective(1, CollectiveType::AllReduce).in_group("1");
    let second = collective(2, CollectiveType::AllReduce);
    let mut case = Case::new(std::slice::from_ref(&second)).groups("{\"1\": [0, 1]}");
    for rank in [0, 1] {
        case = case.rank(rank, &[first.clone(), second.clone().after(&[1])]);
    }
    refused(&case, Code::AstraStuck, &["8 of 8 ranks", "numbers its streams"]);
}

#[test]
fn a_misspelt_key_of_the_system_file_gets_a_warning_with_the_nearest_name() {
    // ASTRA-sim ignores it, and so does the drop-in, but with a warning.
    let told = warning(&Case::all_reduce().set("prefered-dataset-splits", "4"), Code::AstraIgnored);
    let text = told.to_string();
    assert!(
        text.contains("system.json") && text.contains("did you mean `preferred-dataset-splits`?"),
        "{text}"
    );
    let place = told.place.expect("there is a place");
    assert_eq!((place.line, place.column), (12, 3));
    assert!(place.text.contains("prefered-dataset-splits"));
}

#[test]
fn a_misspelt_key_of_the_network_file_suggests_the_nearest_name() {
    let mut case = Case::all_reduce();
    case.network = case.network.replace("latency", "latencies");
    let errors = case.run(&UNAWARE).expect_err("there is no latency");
    let text = errors.to_string();
    assert!(
        text.contains("the key latency is missing") && text.contains("did you mean `latency`?"),
        "{text}"
    );
    let told = errors.0.iter().find(|problem| problem.code == Code::AstraIgnored).expect("a warning");
    assert_eq!(told.place.as_ref().map(|place| place.line), Some(4));
}

#[test]
fn an_implementation_list_that_is_too_short_or_too_long_is_refused() {
    let two = [("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0)];
    let error = refused(
        &Case::all_reduce().on(&two),
        Code::BadAstraFile,
        &["all-reduce-implementation has fewer entries", "1 entries, 2 dimensions", "rank 0 node 1"],
    );
    assert_eq!(error.place.map(|place| place.line), Some(6));
    let long = Case::all_reduce().algorithms("[\"ring\", \"ring\"]");
    refused(&long, Code::BadAstraFile, &["more entries", "2 entries, 1 dimensions"]);
    // Lists of unused collectives do not matter.
    let unused = Case::all_reduce().on(&two).set("all-reduce-implementation", "[\"ring\", \"ring\"]");
    assert_eq!(unused.cycles(&UNAWARE).len(), 8);
}

#[test]
fn an_absent_implementation_list_is_refused_if_it_is_needed() {
    let case = Case::all_reduce().without("all-reduce-implementation");
    refused(&case, Code::BadAstraFile, &["all-reduce-implementation is missing", "w.0.et"]);
    // A missing list that is not used does not matter.
    Case::all_reduce().without("all-gather-implementation").run(&UNAWARE).expect("it runs");
}

#[test]
fn numbers_that_are_not_above_zero_are_refused() {
    for key in ["endpoint-delay", "active-chunks-per-dimension", "preferred-dataset-splits"] {
        for value in ["0", "-1", "2.5", "\"4\"", "true", "null"] {
            let error = refused(&Case::all_reduce().set(key, value), Code::BadAstraFile, &[key, "above 0"]);
            assert_eq!(error.place.map(|place| place.line), Some(11), "{key} {value}");
        }
    }
    refused(&Case::all_reduce().set("local-mem-bw", "-1"), Code::BadAstraFile, &["local-mem-bw"]);
    expect(
        Case::all_reduce().error(&Options { injection_scale: 0.01, ..UNAWARE }),
        Code::BadValue,
        &["injection-scale", "10 ns x 0.01"],
    );
    expect(
        Case::all_reduce().error(&Options { injection_scale: f64::NAN, ..UNAWARE }),
        Code::BadValue,
        &["NaN"],
    );
    expect(
        Case::all_reduce().error(&Options { queues_per_dim: 0, ..UNAWARE }),
        Code::BadValue,
        &["num-queues-per-dim"],
    );
}

#[test]
fn absent_keys_get_a_default_and_a_warning() {
    let outcome =
        Case::all_reduce().without("endpoint-delay").without("active-chunks-per-dimension").run(&UNAWARE);
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.cycles(), Some(64440));
    let keys: Vec<_> =
        outcome.warnings.0.iter().map(|warning| (warning.code, warning.key.as_deref())).collect();
    let want = [
        (Code::AstraDefault, Some("endpoint-delay")),
        (Code::AstraDefault, Some("active-chunks-per-dimension")),
    ];
    assert_eq!(keys, want);
}

#[test]
fn known_keys_without_effect_get_a_warning() {
    let outcome =
        Case::all_reduce().set("boost-mode", "0").set("intra-dimension-scheduling", "\"FIFO\"").run(&UNAWARE);
    let warnings = outcome.expect("it runs").warnings;
    assert!(warnings.0.iter().all(|warning| warning.code == Code::AstraIgnored));
    assert_eq!(warnings.0.len(), 2);
}

#[test]
fn absent_keys_without_a_usable_default_are_refused() {
    let splits = Case::all_reduce().without("preferred-dataset-splits");
    refused(&splits, Code::BadAstraFile, &["preferred-dataset-splits is missing", "divides by it"]);
    let case = Case::all_reduce()
        .on(&[("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0)])
        .algorithms("[\"ring\", \"ring\"]")
        .without("collective-optimization");
    refused(&case, Code::BadAstraFile, &["collective-optimization is missing", "baseline, localBWAware"]);
    // Over one dimension it makes no difference.
    assert_eq!(Case::all_reduce().without("collective-optimization").cycles(&UNAWARE), [64440; 8]);
}

#[test]
fn collectives_without_a_valid_number_of_bytes_are_refused() {
    let sized = |bytes: i64| Case::new(&[Node::collective(1, "ar", CollectiveType::AllReduce, bytes)]);
    refused(&sized(0), Code::ChakraNode, &["no bytes", "rank 0 node 1 `ar`"]);
    refused(&sized(-5), Code::ChakraNode, &["out of range", "comm_size", "-5"]);
    let mut missing = collective(1, CollectiveType::AllReduce);
    missing.attrs.retain(|attr| attr.name != "comm_size");
    refused(&Case::new(&[missing]), Code::ChakraNode, &["comm_size is missing", "w.0.et", "node 1"]);
    let float = collective(1, CollectiveType::AllReduce).with("comm_size", Value::Double(1024.0));
    refused(&Case::new(&[float]), Code::ChakraNode, &["wrong kind", "Double 1024", "an integer"]);
    let few = Node::collective(1, "ag", CollectiveType::AllGather, 3);
    refused(&Case::new(&[few]), Code::ChakraNode, &["fewer bytes than chunks", "3 bytes in 4 chunks"]);
    let huge = Node::collective(1, "ag", CollectiveType::AllGather, i64::MAX);
    refused(&Case::new(&[huge]).set("preferred-dataset-splits", "1"), Code::ChakraNode, &["exceed 64 bits"]);
}

#[test]
fn collectives_that_are_not_offered_are_refused() {
    let barrier = Case::new(&[collective(1, CollectiveType::Barrier)]);
    refused(&barrier, Code::AstraUnsupported, &["BARRIER"]);
    let unknown = collective(1, CollectiveType::AllReduce).with("comm_type", Value::Int64(17));
    refused(&Case::new(&[unknown]), Code::BadChakra, &["unknown type", "17"]);
}

#[test]
fn nodes_that_are_not_simulated_are_refused() {
    let case = Case::new(&[Node::new(1, "odd", NodeKind::Invalid), compute(2).after(&[1])]);
    refused(&case, Code::ChakraNode, &[NodeKind::Invalid.name(), "node 1 `odd`"]);
    refused(
        &Case::new(&[collective(1, CollectiveType::AllReduce).on_cpu()]),
        Code::ChakraNode,
        &["host operation"],
    );
}

#[test]
fn invalid_process_groups_are_refused() {
    let grouped = |name: &str| Case::new(&[collective(1, CollectiveType::AllReduce).in_group(name)]);
    refused(&grouped("dp"), Code::ChakraNode, &["\"dp\"", "not the number"]);
    refused(&grouped("7"), Code::BadGroup, &["group 7 is not defined", "communicator-group file"]);
    refused(&grouped("1").groups("{\"1\": [0, 1]}"), Code::BadGroup, &["does not belong", "rank 2"]);
    refused(
        &grouped("1").groups("{\"1\": [0, 99]}"),
        Code::BadGroup,
        &["does not exist", "rank 99", "groups.json"],
    );
    refused(&grouped("1").groups("{\"1\": [0, 0]}"), Code::BadAstraFile, &["lists a rank twice"]);
    refused(&grouped("1").groups("{\"0\": [0, 1]}"), Code::BadAstraFile, &["whole number above 0"]);
    refused(&grouped("1").groups("{\"1\": 5}"), Code::BadAstraFile, &["must be a list"]);
    refused(&grouped("1").groups("{\"1\": [0], \"1\": [1]}"), Code::BadAstraFile, &["occurs twice"]);
    let lone = Case::new(&[compute(9)])
        .groups("{\"1\": [3]}")
        .rank(3, &[collective(1, CollectiveType::AllReduce).in_group("1")]);
    refused(&lone, Code::BadGroup, &["a group of one rank", "rank 3"]);
    let tree = Case::new(&[compute(9)])
        .groups("{\"1\": [2, 3]}")
        .algorithms("[\"doubleBinaryTree\"]")
        .rank(2, &[collective(1, CollectiveType::AllReduce).in_group("1")])
        .rank(3, &[collective(1, CollectiveType::AllReduce).in_group("1")]);
    refused(&tree, Code::BadAstraFile, &["doubleBinaryTree does not run in a group"]);
    // Members disagree.
    let alone = Case::new(&[compute(9)])
        .groups("{\"1\": [2, 3]}")
        .rank(2, &[collective(1, CollectiveType::AllReduce).in_group("1")]);
    refused(&alone, Code::Unmatched, &["group 1"]);
}

#[test]
fn messages_to_invalid_ranks_are_refused() {
    let send = |dst| Case::new(&[compute(1)]).rank(1, &[Node::send(1, "send", 1, dst, 8, 0)]);
    refused(&send(1), Code::ChakraNode, &["same sender and receiver", "rank 1"]);
    refused(&send(8), Code::ChakraNode, &["does not exist", "rank 8", "0 to 7"]);
    let foreign = Case::new(&[compute(1)]).rank(1, &[Node::send(1, "send", 0, 2, 8, 0)]);
    refused(&foreign, Code::ChakraNode, &["another rank as its sender"]);
    let mut untagged = Node::send(1, "send", 1, 2, 8, 0);
    untagged.attrs.retain(|attr| attr.name != "comm_tag");
    refused(&Case::new(&[compute(1)]).rank(1, &[untagged]), Code::ChakraNode, &["comm_tag is missing"]);
}

#[test]
fn collectives_with_invalid_lists_of_dimensions_are_refused() {
    let two = [("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0)];
    let run = |dims: &[bool]| {
        Case::new(&[collective(1, CollectiveType::AllReduce).in_dims(dims)])
            .on(&two)
            .algorithms("[\"ring\", \"ring\"]")
    };
    refused(&run(&[false, false]), Code::ChakraNode, &["no dimension takes part"]);
    refused(&run(&[true]), Code::ChakraNode, &["involved_dim has fewer entries", "1 entries, 2 dimensions"]);
    assert_eq!(run(&[true, true]).cycles(&UNAWARE).len(), 8);
}

#[test]
fn algorithms_for_powers_of_two_are_refused_for_other_numbers() {
    for algorithm in ["halvingDoubling", "doubleBinaryTree"] {
        let case =
            Case::all_reduce().on(&[("Ring", 6, 50.0, 500.0)]).algorithms(&format!("[\"{algorithm}\"]"));
        refused(&case, Code::BadAstraFile, &[algorithm, "a power of two of ranks, not 6"]);
    }
    let case = Case::new(&[collective(1, CollectiveType::AllToAll)]).algorithms("[\"halvingDoubling\"]");
    refused(&case, Code::BadAstraFile, &["halvingDoubling has no all-to-all"]);
}

#[test]
fn unknown_algorithms_are_refused_with_the_nearest_name() {
    for (name, near) in
        [("Ring", Some("ring")), ("halvingdoubling", Some("halvingDoubling")), ("direct0", None)]
    {
        let error = refused(
            &Case::all_reduce().set("all-reduce-implementation", &format!("[\"{name}\"]")),
            Code::BadAstraFile,
            &["unknown algorithm", name],
        );
        if near.is_some() {
            assert_eq!(error.nearest.as_deref(), near);
        }
    }
    let bare = Case::all_reduce().set("all-reduce-implementation", "\"ring\"");
    refused(&bare, Code::BadAstraFile, &["a list of names", "write [\"ring\"]"]);
}

#[test]
fn local_memory_is_not_tracked_and_changes_no_time() {
    let tracked = Case::all_reduce().set("track-local-mem", "1");
    assert!(warning(&tracked, Code::AstraIgnored).to_string().contains("track-local-mem has no effect"));
    assert_eq!(tracked.cycles(&UNAWARE), Case::all_reduce().cycles(&UNAWARE));
}

#[test]
fn a_flat_algorithm_behind_another_is_refused() {
    let flat = Case::all_reduce()
        .on(&[("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0)])
        .algorithms("[\"ring\", \"oneRing\"]");
    refused(&flat, Code::AstraUnsupported, &["flat algorithm behind another"]);
}

#[test]
fn networks_that_the_congestion_aware_backend_lacks_are_refused() {
    let ring_of_2 = Case::all_reduce().on(&[("Ring", 2, 50.0, 500.0)]);
    expect(ring_of_2.error(&AWARE), Code::AstraUnsupported, &["ring of 2", "network.yml"]);
    assert_eq!(ring_of_2.cycles(&UNAWARE).len(), 2);
    let two = Case::all_reduce()
        .on(&[("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0)])
        .algorithms("[\"ring\", \"ring\"]");
    expect(two.error(&AWARE), Code::AstraUnsupported, &["one dimension only", "2 dimensions"]);
}

#[test]
fn invalid_network_files_are_refused() {
    let file = |text: &str| {
        let mut case = Case::all_reduce();
        case.network = text.to_owned();
        case
    };
    let good = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n";
    let with = |from: &str, to: &str| file(&good.replace(from, to));
    let error = refused(&with("[ Ring ]", "[ ring ]"), Code::BadAstraFile, &["did you mean `Ring`?"]);
    assert_eq!(error.place.map(|place| (place.line, place.column)), Some((1, 13)));
    refused(&with("[ Ring ]", "Ring"), Code::BadAstraFile, &["must be a list", "write `topology: [ Ring ]`"]);
    refused(&with("[ 8 ]", "[ 1 ]"), Code::BadAstraFile, &["npus_count[0]", "above 1"]);
    refused(&with("[ 8 ]", "[ 8, 8 ]"), Code::BadAstraFile, &["same number of entries", "npus_count 2"]);
    refused(&with("[ 50.0 ]", "[ .nan ]"), Code::BadSyntax, &["network.yml:3", ".nan"]);
    refused(&with("[ 50.0 ]", "[ 0 ]"), Code::BadAstraFile, &["bandwidth[0]", "above 0"]);
    refused(&with("[ 50.0 ]", "[ tbd ]"), Code::BadAstraFile, &["bandwidth[0]", "tbd"]);
    refused(&with("[ 500.0 ]", "[ -1 ]"), Code::BadAstraFile, &["latency[0]"]);
    refused(&with("latency: [ 500.0 ]\n", ""), Code::BadAstraFile, &["latency is missing"]);
    refused(&with("[ 500.0 ]", "[ 500.0"), Code::BadSyntax, &["not valid YAML", "network.yml"]);
    refused(&with("[ 8 ]", "[ 4000000000 ]"), Code::BadAstraFile, &["too many NPUs"]);
    refused(&file("- a\n"), Code::BadAstraFile, &["must be a mapping"]);
    refused(&file(""), Code::BadAstraFile, &["must be a mapping"]);
}

#[test]
fn invalid_json_files_are_refused() {
    let mut case = Case::all_reduce();
    case.system.push(("L".to_owned(), "1 2".to_owned()));
    let error = refused(&case, Code::BadSyntax, &["not valid JSON", "system.json"]);
    assert_eq!(error.place.map(|place| place.line), Some(12));
    let policy = Case::all_reduce().set("scheduling-policy", "\"lifo\"");
    refused(&policy, Code::BadAstraFile, &["did you mean `LIFO`?"]);
    refused(&Case::all_reduce().set("roofline-enabled", "true"), Code::BadAstraFile, &["0 or 1"]);
    refused(&Case::all_reduce().set("roofline-enabled", "1"), Code::BadAstraFile, &["needs peak-perf"]);
    let mut twice = Case::all_reduce();
    twice.system.push(("endpoint-delay".to_owned(), "20".to_owned()));
    refused(&twice, Code::BadAstraFile, &["occurs twice"]);
    let mut memory = Case::all_reduce();
    memory.memory = "{\"memory-type\": \"MEMORY_POL\"}".to_owned();
    refused(&memory, Code::BadAstraFile, &["did you mean `MEMORY_POOL`?", "memory.json"]);
    memory.memory = "{\"memory-type\": \"MEMORY_POOL\"}".to_owned();
    refused(&memory, Code::BadAstraFile, &["remote-mem-bw is missing"]);
    memory.memory = "[1]".to_owned();
    refused(&memory, Code::BadAstraFile, &["must be a JSON object"]);
}

#[test]
fn missing_remote_memory_is_refused() {
    let nodes = [Node::memory(1, "load", NodeKind::MemLoad, 100)];
    refused(&Case::new(&nodes), Code::ChakraNode, &["remote memory", "NO_MEMORY_EXPANSION", "node 1 `load`"]);
    let mut case = Case::new(&nodes);
    case.memory =
        "{\"memory-type\": \"PER_NODE_MEMORY_EXPANSION\", \"remote-mem-latency\": 1, \"remote-mem-bw\": 1,
        \"num-nodes\": 1, \"num-npus-per-node\": 4}"
            .to_owned();
    refused(&case, Code::BadAstraFile, &["beyond the nodes", "rank 4"]);
}

#[test]
fn computations_without_work_are_refused() {
    let roofline = |node: Node| Case::new(&[node]).set("peak-perf", "1").set("roofline-enabled", "1");
    refused(&roofline(compute(1)), Code::ChakraNode, &["num_ops"]);
    refused(&roofline(Node::roofline(1, "c", 0, 5)), Code::ChakraNode, &["num_ops above 0"]);
    // A computation that moves no bytes is skipped, and nothing starts the node that depends on it.
    let stuck = [Node::roofline(1, "skipped", 5, 0), Node::roofline(2, "next", 5, 5).after(&[1])];
    let case = Case::new(&stuck).set("peak-perf", "1").set("roofline-enabled", "1");
    refused(&case, Code::AstraStuck, &["rank 0 node 2 `next` could start"]);
}

#[test]
fn files_that_are_not_traces_are_refused() {
    let with = |bytes: &[u8]| {
        let case = Case::all_reduce();
        let inputs = case.write();
        fs::write(case.path("w.3.et"), bytes).expect("a file is written");
        let error = first_error(run(&inputs, &UNAWARE));
        (case, error)
    };
    let refused = |bytes: &[u8], code, mentions: &[&str]| {
        let (_case, error) = with(bytes);
        let text = error.to_string();
        assert!(text.contains("w.3.et"), "{text}");
        expect(error, code, mentions)
    };
    refused(b"", Code::BadChakra, &["empty", "rank 3"]);
    refused(b"{\"schema\": 1}", Code::BadChakra, &["not a Chakra execution trace"]);
    refused(&[0xff; 64], Code::BadChakra, &["not a Chakra execution trace"]);
    refused(&[0x07, 0x0a, 0x05, b'0', b'.', b'0', b'.', b'4'], Code::BadChakra, &["no nodes"]);
    let metadata = [0x07, 0x0a, 0x05, b'0', b'.', b'0', b'.', b'4'];
    let after = |rest: &[u8]| [&metadata[..], rest].concat();
    refused(&after(&[0x20, 0x08]), Code::BadChakra, &["ends within a message"]);
    refused(&after(&[0; 9]), Code::BadChakra, &["no fields"]);
    refused(&after(&[0x80]), Code::BadChakra, &["ends within the length"]);
    refused(&after(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Code::BadChakra, &["longer than 64 MiB"]);
    refused(&after(&[0xff; 12]), Code::BadChakra, &["not a valid varint"]);
    refused(&after(&[0x02, 0x08, 0x80]), Code::BadChakra, &["varint is truncated", "node number 1"]);
    refused(&after(&[0x04, 0x08, 0x01, 0x18, 0x2a]), Code::BadChakra, &["unknown type", "42"]);
    refused(&after(&[0x02, 0x0f, 0x01]), Code::BadChakra, &["unknown wire type"]);
}

#[test]
fn missing_files_are_reported() {
    let case = Case::all_reduce();
    let mut inputs = case.write();
    fs::remove_file(case.path("w.3.et")).expect("it was there");
    fs::remove_file(case.path("w.5.et")).expect("it was there");
    let error = first_error(run(&inputs, &UNAWARE));
    expect(error, Code::RankMismatch, &["w.3.et", "8 NPUs", "no file for rank 3, 5"]);
    inputs.workload = case.path("ww");
    let error = first_error(run(&inputs, &UNAWARE));
    expect(error, Code::Unreadable, &["ww.0.et", "did you mean `w`?", "prefixes in its folder: w"]);
    inputs.system = case.path("nothing.json");
    let error = first_error(run(&inputs, &UNAWARE));
    expect(error, Code::Unreadable, &["nothing.json", "cannot be read"]);
}

#[test]
fn a_trace_of_more_ranks_than_npus_gets_a_warning() {
    let case = Case::all_reduce();
    let inputs = case.write();
    write_file(&case.path("w.8.et"), &Metadata::astra(), &case.ranks[0]).expect("a trace is written");
    let outcome = run(&inputs, &UNAWARE).expect("it runs");
    assert!(outcome.warnings.0.iter().any(|warning| warning.code == Code::RankMismatch));
}

#[test]
fn several_errors_are_reported_together() {
    let case =
        Case::all_reduce().set("endpoint-delay", "0").set("splits", "4").set("scheduling-policy", "\"X\"");
    let errors = case.run(&UNAWARE).expect_err("it is refused");
    assert_eq!(errors.0.iter().filter(|problem| problem.code == Code::BadAstraFile).count(), 2);
    assert_eq!(errors.0.iter().filter(|problem| problem.code == Code::AstraIgnored).count(), 1);
}

#[test]
fn custom_algorithms_run_and_invalid_ones_are_refused() {
    let case = || {
        let nodes = [collective(1, CollectiveType::AllReduce)];
        Case::new(&nodes).on(&[("FullyConnected", 2, 50.0, 500.0)]).set("preferred-dataset-splits", "1")
    };
    // Each sends 1 MiB to the other, receives as much, and computes for 7 us: no endpoint delay, no
    // reduction.
    let swap = |position: i32| {
        let other = 1 - position;
        vec![
            Node::send(0, "give", position, other, 1 << 20, 0),
            Node::receive(1, "take", other, position, 1 << 20, 0).after(&[0]),
            Node::compute(2, "add", 7).after(&[1]),
        ]
    };
    let with = |mut case: Case, algorithm: &dyn Fn(i32) -> Vec<Node>, positions: i32| {
        for position in 0..positions {
            let path = case.path(&format!("swap.{position}.et"));
            write_file(&path, &Metadata::astra(), &algorithm(position)).expect("a trace is written");
        }
        let prefix = format!("[{:?}]", case.path("swap"));
        case = case.set("all-reduce-implementation-custom", &prefix);
        case
    };
    let net = 500 + (1 << 20) * 1_000_000_000 / (50 << 30);
    for options in [&UNAWARE, &AWARE] {
        assert_eq!(with(case(), &swap, 2).cycles(options), [net + 7000; 2]);
    }
    // ASTRA-sim would wait for three more chunks forever.
    let chunks = with(case(), &swap, 2).set("preferred-dataset-splits", "4");
    refused(&chunks, Code::BadAstraFile, &["one chunk", "4 chunks", "preferred-dataset-splits"]);
    refused(&with(case(), &swap, 1), Code::RankMismatch, &["1 traces, 2 ranks", "swap.1.et"]);
    refused(&with(case(), &swap, 0), Code::Unreadable, &["no trace with this prefix", "working directory"]);
    let alone = |position| vec![Node::send(0, "give", position, position, 64, 0)];
    refused(&with(case(), &alone, 2), Code::ChakraNode, &["an invalid peer", "swap.0.et"]);
    let nested = |_| vec![collective(0, CollectiveType::AllReduce)];
    refused(&with(case(), &nested, 2), Code::ChakraNode, &["a node of type COMM_COLL_NODE"]);
    // A receive without a sender is reported with its own node.
    let waits = |position: i32| vec![Node::receive(5, "take", 1 - position, position, 64, 9)];
    refused(&with(case(), &waits, 2), Code::AstraStuck, &["node 5 `take` of", "swap.0.et"]);
}

#[test]
fn a_trace_may_describe_its_process_groups() {
    let groups = r#"['[{"pg_name": "1", "ranks": [0, 1, 2, 3]}, {"pg_name": "2", "ranks": [4, 5, 6, 7]}]']"#;
    let describe = |values: &str| {
        let mut node = Node::new(1, "## process_group:init ##", NodeKind::Metadata);
        node.inputs = Some(IoInfo { values: values.to_owned(), ..IoInfo::default() });
        node
    };
    let all = |values: &str| {
        let reduce = |group: &str| collective(2, CollectiveType::AllReduce).in_group(group).after(&[1]);
        let mut case = Case::new(&[describe(values), reduce("1")]);
        for rank in 4..8 {
            case = case.rank(rank, &[describe(values), reduce("2")]);
        }
        case
    };
    let listed = |name: &str| collective(1, CollectiveType::AllReduce).in_group(name);
    let mut file = Case::new(&[listed("1")]).groups(r#"{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}"#);
    for rank in 4..8 {
        file = file.rank(rank, &[listed("2")]);
    }
    assert_eq!(all(groups).cycles(&UNAWARE), file.cycles(&UNAWARE));
    refused(&all(&groups.replace('7', "9")), Code::BadGroup, &["rank 9", "does not exist"]);
    refused(&all("['[{\"pg_name\": \"1\"}]']"), Code::ChakraNode, &["process groups", "missing field"]);
}

#[test]
fn times_that_overflow_are_refused() {
    let mut case = Case::all_reduce();
    case.network = case.network.replace("50.0", "1e-18");
    refused(&case, Code::Overflow, &["2^62 ns"]);
    let mut long = compute(1);
    long.duration_micros = u64::MAX;
    refused(&Case::new(&[long]), Code::ChakraNode, &["duration"]);
}
