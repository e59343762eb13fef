//! Folders are written completely or not at all, whatever fails.

use super::{write, write_on};
use crate::disk::Faulty;
use crate::manifest::SCENARIO;
use crate::run::Run;
use crate::testing::timeline;
use crate::{read_file, read_manifest, verify};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syncline_diagnostics::Code;
use syncline_timeline::Timeline;

/// Every path below a folder, with the bytes of files.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
            all.insert(path, None);
        } else {
            let bytes = fs::read(&path).unwrap();
            all.insert(path, Some(bytes));
        }
    }
    all
}

fn run<'a>(timeline: &'a Timeline, scenario: &'a str) -> Run<'a> {
    Run { extra: &[("report.html", b"<html></html>")], ..Run::new(timeline, scenario, "1.2.3", 7) }
}

#[test]
fn the_same_run_gives_the_same_bytes_anywhere() {
    let timeline = timeline();
    let place = tempfile::tempdir().unwrap();
    let written = write(&place.path().join("one"), &run(&timeline, "a: 1\n")).unwrap();
    write(&place.path().join("deep/er/two/"), &run(&timeline, "a: 1\n")).unwrap();
    let names = |folder: &str| -> Vec<_> {
        let folder = place.path().join(folder);
        tree(&folder)
            .into_iter()
            .map(|(path, bytes)| (path.strip_prefix(&folder).unwrap().to_owned(), bytes))
            .collect()
    };
    assert_eq!(names("one"), names("deep/er/two"));
    assert_eq!(written.files.last().unwrap().name, "manifest.json");
    assert_eq!(written.files.len(), names("one").len());
    for (name, bytes) in names("one") {
        let entry = written.files.iter().find(|file| Path::new(&file.name) == name).unwrap();
        assert_eq!(entry.bytes, bytes.unwrap().len() as u64);
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn results_and_empty_folders_are_replaced() {
    let timeline = timeline();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    fs::create_dir(&folder).unwrap();
    write(&folder, &run(&timeline, "a: 1\n")).unwrap();
    fs::write(folder.join("report.html"), "made later").unwrap();
    let written = write(&folder, &run(&timeline, "a: 2\n")).unwrap();
    assert_eq!(written.leftover, None);
    assert_eq!(read_file(&folder, SCENARIO).unwrap(), b"a: 2\n");
    verify(&folder).unwrap();
    // Results of a later version are results too.
    let text = fs::read_to_string(folder.join("manifest.json")).unwrap();
    fs::write(folder.join("manifest.json"), text.replace("syncline-results/1", "syncline-results/99"))
        .unwrap();
    write(&folder, &run(&timeline, "a: 3\n")).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn nothing_else_is_replaced() {
    let timeline = timeline();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full/thesis.tex"), "years of work").unwrap();
    fs::create_dir(at("almost")).unwrap();
    fs::write(at("almost/manifest.json"), "{\"schema\": \"another/1\", \"files\": []}").unwrap();
    fs::write(at("file"), "text").unwrap();
    write(&at("notes"), &run(&timeline, "")).unwrap();
    fs::write(at("notes/notes.md"), "what I saw").unwrap();
    write(&at("corrupt"), &run(&timeline, "")).unwrap();
    fs::write(at("corrupt/manifest.json"), "{\"schema\": \"syncline-res").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(at("full"), at("link")).unwrap();
    let before = tree(place.path());
    let cases = [
        ("full", "the folder is not empty and does not hold results that may be replaced"),
        ("almost", "the folder is not empty and does not hold results that may be replaced"),
        ("corrupt", "the folder is not empty and does not hold results that may be replaced"),
        ("notes", "the folder holds results that may be replaced, but also other files that would be lost"),
        ("file", "a file with this name exists; results need a folder"),
        #[cfg(unix)]
        ("link", "a symbolic link with this name exists; results need a folder"),
        ("..", "the path does not end in a name for the results folder"),
    ];
    for (name, message) in cases {
        let errors = write(&at(name), &run(&timeline, "")).unwrap_err();
        assert_eq!((errors.0[0].code, errors.0[0].message.as_str()), (Code::CannotWrite, message), "{name}");
        assert!(errors.0[0].help.is_some());
    }
    assert!(write(Path::new(""), &run(&timeline, "")).is_err());
    assert!(write(&at("file/below"), &run(&timeline, "")).is_err());
    assert_eq!(tree(place.path()), before);
}

#[test]
fn a_run_that_cannot_be_stored_leaves_nothing() {
    let mut timeline = timeline();
    timeline.summary.step_time_s = f64::INFINITY;
    let place = tempfile::tempdir().unwrap();
    let errors = write(&place.path().join("a/b"), &run(&timeline, "")).unwrap_err();
    assert_eq!(errors.0[0].code, Code::Internal);
    assert!(tree(place.path()).is_empty());
}

/// Fails at the Nth operation for every N, with nothing there, an empty folder, and older results.
#[test]
fn after_any_failure_the_folder_is_old_or_new() {
    let timeline = timeline();
    let prepare: [fn(&Path, &Timeline); 3] = [
        |_, _| {},
        |folder, _| fs::create_dir_all(folder).unwrap(),
        |folder, timeline| drop(write(folder, &run(timeline, "old: 1\n")).unwrap()),
    ];
    for (case, prepare) in prepare.into_iter().enumerate() {
        for good in 0.. {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("runs/first");
            prepare(&folder, &timeline);
            let before = tree(place.path());
            let mut disk = Faulty { good, for_ever: false, done: 0 };
            match write_on(&mut disk, &folder, &run(&timeline, "new: 1\n")) {
                Err(errors) => {
                    assert_eq!(errors.0[0].code, Code::CannotWrite);
                    assert!(errors.0[0].notes.is_empty(), "{errors}");
                    assert_eq!(tree(place.path()), before, "case {case}, failure {good}");
                }
                Ok(written) => {
                    assert_eq!(written.leftover, None);
                    verify(&folder).unwrap();
                    assert_eq!(read_file(&folder, SCENARIO).unwrap(), b"new: 1\n");
                    assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1);
                }
            }
            if disk.done <= good {
                assert!(good > 12, "every file and every rename has failed once");
                break;
            }
        }
    }
}

/// A disk that fails permanently: the previous content is intact, and the error names everything that stays beside it.
#[test]
fn a_disk_that_stays_broken_loses_nothing() {
    let timeline = timeline();
    for good in 0..20 {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("first");
        write(&folder, &run(&timeline, "old: 1\n")).unwrap();
        let mut disk = Faulty { good, for_ever: true, done: 0 };
        let result = write_on(&mut disk, &folder, &run(&timeline, "new: 1\n"));
        let intact = |path: &Path| verify(path).is_ok();
        let mut folders: Vec<PathBuf> =
            fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().path()).collect();
        folders.sort();
        assert!(folders.iter().any(|path| intact(path)), "failure {good}: {folders:?}");
        let text = match &result {
            Ok(written) => written.leftover.iter().map(|path| path.display().to_string()).collect(),
            Err(errors) => errors.to_string(),
        };
        for beside in folders.iter().filter(|path| **path != folder) {
            let name = beside.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(name), "failure {good}: {name} is not named in {text}");
        }
        if result.is_ok() {
            assert_eq!(read_file(&folder, SCENARIO).unwrap(), b"new: 1\n");
        }
    }
}

#[test]
fn the_manifest_lists_the_content() {
    let timeline = timeline();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    write(&folder, &run(&timeline, "a: 1\n")).unwrap();
    let manifest = read_manifest(&folder).unwrap();
    assert_eq!(
        (manifest.schema.as_str(), manifest.version.as_str(), manifest.seed),
        ("syncline-results/1", "1.2.3", 7)
    );
    let table = manifest.table("layers").unwrap();
    assert_eq!((table.file.as_str(), table.rows), ("layers.parquet", 2));
    let column = &serde_json::to_value(table).unwrap()["columns"][1];
    assert_eq!(
        column,
        &serde_json::json!({"name": "compute_s", "type": "float", "meaning": "Time in compute"})
    );
    assert_eq!(serde_json::to_value(manifest.trace).unwrap(), serde_json::json!({"spans": 7, "left_out": 0}));
}
