//! Ranks that divide heads, experts and tokens evenly.

use crate::job::{ContextMethod, Job};
use crate::model::{Attention, Model};
use syncline_diagnostics::{Code, Diagnostic};

/// Axes that do not divide heads, tokens, experts or ranks evenly.
pub(super) fn axes(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut divides = |key: &str, parts: u64, whole: u64, what: &str| {
        if parts == 0 || !whole.is_multiple_of(parts) {
            found.push(
                Diagnostic::error(Code::BadValue, format!("these ranks do not divide the {what} evenly"))
                    .key(key)
                    .found(parts.to_string())
                    .allowed(format!("divisors of {whole}"))
                    .help(format!("write {key}: {}", nearest_divisor(whole, parts))),
            );
        }
    };
    divides("tensor", u64::from(job.tensor), model.heads, "attention heads");
    if job.tensor > 1 {
        divides("tensor", u64::from(job.tensor), model.ffn, "size of the feed-forward block");
    }
    if !matches!(model.attention, Attention::Latent(_))
        && !u64::from(job.tensor).is_multiple_of(model.kv_heads.max(1))
    {
        divides("tensor", u64::from(job.tensor), model.kv_heads, "key-value heads");
    }
    divides("context", u64::from(job.context), job.sequence, "tokens of a sequence");
    if job.context > 1 && job.context_method == ContextMethod::Ulysses {
        let tensor = u64::from(job.tensor);
        let kv_heads =
            if matches!(model.attention, Attention::Latent(_)) { model.heads } else { model.kv_heads };
        divides(
            "context",
            u64::from(job.context),
            (kv_heads / tensor).max(1),
            "key-value heads of a tensor-parallel rank, which Ulysses exchanges",
        );
    }
    if let Some(experts) = model.experts {
        divides("expert", u64::from(job.expert), experts.count, "experts");
        divides("expert_tensor", u64::from(job.expert_tensor), experts.ffn, "size of an expert");
        let ranks = u64::from(job.stage_ranks());
        divides("expert", u64::from(job.expert) * u64::from(job.expert_tensor), ranks, "ranks of a stage");
    } else if job.expert > 1 {
        found.push(
            Diagnostic::error(Code::BadValue, "the model has no experts")
                .key("expert")
                .found(job.expert.to_string())
                .help("write expert: 1"),
        );
    }
    found
}

/// The divisor of `whole` that is nearest to `wanted`, the smaller one of two.
fn nearest_divisor(whole: u64, wanted: u64) -> u64 {
    (1..)
        .take_while(|each| each * each <= whole)
        .filter(|each| whole.is_multiple_of(*each))
        .flat_map(|each| [each, whole / each])
        .min_by_key(|each| (each.abs_diff(wanted), *each))
        .unwrap_or(1)
}
