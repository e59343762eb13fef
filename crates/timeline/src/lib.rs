//! The results of a run as data: spans, tables and a summary. Every report is derived from them, so no two outputs of a
//! run can disagree.
//!
//! - [`schema`]: all names that results contain, with types, units and meanings;
//! - [`table`]: self-describing columns, with the unit in the name and a sentence of meaning;
//! - [`tables`]: every table of a run;
//! - [`span`]: what each traced rank did when, and which send led to which receive;
//! - [`outline`]: spans merged into blocks for display;
//! - [`counter`]: numbers over time, from tables of slices;
//! - [`summary`]: the main results in a few numbers, with how they were obtained;
//! - [`Timeline`]: all of these.

pub mod counter;
pub mod outline;
pub mod schema;
pub mod span;
pub mod summary;
pub mod table;
pub mod tables;

pub use counter::Counter;
pub use outline::Outline;
pub use span::{Flow, Span, Spans, Track};
pub use summary::{
    AxisSummary, Bottleneck, DimSummary, Ended, JobSummary, Overload, Packets, PathKind, PathPart, Summary,
    WorkRates,
};
pub use table::{Column, Data, Table};

/// The results of one run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Timeline {
    /// The main results.
    pub summary: Summary,
    /// `layers`, `collectives`, `phases`, `links`, `ranks`, in this order; then others.
    pub tables: Vec<Table>,
    /// What the traced ranks did when.
    pub spans: Spans,
}

impl Timeline {
    /// The table called `name`.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The counters in tables of slices.
    pub fn counters(&self) -> Vec<Counter> {
        counter::counters(&self.tables)
    }
}
