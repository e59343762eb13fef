//! From the engine's record to what users read: tables, spans and the summary. Every number that users see is derived
//! here, once.
//!
//! - [`timeline()`]: tables and summary of a run; `links`, `tables`, `summary`: its parts; `jobs`: several jobs on one
//!   fabric;
//! - `unfold`: gives every represented rank, group and link its own row again;
//! - `moments`: activity over time, and the critical path;
//! - `diagnosis`: the bottleneck of the step; `contention`: which links delayed which messages; `overload`: links that
//!   `analytical` loads with more than they can carry; `loss`: what time-outs cost;
//! - `work_rates`: samples, tokens and operations per second; [`mod@cost`]: what the fabric costs, and iterations per
//!   dollar; `vocabulary`: notes about padded vocabularies; `calibration`: what measurements calibrated;
//! - [`mod@show`]: describes a scenario without running it.

mod calibration;
mod contention;
pub mod cost;
mod diagnosis;
mod jobs;
mod links;
mod loss;
mod moments;
mod overload;
pub mod show;
mod summary;
mod tables;
mod timeline;
mod unfold;
mod vocabulary;
mod work_rates;

pub use jobs::interference;
pub use show::{Show, show};
pub use summary::compare;
pub use timeline::timeline;
