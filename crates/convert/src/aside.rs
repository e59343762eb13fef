//! Writes a set of files so that they appear completely or not at all. Each file is first written to a temporary file
//! in the same folder and synchronised; when all are written, they are renamed. Existing files stay unchanged until
//! then, and if something fails no temporary file stays behind.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Code, Diagnostic, Result};

/// Temporary files that were written, each with its final path.
#[derive(Debug, Default)]
pub(super) struct Aside {
    files: Vec<(PathBuf, PathBuf)>,
}

impl Aside {
    /// Writes a temporary file for `path`. If `path` exists and is not a regular file, such as a pipe, writes to it
    /// directly.
    ///
    /// # Errors
    /// `CannotWrite`.
    pub(super) fn write(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        folder(path)?;
        let written = match fs::canonicalize(path) {
            Ok(real) if !real.is_file() => fs::write(path, bytes),
            // Replace the target of a symbolic link, not the link.
            Ok(real) => self.put(&real, bytes),
            Err(_) => self.put(path, bytes),
        };
        written.map_err(|error| cannot_write(path, &error).into())
    }

    fn put(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        let aside = path.with_file_name(name);
        self.files.push((aside.clone(), path.to_owned()));
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        if let Ok(known) = fs::metadata(path) {
            file.set_permissions(known.permissions())?;
        }
        file.sync_all()
    }

    /// Renames all files to their final paths.
    ///
    /// # Errors
    /// `CannotWrite`; files that were renamed before the failure stay.
    pub(super) fn commit(mut self) -> Result<()> {
        for (aside, path) in std::mem::take(&mut self.files) {
            if let Err(error) = fs::rename(&aside, &path) {
                let _ = fs::remove_file(&aside);
                return Err(cannot_write(&path, &error).into());
            }
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for (aside, _) in &self.files {
            let _ = fs::remove_file(aside);
        }
    }
}

/// Makes the folder of a file.
pub(crate) fn folder(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error).into())
        }
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(Code::CannotWrite, format!("cannot be written: {error}"))
        .at(path.display().to_string(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn either_all_files_appear_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["w.0.et", "w.1.et"].map(|name| folder.path().join(name));
        fs::write(&one, "before").unwrap();
        let mut aside = Aside::default();
        aside.write(&one, b"new").unwrap();
        aside.write(&two, b"new, too").unwrap();
        assert_eq!(fs::read_to_string(&one).unwrap(), "before");
        // One path cannot be written: the other files are not renamed.
        assert!(aside.write(&one.join("below a file"), b"x").is_err());
        drop(aside);
        assert_eq!(names(folder.path()), ["w.0.et"]);
        assert_eq!(fs::read_to_string(&one).unwrap(), "before");
        let mut aside = Aside::default();
        aside.write(&one, b"new").unwrap();
        aside.write(&two, b"new, too").unwrap();
        aside.commit().unwrap();
        assert_eq!(names(folder.path()), ["w.0.et", "w.1.et"]);
        assert_eq!(fs::read_to_string(&one).unwrap(), "new");
    }
}
