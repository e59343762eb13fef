//! The run folder: writes the results of a run as files that other tools can read, and reads them back.
//!
//! A folder holds `manifest.json`, `summary.json`, one Parquet file per table, `trace.pftrace` (for
//! <https://ui.perfetto.dev>), `scenario.resolved.yaml`, and files that the caller adds, such as `report.html`. Its
//! bytes depend only on the input, the seed and the version: no clock, host name or path goes into them.
//!
//! In reading order:
//!
//! - [`run`]: the content of a folder ([`Run`]) and the result of writing it ([`Written`]);
//! - [`manifest`]: the list of a folder's files and tables, with sizes, hashes, columns and their meanings;
//! - [`table`]: a table that owns its names ([`OwnedTable`]), and a view of either kind of table ([`View`]);
//! - [`parquet_file`], [`csv_text`], [`summary_json`]: convert one table or summary to bytes and back;
//! - [`trace`]: encodes spans and counters as a Perfetto trace;
//! - [`write()`]: writes a folder beside its place and renames it into place;
//! - [`read`]: reads a folder and checks every hash.

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
pub use read::{read_file, read_manifest, read_summary, read_table, read_table_file, verify};
pub use run::{Run, Written};
pub use summary_json::{summary_from_json, summary_to_json};
pub use table::{OwnedColumn, OwnedTable, View};
pub use trace::DEFAULT_TRACE_BYTES;
pub use write::write;
