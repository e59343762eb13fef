//! Jobs that no cluster can run.

use crate::job::Job;
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};

/// All reasons why a job cannot run, each with a value that works.
pub fn check(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut divides = |key: &str, parts: u64, whole: u64, what: &str| {
        if parts == 0 || !whole.is_multiple_of(parts) {
            found.push(
                Diagnostic::error(Code::BadValue, format!("{what} do not divide among these ranks"))
                    .key(key)
                    .found(parts.to_string())
                    .allowed(format!("divisors of {whole}"))
                    .help(format!("write {key}: {}", nearest_divisor(whole, parts))),
            );
        }
    };
    divides("tensor", u64::from(job.tensor), model.heads, "heads");
    if job.tensor > 1 {
        divides("tensor", u64::from(job.tensor), model.ffn, "elements of the feed-forward block");
    }
    divides("context", u64::from(job.context), job.sequence, "tokens of a sequence");
    if let Some(experts) = model.experts {
        divides("expert", u64::from(job.expert), experts.count, "experts");
        divides("expert_tensor", u64::from(job.expert_tensor), experts.ffn, "elements of an expert");
        let ranks = u64::from(job.replicas()) * u64::from(job.tensor);
        divides("expert", u64::from(job.expert) * u64::from(job.expert_tensor), ranks, "ranks of a stage");
    } else if job.expert > 1 {
        found.push(
            Diagnostic::error(Code::BadValue, "the model has no experts")
                .key("expert")
                .found(job.expert.to_string())
                .help("write expert: 1"),
        );
    }
    let chunks = u64::from(job.pipeline) * u64::from(job.virtual_stages);
    let layers = u64::from(model.layers + model.prediction_layers) + 2;
    if chunks > layers {
        found.push(
            Diagnostic::error(Code::BadValue, "more stages than layers")
                .key("pipeline")
                .found(format!("{} stages of {} chunks", job.pipeline, job.virtual_stages))
                .allowed(format!("at most {layers} chunks"))
                .help(format!("write pipeline: {}", (layers / u64::from(job.virtual_stages.max(1))).max(1))),
        );
    }
    if job.virtual_stages > 1 && job.pipeline < 2 {
        found.push(
            Diagnostic::error(Code::BadValue, "only stages of a pipeline have several chunks")
                .key("virtual_stages")
                .found(job.virtual_stages.to_string())
                .help("write virtual_stages: 1"),
        );
    }
    found
}

/// The divisor of `whole` that is nearest to `wanted`, the smaller one of two.
fn nearest_divisor(whole: u64, wanted: u64) -> u64 {
    (1..=whole)
        .filter(|each| whole.is_multiple_of(*each))
        .min_by_key(|each| each.abs_diff(wanted))
        .unwrap_or(1)
}
