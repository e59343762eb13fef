//! Reads a folder. Nothing in it is trusted: sizes and hashes are checked against the manifest, and names in the
//! manifest that lead out of the folder are refused.

use crate::error::{bad_results, unreadable};
use crate::manifest::{
    FileEntry, MANIFEST, Manifest, SCHEMA, SCHEMA_FAMILY, SCHEMA_VERSION, SUMMARY, is_plain, sha256,
};
use crate::table::OwnedTable;
use crate::{parquet_file, summary_from_json, table_from_parquet};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};
use syncline_timeline::Summary;

/// Largest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// Reads the manifest of a run folder.
///
/// # Errors
/// [`Code::Unreadable`] if the folder does not exist or cannot be read; [`Code::BadResults`] if it is not a results
/// folder, its manifest is corrupt, or it was written by a newer version.
pub fn read_manifest(folder: &Path) -> Result<Manifest> {
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let error = Diagnostic::error(Code::Unreadable, "the results folder does not exist");
            return Err(error.at(folder.display().to_string(), 0).into());
        }
        Err(error) => return Err(unreadable(folder, &error).into()),
        Ok(data) if !data.is_dir() => {
            let error = bad_results(folder, "this is a file, but results are a folder");
            return Err(error.help(format!("name the folder that holds {MANIFEST}")).into());
        }
        Ok(_) => {}
    }
    let path = folder.join(MANIFEST);
    let bytes = match small_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let error =
                bad_results(folder, format!("the folder is not a results folder: it has no {MANIFEST}"));
            return Err(error.help("name a folder that was written with `--out`").into());
        }
        Err(error) => return Err(unreadable(&path, &error).into()),
        Ok(bytes) => bytes,
    };
    parse(&path, &bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Manifest> {
    let corrupt = |error: serde_json::Error| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
        let place = Place {
            file: path.display().to_string(),
            line: error.line() as u32,
            column: error.column() as u32,
            width: 1,
            text: line.chars().take(200).collect(),
        };
        Diagnostics::from(
            bad_results(path, "the manifest is corrupt").in_place(place).note(error.to_string()),
        )
    };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(corrupt)?;
    let schema = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default();
    match schema.strip_prefix(SCHEMA_FAMILY).and_then(|version| version.parse::<u64>().ok()) {
        None | Some(0) => {
            let error = bad_results(path, "the folder does not hold results of syncline").key("schema");
            Err(error.found(schema).allowed(SCHEMA).into())
        }
        Some(version) if version > SCHEMA_VERSION => {
            let error = bad_results(path, "the results were written by a newer version").key("schema");
            Err(error.found(schema).allowed(SCHEMA).help("install a newer version of syncline").into())
        }
        Some(_) => serde_json::from_slice(bytes).map_err(corrupt),
    }
}

/// Reads the summary of a run folder.
///
/// # Errors
/// Those of [`read_file`], and [`Code::BadResults`] if the file is not a summary.
pub fn read_summary(folder: &Path) -> Result<Summary> {
    let bytes = read_file(folder, SUMMARY)?;
    let at = |errors| located(errors, &folder.join(SUMMARY));
    let text = String::from_utf8(bytes)
        .map_err(|_| Diagnostics::from(bad_results(&folder.join(SUMMARY), "the summary is not UTF-8")))?;
    summary_from_json(&text).map_err(at)
}

/// Reads the table called `name` of a run folder.
///
/// # Errors
/// Those of [`read_file`], and [`Code::BadResults`] if there is no such table, or the file is not the table that the
/// manifest describes.
pub fn read_table(folder: &Path, name: &str) -> Result<OwnedTable> {
    let manifest = read_manifest(folder)?;
    let Some(entry) = manifest.table(name) else {
        let names = manifest.tables.iter().map(|table| table.name.as_str());
        return Err(bad_results(folder, "the results have no such table").one_of(name, names).into());
    };
    let path = folder.join(&entry.file);
    let bytes = bytes::Bytes::from(checked(folder, &manifest, &entry.file)?);
    let at = |errors| located(errors, &path);
    let unlike =
        || Diagnostics::from(bad_results(&path, "the table is not the one that the manifest describes"));
    if parquet_file::rows(bytes.clone()).map_err(at)? != entry.rows {
        return Err(unlike());
    }
    let table = table_from_parquet(bytes).map_err(at)?;
    let names = entry.columns.iter().map(|column| (column.name.as_str(), column.kind));
    if table.name != name || !names.eq(table.columns.iter().map(|c| (c.name.as_str(), (&c.data).into()))) {
        return Err(unlike());
    }
    Ok(table)
}

/// Largest table outside of a run folder.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// Reads a table from a Parquet file of its own, which no manifest describes.
///
/// # Errors
/// `Unreadable` if there is no such file; [`Code::BadResults`] if it is not a table, or larger than 1 GiB.
pub fn read_table_file(path: &Path) -> Result<OwnedTable> {
    let bytes = limited(path, MAX_TABLE_BYTES).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > MAX_TABLE_BYTES {
        let error = bad_results(path, "the table is too large").found("more than 1 GiB");
        return Err(error.allowed("at most 1 GiB").into());
    }
    table_from_parquet(bytes).map_err(|errors| located(errors, path))
}

/// Reads a file of a run folder, such as the resolved scenario, as bytes.
///
/// # Errors
/// Those of [`read_manifest`]; [`Code::BadResults`] if the manifest does not list the file, or the file is missing,
/// truncated, or changed since it was written.
pub fn read_file(folder: &Path, name: &str) -> Result<Vec<u8>> {
    checked(folder, &read_manifest(folder)?, name)
}

/// Checks every file of a run folder against the manifest, and returns it. All problems are reported together.
///
/// # Errors
/// Those of [`read_file`].
pub fn verify(folder: &Path) -> Result<Manifest> {
    let manifest = read_manifest(folder)?;
    let mut errors = Diagnostics::new();
    for file in &manifest.files {
        if let Err(found) = check(folder, file) {
            errors.extend(found);
        }
    }
    errors.into_result()?;
    Ok(manifest)
}

fn checked(folder: &Path, manifest: &Manifest, name: &str) -> Result<Vec<u8>> {
    match manifest.file(name) {
        Some(file) => check(folder, file),
        None => {
            let names = manifest.files.iter().map(|file| file.name.as_str());
            Err(bad_results(folder, "the results have no such file").one_of(name, names).into())
        }
    }
}

fn check(folder: &Path, file: &FileEntry) -> Result<Vec<u8>> {
    if !is_plain(&file.name) {
        let error = bad_results(&folder.join(MANIFEST), "the manifest names a file outside of the folder");
        return Err(error.found(file.name.clone()).into());
    }
    let path = folder.join(&file.name);
    let bytes = match limited(&path, file.bytes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let error = bad_results(&path, "a file of the results is missing");
            return Err(error.help("copy the whole folder, or repeat the run").into());
        }
        Err(error) => return Err(unreadable(&path, &error).into()),
        Ok(bytes) => bytes,
    };
    let length = bytes.len() as u64;
    let problem = match length.cmp(&file.bytes) {
        std::cmp::Ordering::Less => {
            bad_results(&path, "a file of the results is truncated").found(format!("{length} bytes"))
        }
        std::cmp::Ordering::Greater => {
            bad_results(&path, "a file of the results is longer than when it was written")
        }
        std::cmp::Ordering::Equal if sha256(&bytes) != file.sha256 => {
            bad_results(&path, "a file of the results was changed after it was written")
        }
        std::cmp::Ordering::Equal => return Ok(bytes),
    };
    let problem =
        if length == file.bytes { problem } else { problem.allowed(format!("{} bytes", file.bytes)) };
    Err(problem.help("copy it again from its source, or repeat the run").into())
}

/// Reads a whole file, unless it is a device or a pipe, or larger than the largest manifest.
pub(crate) fn small_file(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = limited(path, MAX_MANIFEST_BYTES)?;
    if bytes.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    Ok(bytes)
}

/// Reads at most `limit + 1` bytes of a file, so that the caller can see whether it has more than `limit`.
fn limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe could wait forever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds the file's path to errors.
fn located(errors: Diagnostics, path: &Path) -> Diagnostics {
    Diagnostics(errors.0.into_iter().map(|error| error.at(path.display().to_string(), 0)).collect())
}

#[cfg(test)]
mod tests;
