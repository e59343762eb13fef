//! The file-system operations that writing a folder needs, behind a trait so that tests can make any of them fail.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Operations that change the file system. Reading it needs no trait.
pub(crate) trait Disk {
    /// Creates one folder, whose parent exists.
    fn create_dir(&mut self, path: &Path) -> io::Result<()>;
    /// Creates a file with these bytes and waits until they are on the disk.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Waits until the entries of a folder are on the disk.
    fn sync_dir(&mut self, path: &Path) -> io::Result<()>;
    /// Renames a folder.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a folder and everything in it.
    fn remove_dir_all(&mut self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&mut self, path: &Path) -> io::Result<()>;
}

/// The file system of this machine.
pub(crate) struct Real;

impl Disk for Real {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = fs::File::create_new(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        // On other systems, a folder cannot be opened as a file.
        if cfg!(unix) {
            match fs::File::open(path)?.sync_all() {
                // Some network file systems do not support this.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) => {}
                other => return other,
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

/// A disk that fails at one operation, or at one and all that follow.
#[cfg(test)]
pub(crate) struct Faulty {
    /// Number of operations before the failure.
    pub(crate) good: usize,
    /// Whether all later operations fail too.
    pub(crate) for_ever: bool,
    /// Number of operations so far.
    pub(crate) done: usize,
}

#[cfg(test)]
impl Faulty {
    fn step(&mut self) -> io::Result<()> {
        let at = self.done;
        self.done += 1;
        let fails = if self.for_ever { at >= self.good } else { at == self.good };
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
impl Disk for Faulty {
    fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        Real.create_dir(path)
    }

    /// Writes a file. If it fails, half of the file stays.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step().inspect_err(|_| {
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        })?;
        Real.write(path, bytes)
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        Real.sync_dir(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Real.rename(from, to)
    }

    fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        Real.remove_dir_all(path)
    }

    fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        self.step()?;
        Real.remove_dir(path)
    }
}
