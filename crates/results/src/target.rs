//! Where a folder is to be written, and whether what is there may be replaced.

use crate::error::cannot_write;
use crate::manifest::{MANIFEST, SCHEMA_FAMILY};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Diagnostic, Result};

/// Files that are made from results later on, and may be replaced with them.
const DERIVED: [&str; 1] = ["report.html"];

/// A place that may be written to.
pub(crate) struct Target {
    /// The folder itself.
    pub(crate) folder: PathBuf,
    /// The folder that it is in; it need not exist yet.
    pub(crate) parent: PathBuf,
    /// Its name.
    name: OsString,
    /// Whether results, or an empty folder, are there already.
    pub(crate) exists: bool,
}

impl Target {
    /// Looks at a folder, and refuses it where something else would be lost.
    pub(crate) fn inspect(folder: &Path) -> Result<Self> {
        let Some(name) = folder.file_name() else {
            let error = cannot_write(folder, "a results folder needs a name of its own")
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
                return Err(cannot_write(folder, "the place for the results cannot be looked at")
                    .found(error.to_string())
                    .into());
            }
            Ok(data) if data.is_dir() => {
                refuse_foreign(&target.folder)?;
                true
            }
            Ok(data) => {
                let kind = if data.is_symlink() { "a symbolic link" } else { "a file" };
                let error = cannot_write(folder, format!("{kind} is where the results folder should be"));
                return Err(error.help("name another folder").into());
            }
        };
        Ok(Self { exists, ..target })
    }

    /// A hidden name beside the folder.
    pub(crate) fn beside(&self, purpose: &str, attempt: u32) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{purpose}-{}-{attempt}", std::process::id()));
        self.parent.join(name)
    }
}

/// Refuses a folder that holds anything but results of ours.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let listed = ours(folder);
    let entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<BTreeSet<_>>>());
    let entries: BTreeSet<OsString> = entries.map_err(|error| {
        cannot_write(folder, "the place for the results cannot be looked at").found(error.to_string())
    })?;
    let foreign = |name: &&OsString| match (&listed, name.to_str()) {
        (Some(listed), Some(name)) => !listed.contains(name) && name != MANIFEST && !DERIVED.contains(&name),
        _ => true,
    };
    let Some(first) = entries.iter().find(foreign) else { return Ok(()) };
    let refuse = |message: &str| -> Diagnostic {
        cannot_write(folder, message)
            .found(first.to_string_lossy())
            .help("name another folder, or move away what is in this one")
    };
    Err(match listed {
        None => {
            refuse("the folder is not empty, and what is in it is not results that may be replaced").into()
        }
        Some(_) => {
            refuse("the folder holds results that may be replaced, and something else that would be lost")
                .into()
        }
    })
}

/// The files that the manifest in a folder lists, where it is a manifest of ours of any version.
fn ours(folder: &Path) -> Option<BTreeSet<String>> {
    let bytes = crate::read::small_file(&folder.join(MANIFEST)).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    manifest.get("schema")?.as_str()?.starts_with(SCHEMA_FAMILY).then_some(())?;
    let files = manifest.get("files")?.as_array()?;
    Some(files.iter().filter_map(|file| Some(file.get("name")?.as_str()?.to_owned())).collect())
}
