//! Recomputation whose keys fit together.

use super::chunks::most_layers;
use crate::job::{Job, Module, Recompute};
use crate::model::{Attention, Model};
use syncline_diagnostics::{Code, Diagnostic};

/// Recomputation whose keys fit together.
pub(super) fn recompute(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let full = job.recompute == Recompute::Full;
    if job.recompute_method.is_some() && !full {
        found.push(
            Diagnostic::error(Code::BadValue, "only full recomputation has a method")
                .key("recompute_method")
                .help("write recompute: full"),
        );
    }
    let most = most_layers(model, job);
    let wrong = |allowed: String, help: u32| {
        Diagnostic::error(Code::BadValue, "no chunk has this many layers")
            .key("recompute_layers")
            .found(job.recompute_layers.to_string())
            .allowed(allowed)
            .help(format!("write recompute_layers: {help}"))
    };
    if job.recompute_method.is_none() && job.recompute_layers != 1 {
        found.push(
            Diagnostic::error(Code::BadValue, "recompute_layers needs recompute_method")
                .key("recompute_layers")
                .found(job.recompute_layers.to_string())
                .help("write recompute_method: block"),
        );
    } else if job.recompute_layers == 0 || job.recompute_layers > most {
        found.push(wrong(format!("1 to {most}"), job.recompute_layers.clamp(1, most)));
    }
    if !job.recompute_modules.is_empty() && job.recompute != Recompute::Selective {
        found.push(
            Diagnostic::error(Code::BadValue, "only selective recomputation has modules")
                .key("recompute_modules")
                .help("write recompute: selective"),
        );
    }
    let parts = [
        (Module::Moe, model.experts.is_some(), "experts"),
        (Module::MoeAct, model.experts.is_some(), "experts"),
        (
            Module::SharedExperts,
            model.experts.is_some_and(|experts| experts.shared_ffn > 0),
            "shared experts",
        ),
        (Module::MlaUpProj, matches!(model.attention, Attention::Latent(_)), "latent attention"),
        (Module::Mlp, (0..model.layers).any(|layer| !model.has_experts(layer)), "layers without experts"),
    ];
    for (module, has, what) in parts {
        if job.recompute_modules.has(module) && !has {
            found.push(
                Diagnostic::error(Code::BadValue, format!("the model has no {what}"))
                    .key("recompute_modules")
                    .found(module.name())
                    .help(format!("leave {} out of recompute_modules", module.name())),
            );
        }
    }
    found
}
