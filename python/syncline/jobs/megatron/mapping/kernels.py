"""What computes attention, CUDA graphs, and what overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.megatron.arguments import arguments

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings


def attention(settings: Settings) -> None:
    """Whether attention is fused."""
    backend = settings.word("attention-backend", "auto", "flash", "fused", "unfused", "local")
    flash = settings.flag("use-flash-attn")
    implementation = settings.word("transformer-impl")
    old = [name for name in arguments().known.legacy if settings.has(name)]
    if backend in ("unfused", "local"):
        settings.put("attention", "unfused", "attention-backend")
    elif implementation == "local" and not flash:
        settings.put("attention", "unfused", "transformer-impl")
    elif old and not flash:
        settings.put("attention", "unfused", note=f"versions with --{old[0]} have no other")
    else:
        names = ("attention-backend", "use-flash-attn", "transformer-impl")
        said = settings.said(*names)
        settings.put("attention", "fused", *names, note="" if said else f"default of {settings.software}")


_WHOLE = ("full", "full_iteration")
"""Scopes of CUDA graphs that are whole layers or steps."""


def graphs(settings: Settings, *, experts: bool) -> None:
    """Which kernels CUDA graphs launch."""
    kind = settings.word("cuda-graph-impl", "none", "local", "transformer_engine", "full_iteration")
    on = any([settings.flag("enable-cuda-graph"), settings.flag("external-cuda-graph")])
    older, newer = settings.raw("cuda-graph-scope"), settings.raw("cuda-graph-modules")
    scope = newer or older
    if kind in (None, "none") and not on:
        return
    parts = [str(each) for each in (scope if isinstance(scope, list) else [scope] if scope else [])]
    whole = kind == "full_iteration" or not parts or any(each in _WHOLE for each in parts) or not experts
    names = ("cuda-graph-impl", "enable-cuda-graph", "external-cuda-graph", "cuda-graph-modules", "cuda-graph-scope")
    settings.put("graphs", "full" if whole else "partial", *names)


def overlap(settings: Settings, *, experts: bool) -> None:
    """The keys under ``overlap``."""
    settings.put("overlap.tensor", settings.flag("tp-comm-overlap"), "tp-comm-overlap")
    settings.put("overlap.gradients", settings.flag("overlap-grad-reduce"), "overlap-grad-reduce")
    settings.put("overlap.parameters", settings.flag("overlap-param-gather"), "overlap-param-gather")
    if settings.flag("overlap-moe-expert-parallel-comm"):
        settings.put("overlap.experts", experts, "overlap-moe-expert-parallel-comm")
    off = settings.flag("no-overlap-p2p-communication")
    old = any(settings.has(name) for name in arguments().known.legacy)
    interleaved = any(line.path == ("parallel", "virtual_stages") for line in settings.lines)
    note = f"default of {settings.software} with an interleaved pipeline" if interleaved and not off and not old else ""
    settings.put("overlap.pipeline", interleaved and not off and not old, "no-overlap-p2p-communication", note=note)
