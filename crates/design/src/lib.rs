//! What searches for a better cluster share: a job that is measured again and again while its cluster changes, with no
//! parsing, JSON or report in between.

mod evaluator;

pub use evaluator::{Evaluation, Evaluator};
