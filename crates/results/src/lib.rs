//! The run folder: everything that a run leaves, as files that other tools read, and the way back.
//!
//! A folder holds `manifest.json`, `summary.json`, one Parquet file per table, `trace.pftrace` (for
//! <https://ui.perfetto.dev>), `scenario.resolved.yaml`, and what the caller adds, such as `report.html`. Its bytes
//! are a function of the input, the seed and the version: no clock, no host name and no path goes into them.
//!
//! In reading order:
//!
//! - [`run`]: what goes into a folder ([`Run`]) and what comes out of writing it ([`Written`]);
//! - [`manifest`]: the list of what a folder holds, with sizes, hashes, columns and their meanings;
//! - [`table`]: a table that owns its names ([`OwnedTable`]), and a view of either kind ([`View`]);
//! - [`parquet_file`], [`csv_text`], [`summary_json`]: one table or summary as bytes, and back;
//! - [`trace`]: spans and counters as a Perfetto trace;
//! - [`write()`]: the folder, written aside and renamed into place;
//! - [`read`]: the way back, with every hash checked.

mod content;
pub mod csv_text;
mod disk;
mod error;
pub mod manifest;
pub mod parquet_file;
pub mod read;
pub mod run;
pub mod summary_json;
pub mod table;
mod target;
#[cfg(test)]
mod testing;
pub mod trace;
mod write;

pub use csv_text::table_to_csv;
pub use manifest::{Manifest, SCHEMA};
pub use parquet_file::{table_from_parquet, table_to_parquet};
pub use read::{read_file, read_manifest, read_summary, read_table, verify};
pub use run::{Run, Written};
pub use summary_json::{summary_from_json, summary_to_json};
pub use table::{OwnedColumn, OwnedTable, View};
pub use trace::DEFAULT_TRACE_BYTES;
pub use write::write;
