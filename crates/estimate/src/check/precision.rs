//! Parts of a model whose precision differs from that of its linear layers, and moments of Adam.

use crate::job::{Job, Precision};
use crate::model::Model;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_kernels::Library;

/// FP8 attention, which Transformer Engine has only in jobs of FP8, MXFP8 or NVFP4, by kernels of cuDNN.
pub(super) fn fp8_attention(job: &Job) -> Option<Diagnostic> {
    if !job.fp8_attention {
        return None;
    }
    let refused = |message: &str, found: String, help: &str| {
        Some(Diagnostic::error(Code::BadValue, message).key("fp8_attention").found(found).help(help))
    };
    if !job.precision.casts() {
        let found = format!("precision: {}", job.precision.name());
        let help = "write precision: fp8, mxfp8 or nvfp4, or fp8_attention: false";
        return refused("FP8 attention needs linear layers in FP8, MXFP8 or NVFP4", found, help);
    }
    if !job.fused_attention {
        let help = "write attention: fused, or fp8_attention: false";
        return refused("FP8 attention needs fused attention", "attention: unfused".to_owned(), help);
    }
    let library = match job.attention_library {
        Some(Library::Triton) => "triton",
        Some(Library::FlashAttention2) => "flash-attention-2",
        None | Some(Library::Measured | Library::Cudnn | Library::CudnnMxfp8) => return None,
    };
    let help = "write attention: cudnn, or fp8_attention: false";
    refused("this library has no FP8 attention", format!("attention: {library}"), help)
}

/// Parameters in the precision of products.
pub(super) fn parameters(job: &Job) -> Option<Diagnostic> {
    (job.low_precision_parameters && !job.precision.casts()).then(|| {
        Diagnostic::error(
            Code::BadValue,
            "low-precision parameters need linear layers in FP8, MXFP8 or NVFP4",
        )
        .key("low_precision_parameters")
        .found(format!("precision: {}", job.precision.name()))
        .help("write precision: fp8, mxfp8 or nvfp4, or low_precision_parameters: false")
    })
}

/// Fused experts, whose kernels compute in MXFP8.
pub(super) fn fused_experts(job: &Job) -> Option<Diagnostic> {
    (job.fused_experts && job.precision != Precision::Mxfp8).then(|| {
        Diagnostic::error(Code::BadValue, "kernels that fuse experts compute in MXFP8 alone")
            .key("fused_experts")
            .found(format!("precision: {}", job.precision.name()))
            .help("write precision: mxfp8, or leave out fused_experts")
    })
}

/// Layers at both ends that stay in BF16.
pub(super) fn bf16_layers(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (first, last) = (job.first_layers_bf16, job.last_layers_bf16);
    let (key, number) = if last > 0 { ("last_layers_bf16", last) } else { ("first_layers_bf16", first) };
    if number == 0 {
        return None;
    }
    if !job.precision.casts() {
        let message = "layers stay in BF16 only where the others are in FP8, MXFP8 or NVFP4";
        let found = format!("precision: {}", job.precision.name());
        let help = format!("write precision: fp8, mxfp8 or nvfp4, or leave out {key}");
        return Some(Diagnostic::error(Code::BadValue, message).key(key).found(found).help(help));
    }
    let most = model.layers - if last > 0 { first.min(model.layers) } else { 0 };
    (number > most).then(|| {
        Diagnostic::error(Code::BadValue, "more layers in BF16 than the model has layers")
            .key(key)
            .found(number.to_string())
            .allowed(format!("at most {most}"))
            .help(format!("write {key}: {most}"))
    })
}

/// Bytes of Adam's moments.
pub(super) fn moments(job: &Job) -> Option<Diagnostic> {
    (![1, 2, 4].contains(&job.moment_bytes)).then(|| {
        Diagnostic::error(Code::BadValue, "Adam's moments cannot have this many bytes")
            .key("moment_bytes")
            .found(job.moment_bytes.to_string())
            .allowed("1, 2, 4")
            .help("write moment_bytes: 4")
    })
}
