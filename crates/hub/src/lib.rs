//! Parameter hubs. A hub is a server that sums what workers push, and returns the sum, or the parameters that an
//! optimizer computes from it (Parameter Hub, luo2020, chapter 3).
//!
//! Without sockets, clocks and threads:
//!
//! - [`keys`]: a job's vectors, cut into chunks; [`assignment`]: which core of which hub has which chunk;
//! - [`terms`]: what a job asks of a hub; [`optimizer`]: how parameters are updated by gradients;
//! - `frame`: the frames of connections that carry chunks; `slot`: one chunk on a hub; [`shard`]: the chunks of one
//!   core, and its connections to workers;
//! - [`saved`]: what a save keeps of a chunk; [`save_file`]: the file of a save;
//! - `bridge`: the exchange among hubs of racks; [`client`]: a worker's side;
//! - [`message`]: control messages; [`register`]: jobs and their workers, and what happens to a job that loses one;
//!   [`events`]: events for logs;
//! - [`benefit`]: whether two levels of hubs are worthwhile.
//!
//! On sockets and threads: [`serve`], a hub; [`setup`], its setup; `admission_thread`, which admits workers and owns the register;
//! `core_thread`, one core; `save_folder`, the saves of jobs on disk; `rack_connection`, connections to hubs of other racks; [`status`], a hub's status;
//! [`join`], how a worker joins its hubs, by its [`worker_settings`]; [`worker`], its handle; and `worker_thread`, its
//! thread.

mod admission_thread;
pub mod assignment;
pub mod benefit;
mod bridge;
pub mod client;
mod core_thread;
pub mod events;
mod frame;
pub mod join;
pub mod keys;
pub mod message;
pub mod optimizer;
mod rack_connection;
pub mod register;
pub mod save_file;
mod save_folder;
pub mod saved;
pub mod serve;
pub mod setup;
pub mod shard;
mod slot;
pub mod status;
pub mod terms;
pub mod worker;
pub mod worker_settings;
mod worker_thread;
