//! Layers for every chunk of every stage.

use crate::job::Job;
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};

/// More chunks than layers.
pub(super) fn stages(model: &Model, job: &Job) -> Option<Diagnostic> {
    let chunks = u64::from(job.pipeline) * u64::from(job.virtual_stages);
    // The embedding and the output layer can be chunks of their own.
    let layers = u64::from(model.layers + model.prediction_layers) + 2;
    (chunks > layers).then(|| {
        // As many stages as fit, and that the ranks still divide by.
        let most = u32::try_from(layers / u64::from(job.virtual_stages.max(1))).unwrap_or(u32::MAX).max(1);
        let ranks = job.pipeline.saturating_mul(job.data);
        let stages = (1..=most.min(ranks)).rev().find(|each| ranks.is_multiple_of(*each)).unwrap_or(1);
        // One stage would have one chunk: fewer chunks are the smaller change.
        let each = layers / u64::from(job.pipeline.max(1));
        let (key, value) = if stages < 2 && job.virtual_stages > 1 && each > 0 {
            ("virtual_stages", each)
        } else {
            ("pipeline", u64::from(stages))
        };
        Diagnostic::error(Code::BadValue, "more stages than layers")
            .key(key)
            .found(format!("{} stages of {} chunks", job.pipeline, job.virtual_stages))
            .allowed(format!("at most {layers} chunks: layers, embedding and output layer"))
            .help(format!("write {key}: {value}"))
    })
}

/// Several chunks a stage, without a pipeline. Schedules that need one say so themselves.
pub(super) fn virtual_stages(job: &Job) -> Option<Diagnostic> {
    (job.virtual_stages > 1 && job.pipeline < 2 && !job.schedule.is_ordered()).then(|| {
        Diagnostic::error(Code::BadValue, "only stages of a pipeline have several chunks")
            .key("virtual_stages")
            .found(job.virtual_stages.to_string())
            .help("write virtual_stages: 1")
    })
}

/// Chunks whose numbers of layers are given.
pub(super) fn chunk_layers(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (given, layers) = (&job.chunk_layers, model.layers + model.prediction_layers);
    let chunks = job.pipeline * job.virtual_stages;
    if given.is_empty() {
        return None;
    }
    let wrong = |said: String, found: String, allowed: String| {
        Diagnostic::error(Code::BadValue, said).key("chunk_layers").found(found).allowed(allowed)
    };
    if given.len() as u64 != u64::from(chunks) {
        let said = "not one number of layers for each chunk of each stage".to_owned();
        let help = if (given.len() as u32).is_multiple_of(job.pipeline) {
            format!("write virtual_stages: {}, or {chunks} numbers", given.len() as u32 / job.pipeline)
        } else {
            format!("write {chunks} numbers")
        };
        return Some(wrong(said, format!("{} numbers", given.len()), format!("{chunks} numbers")).help(help));
    }
    let sum = given.iter().map(|each| u64::from(*each)).sum::<u64>();
    if sum == u64::from(layers) {
        return None;
    }
    let said = "the layers of the chunks do not add up to those of the model".to_owned();
    let last = given.last().map_or(0, |each| u64::from(*each));
    let rest = (u64::from(layers) + last).checked_sub(sum);
    let help = rest.map_or_else(
        || "give the chunks fewer layers".to_owned(),
        |rest| format!("write {rest} as the last one, or change the others"),
    );
    Some(wrong(said, sum.to_string(), format!("numbers whose sum is {layers}")).help(help))
}

/// The most layers of a chunk.
pub(super) fn most_layers(model: &Model, job: &Job) -> u32 {
    let chunks = (job.pipeline * job.virtual_stages).max(1);
    let even = (model.layers + model.prediction_layers).div_ceil(chunks);
    job.chunk_layers.iter().copied().max().unwrap_or(even)
}
