//! Mismatches between ranks and NPUs: each kind of mismatch has its own message.

use std::path::Path;
use syncline_diagnostics::Diagnostics;
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use syncline_simulate::{Control, run};

const COLLECTIVE: &str =
    r#""workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MB"}]}"#;

/// Runs a job on a ring of four.
fn on_four(workload: &str, rest: &str) -> syncline_diagnostics::Result<u64> {
    let text = format!(
        r#"{{"schema": "syncline/1", {workload}, {rest}
            "fabric": {{"dims": [{{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s"}}]}}}}"#
    );
    Ok(run(&serde_json::from_str(&text).unwrap(), Control::default())?.timeline.summary.ranks)
}

fn refused(workload: &str, rest: &str) -> Diagnostics {
    on_four(workload, rest).expect_err("this is refused")
}

/// A trace of some ranks, as a workload.
fn trace(folder: &Path, ranks: impl IntoIterator<Item = u32>) -> String {
    for rank in ranks {
        let node = Node::collective(1, "reduce", CollectiveType::AllReduce, 1 << 20);
        write_file(&folder.join(format!("t.{rank}.et")), &Metadata::astra(), &[node]).unwrap();
    }
    let prefix = serde_json::to_string(&folder.join("t").display().to_string()).unwrap();
    format!(r#""workload": {{"source": "chakra", "prefix": {prefix}}}"#)
}

#[test]
fn invalid_placements_are_refused() {
    for (npus, key, message) in [
        ("[]", "placement", "the placement lists no NPU"),
        ("[0, 1, 2, 9]", "placement.3", "rank 3 is placed on NPU 9, which does not exist"),
        ("[0, 1, 2, 1]", "placement.3", "NPU 1 is given to two ranks, 1 and 3"),
        ("[0, 1, 2, 3, 0]", "placement", "the placement lists 5 NPUs, but the fabric has 4"),
    ] {
        let errors = refused(COLLECTIVE, &format!(r#""placement": {{"npus": {npus}}},"#));
        assert_eq!(errors.0[0].key.as_deref(), Some(key), "{errors}");
        assert!(errors.to_string().contains(message), "{errors}");
    }
}

#[test]
fn the_first_few_wrong_entries_are_named() {
    let errors = refused(COLLECTIVE, r#""placement": {"npus": [7, 0, 0]},"#);
    assert_eq!(errors.0.len(), 2, "{errors}");
    let many = vec!["9"; 1000].join(",");
    let errors = refused(COLLECTIVE, &format!(r#""placement": {{"npus": [{many}]}},"#));
    assert_eq!(errors.0.len(), 9, "{errors}");
    assert!(errors.to_string().contains("992 more entries of the placement are wrong"), "{errors}");
}

#[test]
fn some_npus_may_be_left_idle() {
    let folder = tempfile::tempdir().unwrap();
    let two = trace(folder.path(), 0..2);
    for workload in [COLLECTIVE, &two] {
        assert_eq!(on_four(workload, r#""placement": {"npus": [3, 1]},"#).unwrap(), 2);
    }
}

#[test]
fn traces_with_a_different_number_of_ranks_are_refused() {
    for (ranks, placement, key, message) in [
        (2, None, "fabric", "the trace has 2 ranks, but the fabric has 4 NPUs"),
        (1, None, "fabric", "the trace has 1 rank, but the fabric has 4 NPUs"),
        (6, None, "fabric", "the trace has 6 ranks, but the fabric has 4 NPUs"),
        (4, Some("0, 1"), "placement", "the trace has 4 ranks, but the placement lists 2 NPUs"),
        (3, Some("0, 1"), "placement", "the trace has 3 ranks, but the placement lists 2 NPUs"),
        (3, Some("0"), "placement", "the trace has 3 ranks, but the placement lists 1 NPU"),
        (2, Some("3, 2, 1"), "placement", "the trace has 2 ranks, but the placement lists 3 NPUs"),
        (6, Some("3, 2, 1"), "fabric", "the trace has 6 ranks, but the placement lists 3 NPUs"),
        (2, Some("3, 2, 2"), "placement.2", "NPU 2 is given to two ranks, 1 and 2"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let placement =
            placement.map_or_else(String::new, |npus| format!(r#""placement": {{"npus": [{npus}]}},"#));
        let errors = refused(&trace(folder.path(), 0..ranks), &placement);
        assert_eq!(errors.0.len(), 1, "{errors}");
        assert_eq!(errors.0[0].key.as_deref(), Some(key), "{errors}");
        assert_eq!(errors.0[0].message, message);
        assert!(errors.0[0].help.is_some() || key == "placement.2", "{errors}");
    }
}

#[test]
fn a_missing_file_of_a_trace_has_its_own_message() {
    let folder = tempfile::tempdir().unwrap();
    let errors = refused(&trace(folder.path(), [0, 1, 3]), "");
    assert!(errors.to_string().contains("the trace has no file for rank 2, but one for rank 3"), "{errors}");
}

#[test]
fn a_logical_topology_of_another_size_is_refused() {
    for (rest, message) in [
        (
            r#""collectives": {"logical": [2, 3]},"#,
            "the logical topology has 6 ranks, but the fabric has 4 NPUs",
        ),
        (
            r#""collectives": {"logical": [2, 2]}, "placement": {"npus": [0, 1]},"#,
            "the logical topology has 4 ranks, but the placement lists 2 NPUs",
        ),
        (
            r#""collectives": {"logical": [4000000000, 4000000000]},"#,
            "the logical topology has too many ranks",
        ),
    ] {
        let errors = refused(COLLECTIVE, rest);
        assert!(errors.to_string().contains(message), "{errors}");
        assert_eq!(errors.0[0].key.as_deref(), Some("collectives.logical"));
    }
}
