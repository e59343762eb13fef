"""Charts of an estimate: where the step goes, the pipeline, memory over the step, kernels."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from syncline.estimate.screen import COMMUNICATION, KINDS, PARTS, WHY
from syncline.quantity import counted, memory, percent, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from syncline.jobs.detail import Communication, Detail, Kernel
    from syncline.jobs.estimation import Estimate

COMPUTING = ("products", "attention", "element_wise", "ends")
"""Parts of a step in which accelerators compute."""
SPANS = 20_000
"""The most spans of a pipeline that are drawn."""
POINTS = 40_000
"""The most points of memory that are drawn."""
NETWORK = "network"
_COLOURS = {
    "computing": "compute",
    "NVLink": "exposed",
    NETWORK: "skew",
    "bubble": "bubble",
    "waiting": "wait",
    "host": "wait",
}
_ROOFS = {"fp16": "bf16", "mxfp8": "fp8", "nvfp4": "fp8"}
"""Data types that are shown against the peak of another one."""
_UNIT_PS = 10_000
"""Times of the pipeline are whole multiples of this, in picoseconds."""


def tiers(found: Estimate, detail: Detail) -> dict[str, dict[str, float]]:
    """Seconds of a step in which ranks wait for communication: by part of the step, and by what it goes through."""
    split: dict[str, dict[str, float]] = {}
    for part in COMMUNICATION:
        seconds = found.parts[part]
        if seconds <= 0:
            continue
        whole: dict[str, float] = defaultdict(float)
        for each in detail.communication:
            if each.part == part:
                whole[each.tier] += each.seconds
        total = sum(whole.values())
        split[part] = (
            {tier: seconds * part_s / total for tier, part_s in whole.items()} if total else {NETWORK: seconds}
        )
    return split


def lines(found: Estimate, detail: Detail) -> list[tuple[str, str, float]]:
    """The step as parts that add up: what, where (computing, NVLink, network, bubble, waiting, host), seconds."""
    parts = found.parts
    made = [(PARTS[name], "computing", parts[name]) for name in COMPUTING]
    for part, by_tier in tiers(found, detail).items():
        made += [(COMMUNICATION[part], tier, seconds) for tier, seconds in sorted(by_tier.items())]
    made.append((PARTS["bubble"], "bubble", parts["bubble"]))
    made.append((PARTS["launch"], "waiting", parts["launch"]))
    made.append((PARTS["offload"], "host", parts["offload"]))
    made.append((PARTS["update"], "computing", parts["update"]))
    return [each for each in made if each[2] > 0]


def all_of(found: Estimate, detail: Detail) -> list[Chart]:
    """Every chart that the job has data for."""
    made = (
        step(found, detail),
        communication(found, detail),
        pipeline(found, detail),
        memory_over_step(found, detail),
        kernels(found, detail),
    )
    return [chart for chart in made if chart is not None]


def step(found: Estimate, detail: Detail) -> Chart:
    """The parts of the step, which add up."""
    rows = lines(found, detail)
    exposed = sum(seconds for _, where, seconds in rows if where in ("NVLink", NETWORK, "host"))
    computing = sum(seconds for _, where, seconds in rows if where == "computing")
    return Chart(
        "estimate_step",
        "Where the step goes",
        f"{percent(computing / found.step_s)} of the step is computing, {percent(exposed / found.step_s)} exposed"
        f" communication, {percent(found.parts['bubble'] / found.step_s)} waiting for other stages of the pipeline.",
        "Each bar begins where the one above it ends, so that all of them add up to the step. They are those of the"
        " stage that computes most. Communication that computing hides is not in them. NVLink or network: what the"
        " slowest part of a collective goes through.",
        {
            "part": [name for name, _, _ in rows],
            "where": [_where(where) for _, where, _ in rows],
            "colour": [_COLOURS[where] for _, where, _ in rows],
            "seconds": rounded([seconds for _, _, seconds in rows]),
        },
    )


def _where(where: str) -> str:
    names = {
        "NVLink": "exposed, over NVLink",
        NETWORK: "exposed, over the network",
        "bubble": "pipeline bubble",
        "host": "exposed, to the host",
    }
    return names.get(where, where)


def communication(found: Estimate, detail: Detail) -> Chart | None:
    """Communication by axis and tier, exposed and hidden."""
    grouped: dict[tuple[str, str], list[Communication]] = defaultdict(list)
    for each in detail.communication:
        if each.seconds > 0:
            grouped[each.part, each.tier].append(each)
    if not grouped:
        return None
    split = tiers(found, detail)
    rows: list[dict[str, Any]] = []
    for (part, tier), calls in grouped.items():
        whole = sum(each.seconds for each in calls)
        shown = split.get(part, {}).get(tier, 0.0)
        largest = max(calls, key=lambda each: each.seconds)
        rows.append(
            {
                "label": COMMUNICATION[part],
                "collective": ", ".join(dict.fromkeys(each.collective for each in calls)),
                "tier": tier,
                "ranks": f"{largest.in_domain * largest.domains:,} in {counted(largest.domains, 'NVLink domain')}",
                "bytes": float(f"{largest.bytes:.6g}"),
                "times": float(f"{sum(each.times for each in calls):.6g}"),
                "exposed": float(f"{shown:.6g}"),
                "hidden": float(f"{max(whole - shown, 0.0):.6g}"),
            }
        )
    whole, shown = (sum(each[key] for each in rows) for key in ("hidden", "exposed"))
    worst = max(rows, key=lambda each: float(each["exposed"]))
    part = next(name for name, title in COMMUNICATION.items() if title == worst["label"])
    return Chart(
        "estimate_communication",
        "Communication, exposed and hidden",
        f"Of {time(whole + shown)} of communication, {time(shown)} is exposed, most of it {worst['label']} over"
        f" {_through(worst['tier'])}: {WHY[part]}.",
        "A bar is the time in a step that a rank of the stage that computes most spends on one axis of parallelism."
        " Exposed: ranks wait for it. Hidden: they compute meanwhile; how much overlaps is a constant of the software,"
        " fitted to measured steps. Sizes are those of the largest collective: the gathered or reduced vector, what a"
        " rank sends to all, or a message.",
        {key: [each[key] for each in rows] for key in rows[0]},
    )


def _through(tier: str) -> str:
    return "NVLink" if tier == "NVLink" else "the network"


_PASSES = {
    "forward": ("forward", "compute"),
    "backward": ("backward", "backward"),
    "input": ("gradients of inputs", "backward"),
    "weight": ("gradients of weights", "weight"),
    "both": ("forward and backward at once", "both"),
    "update": ("optimizer", "memory"),
    "message": ("exposed communication", "exposed"),
    "bubble": ("bubble", "bubble"),
}
"""Kinds of spans: their names and colours; passes first."""
_WAITS = ("message", "bubble")


def pipeline(found: Estimate, detail: Detail) -> Chart | None:
    """A row for each stage: its turns, exposed messages, bubbles, the exchange of gradients, the optimizer."""
    stages = len(detail.memory)
    if stages < 2:
        return None
    spans = sorted((each.begin_s, each.stage, each.kind, each.end_s, each.micro_batch + 1) for each in detail.spans)
    cut = len(spans) > SPANS
    until = spans[SPANS][0] if cut else detail.listed_s
    rows = [(begin, end, stage, str(kind), number) for begin, stage, kind, end, number in spans[:SPANS]]
    rows += _bubbles(rows, stages, min(until, detail.pipeline_s))
    if not cut:
        ended = detail.pipeline_s + detail.exchange_s
        for stage in range(stages):
            if detail.exchange_s > 0:
                rows.append((detail.pipeline_s, ended, stage, "message", 0))
            rows.append((ended, detail.listed_s, stage, "update", 0))
    used = [kind for kind in _PASSES if any(row[3] == kind for row in rows)]
    sums = [[0.0] * len(used) for _ in range(stages)]
    for begin, end, stage, kind, _ in rows:
        sums[stage][used.index(kind)] += min(end, until) - begin
    ps = [(round(begin * 1e12) // _UNIT_PS, round(end * 1e12) // _UNIT_PS) for begin, end, *_ in rows]
    job = found.job.job
    each = job.tensor * job.context * job.data
    return Chart(
        "pipeline",
        "The pipeline, stage by stage",
        _agreement(detail),
        "A row is a rank of a stage. Blocks are its forward and backward passes, numbered by micro-batch;"
        " recomputation counts as backward. Below them are the waits: for exposed messages, for other stages"
        " (bubble), and at the end for gradients and parameters. Every pass begins as early as it can: when the"
        " one before it on its stage has ended, and its input is there.",
        {
            "stages": [f"stage {stage}" for stage in range(stages)],
            "ranks": [stage * each for stage in range(stages)],
            "kinds": [_PASSES[kind][0] for kind in used],
            "colours": [_PASSES[kind][1] for kind in used],
            "passes": sum(kind not in _WAITS for kind in used),
            "unit_ps": _UNIT_PS,
            "until": round(until * 1e12) // _UNIT_PS,
            "row": [row[2] for row in rows],
            "kind": [used.index(row[3]) for row in rows],
            "start": [begin for begin, _ in ps],
            "duration": [end - begin for begin, end in ps],
            "micro_batch": [0 if row[3] in (*_WAITS, "update") else row[4] for row in rows],
            "sums": [rounded(each) for each in sums],
        },
        (f"The first {SPANS:,} of {len(spans):,} passes and waits are drawn; the rest repeats.",) if cut else (),
    )


def _agreement(detail: Detail) -> str:
    off = detail.listed_s / detail.step_s - 1
    longer = f"{percent(abs(off))} {'more' if off > 0 else 'less'} than" if abs(off) >= 0.0005 else "as"
    return f"Executed pass by pass, the step takes {time(detail.listed_s)}: {longer} the estimate says."


def _bubbles(
    rows: Sequence[tuple[float, float, int, str, int]], stages: int, until: float
) -> list[tuple[float, float, int, str, int]]:
    """The gaps between the spans of each stage."""
    found = []
    ended = [0.0] * stages
    least = until / 4_000
    for begin, end, stage, _, _ in sorted(rows):
        if begin - ended[stage] > least:
            found.append((ended[stage], begin, stage, "bubble", 0))
        ended[stage] = max(ended[stage], end)
    return found + [(at, until, stage, "bubble", 0) for stage, at in enumerate(ended) if until - at > least]


_CONSTANT = ("context", "buffers", "weights", "gradients", "optimizer", "gathered")
_CHANGING = ("activations", "logits", "working", "fragmentation")


def memory_over_step(found: Estimate, detail: Detail) -> Chart:
    """Memory over the step, by kind and stage."""
    stages = detail.memory
    most = [stage.most for stage in stages]
    fullest = max(range(len(stages)), key=most.__getitem__)
    every = max(1, -(-sum(len(stage.points) for stage in stages) // POINTS))
    kept = [stage.points if every == 1 else _thinned(stage.points, every) for stage in stages]
    off = most[fullest] / found.memory_bytes - 1
    agrees = (
        "That is the estimate's peak."
        if abs(off) < 0.0005
        else f"The estimate's peak is {memory(found.memory_bytes)}: it adds the most of each kind."
    )
    fullest_name = f"of stage {fullest} " if len(stages) > 1 else ""
    return Chart(
        "estimate_memory",
        "Memory over the step",
        f"A rank {fullest_name}needs {memory(most[fullest])} of {memory(found.capacity)}. {agrees}",
        "Memory of a rank of one stage while its passes run. Weights, gradients, optimizer states and buffers stay. A"
        " forward pass adds the activations of its micro-batch, which its backward pass frees; logits exist around the"
        " loss, and a layer needs working memory while it computes backward. Fragmentation is a part of all that"
        " comes and goes. The dashed line is what an accelerator has.",
        {
            "kinds": [KINDS[name] for name in (*_CONSTANT, *_CHANGING)],
            "stages": [f"stage {stage}" for stage in range(len(stages))] if len(stages) > 1 else ["each rank"],
            "capacity": found.capacity,
            "fullest": fullest,
            "time": [rounded([point.at_s for point in points]) for points in kept],
            "bytes": [
                [
                    *([getattr(stage.peak, name)] for name in _CONSTANT),
                    *([round(getattr(point, name)) for point in points] for name in _CHANGING),
                ]
                for stage, points in zip(stages, kept, strict=True)
            ],
        },
        (f"One point in {every} is drawn, and the fullest.",) if every > 1 else (),
    )


def _thinned(points: Sequence[Any], every: int) -> list[Any]:
    peak = max(range(len(points)), key=lambda at: points[at].total)
    return [point for at, point in enumerate(points) if at % every == 0 or at in (peak, len(points) - 1)]


def kernels(found: Estimate, detail: Detail) -> Chart | None:
    """Kernels below the roofs of the accelerator; None if its data sheet is not known."""
    card = found.job.machine.card
    if card is None:
        return None
    used = dict.fromkeys(_type(each) for each in detail.kernels if each.precision)
    types = [name for name in used if name in card.peak_flop_per_s]
    peaks: Mapping[str, float] = {name: card.peak_flop_per_s[name] for name in types}
    rows = sorted(detail.kernels, key=lambda each: -each.times * each.each_s)
    whole = sum(each.times * each.each_s for each in rows)
    first = rows[0]
    return Chart(
        "estimate_kernels",
        "Kernels against their roofline",
        f"Most time goes to {_named(first)}: {percent(first.times * first.each_s / whole)} of all kernels, at"
        f" {percent(_attained(first, peaks, found.job.machine.memory_bytes_per_s))} of its roof.",
        "A bar is the rate of a kernel in training, at the clock that the power allows, as a part of its roof: the"
        " peak of its data type on the data sheet, without sparsity, or the rate of memory if that is lower. Each"
        " operand and result moves once between memory and multiprocessors. The selector shows the same as a roofline:"
        " across, operations for each byte; a larger point takes more of the step. There, kernels that only move bytes"
        " stand at 0.5 operations a byte, as far below the slanted line as their rate is.",
        {
            "name": [_named(each) for each in rows],
            "group": [_group(each) for each in rows],
            "times": rounded([each.times for each in rows]),
            "each": rounded([each.each_s for each in rows]),
            "flop": rounded([each.flop for each in rows]),
            "bytes": rounded([each.bytes for each in rows]),
            "peak": [types.index(_type(each)) if each.precision else -1 for each in rows],
            "peaks": [{"name": f"peak in {name}", "flop_per_s": peaks[name]} for name in types],
            "bytes_per_s": found.job.machine.memory_bytes_per_s,
        },
        tuple(_notes(found)),
    )


def _notes(found: Estimate) -> Iterator[str]:
    if found.job.job.precision == "nvfp4":
        yield "The peak in NVFP4 is not drawn: products in it are shown against the peak in fp8."


def _type(kernel: Kernel) -> str:
    """The data type whose peak is a kernel's roof; "" if it only moves bytes."""
    return _ROOFS.get(kernel.precision or "", kernel.precision or "")


def _named(kernel: Kernel) -> str:
    return f"{kernel.name}: {kernel.which}"


def _group(kernel: Kernel) -> str:
    if kernel.precision is None:
        return "only bytes"
    return "attention" if kernel.name.startswith("attention") else "matrix products"


def _attained(kernel: Kernel, peaks: Mapping[str, float], bytes_per_s: float) -> float:
    """The part of its roof that a kernel attains."""
    at_memory = kernel.bytes / bytes_per_s
    peak = peaks.get(_type(kernel))
    return max(at_memory, kernel.flop / peak if peak else 0.0) / kernel.each_s
