//! Runs collectives and transfers on threads and sockets. A [`Communicator`] has one thread for each lane,
//! and one that monitors them.
//!
//! Each of these uses only those before it:
//!
//! - `counters`: counters of lanes and of groups; `group_info`: what does not change about a group;
//! - [`pending`]: an operation under way, as its caller sees it;
//! - [`signals`]: what a rank measures while it runs operations;
//! - `command`: commands to the threads of lanes; `report`: reports to the thread that monitors them;
//! - `state`: what is under way, and what has failed; [`plan_changes`]: how a group's plans change meanwhile;
//! - [`group`]: collectives and transfers among all ranks of a job, or some, over the same threads and
//!   connections;
//! - `transports`: what connections are, for people; `worker`: the work of a lane; `polled_lane`: which thread does it;
//!   `monitor`: the thread that monitors the lanes;
//! - `communicator`: starts the threads;
//! - [`session`]: joins the members of a job, and begins its epochs.

mod command;
mod communicator;
mod counters;
pub mod group;
mod group_info;
mod monitor;
pub mod pending;
pub mod plan_changes;
mod polled_lane;
mod report;
pub mod session;
pub mod signals;
mod state;
mod transports;
mod worker;

pub use communicator::{Communicator, TrafficReader};
pub use counters::Kept;
