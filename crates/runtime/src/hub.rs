//! A parameter hub: a server that sums what workers push and gives back the sum, or the parameters that an optimizer makes of
//! it (Parameter Hub, luo2020, chapter 3).
//!
//! Without sockets, clocks and threads:
//!
//! - [`keys`]: a job's vectors, cut into chunks; [`assignment`]: which core of which hub has which chunk;
//! - [`terms`]: what a job asks of a hub; [`optimizer`]: what is done with a gradient;
//! - `frame`: what they say; `slot`: one chunk on a hub; [`shard`]: the chunks of one core, with a connection to each worker;
//! - [`client`]: a worker's side;
//! - [`benefit`]: whether two levels of hubs pay.

pub mod assignment;
pub mod benefit;
pub mod client;
mod frame;
pub mod keys;
pub mod optimizer;
pub mod shard;
mod slot;
pub mod terms;
