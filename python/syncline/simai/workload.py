"""Reads workloads of SimAI, as AICB writes them.

The first line has the policy and, by name, the degrees of parallelism: ``HYBRID_TRANSFORMER_FWD_IN_BCKWD
model_parallel_NPU_group: 2 ep: 16 pp: 12 vpp: 8 ga: 24 all_gpus: 9216 checkpoints: 0 checkpoint_initiates: 0 pp_comm:
50331648``. The second one has the number of layers. A layer has twelve fields: its name and -1; then for the forward
pass, the gradient of the input and that of the weights: nanoseconds, a collective, and its bytes; then nanoseconds
after a collective. (aliyun/SimAI, ``Workload.cc``; aliyun/aicb, ``SimAI_training_workload_generator.py``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from syncline.clusters.printed import Printed, TextReader
from syncline.input.problem import nearest
from syncline.input.source import read_file

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
MICRO = "MICRO"
"""The policy of a file that lists collectives alone."""
DEGREES = {
    "model_parallel_NPU_group": "tensor",
    "ep": "expert",
    "expert_parallel_npu_group": "expert",
    "pp": "pipeline",
    "vpp": "parts",
    "ga": "micro_batches",
    "all_gpus": "ranks",
    "pp_comm": "stage_bytes",
}
"""Names of numbers in the first line, and what they are called here."""
_TENSOR = "model_parallel_NPU_group: and a number, 1 if layers are whole"
_RECOMPUTED = ("checkpoints", "checkpoint_initiates")
COLLECTIVES = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
GROUPS = ("", "_EP", "_DP_EP")
"""What follows the name of a collective: nothing for the group of the pass, experts, ranks that hold the same ones."""
_WORDS = tuple(kind + group for kind in COLLECTIVES for group in GROUPS)
_MAX_BYTES = 256 * 1024 * 1024
_FIELDS = "name, -1, then three times nanoseconds, collective and bytes, then nanoseconds"


@dataclass(frozen=True, slots=True)
class Pass:
    """One of a layer's three computations, and the collective after it."""

    ns: int
    collective: str | None = None
    """As scenarios have it; None without one."""
    group: str = ""
    """One of :data:`GROUPS`."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """A line."""

    name: str
    forward: Pass
    input_grad: Pass
    weight_grad: Pass
    line: int

    @property
    def passes(self) -> tuple[Pass, Pass, Pass]:
        """In the order of the text."""
        return self.forward, self.input_grad, self.weight_grad

    @property
    def kind(self) -> tuple[object, ...]:
        """What it is, without its times: AICB writes other ones into the first micro-batch."""
        return self.name, *((each.collective, each.group, each.bytes) for each in self.passes)


@dataclass(frozen=True)
class Workload:
    """What a text says."""

    printed: Printed
    policy: str
    layers: list[Layer]
    tensor: int = 1
    expert: int = 1
    pipeline: int = 1
    parts: int = 1
    """Parts of the model in each stage; AICB writes the number of layers of a stage."""
    micro_batches: int = 1
    ranks: int = 0
    """All GPUs; 0 if the text does not say it."""
    stage_bytes: int = 0
    """What a rank sends to the next stage for each micro-batch."""


def recognise(path: str) -> Printed | None:
    """The text, if it is a workload of SimAI or a list of collectives by AICB.

    :raises SynclineError: the file cannot be read.
    """
    printed = Printed(path, read_file(path, _MAX_BYTES))
    first = printed.lines[0].split() if printed.lines else []
    return printed if first and first[0] in (POLICY, MICRO) else None


def read(printed: Printed) -> Workload:
    """The workload.

    :raises SynclineError: lines are malformed; errors name line and column.
    """
    return _Reader(printed).read()


class _Reader(TextReader):
    """Reads lines, and collects errors."""

    def read(self) -> Workload:
        """The whole text."""
        policy, numbers = self.header()
        lines = [(at, line) for at, line in enumerate(self.printed.lines[1:], 2) if line.strip()]
        if not lines:
            self.stop("the text ends after its first line", 1, allowed="the number of layers, then the layers")
        (at, count), *rest = lines
        layers: list[Layer] = []
        wanted = self.number(at, count, count.strip(), 1)
        for number, line in rest:
            if self.full:
                break
            if (layer := self.layer(number, line)) is not None:
                layers.append(layer)
        self.raise_problems()
        if len(layers) != wanted:
            self.stop("there are not as many layers as the text says", at, str(len(layers)), str(wanted))
        return Workload(self.printed, policy, layers, **numbers)

    def header(self) -> tuple[str, dict[str, int]]:
        """The policy, and the numbers of the first line by the names of :class:`Workload`."""
        line = self.printed.lines[0]
        policy = line.split()[0]
        if policy == MICRO:
            return policy, {}
        numbers: dict[str, int] = {}
        column = line.index(policy) + len(policy)
        spans = [
            (found[0].rstrip(":"), found.start()) for found in re.finditer(r"\S+", line) if found.start() >= column
        ]
        for (name, start), (value, place) in zip(spans[::2], spans[1::2], strict=False):
            if name in _RECOMPUTED:
                if value != "0":
                    self.wrong("layers that are computed again are not simulated", (1, place + 1), value, allowed="0")
            elif name in DEGREES:
                least = 0 if name in ("pp_comm", "model_parallel_NPU_group") else 1
                found = self.number(1, line, value, least, place)
                if numbers.setdefault(DEGREES[name], found) != found:
                    self.wrong("the first line says a number twice, in two ways", (1, start + 1), f"{name}: {found}")
            else:
                known, near = ", ".join((*DEGREES, *_RECOMPUTED)), nearest(name, DEGREES)
                self.wrong("unknown name in the first line", (1, start + 1), name, allowed=known, nearest=near)
        if len(spans) % 2:
            name, start = spans[-1]
            self.wrong("a number is missing", (1, start + 1), name, allowed=f"{name}: and a number")
        if "tensor" not in numbers:
            self.wrong("the first line does not say how many ranks divide a layer", (1, 1), policy, allowed=_TENSOR)
        return policy, numbers

    def layer(self, number: int, line: str) -> Layer | None:
        """The layer of a line; None if it is malformed."""
        fields = [(found[0], found.start()) for found in re.finditer(r"\S+", line)]
        if len(fields) != 12:
            self.wrong("a layer has twelve fields", (number, 1), f"{len(fields)} fields", allowed=_FIELDS)
            return None
        before = len(self.problems)
        forward, input_grad, weight_grad = (self.computation(number, line, *fields[at : at + 3]) for at in (2, 5, 8))
        self.number(number, line, fields[11][0], 0, fields[11][1])  # after a collective: not simulated
        if len(self.problems) > before:
            return None
        return Layer(fields[0][0], forward, input_grad, weight_grad, number)

    def computation(
        self, number: int, line: str, time: tuple[str, int], collective: tuple[str, int], size: tuple[str, int]
    ) -> Pass:
        """One pass of a layer."""
        ns = self.number(number, line, time[0], 0, time[1])
        amount = self.number(number, line, size[0], 0, size[1])
        word, place = collective
        if word == "NONE" and amount:
            self.wrong("a size without a collective", (number, size[1] + 1), size[0], allowed="0 after NONE")
        if word == "NONE" or amount == 0:
            return Pass(ns)
        kind = next((each for each in COLLECTIVES if word.startswith(each) and word[len(each) :] in GROUPS), None)
        if kind is None:
            known = "NONE, " + ", ".join(_WORDS)
            self.wrong("unknown collective", (number, place + 1), word, allowed=known, nearest=nearest(word, _WORDS))
            return Pass(ns)
        return Pass(ns, COLLECTIVES[kind], word[len(kind) :], amount)

    def number(self, number: int, line: str, word: str, least: int, place: int = 0) -> int:
        """A whole number, which AICB may write as ``4096.0``."""
        if re.fullmatch(r"\d{1,18}(\.0*)?", word) and int(word.split(".")[0]) >= least:
            return int(word.split(".")[0])
        at = (number, (place or line.find(word)) + 1)
        self.wrong("not a whole number", at, word, allowed=f"a whole number from {least}")
        return least
