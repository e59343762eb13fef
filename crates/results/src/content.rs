//! Makes the files of a folder one after the other, so that only one of them is in memory at a time.

use crate::error::{cannot_write, internal};
use crate::manifest::{
    ColumnEntry, ColumnKind, FileEntry, MANIFEST, Manifest, SCENARIO, SCHEMA, SUMMARY, TRACE, TableEntry,
    TraceEntry, is_plain,
};
use crate::run::Run;
use crate::{summary_to_json, table_to_parquet, trace};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_timeline::Table;

/// Passes every file except the manifest to `put`, and returns the manifest.
pub(crate) fn files(run: &Run<'_>, mut put: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<Manifest> {
    check_names(run)?;
    let timeline = run.timeline;
    let mut manifest = Manifest {
        schema: SCHEMA.to_owned(),
        version: run.version.to_owned(),
        ended: timeline.summary.ended,
        seed: run.seed,
        files: Vec::new(),
        tables: timeline.tables.iter().map(table_entry).collect(),
        trace: None,
        warnings: run.warnings.0.iter().map(without_path).collect(),
    };
    let mut file = |name: &str, bytes: &[u8]| -> Result<()> {
        put(name, bytes)?;
        manifest.files.push(FileEntry::of(name, bytes));
        Ok(())
    };
    file(SUMMARY, summary_to_json(&timeline.summary)?.as_bytes())?;
    for (table, entry) in timeline.tables.iter().zip(&manifest.tables) {
        file(&entry.file, &table_to_parquet(table)?)?;
    }
    if !timeline.spans.spans.is_empty() || timeline.spans.left_out > 0 {
        let trace = trace::encode(
            &timeline.spans,
            &timeline.counters(),
            run.max_trace_bytes,
            trace::Origin::Simulated,
        );
        file(TRACE, &trace.bytes)?;
        manifest.trace = Some(TraceEntry { spans: trace.spans, left_out: trace.left_out });
    }
    file(SCENARIO, run.scenario_yaml.as_bytes())?;
    for (name, bytes) in run.extra {
        file(name, bytes)?;
    }
    Ok(manifest)
}

/// The manifest as the text of its file.
pub(crate) fn manifest_to_json(manifest: &Manifest) -> Result<String> {
    let text = serde_json::to_string_pretty(manifest).map_err(|error| internal("the manifest", error))?;
    Ok(text + "\n")
}

fn table_entry(table: &Table) -> TableEntry {
    let columns = table.columns.iter().map(|column| ColumnEntry {
        name: column.name.to_owned(),
        kind: ColumnKind::from(&column.data),
        meaning: column.meaning.to_owned(),
    });
    TableEntry {
        name: table.name.to_owned(),
        meaning: table.meaning.to_owned(),
        file: format!("{}.parquet", table.name),
        rows: table.rows() as u64,
        columns: columns.collect(),
    }
}

/// Removes the folder from the file name in a warning, so that results do not depend on where their input was.
fn without_path(warning: &Diagnostic) -> Diagnostic {
    let mut warning = warning.clone();
    if let Some(place) = &mut warning.place
        && let Some(name) = Path::new(&place.file).file_name()
    {
        place.file = name.to_string_lossy().into_owned();
    }
    warning
}

/// Checks that all file names differ and do not lead out of the folder.
fn check_names(run: &Run<'_>) -> Result<()> {
    let tables = run.timeline.tables.iter().map(|table| format!("{}.parquet", table.name));
    let own = [MANIFEST, SUMMARY, TRACE, SCENARIO].map(str::to_owned);
    let extra = run.extra.iter().map(|(name, _)| (*name).to_owned());
    let mut names = Vec::new();
    for name in own.into_iter().chain(tables).chain(extra) {
        if !is_plain(&name) {
            let error =
                cannot_write(Path::new(&name), "a file in a results folder has a name that is not allowed")
                    .allowed("a plain name that does not begin with a dot");
            return Err(error.into());
        }
        // Some file systems do not distinguish upper and lower case.
        names.push(name.to_lowercase());
    }
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            Err(Diagnostic::error(Code::CannotWrite, "two files in a results folder have the same name")
                .found(pair[0].clone())
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{files, manifest_to_json};
    use crate::run::Run;
    use crate::testing::timeline;
    use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

    fn names(run: &Run<'_>) -> syncline_diagnostics::Result<Vec<String>> {
        let mut names = Vec::new();
        files(run, |name, _| {
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    #[test]
    fn a_run_has_the_listed_files() {
        let mut timeline = timeline();
        let run = Run {
            extra: &[("report.html", b"<html>")],
            ..Run::new(&timeline, "schema: syncline/1\n", "1.2.3", 7)
        };
        let expected = [
            "summary.json",
            "layers.parquet",
            "collectives.parquet",
            "phases.parquet",
            "links.parquet",
            "ranks.parquet",
            "trace.pftrace",
            "scenario.resolved.yaml",
            "report.html",
        ];
        assert_eq!(names(&run).unwrap(), expected);
        timeline.spans = Default::default();
        assert!(!names(&Run::new(&timeline, "", "", 0)).unwrap().contains(&"trace.pftrace".to_owned()));
    }

    #[test]
    fn names_that_leave_the_folder_or_occur_twice_are_refused() {
        let timeline = timeline();
        for name in ["../a", "summary.json", "Layers.PARQUET", "manifest.json", "trace.pftrace", ""] {
            let extra: &[(&str, &[u8])] = &[(name, b"")];
            let errors = names(&Run { extra, ..Run::new(&timeline, "", "", 0) }).unwrap_err();
            assert_eq!(errors.0[0].code, Code::CannotWrite, "{name}");
        }
    }

    #[test]
    fn the_folder_of_the_input_makes_no_difference() {
        let timeline = timeline();
        let json = |file: &str| {
            let warnings =
                Diagnostics::from(Diagnostic::warning(Code::AstraDefault, "a default").at(file, 3));
            let run = Run { warnings: &warnings, ..Run::new(&timeline, "a: 1\n", "1.2.3", 7) };
            manifest_to_json(&files(&run, |_, _| Ok(())).unwrap()).unwrap()
        };
        assert_eq!(json("/home/one/system.json"), json("two/system.json"));
        assert!(json("system.json").contains("\"file\": \"system.json\""));
    }
}
