//! Notes about vocabularies that are padded because tensor-parallel ranks do not divide them evenly.

use syncline_prepare::Prepared;
use syncline_scenario::{Scenario, Workload};

/// Megatron-LM pads vocabularies to a multiple of this for each tensor-parallel rank (`--make-vocab-size-divisible-by`).
const MEGATRON: u64 = 128;

/// A note for each job whose vocabulary is padded.
pub(crate) fn padded(scenario: &Scenario, prepared: &Prepared) -> Vec<String> {
    let jobs = match &scenario.workload {
        Workload::Jobs { jobs } => jobs.iter().map(|job| (Some(job.name.as_str()), &*job.workload)).collect(),
        workload => vec![(None, workload)],
    };
    let note = |(job, workload): (Option<&str>, &Workload)| {
        let Workload::Layers { layers, .. } = workload else { return None };
        let name = job.map_or_else(|| "tensor".to_owned(), |job| format!("{job}/tensor"));
        let ranks = prepared.workload.roles.iter().find(|role| role.name == name)?.size();
        let tokens = layers
            .iter()
            .filter_map(|layer| layer.vocabulary)
            .find(|tokens| !tokens.is_multiple_of(ranks))?;
        let (tokens, by) = (u64::from(tokens), u64::from(ranks));
        let of = job.map_or_else(String::new, |job| format!(" of {job}"));
        Some(format!(
            "the vocabulary{of} of {tokens} tokens is padded to {}, a multiple of its {ranks} tensor-parallel ranks; \
             Megatron-LM pads to {}, a multiple of {MEGATRON} for each rank: set `vocabulary` to that number to match it",
            tokens.next_multiple_of(by),
            tokens.next_multiple_of(MEGATRON * by)
        ))
    };
    jobs.into_iter().filter_map(note).collect()
}
