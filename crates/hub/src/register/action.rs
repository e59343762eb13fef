//! What the register asks of the admission thread.

use super::memory::MemoryShare;
use crate::assignment::HubList;
use crate::message::FromHub;
use crate::save_file::Header;
use crate::saved::SavedChunk;
use crate::shard::Attempt;
use crate::terms::Contract;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the admission thread must do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a message on a control connection.
    Send {
        /// The control connection.
        connection: u32,
        /// The message.
        message: FromHub,
    },
    /// Read no more from a control connection, and close it once its output is flushed.
    Close {
        /// The control connection.
        connection: u32,
    },
    /// Open a job on all cores.
    OpenJob {
        /// The job's number.
        job: u32,
        /// What the job asks of the hub.
        contract: Arc<Contract>,
        /// The epoch of frames between workers and cores.
        epoch: u16,
    },
    /// Compute which core has which chunk of a job, and pass the result to [`Register::planned`](super::Register::planned).
    Plan {
        /// The job's number.
        job: u32,
        /// What the job asks of the hub.
        contract: Arc<Contract>,
        /// The hubs that share the chunks.
        hubs: HubList,
        /// The job's name, and the number of the save from which it continues, if it does.
        save: Option<(String, u64)>,
        /// Whether saves are kept of the job.
        saves: bool,
    },
    /// Write a save, and pass the result to [`Register::save_written`](super::Register::save_written).
    WriteSave {
        /// The job's number.
        job: u32,
        /// What the save says about itself.
        header: Box<Header>,
        /// The state of all chunks at this hub.
        chunks: BTreeMap<u32, SavedChunk>,
        /// The newest save that all hubs of the job have, which must stay.
        common: Option<u64>,
    },
    /// Remove the saves of a job with numbers above this one, from which the job goes on. Some hubs do not have them, and
    /// a later save with the same number must not seem to belong to them.
    RemoveSaves {
        /// The job's name.
        job: String,
        /// The number of the save from which the job continues.
        above: u64,
    },
    /// Give each core its chunks of a job and its part of the job's memory.
    AssignChunks {
        /// The job's number.
        job: u32,
        /// The chunks of each core.
        chunks: Vec<Vec<u32>>,
        /// The memory that the job may use.
        memory: MemoryShare,
        /// The state from which the job continues; empty for a new job.
        saved: BTreeMap<u32, SavedChunk>,
    },
    /// Connect a job's cores with the same cores of the hubs of lower racks.
    ConnectRacks {
        /// The job's number.
        job: u32,
        /// The job's name.
        name: String,
        /// What the job asks of the hub.
        contract: Arc<Contract>,
        /// The rack of this hub.
        rack: u32,
        /// The index of this hub in its rack.
        hub: u32,
    },
    /// End a job on all cores at once.
    EndJob {
        /// The job's number.
        job: u32,
    },
    /// End a job whose workers have finished, once other racks have received this rack's sums.
    RetireJob {
        /// The job's number.
        job: u32,
    },
    /// Tell all cores that a worker is lost or has left.
    LoseWorker {
        /// The job's number.
        job: u32,
        /// The worker.
        worker: u32,
    },
    /// Close the connections between cores and a worker that was lost before its job began. Nothing else changes.
    DropWorker {
        /// The job's number.
        job: u32,
        /// The worker.
        worker: u32,
    },
    /// Let a restarted worker continue where it was. Each core reports the steps that the worker has completed.
    Resume {
        /// The job's number.
        job: u32,
        /// The worker.
        worker: u32,
        /// Which attempt to rejoin this is.
        attempt: Attempt,
    },
    /// Expect another worker to announce from which step on a restarted worker takes part. Each core reports then.
    Expect {
        /// The job's number.
        job: u32,
        /// The restarted worker.
        worker: u32,
        /// Which attempt to rejoin this is.
        attempt: Attempt,
    },
    /// Ask all cores which workers a late worker waits for. Each core reports.
    ReportWaits {
        /// The job's number.
        job: u32,
        /// The worker that waits.
        worker: u32,
        /// The vector that it waits for.
        key: u32,
        /// The step of the vector.
        step: u64,
    },
}
