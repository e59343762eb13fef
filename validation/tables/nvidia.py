"""What NVIDIA's tables have in common: names of systems, models and precisions, and usual settings."""

from __future__ import annotations

DERIVED = ("dgx-b300", "gb300-nvl72")
"""Clusters whose kernels follow from another accelerator's: their rows calibrate no software."""

EXPERTS = ("deepseek", "qwen3-30b", "qwen3-235b", "mixtral", "gpt-oss", "kimi", "grok", "llama4")
"""How names of models with experts begin."""

SYSTEMS = {
    "DGX-H100": "dgx-h100",
    "H100": "dgx-h100",
    "DGX-B200": "dgx-b200",
    "B200": "dgx-b200",
    "DGX-B300": "dgx-b300",
    "DGX-GB200": "gb200-nvl72",
    "GB200": "gb200-nvl72",
    "DGX-GB300": "gb300-nvl72",
    "DGX-A100-80GB SuperPOD": "dgx-a100-selene",
}

NVIDIA_MODELS = (
    *(("deepseekv4 flash", "deepseek-v4-flash"), ("deepseek", "deepseek-v3"), ("gpt oss 120b", "gpt-oss-120b")),
    *(("gpt oss 20b", "gpt-oss-20b"), ("gpt-oss 20b", "gpt-oss-20b"), ("kimi", "kimi-k2"), ("grok", "grok-1")),
    *(("qwen3_30b", "qwen3-30b-a3b"), ("qwen3 moe 30b", "qwen3-30b-a3b"), ("qwen3_235b", "qwen3-235b-a22b")),
    *(("qwen2.5 7b", "qwen2.5-7b"), ("qwen2.5 32b", "qwen2.5-32b"), ("nemotron_3_nano", "nemotron-3-nano")),
    *(("nemotron_3_super", "nemotron-3-super"), ("nemotron_3_ultra", "nemotron-3-ultra")),
    *(("nemotron v3 super", "nemotron-3-super"), ("nemotron_3_5", "nemotron-3.5-lightning")),
    *(("nemotron-h", "nemotron-h-56b"), ("nemotron-8b", "nemotron-8b"), ("nemotron-22b", "nemotron-22b")),
    *(("nemotron4 15b", "nemotron4-15b"), ("nemotron4 340b", "nemotron4-340b"), ("nemotron-340b", "nemotron4-340b")),
    *(("nemotron 340b", "nemotron4-340b"), ("llama4-scout", "llama4-scout"), ("llama4 maverick", "llama4-maverick")),
    *(("nemotron-15b", "nemotron4-15b"), ("llama4-maverick", "llama4-maverick"), ("llama4 scout", "llama4-scout")),
    *(("mixtral-8x7b", "mixtral-8x7b"), ("mixtral-8x22b", "mixtral-8x22b"), ("mistral-7b", "mistral-7b")),
    *(("llama2-7b", "llama2-7b"), ("llama2-13b", "llama2-13b"), ("llama2-70b", "llama2-70b")),
    *(("llama3.1-405b", "llama3-405b"), ("llama3.1 405b", "llama3-405b"), ("llama 3.1 405b", "llama3-405b")),
    *(("llama 3.1 70b", "llama3-70b"), ("llama 3.1 8b", "llama3-8b"), ("llama3-70b", "llama3-70b")),
    *(("llama3_70b", "llama3-70b"), ("llama3 70b", "llama3-70b"), ("maxtext llama3 70b", "llama3-70b")),
    *(("llama3-8b", "llama3-8b"), ("llama3_8b", "llama3-8b"), ("llama3 8b", "llama3-8b")),
    *(("gpt3-5b", "gpt3-5b"), ("gpt3-20b", "gpt3-20b"), ("gpt3-175b", "gpt3-175b"), ("gpt-3 5b", "gpt3-5b")),
    *(("gpt-3 175b", "gpt3-175b"), ("nemo megatron", "gpt3-175b")),
    *(("t5 3b", "t5-3b"), ("mt5 3b", "mt5-3b"), ("bert 4b", "bert-4b")),
)
"""How names of models begin in NVIDIA's tables."""


def nvidia_model(name: str) -> str:
    """The model that a table of NVIDIA names."""
    return next((model for start, model in NVIDIA_MODELS if name.lower().startswith(start)), name.lower())


def nvidia_precision(text: str, cluster: str) -> str:
    """The precision of the linear layers; attention and logits stay in BF16.

    FP8 is scaled by tensor. Parenthesised rows of container 25.09 (``alt-quantization``) and of 25.07 use MXFP8 on
    Blackwell, and blocks on Hopper.
    """
    words = {"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4"}
    if "alt-quantization" in text:
        return "fp8" if cluster == "dgx-h100" else "mxfp8"
    return words.get(text, text.lower())


def nvidia(tp: int, vp: int, cluster: str, model: str, task: str) -> dict[str, object]:
    """What NeMo's and Megatron-Bridge's recipes have in common: overlaps, sequence parallelism, bf16 gradients.

    Point-to-point transfers overlap where stages are interleaved.
    """
    return {
        "sequence_parallel": "yes" if tp > 1 else "no",
        "gradient_type": "bf16",
        "overlap_tp": "yes" if tp > 1 else "",
        "overlap_gradients": "yes",
        "overlap_parameters": "yes",
        "overlap_pipeline": "yes" if vp > 1 else "no",
        "task": task,
        "calibrates": _nvidia_calibrates(cluster, model, task),
    }


def _nvidia_calibrates(cluster: str, model: str, task: str) -> str:
    if task != "pretrain" or cluster in DERIVED:
        return ""
    if model.startswith(EXPERTS):
        return "experts"
    return "h100" if cluster == "dgx-h100" else ""
