//! Searches for a better cluster that must be fast, and code that all searches share.
//!
//! - [`Evaluator`]: a job that is measured again and again while its cluster changes; its files are read once, and there
//!   is no report in between;
//! - [`joint`]: parallelisation strategy and topology together (topoopt2022);
//! - [`topology`]: direct links between servers for what a job sends (topoopt2022).

mod evaluator;
pub mod joint;
pub mod topology;

pub use evaluator::{Evaluation, Evaluator};
