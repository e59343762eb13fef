//! What a job can offload to host memory.

use super::chunks::most_layers;
use crate::job::{Input, Job, Module, Recompute};
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};

/// The most layers of a chunk whose activations can be offloaded: the backward pass needs the last layer before the loss at
/// once.
pub fn most_offloaded(model: &Model, job: &Job) -> u32 {
    most_layers(model, job).saturating_sub(u32::from(job.pipeline < 2))
}

/// Checks what a job offloads to host memory.
pub(super) fn offload(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let (mut found, offload) = (Vec::new(), job.offload);
    if !(0.0..=1.0).contains(&offload.optimizer) {
        found.push(
            wrong("optimizer", "not a fraction")
                .found(offload.optimizer.to_string())
                .allowed("0 to 1")
                .help("write optimizer: 1"),
        );
    }
    if offload.optimizer > 0.0 && job.adapters.is_some() {
        found.push(
            wrong("optimizer", "the optimizer states of adapters stay on the accelerator")
                .found(offload.optimizer.to_string())
                .help("leave out offload.optimizer"),
        );
    }
    let most = most_offloaded(model, job);
    if offload.layers > most {
        found.push(
            wrong("layers", "no chunk has this many layers to offload")
                .found(offload.layers.to_string())
                .allowed(format!("0 to {most}"))
                .help(format!("write layers: {most}")),
        );
    }
    if !offload.modules.is_empty() {
        found.extend(modules(model, job));
    }
    found
}

fn wrong(key: &str, said: &str) -> Diagnostic {
    Diagnostic::error(Code::BadValue, said).key(format!("offload.{key}"))
}

/// Checks the modules whose inputs are offloaded.
fn modules(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let (mut found, offload) = (Vec::new(), job.offload);
    if offload.layers > 0 {
        found.push(
            wrong("modules", "`layers` and `modules` exclude each other")
                .help("leave out offload.layers or offload.modules"),
        );
    }
    if !matches!(job.recompute, Recompute::None | Recompute::Selective) {
        found.push(
            wrong("modules", "recomputed layers keep no inputs of modules to offload")
                .help("leave out offload.modules, or write recompute: selective"),
        );
    }
    let again = job.modules_again();
    for module in offload.modules.iter() {
        let experts = matches!(module, Input::ExpertFc1 | Input::MoeAct);
        let computed = match module {
            Input::QkvLinear => again.has(Module::Layernorm),
            Input::CoreAttention => again.has(Module::MlaUpProj),
            Input::ExpertFc1 | Input::MoeAct => again.has(Module::Moe),
            Input::AttnNorm | Input::AttnProj | Input::MlpNorm => false,
        };
        let said = if experts && model.experts.is_none() {
            "the model has no experts"
        } else if computed {
            "the input of this module is recomputed, not kept"
        } else {
            continue;
        };
        found.push(
            wrong("modules", said)
                .found(module.name())
                .help(format!("leave {} out of offload.modules", module.name())),
        );
    }
    found
}
