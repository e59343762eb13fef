//! Jobs that no cluster can run.
//!
//! - `counts`: numbers that must not be zero, or too large;
//! - `axes`: ranks that divide heads, experts and tokens;
//! - `chunks`: layers for every chunk of every stage; `schedule`: what a schedule needs of them;
//! - `precision`: parts of a model in lower or higher precision than others;
//! - `experts`: their load and their adapters;
//! - `recompute` and `offload`: what the backward pass recomputes, and what the host keeps.

mod axes;
mod chunks;
mod counts;
mod experts;
mod offload;
mod precision;
mod recompute;
mod schedule;

pub use offload::most_offloaded;
pub use schedule::schedule;

use crate::job::Job;
use crate::model::Model;
use syncline_diagnostics::Diagnostic;

/// All reasons why a job cannot run, each with a value that works.
pub fn check(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = counts::counts(model, job);
    if !found.is_empty() {
        return found;
    }
    found.extend(axes::axes(model, job));
    found.extend(chunks::stages(model, job));
    found.extend(chunks::chunk_layers(model, job));
    found.extend(experts::load(model, job));
    found.extend(chunks::virtual_stages(job));
    found.extend(schedule(job));
    found.extend(precision::fp8_attention(job));
    found.extend(precision::parameters(job));
    found.extend(precision::fused_experts(job));
    found.extend(precision::bf16_layers(model, job));
    found.extend(experts::adapters(model, job));
    found.extend(recompute::recompute(model, job));
    found.extend(offload::offload(model, job));
    found.extend(precision::moments(job));
    found
}
