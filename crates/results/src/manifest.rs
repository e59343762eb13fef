//! `manifest.json`: the list of a run folder's content. It is written last, so a folder that has one is complete.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use syncline_diagnostics::Diagnostic;
use syncline_timeline::{Data, Ended};

/// The schema that this version writes. Readers accept it and every older one. Adding keys does not change it.
pub const SCHEMA: &str = "syncline-results/1";
/// The prefix of the schema in every version.
pub(crate) const SCHEMA_FAMILY: &str = "syncline-results/";
/// The version in [`SCHEMA`].
pub(crate) const SCHEMA_VERSION: u64 = 1;

/// The name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// The name of the summary.
pub const SUMMARY: &str = "summary.json";
/// The name of the resolved scenario.
pub const SCENARIO: &str = "scenario.resolved.yaml";
/// The name of the Perfetto trace, which exists if spans were traced.
pub const TRACE: &str = "trace.pftrace";

/// The list of a run folder's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the tool that wrote it.
    pub version: String,
    /// How the run ended.
    pub ended: Ended,
    /// The seed of the run.
    pub seed: u64,
    /// Every file except the manifest itself.
    pub files: Vec<FileEntry>,
    /// Every table.
    pub tables: Vec<TableEntry>,
    /// What the trace shows; absent if there is no trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceEntry>,
    /// The warnings that the user got.
    #[serde(default)]
    pub warnings: Vec<Diagnostic>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in lower-case hexadecimal.
    pub sha256: String,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// What a row is.
    pub meaning: String,
    /// The file that holds it.
    pub file: String,
    /// Number of rows.
    pub rows: u64,
    /// Its columns in order.
    pub columns: Vec<ColumnEntry>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Its name, with the unit as suffix.
    pub name: String,
    /// What kind of values it holds.
    #[serde(rename = "type")]
    pub kind: ColumnKind,
    /// What its values mean.
    pub meaning: String,
}

/// What kind of values a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// 64-bit signed integers.
    Int,
    /// 64-bit floats.
    Float,
    /// 64-bit floats, or nothing.
    OptionalFloat,
    /// UTF-8 text.
    Text,
    /// Yes or no.
    Bool,
}

impl From<&Data> for ColumnKind {
    fn from(data: &Data) -> Self {
        match data {
            Data::Int(_) => Self::Int,
            Data::Float(_) => Self::Float,
            Data::OptionalFloat(_) => Self::OptionalFloat,
            Data::Text(_) => Self::Text,
            Data::Bool(_) => Self::Bool,
        }
    }
}

/// What the trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Number of spans in the trace.
    pub spans: u64,
    /// Number of spans that are left out.
    pub left_out: u64,
}

impl FileEntry {
    /// The entry of a file with these bytes.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Self {
        Self { name: name.to_owned(), bytes: bytes.len() as u64, sha256: sha256(bytes) }
    }
}

impl Manifest {
    /// The entry of the file called `name`.
    pub fn file(&self, name: &str) -> Option<&FileEntry> {
        self.files.iter().find(|file| file.name == name)
    }
    /// The entry of the table called `name`.
    pub fn table(&self, name: &str) -> Option<&TableEntry> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// The SHA-256 of `bytes` in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `name`, on every operating system, can only be a file directly in the folder.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('.')
        && !name.ends_with(['.', ' '])
        && !name.contains(|c: char| c.is_control() || "/\\:*?\"<>|".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{is_plain, sha256};

    #[test]
    fn the_hash_of_empty_bytes_is_the_published_one() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn names_stay_in_the_folder() {
        assert!(["report.html", "links.parquet", "Größe.txt", "a b"].iter().all(|name| is_plain(name)));
        for name in ["", ".", "..", "../a", "a/b", "a\\b", "/a", "C:a", ".hidden", "a\0", "a\n", "a.", "a "] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
