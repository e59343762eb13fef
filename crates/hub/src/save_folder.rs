//! The folder with the saves of a hub's jobs, and the thread that writes them.
//!
//! The save `NUMBER` of a job is `FOLDER/JOB/NUMBER.save` ([`super::save_file`]). It is written beside its place and then
//! renamed, so a file with that name is complete. A job keeps its newest save, and the newest that all its hubs have.

use super::assignment::HubList;
use super::save_file::{self, Header, ReadError};
use super::saved::{FoundSaves, SavedChunk};
use super::terms::Contract;
use mio::Waker;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A job's state, to be written.
#[derive(Debug)]
pub(super) struct SaveTask {
    pub(super) job: u32,
    pub(super) header: Header,
    pub(super) chunks: BTreeMap<u32, SavedChunk>,
    /// The newest save that all hubs of the job have. Older ones are removed afterwards, and newer ones but this.
    pub(super) common: Option<u64>,
}

/// What became of a [`SaveTask`].
#[derive(Debug)]
pub(super) struct SaveResult {
    pub(super) job: u32,
    pub(super) number: u64,
    /// The step of the save.
    pub(super) step: u64,
    /// A clause, if it was not written. Earlier saves are as they were.
    pub(super) outcome: Result<(), String>,
}

/// A hub's folder of saves. Dropping it waits until all saves are written.
#[derive(Debug)]
pub(super) struct SaveFolder {
    root: PathBuf,
    tasks: Option<Sender<SaveTask>>,
    results: Receiver<SaveResult>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Locked while the hub runs, so that no other hub uses the folder.
    _lock: File,
}

/// The longest name of a job's folder. Longer names are cut, and get a checksum.
const LONGEST: usize = 200;

/// Returns the name of a job's folder.
fn folder_name(job: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut name = String::new();
    for (place, byte) in job.bytes().enumerate() {
        if plain(byte) || byte == b'.' && place > 0 {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.len() <= LONGEST {
        return name;
    }
    use sha2::{Digest, Sha256};
    let sum = Sha256::digest(job.as_bytes());
    name.truncate(LONGEST - 17);
    name.push('~');
    sum.iter().take(8).for_each(|byte| name.push_str(&format!("{byte:02x}")));
    name
}

impl SaveFolder {
    /// Opens a folder, which is created if there is none. Removes files that were not written completely.
    ///
    /// # Errors
    /// A clause with the hub as subject: the folder cannot be used, or another hub uses it.
    pub(super) fn open(root: &Path, waker: Arc<Waker>) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("cannot save to {}: {error}", root.display());
        fs::create_dir_all(root).map_err(cannot)?;
        let lock = File::create(root.join("lock")).map_err(cannot)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                format!("cannot save to {}: another hub uses this folder", root.display())
            }
            TryLockError::Error(error) => cannot(error),
        })?;
        remove_parts(root).map_err(cannot)?;
        let (tasks, receiver) = channel::<SaveTask>();
        let (sender, results) = channel();
        let folder = root.to_owned();
        let work = move || {
            for task in receiver {
                let (job, number, step) = (task.job, task.header.number, task.header.step);
                let outcome = write(&folder, &task);
                // Sending fails if the hub has ended.
                if sender.send(SaveResult { job, number, step, outcome }).is_ok() {
                    _ = waker.wake();
                }
            }
        };
        let thread = std::thread::Builder::new().name("saves".to_owned()).spawn(work).map_err(cannot)?;
        Ok(Self { root: root.to_owned(), tasks: Some(tasks), results, thread: Some(thread), _lock: lock })
    }

    /// Finds the saves of a job.
    pub(super) fn of_job(&self, job: &str) -> FoundSaves {
        let folder = self.root.join(folder_name(job));
        let mut found = FoundSaves::default();
        let files = match fs::read_dir(&folder) {
            Ok(files) => files,
            Err(error) if error.kind() == ErrorKind::NotFound => return found,
            Err(error) => {
                found.unusable.push(format!("{} cannot be read ({error})", folder.display()));
                return found;
            }
        };
        let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "save"));
        files.sort();
        for file in files {
            match read_header(&file, job) {
                Ok(header) => found.usable.push(header),
                Err(error) => found.unusable.push(format!("{} {error}", file.display())),
            }
        }
        found.usable.sort_by_key(|header| header.number);
        found
    }

    /// Writes a save on the folder's thread.
    pub(super) fn write(&self, task: SaveTask) {
        // Sending fails if the thread has ended, which happens only with the folder.
        _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }

    /// Returns the next result of [`SaveFolder::write`].
    pub(super) fn result(&self) -> Option<SaveResult> {
        self.results.try_recv().ok()
    }

    /// Returns the file of a save.
    pub(super) fn file(&self, job: &str, number: u64) -> PathBuf {
        self.root.join(folder_name(job)).join(format!("{number}.save"))
    }
}

impl Drop for SaveFolder {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// Reads a save of a job with these terms, whose chunks `hubs` share.
///
/// # Errors
/// The file cannot be used.
pub(super) fn read(
    file: &Path,
    contract: &Contract,
    hubs: &HubList,
) -> Result<BTreeMap<u32, SavedChunk>, ReadError> {
    let opened = File::open(file)?;
    let length = opened.metadata()?.len();
    let (header, chunks) = save_file::read(BufReader::with_capacity(1 << 20, opened), length, contract)?;
    let (own, all) = (hubs.own, hubs.hubs.len() as u32);
    if (header.hub, header.hubs) != (own, all) {
        let why = format!(
            "is of hub {} of {}, and this is hub {own} of {all}: ranks must name the same hubs in the same order",
            header.hub, header.hubs
        );
        return Err(ReadError { why, absent: false });
    }
    Ok(chunks)
}

/// Removes files that a hub was writing when it was killed.
fn remove_parts(root: &Path) -> io::Result<()> {
    for folder in fs::read_dir(root)? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder)? {
            let file = file?.path();
            if file.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(&file)?;
            }
        }
    }
    Ok(())
}

fn read_header(file: &Path, job: &str) -> Result<Header, ReadError> {
    let opened = File::open(file)?;
    let length = opened.metadata()?.len();
    let header = save_file::read_header(BufReader::new(opened), length)?;
    if header.job != job || file.file_name() != Some(format!("{}.save", header.number).as_ref()) {
        let why = format!("was moved or renamed: it is save {} of job `{}`", header.number, header.job);
        return Err(ReadError { why, absent: false });
    }
    Ok(header)
}

/// Writes a save beside its place, renames it, and removes those that it replaces.
fn write(root: &Path, SaveTask { header, chunks, common, .. }: &SaveTask) -> Result<(), String> {
    let folder = root.join(folder_name(&header.job));
    let (file, part) =
        (folder.join(format!("{}.save", header.number)), folder.join(format!("{}.part", header.number)));
    let done = (|| {
        fs::create_dir_all(&folder)?;
        let created = File::create(&part)?;
        let mut buffered = BufWriter::with_capacity(1 << 20, created);
        save_file::write(&mut buffered, header, chunks)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, &file)?;
        // The new names are on disk, too.
        File::open(&folder)?.sync_all()?;
        File::open(root)?.sync_all()
    })();
    done.map_err(|error: io::Error| {
        _ = fs::remove_file(&part);
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ": free some space there",
            _ => "",
        };
        format!("{} cannot be written ({error}){remedy}", file.display())
    })?;
    for old in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let path = old.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        let replaced = stem.is_some_and(|number| number != header.number && Some(number) != *common);
        if replaced && path.extension().is_some_and(|extension| extension == "save") {
            // A file that cannot be removed is only in the way.
            _ = fs::remove_file(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_a_folder_of_its_own() {
        assert_eq!(folder_name("train-1.a"), "train-1.a");
        assert_eq!(folder_name("../a b"), "%2E.%2Fa%20b");
        let (one, other) = (folder_name(&"/".repeat(199)), folder_name(&"/".repeat(200)));
        assert!(one != other && one.len() <= LONGEST && other.len() <= LONGEST, "{one} {other}");
    }
}
