//! A parameter hub: a server that sums what workers push and gives back the sum, or the parameters that an optimizer makes of
//! it (Parameter Hub, luo2020, chapter 3).
//!
//! Without sockets, clocks and threads:
//!
//! - [`keys`]: a job's vectors, cut into chunks; [`assignment`]: which core of which hub has which chunk;
//! - [`terms`]: what a job asks of a hub; [`optimizer`]: what is done with a gradient;
//! - `frame`: what they say; `slot`: one chunk on a hub; [`shard`]: the chunks of one core, with a connection to each worker;
//! - `bridge`: the exchange among hubs of racks; [`client`]: a worker's side;
//! - [`message`]: what they say beside chunks; [`register`]: jobs and their workers, and what becomes of a job that loses one;
//!   [`events`]: what happens, for whoever keeps a log;
//! - [`benefit`]: whether two levels of hubs pay.
//!
//! With them: [`serve`], a hub that runs; `hall`, its thread that lets workers in, `core`, the thread of one of its cores, and
//! `crossing`, the way to hubs of other racks; [`status`], how a hub is; [`join`], how a worker gets to its hubs, and `desk`, its
//! thread.

pub mod assignment;
pub mod benefit;
mod bridge;
pub mod client;
mod core;
mod crossing;
mod desk;
pub mod events;
mod frame;
mod hall;
pub mod join;
pub mod keys;
pub mod message;
pub mod optimizer;
pub mod register;
pub mod serve;
pub mod shard;
mod slot;
pub mod status;
pub mod terms;
