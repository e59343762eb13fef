//! Reads folders back: intact ones, and ones with every kind of damage.

use super::{read_file, read_manifest, read_summary, read_table, verify};
use crate::manifest::sha256;
use crate::run::Run;
use crate::table::OwnedTable;
use crate::testing::{any_spans, any_table, same, timeline};
use crate::write;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_timeline::Timeline;

/// A folder of the small run. It is removed when the first value is dropped.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    write(&folder, &Run::new(&timeline(), "a: 1\n", "1.2.3", u64::MAX)).unwrap();
    (place, folder)
}

/// Code and message of an outcome's only error.
fn error<T: std::fmt::Debug>(result: syncline_diagnostics::Result<T>) -> (Code, String) {
    let errors = result.unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    assert!(errors.0[0].place.is_some(), "{errors}");
    (errors.0[0].code, errors.0[0].message.clone())
}

#[test]
fn summary_tables_and_scenario_read_back_unchanged() {
    let (_place, folder) = folder();
    let timeline = timeline();
    assert_eq!(read_summary(&folder).unwrap(), timeline.summary);
    for table in &timeline.tables {
        assert_eq!(read_table(&folder, table.name).unwrap(), OwnedTable::from(table));
    }
    assert_eq!(read_file(&folder, "scenario.resolved.yaml").unwrap(), b"a: 1\n");
    let manifest = verify(&folder).unwrap();
    assert_eq!(manifest, read_manifest(&folder).unwrap());
    assert_eq!(manifest.seed, u64::MAX);
}

#[test]
fn other_folders_are_refused() {
    let (place, folder) = folder();
    assert_eq!(
        error(read_manifest(&place.path().join("none"))),
        (Code::Unreadable, "the results folder does not exist".into())
    );
    assert_eq!(
        error(read_manifest(&folder.join("summary.json"))),
        (Code::BadResults, "this is a file, but results are a folder".into())
    );
    assert_eq!(
        error(read_manifest(place.path())),
        (Code::BadResults, "the folder is not a results folder: it has no manifest.json".into())
    );
    fs::create_dir(place.path().join("manifest.json")).unwrap();
    assert_eq!(error(read_manifest(place.path())).0, Code::Unreadable);
}

#[test]
fn bad_manifests_are_refused() {
    let (_place, folder) = folder();
    let path = folder.join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    let (corrupt, foreign) = ("the manifest is corrupt", "the folder does not hold results of syncline");
    let newer = "the results were written by a newer version";
    let cases = [
        (String::new(), corrupt),
        (whole[..whole.len() / 2].to_owned(), corrupt),
        (whole.replace("\"seed\"", "\"sead\""), corrupt),
        ("[".repeat(100_000), corrupt),
        ("{}".to_owned(), foreign),
        ("3".to_owned(), foreign),
        (whole.replace("syncline-results/1", "other/1"), foreign),
        (whole.replace("syncline-results/1", "syncline-results/x"), foreign),
        (whole.replace("syncline-results/1", "syncline-results/2"), newer),
    ];
    for (text, message) in cases {
        fs::write(&path, &text).unwrap();
        assert_eq!(error(read_manifest(&folder)), (Code::BadResults, message.to_owned()), "{text:.80}");
    }
    fs::write(&path, whole.replace("\"seed\"", "\"added_later\": 1, \"seed\"")).unwrap();
    read_manifest(&folder).unwrap();
}

#[test]
fn errors_say_what_happened_to_a_file() {
    let (_place, folder) = folder();
    let path = folder.join("layers.parquet");
    let whole = fs::read(&path).unwrap();
    let said = || error(read_table(&folder, "layers")).1;

    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(said(), "a file of the results is truncated");
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert_eq!(said(), "a file of the results is longer than when it was written");
    let mut changed = whole.clone();
    changed[40] ^= 1;
    fs::write(&path, &changed).unwrap();
    assert_eq!(said(), "a file of the results was changed after it was written");
    fs::remove_file(&path).unwrap();
    assert_eq!(said(), "a file of the results is missing");
    fs::write(folder.join("links.parquet"), "").unwrap();
    assert_eq!(verify(&folder).unwrap_err().0.len(), 2, "all problems are reported together");
}

#[test]
fn a_manifest_that_contradicts_the_files_is_refused() {
    let (place, folder) = folder();
    let path = folder.join("manifest.json");
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(place.path().join("secret"), "x").unwrap();
    let escape = whole.replace("layers.parquet", "../secret");
    fs::write(&path, escape).unwrap();
    assert_eq!(error(read_table(&folder, "layers")).1, "the manifest names a file outside of the folder");

    // The file has the size and hash in the manifest, but it is not a table, or it is another table.
    let old = fs::read(folder.join("layers.parquet")).unwrap();
    for (bytes, message) in [
        (old[..old.len() - 3].to_vec(), "the Parquet file is truncated or corrupt"),
        (
            fs::read(folder.join("ranks.parquet")).unwrap(),
            "the table is not the one that the manifest describes",
        ),
        (
            fs::read(folder.join("links.parquet")).unwrap(),
            "the table is not the one that the manifest describes",
        ),
    ] {
        fs::write(folder.join("layers.parquet"), &bytes).unwrap();
        let mut manifest: serde_json::Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(manifest["files"][1]["name"], "layers.parquet");
        manifest["files"][1]["bytes"] = bytes.len().into();
        manifest["files"][1]["sha256"] = sha256(&bytes).into();
        fs::write(&path, manifest.to_string()).unwrap();
        assert_eq!(error(read_table(&folder, "layers")), (Code::BadResults, message.to_owned()));
    }
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    let (_place, folder) = folder();
    let errors = read_table(&folder, "layer").unwrap_err();
    assert_eq!(errors.0[0].nearest.as_deref(), Some("layers"));
    let errors = read_file(&folder, "sumary.json").unwrap_err();
    assert_eq!(errors.0[0].nearest.as_deref(), Some("summary.json"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_run_reads_back_unchanged(
        table in any_table(),
        spans in any_spans(),
        scenario: String,
        version: String,
        seed: u64,
        warning: String,
        limit in 0..2_000_u64,
        extra: Vec<u8>,
    ) {
        let timeline = Timeline { tables: vec![table], spans, ..timeline() };
        let warnings = Diagnostics::from(Diagnostic::warning(Code::AstraDefault, warning));
        let extra: &[(&str, &[u8])] = &[("report.html", &extra)];
        let run = Run { warnings: &warnings, max_trace_bytes: limit, extra, ..Run::new(&timeline, &scenario, &version, seed) };
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        let written = write(&one, &run).unwrap();
        prop_assert_eq!(&written.files, &write(&two, &run).unwrap().files);
        let manifest = verify(&one).unwrap();
        prop_assert_eq!((manifest.version, manifest.seed, manifest.warnings), (version, seed, warnings.0));
        prop_assert_eq!(read_file(&one, "scenario.resolved.yaml").unwrap(), scenario.as_bytes());
        prop_assert_eq!(read_file(&one, "report.html").unwrap(), extra[0].1);
        prop_assert_eq!(read_summary(&one).unwrap(), timeline.summary);
        let table = read_table(&one, "layers").unwrap();
        prop_assert!(same(&table, &OwnedTable::from(&timeline.tables[0])));
    }
}
