"""The pipeline: its schedule, and layers of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.estimate.job import Schedule
    from syncline.jobs.settings import Settings

SCHEDULES: Mapping[str, tuple[Schedule, int]] = {
    "1F1B": ("1f1b", 1),
    "Interleaved1F1B": ("1f1b", 2),
    "GPipe": ("gpipe", 1),
    "ZBVZeroBubble": ("zb-v", 2),
    "DualPipeV": ("dualpipe-v", 2),
}
"""Schedules of pipelines that estimates have, and how many chunks of layers their stages have at least.

Source: ``torch.distributed.pipelining.schedules``; chunks without ``pipeline_parallel_layers_per_stage`` are 1 or 2.
"""


def stages(settings: Settings, pipeline: int, layers: int | None) -> None:
    """The schedule of ``pipeline`` stages, and how ``layers`` are divided among them; None if they are not known."""
    settings.put("parallel.pipeline", pipeline, "parallelism.pipeline_parallel_degree")
    prefix = "parallelism.pipeline_parallel_"
    less = [settings.whole(f"{prefix}{end}_stage_less_layers", 1, least=0) for end in ("first", "last")]
    each = settings.whole(f"{prefix}layers_per_stage")
    schedule = settings.word(f"{prefix}schedule", default="1F1B")
    if pipeline == 1:
        return
    if schedule is None or schedule not in SCHEDULES:
        settings.problem(
            f"{prefix}schedule", "this schedule cannot be estimated", allowed=", ".join(SCHEDULES), near="1F1B"
        )
        return
    if less[0] != less[1] or less[0] not in (0, 1):
        settings.problem(
            f"{prefix}first_stage_less_layers" if less[0] not in (0, 1) else f"{prefix}last_stage_less_layers",
            "estimates need stages with equal numbers of layers, or one layer fewer in the first and the last stage",
            allowed="0 for both, or 1 for both",
        )
        return
    names = (f"{prefix}first_stage_less_layers", f"{prefix}last_stage_less_layers")
    note = settings.default_note(*names)
    settings.put("parallel.split", "ends" if less[0] else "even", *names, note=note)
    order, chunks = SCHEDULES[schedule]
    settings.put("parallel.schedule", order, f"{prefix}schedule", note=settings.default_note(f"{prefix}schedule"))
    why: tuple[str, ...] = (f"{prefix}schedule",)
    if each is not None and layers:
        # Both ends count as many layers as they have less.
        whole = -(-(layers + 2 * (less[0] or 0)) // each)
        wrong = whole < 2 * pipeline if schedule == "Interleaved1F1B" else whole != chunks * pipeline
        if whole % pipeline or wrong:
            settings.problem(
                f"{prefix}layers_per_stage",
                f"{layers} layers make {whole} chunks, which {pipeline} stages of {schedule} cannot have",
                allowed=f"layers for {chunks * pipeline} chunks",
            )
        else:
            chunks, why = whole // pipeline, (*why, f"{prefix}layers_per_stage")
    if chunks > 1:
        settings.put("parallel.virtual_stages", chunks, *why)
