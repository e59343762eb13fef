//! The place where a folder will be written, and whether existing content there may be replaced.

use crate::error::cannot_write;
use crate::manifest::{MANIFEST, SCHEMA_FAMILY};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Diagnostic, Result};

/// Files that are derived from results later, and may be replaced together with them.
const DERIVED: [&str; 1] = ["report.html"];

/// A place that passed the checks.
pub(crate) struct Target {
    /// The folder itself.
    pub(crate) folder: PathBuf,
    /// The folder's parent, which need not exist yet.
    pub(crate) parent: PathBuf,
    /// Its name.
    name: OsString,
    /// Whether the folder exists, empty or with results.
    pub(crate) exists: bool,
}

impl Target {
    /// Checks a folder, and refuses it if anything but results would be lost.
    pub(crate) fn inspect(folder: &Path) -> Result<Self> {
        let Some(name) = folder.file_name() else {
            let error = cannot_write(folder, "the path does not end in a name for the results folder")
                .help("name a folder that does not exist yet, such as `runs/first`");
            return Err(error.into());
        };
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_path_buf();
        // Without the trailing slash that a user may have typed.
        let target = Self { folder: parent.join(name), parent, name: name.to_owned(), exists: false };
        let exists = match fs::symlink_metadata(&target.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                return Err(cannot_write(folder, "the place for the results cannot be checked")
                    .found(error.to_string())
                    .into());
            }
            Ok(data) if data.is_dir() => {
                refuse_foreign(&target.folder)?;
                true
            }
            Ok(data) => {
                let kind = if data.is_symlink() { "a symbolic link" } else { "a file" };
                let error =
                    cannot_write(folder, format!("{kind} with this name exists; results need a folder"));
                return Err(error.help("name another folder").into());
            }
        };
        Ok(Self { exists, ..target })
    }

    /// The path of a hidden folder in the same parent.
    pub(crate) fn beside(&self, purpose: &str, attempt: u32) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{purpose}-{}-{attempt}", std::process::id()));
        self.parent.join(name)
    }
}

/// Refuses a folder that holds anything but results of syncline.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let listed = ours(folder);
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<BTreeSet<_>>>());
    let entries: BTreeSet<OsString> = entries.map_err(|error| {
        cannot_write(folder, "the place for the results cannot be checked").found(error.to_string())
    })?;
    let foreign = |name: &&OsString| match (&listed, name.to_str()) {
        (Some(listed), Some(name)) => !listed.contains(name) && name != MANIFEST && !DERIVED.contains(&name),
        _ => true,
    };
    let Some(first) = entries.iter().find(foreign) else { return Ok(()) };
    let refuse = |message: &str| -> Diagnostic {
        cannot_write(folder, message)
            .found(first.to_string_lossy())
            .help("name another folder, or move the content of this one elsewhere")
    };
    Err(match listed {
        None => refuse("the folder is not empty and does not hold results that may be replaced").into(),
        Some(_) => {
            refuse("the folder holds results that may be replaced, but also other files that would be lost")
                .into()
        }
    })
}

/// The files that the manifest in a folder lists; `None` unless it is a manifest of syncline, of any version.
fn ours(folder: &Path) -> Option<BTreeSet<String>> {
    let bytes = crate::read::small_file(&folder.join(MANIFEST)).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    manifest.get("schema")?.as_str()?.starts_with(SCHEMA_FAMILY).then_some(())?;
    let files = manifest.get("files")?.as_array()?;
    Some(files.iter().filter_map(|file| Some(file.get("name")?.as_str()?.to_owned())).collect())
}
