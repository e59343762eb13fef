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
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
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

/// Work for the folder's thread, in this order.
#[derive(Debug)]
enum Task {
    Write(Box<SaveTask>),
    /// Remove saves of a job with higher numbers.
    RemoveAbove {
        job: String,
        number: u64,
    },
}

/// What became of a [`SaveTask`].
#[derive(Debug)]
pub(super) struct SaveResult {
    pub(super) job: u32,
    /// The job's name.
    pub(super) name: String,
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
    tasks: Option<Sender<Task>>,
    results: Receiver<SaveResult>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// How many saves of a job are to be written, by the job's name.
    unwritten: BTreeMap<String, usize>,
    /// Locked while the hub runs, so that no other hub uses the folder.
    _lock: File,
}

/// The longest name of a job's folder. Longer names are cut, and get a checksum.
const LONGEST: usize = 200;

/// The name of the file that is locked.
const LOCK: &str = "lock";

/// Returns the name of a job's folder.
fn folder_name(job: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut name = String::new();
    for (place, byte) in job.bytes().enumerate() {
        let taken = place == 0 && job == LOCK;
        if !taken && plain(byte) || byte == b'.' && place > 0 {
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
        if !root.is_dir() {
            if root.exists() {
                return Err(format!("cannot save to {}: it is not a folder", root.display()));
            }
            private_folder(root).map_err(cannot)?;
        }
        let lock = private_file().truncate(false).open(root.join(LOCK)).map_err(cannot)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                format!("cannot save to {}: another hub uses this folder", root.display())
            }
            TryLockError::Error(error) => cannot(error),
        })?;
        remove_parts(root).map_err(|(path, error)| format!("cannot remove {}: {error}", path.display()))?;
        let (tasks, receiver) = channel::<Task>();
        let (sender, results) = channel();
        let folder = root.to_owned();
        let work = move || {
            for task in receiver {
                let task = match task {
                    Task::Write(task) => task,
                    Task::RemoveAbove { job, number } => {
                        remove_saves(&folder.join(folder_name(&job)), |save| save > number);
                        continue;
                    }
                };
                let outcome = write(&folder, &task);
                let SaveTask { job, header: Header { job: name, number, step, .. }, .. } = *task;
                // Sending fails if the hub has ended.
                if sender.send(SaveResult { job, name, number, step, outcome }).is_ok() {
                    _ = waker.wake();
                }
            }
        };
        let thread = std::thread::Builder::new().name("saves".to_owned()).spawn(work).map_err(cannot)?;
        Ok(Self {
            root: root.to_owned(),
            tasks: Some(tasks),
            results,
            thread: Some(thread),
            unwritten: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// Returns the folder of a job's saves.
    pub(super) fn folder(&self, job: &str) -> PathBuf {
        self.root.join(folder_name(job))
    }

    /// Writes a save on the folder's thread.
    pub(super) fn write(&mut self, task: SaveTask) {
        *self.unwritten.entry(task.header.job.clone()).or_default() += 1;
        self.send(Task::Write(Box::new(task)));
    }

    /// Removes saves of a job with higher numbers, on the folder's thread: the job goes on from this one.
    pub(super) fn remove_above(&self, job: String, number: u64) {
        self.send(Task::RemoveAbove { job, number });
    }

    fn send(&self, task: Task) {
        // Sending fails if the thread has ended, which happens only with the folder.
        _ = self.tasks.as_ref().map(|tasks| tasks.send(task));
    }

    /// Returns the next result of [`SaveFolder::write`].
    pub(super) fn result(&mut self) -> Option<SaveResult> {
        let result = self.results.try_recv().ok()?;
        if let Some(left) = self.unwritten.get_mut(&result.name) {
            *left -= 1;
            if *left == 0 {
                self.unwritten.remove(&result.name);
            }
        }
        Some(result)
    }

    /// Returns whether saves of a job are to be written. They may be of an earlier job with this name.
    pub(super) fn writes(&self, job: &str) -> bool {
        self.unwritten.contains_key(job)
    }

    /// Returns the file of a save.
    pub(super) fn file(&self, job: &str, number: u64) -> PathBuf {
        self.folder(job).join(format!("{number}.save"))
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

/// Finds the saves of a job in its folder.
pub(super) fn find(folder: &Path, job: &str) -> FoundSaves {
    let mut found = FoundSaves::default();
    let unreadable = |error: io::Error| format!("{} cannot be read ({error})", folder.display());
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == ErrorKind::NotFound => return found,
        Err(error) => {
            found.unusable.push(unreadable(error));
            return found;
        }
    };
    let mut saves = Vec::new();
    for file in files {
        match file {
            Ok(file) => saves.push(file.path()),
            Err(error) => found.unusable.push(unreadable(error)),
        }
    }
    saves.retain(|file| file.extension().is_some_and(|extension| extension == "save"));
    saves.sort();
    for file in saves {
        match read_header(&file, job) {
            Ok(header) => found.usable.push(header),
            Err(error) => found.unusable.push(format!("{} {error}", file.display())),
        }
    }
    found.usable.sort_by_key(|header| header.number);
    found
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

/// Creates a folder that only the hub's user may read: parameters may be secret.
fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file to write that only the hub's user may read, and creates it if there is none.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

/// The number of a file with this extension, `NUMBER.EXTENSION`; `None` if it is another file.
fn number_of(path: &Path, extension: &str) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    let number = stem.parse().ok()?;
    (path.file_name()? == format!("{number}.{extension}").as_str()).then_some(number)
}

/// Removes files that a hub was writing when it was killed. Leaves files and folders alone that are not its own, and
/// folders that it cannot read, such as `lost+found`.
fn remove_parts(root: &Path) -> Result<(), (PathBuf, io::Error)> {
    for folder in fs::read_dir(root).map_err(|error| (root.to_owned(), error))?.flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let path = file.path();
            if number_of(&path, "part").is_some() {
                fs::remove_file(&path).map_err(|error| (path, error))?;
            }
        }
    }
    Ok(())
}

/// The numbers of the saves in a job's folder, with their files.
fn saves(folder: &Path) -> Vec<(u64, PathBuf)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter_map(|path| Some((number_of(&path, "save")?, path))).collect()
}

/// Removes those saves in a job's folder whose number is `old`.
fn remove_saves(folder: &Path, old: impl Fn(u64) -> bool) {
    for (number, path) in saves(folder) {
        if old(number) {
            // A file that cannot be removed is only in the way.
            _ = fs::remove_file(path);
        }
    }
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
        if !folder.is_dir() {
            private_folder(&folder)?;
        }
        let created = private_file().truncate(true).open(&part)?;
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
    // If it is not known yet that all hubs have a save, it may be the first one.
    let kept = match common {
        None if header.hubs > 1 => saves(&folder).into_iter().map(|(number, _)| number).min(),
        common => *common,
    };
    remove_saves(&folder, |number| number != header.number && Some(number) != kept);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_a_folder_of_its_own() {
        assert_eq!(folder_name("train-1.a"), "train-1.a");
        assert_eq!(folder_name("../a b"), "%2E.%2Fa%20b");
        // The hub's own file has this name.
        assert_eq!((folder_name("lock"), folder_name("lock2")), ("%6Cock".to_owned(), "lock2".to_owned()));
        let (one, other) = (folder_name(&"/".repeat(199)), folder_name(&"/".repeat(200)));
        assert!(one != other && one.len() <= LONGEST && other.len() <= LONGEST, "{one} {other}");
    }

    /// A new folder of this test, in the system's folder for temporary files.
    fn folder(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("syncline-{test}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        path
    }

    fn task(number: u64, hubs: u32, common: Option<u64>) -> SaveTask {
        let text = "{\"workers\": 1, \"keys\": [{\"name\": \"w\", \"element\": \"f32\", \"elements\": 1}]}";
        let terms = serde_json::from_str(text).unwrap();
        let header = Header::new("job", number, (0, hubs), &terms, &BTreeMap::new());
        SaveTask { job: 1, header, chunks: BTreeMap::new(), common }
    }

    fn numbers(root: &Path) -> Vec<u64> {
        let mut numbers: Vec<u64> = saves(&root.join("job")).into_iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn hubs_always_keep_a_save_that_all_of_them_can_have() {
        let root = folder("kept");
        let after = |tasks: &[SaveTask]| {
            tasks.iter().for_each(|task| write(&root, task).unwrap());
            numbers(&root)
        };
        // One hub needs only the newest.
        assert_eq!(after(&[task(3, 1, None), task(5, 1, None)]), [5]);
        // Another hub may have no more than the first.
        assert_eq!(after(&[task(7, 2, None), task(8, 2, None), task(9, 2, None)]), [5, 9]);
        assert_eq!(after(&[task(11, 2, Some(9))]), [9, 11]);
        remove_saves(&root.join("job"), |number| number > 9);
        assert_eq!(numbers(&root), [9]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_the_user_of_the_hub_can_read_saves() {
        use std::os::unix::fs::PermissionsExt;
        let root = folder("private");
        write(&root, &task(3, 1, None)).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("job"), mode("job/3.save")), (0o700, 0o600));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_hub_removes_only_files_that_it_was_writing() {
        let root = folder("parts");
        fs::create_dir(root.join("job")).unwrap();
        let others = ["job/film.part", "job/07.part", "job/7.parts", "7.part"];
        for file in others.into_iter().chain(["job/7.part"]) {
            fs::write(root.join(file), "").unwrap();
        }
        fs::write(root.join("lock"), "of somebody else").unwrap();
        let poll = mio::Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        drop(SaveFolder::open(&root, waker).unwrap());
        assert!(others.into_iter().all(|file| root.join(file).exists()) && !root.join("job/7.part").exists());
        assert_eq!(fs::read(root.join("lock")).unwrap(), b"of somebody else");
        fs::remove_dir_all(root).unwrap();
    }
}
