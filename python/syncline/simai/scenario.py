"""The scenario of a workload of SimAI.

The text has what one rank of a stage does, micro-batch after micro-batch. The scenario has the layers of all stages,
each of which does what the text says, and the number of micro-batches, so that the pipeline runs; SimAI adds its bubble
by a formula instead. What stands before and after the micro-batches happens once a step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.input.problem import raise_errors
from syncline.quantity import counted
from syncline.simai import repeats
from syncline.simai.workload import MICRO, Layer, Workload, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.clusters.printed import Printed

_ELEMENT = 2
"""Bytes of an element that stages send: AICB counts activations of 16 bits."""


@dataclass(frozen=True)
class Conversion:
    """A scenario without a fabric."""

    scenario: dict[str, Any]
    """Its keys."""
    notes: list[str] = field(default_factory=list)
    """Sentences: what was read, and what is not as in the text."""


def convert(printed: Printed) -> Conversion:
    """The scenario of a text.

    :raises SynclineError: the text is malformed, or its degrees of parallelism do not fit.
    """
    workload = read(printed)
    return _collectives(workload) if workload.policy == MICRO else _Job(workload).conversion()


def _collectives(workload: Workload) -> Conversion:
    """Collectives of all ranks, one after the other."""
    found = [each for layer in workload.layers for each in layer.passes if each.collective is not None]
    if not found:
        raise_errors(workload.printed.wrong("the text has no collective", (1, 1, 1)))
    lines = [{"collective": each.collective, "bytes": f"{each.bytes}B"} for each in found]
    return Conversion(
        {"schema": "syncline/1", "workload": {"collectives": lines}},
        [f"{counted(len(lines), 'collective')} of all ranks, one after the other."],
    )


def _mean(same: Sequence[Layer]) -> Layer:
    """A layer with the mean times of those that are the same in each micro-batch."""
    forward, input_grad, weight_grad = (
        replace(passes[0], ns=round(sum(each.ns for each in passes) / len(passes)))
        for passes in zip(*(layer.passes for layer in same), strict=True)
    )
    return replace(same[0], forward=forward, input_grad=input_grad, weight_grad=weight_grad)


class _Job:
    """A training job under conversion."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.notes: list[str] = []
        self.names: Counter[str] = Counter()
        layers, count = workload.layers, workload.micro_batches
        found = repeats.find([layer.kind for layer in layers], count)
        if found is None and workload.pipeline > 1:
            self.wrong(f"the layers do not repeat {count} times, so micro-batches cannot be told apart", "ga", count)
        if found is None:
            self.notes.append("The layers do not repeat for each micro-batch: all of them are one.")
            found, count = (0, len(layers)), 1
        start, length = found
        end = start + length * count
        self.micro_batches = count
        self.once, self.after = layers[:start], layers[end:]
        batches = [layers[at : at + length] for at in range(start, end, length)]
        self.parts = self.split([_mean(same) for same in zip(*batches, strict=True)])
        self.parallel = self.axes_of_ranks()

    def split(self, unit: list[Layer]) -> list[list[Layer]]:
        """The parts of the model that a stage has, as layers of one micro-batch."""
        wanted = self.workload.parts
        if self.workload.pipeline == 1 or wanted == 1:
            return [unit]
        found = repeats.find([layer.kind for layer in unit], wanted)
        if found is None:
            self.notes.append(f"The layers of a stage do not divide into {wanted} equal parts: each stage is one part.")
            return [unit]
        start, length = found
        cuts = [0, *(start + length * at for at in range(1, wanted)), len(unit)]
        return [unit[low:high] for low, high in pairwise(cuts)]

    def conversion(self) -> Conversion:
        """The scenario, and what is to be said about it."""
        job: dict[str, Any] = {"layers": [*self.layers()], "parallel": self.parallel, "precision": "bf16"}
        if self.micro_batches > 1:
            job["micro_batches"] = self.micro_batches
        size = len(self.workload.layers)
        self.notes.insert(0, f"A workload of SimAI: {counted(size, 'line')}, {self.sentence()}.")
        return Conversion({"schema": "syncline/1", "workload": job}, self.notes)

    def sentence(self) -> str:
        """The degrees of parallelism."""
        parallel = self.parallel
        axes = [f"{name} {parallel[name]}" for name in ("tensor", "pipeline") if parallel.get(name, 1) != 1]
        axes += [f"expert {self.workload.expert}"] if self.workload.expert > 1 else []
        axes += [f"data {parallel['data']}"] if parallel["data"] != "rest" else []
        return ", ".join([*axes, counted(self.micro_batches, "micro-batch")])

    def axes_of_ranks(self) -> dict[str, Any]:
        """The axes: tensor-parallel ranks are next to each other, then experts, then copies, then stages."""
        workload = self.workload
        tensor = workload.tensor or workload.ranks or 1
        group = tensor * workload.expert * workload.pipeline
        if workload.ranks and workload.ranks % group:
            self.wrong(
                f"{workload.ranks} GPUs are no multiple of tensor {tensor} x expert {workload.expert} x "
                f"pipeline {workload.pipeline}",
                "all_gpus",
                workload.ranks,
                nearest=str(max(group, workload.ranks // group * group)),
            )
        made: dict[str, Any] = {"tensor": tensor}
        if workload.expert > 1:
            made["axes"] = {"expert": workload.expert}
        made["data"] = workload.ranks // group if workload.ranks else "rest"
        if workload.pipeline > 1:
            made["pipeline"] = workload.pipeline
            if len(self.parts) > 1:
                made |= {"schedule": "interleaved", "virtual_stages": len(self.parts)}
        return made

    def layers(self) -> Iterator[dict[str, Any]]:
        """The layers of all stages, part by part."""
        workload, block, last = self.workload, 0, len(self.parts) - 1
        for at, part in enumerate(self.parts):
            for _ in range(workload.pipeline):
                made = [
                    *(self.once_a_step(layer) for layer in self.once if at == 0),
                    *(self.layer(layer) for layer in part),
                    *(self.once_a_step(layer) for layer in self.after if at == last),
                ]
                if workload.pipeline > 1:
                    for layer in made:
                        layer["block"] = block
                    made[-1]["outputs"] = self.outputs()
                block += 1
                yield from made

    def outputs(self) -> int:
        """Elements that a stage sends."""
        if self.workload.stage_bytes < _ELEMENT:
            self.wrong("stages send nothing", "pp_comm", self.workload.stage_bytes, allowed="2 bytes or more")
        return self.workload.stage_bytes // _ELEMENT

    def layer(self, layer: Layer) -> dict[str, Any]:
        """A layer of a micro-batch. Nothing overlaps but the collective of its weights' gradient.

        SimAI computes the gradient of the input, waits for its collective, and then computes that of the weights. Here
        both are computed after that collective, as one pass: in scenarios, it would overlap with the second one.
        """
        exchanges = [
            *self.exchange(layer, 0, {"when": "after_forward"}),
            *self.exchange(layer, 1, {"when": "before_weight_grad"}),
            *self.exchange(layer, 2, {"when": "after_weight_grad", "each_micro_batch": True}),
        ]
        return {
            **self.name(layer),
            "forward": f"{layer.forward.ns}ns",
            "weight_grad": f"{layer.input_grad.ns + layer.weight_grad.ns}ns",
            "sharding": "replicated",
            "exchanges": exchanges,
        }

    def once_a_step(self, layer: Layer) -> dict[str, Any]:
        """A layer that has no part in micro-batches: its exchanges follow the last one, and then its update."""
        exchanges = [
            *self.exchange(layer, 0, {"when": "after_weight_grad", "blocks": True}),
            *self.exchange(layer, 1, {"when": "after_weight_grad", "blocks": True}),
            *self.exchange(layer, 2, {"when": "after_weight_grad"}),
        ]
        total = sum(each.ns for each in layer.passes)
        return {**self.name(layer), "update": f"{total}ns", "sharding": "replicated", "exchanges": exchanges}

    def exchange(self, layer: Layer, at: int, moment: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """The collective after a pass, by its number; nothing if one rank alone would carry it out."""
        found = layer.passes[at]
        if found.collective is None or not (axes := self.axes(found.group, weights=at == 2)):
            return
        axis = axes[0] if len(axes) == 1 else axes
        yield {**moment, "axis": axis, "collective": found.collective, "bytes": f"{found.bytes}B"}

    def axes(self, group: str, *, weights: bool) -> list[str]:
        """The axes of a group, without those of one rank."""
        expert = ["expert"] if self.workload.expert > 1 else []
        data = ["data"] if self.parallel["data"] != 1 else []
        if group == "_EP":
            return expert
        if group == "_DP_EP":
            return data
        if weights:
            return expert + data
        return ["tensor"] if self.parallel["tensor"] > 1 else []

    def name(self, layer: Layer) -> dict[str, str]:
        """The key ``name``: that of the line, numbered."""
        self.names[layer.name] += 1
        return {"name": f"{layer.name}-{self.names[layer.name]}"}

    def wrong(
        self, message: str, key: str, found: int, allowed: str | None = None, nearest: str | None = None
    ) -> NoReturn:
        """Raises the error at a name in the first line."""
        line = self.workload.printed.lines[0]
        column = line.find(key) + 1
        raise_errors(
            self.workload.printed.wrong(
                message,
                (1, column, len(key)) if column else (1, 1, 1),
                code=Code.BAD_VALUE,
                found=str(found),
                allowed=allowed,
                nearest=nearest,
            )
        )
