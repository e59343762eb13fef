//! What a run leaves: spans, tables and a summary, as data. Every report is derived from it, so no two outputs of a
//! run can disagree.
//!
//! - [`table`]: self-describing columns, each with its unit in its name and its meaning beside it;
//! - [`span`]: what each traced rank did when, and which message caused what;
//! - [`outline`]: spans as a person looks at them;
//! - [`counter`]: numbers over time, from tables of slices;
//! - [`summary`]: the answer in a few numbers, with how each was obtained;
//! - [`Timeline`]: all of it.

pub mod counter;
pub mod outline;
pub mod span;
pub mod summary;
pub mod table;

pub use counter::Counter;
pub use outline::Outline;
pub use span::{Flow, Span, Spans, Track};
pub use summary::{
    AxisSummary, DimSummary, Ended, JobSummary, Overload, Packets, PathKind, PathPart, Summary, WorkRates,
};
pub use table::{Column, Data, Table};

/// Everything that one run leaves.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Timeline {
    /// The answer.
    pub summary: Summary,
    /// `layers`, `collectives`, `phases`, `links`, `ranks`, in this order.
    pub tables: Vec<Table>,
    /// What the traced ranks did when.
    pub spans: Spans,
}

impl Timeline {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// What tables hold slice by slice.
    pub fn counters(&self) -> Vec<Counter> {
        counter::counters(&self.tables)
    }
}
