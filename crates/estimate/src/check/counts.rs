//! Numbers that must be at least one, and products of ranks that can be counted.

use crate::job::Job;
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};

/// Numbers that are at least one, and products of ranks that can be counted.
pub(super) fn counts(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let counts = [
        ("tensor", u64::from(job.tensor)),
        ("pipeline", u64::from(job.pipeline)),
        ("virtual_stages", u64::from(job.virtual_stages)),
        ("context", u64::from(job.context)),
        ("expert", u64::from(job.expert)),
        ("expert_tensor", u64::from(job.expert_tensor)),
        ("data", u64::from(job.data)),
        ("shard_group", u64::from(job.shard_group)),
        ("micro_batch", u64::from(job.micro_batch)),
        ("micro_batches", u64::from(job.micro_batches)),
        ("sequence", job.sequence),
        ("layers", u64::from(model.layers)),
        ("hidden", model.hidden),
        ("heads", model.heads),
        ("kv_heads", model.kv_heads),
        ("head_dim", model.head_dim),
        ("vocab", model.vocab),
        ("vocab_multiple", u64::from(job.vocab_multiple)),
    ];
    let mut found: Vec<_> = counts
        .iter()
        .filter(|(_, count)| *count == 0)
        .map(|(key, _)| {
            Diagnostic::error(Code::BadValue, "must be at least 1")
                .key(*key)
                .found("0")
                .help(format!("write {key}: 1"))
        })
        .collect();
    let ranks = [job.pipeline, job.context, job.data]
        .iter()
        .try_fold(job.tensor, |product, &each| product.checked_mul(each));
    if ranks.is_none() {
        found.push(
            Diagnostic::error(Code::BadValue, "too many ranks").key("data").found(job.data.to_string()),
        );
    }
    found
}
