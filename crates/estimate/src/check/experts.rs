//! The load of experts, and their adapters.

use crate::job::{Adapted, ExpertAdapters, Job};
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};

/// Tokens of the fullest expert-parallel rank: at most all of them on one expert.
pub(super) fn load(model: &Model, job: &Job) -> Option<Diagnostic> {
    let most = model.experts.map_or(1.0, |experts| experts.count as f64);
    let load = job.expert_load;
    if load > 0.0 && load <= most {
        return None;
    }
    let wrong =
        Diagnostic::error(Code::BadValue, "no expert-parallel rank can have this load").key("expert_load");
    let help = if load > most { most } else { 1.0 };
    Some(
        wrong
            .found(load.to_string())
            .allowed(format!("above 0, at most {most}"))
            .help(format!("write expert_load: {help}")),
    )
}

/// Adapters of experts, which need experts, and adapters of all other products.
pub(super) fn adapters(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (message, help) = match job.expert_adapters {
        ExpertAdapters::None => return None,
        _ if job.adapters.is_none() => {
            ("adapters of experts need the rank of all adapters", "write lora: 16")
        }
        _ if model.experts.is_none() => ("the model has no experts", "leave out lora_experts"),
        _ if job.adapted != Adapted::All => {
            ("experts can have adapters only where all other products have them", "write lora_targets: all")
        }
        _ => return None,
    };
    Some(Diagnostic::error(Code::BadValue, message).key("expert_adapters").help(help))
}
