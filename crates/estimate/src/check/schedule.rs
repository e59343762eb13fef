//! What a schedule needs of stages, chunks and micro-batches.

use crate::job::{Job, Schedule};
use syncline_diagnostics::{Code, Diagnostic};

/// What a schedule needs of stages, chunks and micro-batches.
pub fn schedule(job: &Job) -> Vec<Diagnostic> {
    let (name, stages) = (job.schedule.name(), job.pipeline);
    let wrong = |key: &str, found: u32, allowed: String, help: u32| {
        Diagnostic::error(Code::BadValue, format!("the schedule {name} does not allow this"))
            .key(key)
            .found(found.to_string())
            .allowed(allowed)
            .help(format!("write {key}: {help}"))
    };
    let mut found = Vec::new();
    if job.schedule.is_ordered() && stages < 2 {
        let help = "write pipeline: 2, or schedule: 1f1b";
        return vec![wrong("pipeline", stages, "at least 2".to_owned(), 2).help(help)];
    }
    if let Some(chunks) = job.schedule.chunks()
        && job.virtual_stages != chunks
    {
        found.push(wrong("virtual_stages", job.virtual_stages, chunks.to_string(), chunks));
    }
    let both_ways = job.schedule == Schedule::DualPipe;
    let least = stages.saturating_mul(2);
    if both_ways && !stages.is_multiple_of(2) {
        found.push(wrong("pipeline", stages, "even numbers".to_owned(), (stages - 1).max(2)));
    }
    if both_ways && !job.micro_batches.is_multiple_of(2) {
        let help = job.micro_batches.saturating_add(1).max(least);
        found.push(wrong("micro_batches", job.micro_batches, "even numbers".to_owned(), help));
    } else if (both_ways || job.schedule == Schedule::DualPipeV) && job.micro_batches < least {
        let allowed = format!("at least {least}, two for each stage");
        found.push(wrong("micro_batches", job.micro_batches, allowed, least));
    }
    found
}
