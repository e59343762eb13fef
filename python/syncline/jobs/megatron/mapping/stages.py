"""Layers of the stages of a pipeline, and of their chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.megatron.pipeline_layout import chunks, split_of
from syncline.models.architecture import LAYERS

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings

_ENDS = (
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "decoder-first-pipeline-num-layers",
    "num-layers-in-first-pipeline-stage",
    "decoder-last-pipeline-num-layers",
    "num-layers-in-last-pipeline-stage",
)
"""Settings that treat the first and the last stage in another way."""


def stages(settings: Settings, pipeline: int) -> None:
    """How layers are divided among the chunks of ``pipeline`` stages."""
    layers = settings.whole("num-layers", most=LAYERS) or 1
    name = "num-layers-per-virtual-pipeline-stage"
    each = settings.whole(name)
    virtual = settings.whole("num-virtual-stages-per-pipeline-rank") or settings.whole(
        "virtual-pipeline-model-parallel-size"
    )
    names: tuple[str, ...] = ("num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size", name)
    ends, split = _split(settings, pipeline)
    blocks = layers + (2 if ends else 0)
    if each is not None:
        if pipeline < 2 or blocks % pipeline or blocks // pipeline % each:
            wanted = sorted(n for n in range(1, blocks + 1) if not blocks % pipeline and not blocks // pipeline % n)
            settings.problem(
                name,
                f"{blocks} layers of {pipeline} stages do not divide into chunks of {each}",
                allowed=", ".join(map(str, wanted)) or "none",
                near=str(min(wanted, key=lambda n: abs(n - each))) if wanted else None,
            )
        else:
            virtual = blocks // pipeline // each
    layout = settings.word("pipeline-model-parallel-layout")
    if layout is not None:
        parts = chunks(layout)
        shape = None if parts is None else split_of(parts)
        if parts is None or shape is None or len(parts) % pipeline:
            settings.bad("pipeline-model-parallel-layout", "chunks of each stage, such as Et|tt|tt|tL")
        else:
            virtual = len(parts) // pipeline
            names = (*names, "pipeline-model-parallel-layout")
            if isinstance(shape, str):
                settings.put("parallel.split", shape, "pipeline-model-parallel-layout")
            else:
                settings.put("parallel.chunk_layers", shape, "pipeline-model-parallel-layout")
    elif split:
        settings.put("parallel.split", "ends", *_ENDS)
    elif (counts := _stage_layers(settings, pipeline)) is not None:
        _unequal(settings, counts, virtual or 1)
    whole = settings.has("num-layers") and layout is None and each is None
    if (
        whole
        and settings.whole("num-layers", most=LAYERS)
        and blocks % (pipeline * (virtual or 1))
        and not settings.said(*_ENDS[2:])
    ):
        _undivided(settings, blocks, pipeline, virtual or 1)
    if virtual is not None and virtual > 1:
        settings.put("parallel.virtual_stages", virtual, *names)


def _undivided(settings: Settings, blocks: int, pipeline: int, virtual: int) -> None:
    """Stages of Megatron Core have equal numbers of layers, unless the settings say otherwise."""
    chunks = f"{pipeline} stages of {virtual} chunks" if virtual > 1 else f"{pipeline} stages"
    fit = [n for n in range(1, blocks + 1) if not blocks % (n * virtual)]
    settings.problem(
        "pipeline-model-parallel-size",
        f"{blocks} layers do not divide into {chunks}",
        allowed=", ".join(map(str, fit)) or "none",
        near=str(min(fit, key=lambda n: abs(n - pipeline))) if fit else None,
    )


def _split(settings: Settings, pipeline: int) -> tuple[bool, str | None]:
    """Whether embedding and output layer count as layers, and the split that says so."""
    embedding, loss = settings.flag(_ENDS[0]), settings.flag(_ENDS[1])
    first = settings.whole(_ENDS[2]) or settings.whole(_ENDS[3])
    last = settings.whole(_ENDS[4]) or settings.whole(_ENDS[5])
    if embedding and loss:
        return True, "ends"
    if embedding or loss:
        settings.problem(
            _ENDS[0] if embedding else _ENDS[1],
            "estimates count embedding and output layer as layers together, or neither",
            help=f"add --{_ENDS[1] if embedding else _ENDS[0]}, or remove this",
        )
        return False, None
    if first is None and last is None:
        return False, None
    layers = settings.whole("num-layers", most=LAYERS) or 1
    inner = (layers - (first or 0) - (last or 0)) / max(pipeline - (first is not None) - (last is not None), 1)
    if first == last and first == inner - 1:
        return True, "ends"
    return False, None


def _stage_layers(settings: Settings, pipeline: int) -> list[int] | None:
    """The layers of each stage, where the first or the last one has its own number; None if all have the same."""
    layers = settings.whole("num-layers", most=LAYERS) or 1
    first = settings.whole(_ENDS[2]) or settings.whole(_ENDS[3])
    last = settings.whole(_ENDS[4]) or settings.whole(_ENDS[5])
    if (first is None and last is None) or pipeline == 1:
        return None
    inner = pipeline - (first is not None) - (last is not None)
    left = layers - (first or 0) - (last or 0)
    if left < 0 or (left if inner == 0 else left % inner):
        whole = f"{layers} layers less those of the first and the last stage"
        settings.problem(
            next(name for name in _ENDS[2:] if settings.has(name)),
            f"{whole} do not divide among {inner} other stages",
            allowed=f"numbers that leave a multiple of {inner}" if inner else f"numbers whose sum is {layers}",
        )
        return None
    each = [left // max(inner, 1)] * inner
    made = [*([] if first is None else [first]), *each, *([] if last is None else [last])]
    return None if len(set(made)) == 1 else made


def _unequal(settings: Settings, layers: list[int], virtual: int) -> None:
    """Stages of these numbers of layers, each in equal chunks."""
    if any(each % virtual for each in layers):
        settings.problem(
            next(name for name in _ENDS[2:] if settings.has(name)),
            f"the stages do not divide into {virtual} chunks each",
            allowed=f"multiples of {virtual} for every stage",
        )
        return
    settings.put("parallel.chunk_layers", [each // virtual for each in layers] * virtual, *_ENDS[2:])
