//! Jobs that no cluster can run.

use crate::job::{Adapted, ContextMethod, ExpertAdapters, Input, Job, Module, Recompute, Schedule};
use crate::model::{Attention, Model};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_kernels::Library;

/// All reasons why a job cannot run, each with a value that works.
pub fn check(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = zeros(model, job);
    if !found.is_empty() {
        return found;
    }
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
    divides("tensor", u64::from(job.tensor), model.heads, "heads");
    if job.tensor > 1 {
        divides("tensor", u64::from(job.tensor), model.ffn, "elements of the feed-forward block");
    }
    if !matches!(model.attention, Attention::Latent(_))
        && !u64::from(job.tensor).is_multiple_of(model.kv_heads.max(1))
    {
        divides("tensor", u64::from(job.tensor), model.kv_heads, "heads of keys and values");
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
            "heads of keys that Ulysses exchanges",
        );
    }
    if let Some(experts) = model.experts {
        divides("expert", u64::from(job.expert), experts.count, "experts");
        divides("expert_tensor", u64::from(job.expert_tensor), experts.ffn, "elements of an expert");
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
    let chunks = u64::from(job.pipeline) * u64::from(job.virtual_stages);
    let layers = u64::from(model.layers + model.prediction_layers) + 2;
    if chunks > layers {
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
        found.push(
            Diagnostic::error(Code::BadValue, "more stages than layers")
                .key(key)
                .found(format!("{} stages of {} chunks", job.pipeline, job.virtual_stages))
                .allowed(format!("at most {layers} chunks"))
                .help(format!("write {key}: {value}")),
        );
    }
    found.extend(chunk_layers(model, job));
    found.extend(expert_load(model, job));
    if job.virtual_stages > 1 && job.pipeline < 2 {
        found.push(
            Diagnostic::error(Code::BadValue, "only stages of a pipeline have several chunks")
                .key("virtual_stages")
                .found(job.virtual_stages.to_string())
                .help("write virtual_stages: 1"),
        );
    }
    found.extend(schedule(job));
    found.extend(fp8_attention(job));
    found.extend(low_precision_parameters(job));
    found.extend(bf16_layers(model, job));
    found.extend(expert_adapters(model, job));
    found.extend(recompute(model, job));
    found.extend(offload(model, job));
    if ![1, 2, 4].contains(&job.moment_bytes) {
        found.push(
            Diagnostic::error(Code::BadValue, "a moment of Adam cannot have this many bytes")
                .key("moment_bytes")
                .found(job.moment_bytes.to_string())
                .allowed("1, 2, 4")
                .help("write moment_bytes: 4"),
        );
    }
    found
}

/// Attention of 8 bits, which Transformer Engine has in jobs of 8 or 4 bits alone, by kernels of cuDNN.
fn fp8_attention(job: &Job) -> Option<Diagnostic> {
    if !job.fp8_attention {
        return None;
    }
    let refused = |message: &str, found: String, help: &str| {
        Some(Diagnostic::error(Code::BadValue, message).key("fp8_attention").found(found).help(help))
    };
    if !job.precision.converts() {
        let found = format!("precision: {}", job.precision.name());
        let help = "write precision: fp8, mxfp8 or nvfp4, or fp8_attention: false";
        return refused("attention has 8 bits only where linear layers have 8 or 4", found, help);
    }
    if !job.fused_attention {
        let help = "write attention: fused, or fp8_attention: false";
        return refused("attention of 8 bits is fused", "attention: unfused".to_owned(), help);
    }
    let library = match job.attention_library {
        Some(Library::Triton) => "triton",
        Some(Library::FlashAttention2) => "flash-attention-2",
        None | Some(Library::Measured | Library::Cudnn) => return None,
    };
    let help = "write attention: cudnn, or fp8_attention: false";
    refused("this library has no attention of 8 bits", format!("attention: {library}"), help)
}

/// Parameters of 8 or 4 bits, which are those of products.
fn low_precision_parameters(job: &Job) -> Option<Diagnostic> {
    (job.low_precision_parameters && !job.precision.converts()).then(|| {
        Diagnostic::error(Code::BadValue, "parameters have 8 bits only where linear layers have 8 or 4")
            .key("low_precision_parameters")
            .found(format!("precision: {}", job.precision.name()))
            .help("write precision: fp8, mxfp8 or nvfp4, or low_precision_parameters: false")
    })
}

/// Layers at both ends that have 16 bits where others have fewer.
fn bf16_layers(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (first, last) = (job.first_layers_bf16, job.last_layers_bf16);
    let (key, number) = if last > 0 { ("last_layers_bf16", last) } else { ("first_layers_bf16", first) };
    if number == 0 {
        return None;
    }
    if !job.precision.converts() {
        let message = "layers at both ends have 16 bits only where others have fewer";
        let found = format!("precision: {}", job.precision.name());
        let help = format!("write precision: fp8, mxfp8 or nvfp4, or leave out {key}");
        return Some(Diagnostic::error(Code::BadValue, message).key(key).found(found).help(help));
    }
    let most = model.layers - if last > 0 { first.min(model.layers) } else { 0 };
    (number > most).then(|| {
        Diagnostic::error(Code::BadValue, "more layers of 16 bits than the model has")
            .key(key)
            .found(number.to_string())
            .allowed(format!("at most {most}"))
            .help(format!("write {key}: {most}"))
    })
}

/// Adapters beside experts, which a model without has not, and which come with those of all other products.
fn expert_adapters(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (message, help) = match job.expert_adapters {
        ExpertAdapters::None => return None,
        _ if job.adapters.is_none() => ("adapters of experts need a rank", "write lora: 16"),
        _ if model.experts.is_none() => ("the model has no experts", "leave out lora_experts"),
        _ if job.adapted != Adapted::All => {
            ("experts have adapters only where all other products have", "write lora_targets: all")
        }
        _ => return None,
    };
    Some(Diagnostic::error(Code::BadValue, message).key("expert_adapters").help(help))
}

/// Chunks whose numbers of layers are given.
fn chunk_layers(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (given, layers) = (&job.chunk_layers, model.layers + model.prediction_layers);
    let chunks = job.pipeline * job.virtual_stages;
    if given.is_empty() {
        return None;
    }
    let wrong = |said: String, found: String, allowed: String| {
        Diagnostic::error(Code::BadValue, said).key("chunk_layers").found(found).allowed(allowed)
    };
    if given.len() as u64 != u64::from(chunks) {
        let said = "not a number of layers for each chunk of each stage".to_owned();
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
    let said = "the chunks do not have the layers of the model".to_owned();
    let last = given.last().map_or(0, |each| u64::from(*each));
    let rest = (u64::from(layers) + last).checked_sub(sum);
    let help = rest.map_or_else(
        || "give the chunks fewer layers".to_owned(),
        |rest| format!("write {rest} as the last one, or change the others"),
    );
    Some(wrong(said, sum.to_string(), format!("numbers whose sum is {layers}")).help(help))
}

/// Tokens of the fullest rank of experts: at most all of them on one expert.
fn expert_load(model: &Model, job: &Job) -> Option<Diagnostic> {
    let most = model.experts.map_or(1.0, |experts| experts.count as f64);
    let load = job.expert_load;
    if load > 0.0 && load <= most {
        return None;
    }
    let wrong = Diagnostic::error(Code::BadValue, "no rank of experts can have this load").key("expert_load");
    let help = if load > most { most } else { 1.0 };
    Some(
        wrong
            .found(load.to_string())
            .allowed(format!("above 0, at most {most}"))
            .help(format!("write expert_load: {help}")),
    )
}

/// The most layers of a chunk.
fn most_layers(model: &Model, job: &Job) -> u32 {
    let chunks = (job.pipeline * job.virtual_stages).max(1);
    let even = (model.layers + model.prediction_layers).div_ceil(chunks);
    job.chunk_layers.iter().copied().max().unwrap_or(even)
}

/// Recomputation whose keys fit together.
fn recompute(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let full = job.recompute == Recompute::Full;
    if job.recompute_method.is_some() && !full {
        found.push(
            Diagnostic::error(Code::BadValue, "only whole layers are recomputed by a method")
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

/// The most layers of a chunk whose activations can lie in the host's memory: the backward pass needs the last layer before the
/// loss at once.
pub fn most_offloaded(model: &Model, job: &Job) -> u32 {
    most_layers(model, job).saturating_sub(u32::from(job.pipeline < 2))
}

/// What can lie in the host's memory.
fn offload(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let (mut found, offload) = (Vec::new(), job.offload);
    let wrong = |key: &str, said: &str| Diagnostic::error(Code::BadValue, said).key(format!("offload.{key}"));
    if !(0.0..=1.0).contains(&offload.optimizer) {
        found.push(
            wrong("optimizer", "not a part of the parameters")
                .found(offload.optimizer.to_string())
                .allowed("0 to 1")
                .help("write optimizer: 1"),
        );
    }
    if offload.optimizer > 0.0 && job.adapters.is_some() {
        found.push(
            wrong("optimizer", "adapters have so few states that these stay on the accelerator")
                .found(offload.optimizer.to_string())
                .help("leave out offload.optimizer"),
        );
    }
    let most = most_offloaded(model, job);
    if offload.layers > most {
        found.push(
            wrong("layers", "no chunk has this many layers whose activations the backward pass can wait for")
                .found(offload.layers.to_string())
                .allowed(format!("0 to {most}"))
                .help(format!("write layers: {most}")),
        );
    }
    if offload.modules.is_empty() {
        return found;
    }
    if offload.layers > 0 {
        found.push(
            wrong("modules", "modules of all layers, or the first layers: not both")
                .help("leave out offload.layers or offload.modules"),
        );
    }
    if !matches!(job.recompute, Recompute::None | Recompute::Selective) {
        found.push(
            wrong("modules", "layers that are computed again keep no inputs of their modules")
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
            "the input of this module is computed again"
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
    if let Some(chunks) = job.schedule.chunks()
        && job.virtual_stages != chunks
    {
        found.push(wrong("virtual_stages", job.virtual_stages, chunks.to_string(), chunks));
    }
    if job.schedule.is_ordered() && stages < 2 {
        found.push(wrong("pipeline", stages, "at least 2".to_owned(), 2));
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

/// Numbers that are at least one, and products of ranks that can be counted.
fn zeros(model: &Model, job: &Job) -> Vec<Diagnostic> {
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

/// The divisor of `whole` that is nearest to `wanted`, the smaller one of two.
fn nearest_divisor(whole: u64, wanted: u64) -> u64 {
    (1..)
        .take_while(|each| each * each <= whole)
        .filter(|each| whole.is_multiple_of(*each))
        .flat_map(|each| [each, whole / each])
        .min_by_key(|each| (each.abs_diff(wanted), *each))
        .unwrap_or(1)
}
