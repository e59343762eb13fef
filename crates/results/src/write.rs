//! Writes a folder under a temporary name, synchronises it to disk and renames it into place, so that the folder is
//! complete or absent.

use crate::content::{files, manifest_to_json};
use crate::disk::{Disk, Real};
use crate::error::write_failed;
use crate::manifest::{FileEntry, MANIFEST};
use crate::run::{Run, Written};
use crate::target::Target;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Diagnostics, Result, reason};

/// Writes a run folder. Creates missing parent folders.
///
/// First writes everything into a hidden folder beside it, the manifest last. An empty folder, and results of any
/// version, are replaced: they are renamed, and deleted once the new folder is in place. Between the two renames, no
/// folder has the target's name for a moment; if the machine loses power then, both folders stay under their hidden
/// names.
///
/// # Errors
/// [`syncline_diagnostics::Code::CannotWrite`] if the folder holds anything else, or a file-system operation fails; the
/// previous content is then unchanged, and nothing new stays. [`syncline_diagnostics::Code::Internal`] if the run holds
/// data that cannot be stored, such as a summary with numbers that are not finite.
pub fn write(folder: &Path, run: &Run<'_>) -> Result<Written> {
    write_on(&mut Real, folder, run)
}

fn write_on(disk: &mut impl Disk, folder: &Path, run: &Run<'_>) -> Result<Written> {
    let target = Target::inspect(folder)?;
    let failed = |error: io::Error| Diagnostics::from(write_failed(folder, &error));
    let mut made = Vec::new();
    let result = create_parents(disk, &target.parent, &mut made).map_err(failed).and_then(|()| {
        let aside = create_beside(disk, &target).map_err(failed)?;
        let result = fill(disk, &target, &aside, run).and_then(|files| {
            let leftover = place(disk, &target, &aside).map_err(failed)?;
            Ok((files, leftover))
        });
        result.map_err(|errors| clean(disk, &aside, errors))
    });
    match result {
        Ok(((files, spans_left_out), leftover)) => {
            Ok(Written { folder: folder.to_path_buf(), files, spans_left_out, leftover })
        }
        Err(errors) => {
            // `remove_dir` removes only empty folders, so files that others have put there meanwhile are not lost.
            made.iter().rev().for_each(|path| drop(disk.remove_dir(path)));
            Err(errors)
        }
    }
}

/// Creates `path` and its parents, and adds the folders that it created to `made`.
fn create_parents(disk: &mut impl Disk, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_parents(disk, parent, made)?;
    }
    match disk.create_dir(path) {
        Ok(()) => made.push(path.to_path_buf()),
        // Another run created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Creates a new folder beside the target, with a name that nobody else uses.
fn create_beside(disk: &mut impl Disk, target: &Target) -> io::Result<PathBuf> {
    let mut attempt = 0;
    loop {
        let path = target.beside("writing", attempt);
        match disk.create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1_000 => attempt += 1,
            result => return result.map(|()| path),
        }
    }
}

fn fill(disk: &mut impl Disk, target: &Target, aside: &Path, run: &Run<'_>) -> Result<(Vec<FileEntry>, u64)> {
    let failed = |error: io::Error| Diagnostics::from(write_failed(&target.folder, &error));
    let manifest = files(run, |name, bytes| disk.write(&aside.join(name), bytes).map_err(failed))?;
    let json = manifest_to_json(&manifest)?;
    disk.write(&aside.join(MANIFEST), json.as_bytes()).map_err(failed)?;
    disk.sync_dir(aside).map_err(failed)?;
    let left_out = manifest.trace.map_or(0, |trace| trace.left_out);
    let mut files = manifest.files;
    files.push(FileEntry::of(MANIFEST, json.as_bytes()));
    Ok((files, left_out))
}

/// Renames the new folder into place. Returns the path of the old one if it could not be deleted.
fn place(disk: &mut impl Disk, target: &Target, aside: &Path) -> io::Result<Option<PathBuf>> {
    if !target.exists {
        disk.rename(aside, &target.folder)?;
        return match disk.sync_dir(&target.parent) {
            Ok(()) => Ok(None),
            Err(error) => Err(undo(disk, error, &[(&target.folder, aside)])),
        };
    }
    let old = (0..).map(|attempt| target.beside("replaced", attempt)).find(|path| !exists(path));
    let old = old.ok_or(io::ErrorKind::AlreadyExists)?;
    disk.rename(&target.folder, &old)?;
    if let Err(error) = disk.rename(aside, &target.folder) {
        return Err(undo(disk, error, &[(&old, &target.folder)]));
    }
    if let Err(error) = disk.sync_dir(&target.parent) {
        return Err(undo(disk, error, &[(&target.folder, aside), (&old, &target.folder)]));
    }
    let deleted = disk.remove_dir_all(&old).or_else(|_| disk.remove_dir_all(&old));
    Ok(deleted.err().filter(|_| exists(&old)).map(|_| old))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Undoes renames after `error`, with two attempts for each. If that fails too, the returned error says so.
fn undo(disk: &mut impl Disk, error: io::Error, renames: &[(&Path, &Path)]) -> io::Error {
    for (at, (from, to)) in renames.iter().enumerate() {
        if let Err(second) = disk.rename(from, to).or_else(|_| disk.rename(from, to)) {
            let pair = |(from, to): &(&Path, &Path)| format!("`{}` to `{}`", from.display(), to.display());
            let open: Vec<String> = renames[at..].iter().map(pair).collect();
            let text = format!(
                "{}; the rollback failed too ({}): rename these by hand: {}",
                reason(&error),
                reason(&second),
                open.join(", ")
            );
            return io::Error::new(error.kind(), text);
        }
    }
    error
}

/// Removes the hidden folder after errors. If that fails, adds a note to the first error.
fn clean(disk: &mut impl Disk, aside: &Path, mut errors: Diagnostics) -> Diagnostics {
    let removed = disk.remove_dir_all(aside).or_else(|_| disk.remove_dir_all(aside));
    if let (Err(error), true, Some(first)) = (removed, exists(aside), errors.0.first_mut()) {
        first.notes.push(format!("`{}` could not be removed: {}", aside.display(), reason(&error)));
    }
    errors
}

#[cfg(test)]
mod tests;
