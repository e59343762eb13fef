"""The schema of ``collectives``. Defaults are those of the core; a test compares them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from syncline.input.base import Strict, either
from syncline.input.units import Bytes, Rate, Time
from syncline.input.words import Collective

Positive = Annotated[int, Field(ge=1, le=2**32 - 1)]
Unlimited = Annotated[
    Literal["unlimited"] | Positive, either("unlimited, or a whole number of at least 1", "unlimited")
]


class AlgorithmsOf(Strict):
    """Algorithms for the collectives of one group, kind and size."""

    group: Annotated[str, Field(min_length=1)]
    """Their group: `data`, `tensor`, another axis, or `all`, as in column `group` of the table of collectives, without
    the number."""
    collective: Collective
    """Their kind."""
    bytes: Bytes
    """Their size."""
    phases: list[str]
    """Algorithm and collective of each phase, such as `ring reduce_scatter`, in the order of the phases."""


class JobCollectives(Strict):
    """How the collectives of one of several jobs are planned, where that differs from the scenario."""

    all_reduce: Literal[
        "auto",
        "baseline",
        "enhanced",
        "hierarchical_2n",
        "hierarchical_2n_merged",
        "hierarchical",
        "hierarchical_optimal",
    ] = "auto"
    """How an all-reduce is composed over dimensions. `auto`: the quickest composition; but if `algorithms` names one
    for an all-reduce, the first composition with a phase that runs it. `baseline`: one all-reduce in each dimension.
    `enhanced`: reduce-scatter in the lowest, all-reduce in the others, all-gather in the lowest (astra2020).
    `hierarchical_2n`: reduce-scatter upwards, all-gather downwards (hier2021). `hierarchical_2n_merged`: the same with
    one all-reduce in the highest. `hierarchical`, `hierarchical_optimal`: as in dlrm2020."""
    algorithms: dict[str, dict[Collective, str]] = {}
    """Algorithm by dimension, then by collective; `default` stands for all other dimensions. The algorithm for
    all-reduce is also used for its reduce-scatter and all-gather phases, unless these name their own. Without an entry,
    the quickest algorithm is chosen."""
    algorithms_of: list[AlgorithmsOf] = []
    """Algorithms for the collectives of one group, kind and size. Take precedence over `all_reduce` and
    `algorithms`."""
    plans: dict[Collective, str] = {}
    """Path of your own plan file, by collective."""
    logical: (
        Annotated[list[Positive], Field(min_length=1), either("a list of sizes, lowest dimension first")] | None
    ) = None
    """Sizes of the logical grid that plans assume, lowest dimension first. Without it, the dimensions of the fabric."""
    chunks: Positive = 16
    """Number of chunks that a collective is cut into."""
    chunks_of: dict[Collective, Positive] = {}
    """Number of chunks by collective, in place of `chunks`."""
    min_chunk: Bytes = "4KiB"
    """Smallest chunk: a small collective is cut into fewer chunks, so that none is smaller."""
    element: Bytes = "4B"
    """Size of an element: data is cut between elements."""


class DeepEp(Strict):
    """DeepEP, which carries out the all-to-alls of experts: dispatches of tokens, and combines of what comes back."""

    tokens: Positive
    """Tokens of an NPU in an exchange. An all-to-all has a copy for each expert of each token, so the bytes of a copy
    follow from its size."""
    experts: Positive
    """Experts of each token (top-k)."""
    kernels: Literal["normal", "low_latency"] = "normal"
    """`normal`: those for training, which send a token once to each NPU that has one of its experts. `low_latency`:
    those for decoding, which send it once to each expert."""
    sms: Positive = 20
    """Streaming multiprocessors that communicate, for `normal` kernels; the others use all."""
    group: Annotated[str, Field(min_length=1)] | None = None
    """The groups whose all-to-alls it carries out, as in column `group` of the table of collectives, without the
    number. Without it, all groups."""
    phase: Literal["dispatch", "combine"] | None = None
    """What all-to-alls that belong to no layer are. Those of layers are dispatches before a pass, and combines after
    one."""


class Collectives(JobCollectives):
    """How collectives are planned and scheduled."""

    order: Literal["fifo", "lifo", "priority"] = "fifo"
    """Which collective goes first. `fifo`: the one issued first. `lifo`: the one issued last. `priority`: all-to-alls
    before all others."""
    schedulers: Literal["per_group", "per_rank"] | None = None
    """What `order`, `issue_threshold`, `issue_batch` and `active_chunks` apply to. `per_group`: the chunks of each
    process group, as NCCL's communicators run side by side. `per_rank`: all chunks of a rank (astra2020). Without it,
    `per_group` for `order: fifo`, else `per_rank`."""
    issue_threshold: Unlimited = 8
    """New chunks are issued while fewer than this many are in their first phase (T of astra2020)."""
    issue_batch: Unlimited = 16
    """How many chunks are issued at once (P of astra2020)."""
    queues: Annotated[
        Literal["per_link"] | Positive, either("per_link, or a whole number of at least 1", "per_link")
    ] = "per_link"
    """Logical scheduling queues of a phase. `per_link`: one for each ring or switch of the dimension, but a single one
    with `spread: pair`."""
    active_chunks: Unlimited = 4
    """Maximum number of chunks of a queue that run at once."""
    outstanding: Unlimited = "unlimited"
    """Maximum number of chunks of an NPU that run at once in a dimension (64 in dlrm2020)."""
    concurrent: Unlimited = "unlimited"
    """Maximum number of collectives of a rank that run at once."""
    endpoint_delay: Time = "0s"
    """Constant delay after a message is received."""
    injection_latency: Time = "0s"
    """Time that a message takes from memory to the network interface."""
    reduction_rate: Rate | None = None
    """Rate at which received data is combined with local data. Without it, combining takes no time."""
    nccl: Annotated[str, Field(min_length=1)] | None = None
    """The machine whose NCCL carries out the collectives: one of the package, such as `h100-sxm`, or a file that
    `syncline calibrate` wrote. NCCL's algorithm, protocol and time of each collective are then those of the calibrated
    model, and the keys about planning and endpoints may not be given. Without it, collectives take the time of their
    plans on the fabric."""
    sharp: bool = False
    """Whether switches between nodes have SHARP and NCCL may use it (`NCCL_COLLNET_ENABLE=1`): all-reduces between
    nodes may then be summed in switches, by CollNet or by NVLS. Needs `nccl`."""
    custom_all_reduce: Annotated[str, Field(min_length=1)] | None = None
    """The inference framework whose kernels carry out small all-reduces in a node, in one shot or two, in place of
    NCCL: `vLLM`, `SGLang` or `TensorRT-LLM`, with a version such as `vLLM 0.24.0` or without, for the newest that was
    measured. Needs `nccl`."""
    deepep: DeepEp | None = None
    """DeepEP, which carries out all-to-alls of experts in place of NCCL, as it was measured. Needs `nccl`."""
