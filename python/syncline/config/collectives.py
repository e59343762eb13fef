"""How collectives are carried out, as a user writes it. Defaults are those of the core; a test compares them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from syncline.config.base import Strict, either
from syncline.config.quantity import Bytes, Rate, Time
from syncline.config.workload import Collective

Positive = Annotated[int, Field(ge=1, le=2**32 - 1)]
Unlimited = Annotated[
    Literal["unlimited"] | Positive, either("unlimited, or a whole number of at least 1", "unlimited")
]


class AlgorithmsOf(Strict):
    """How the collectives of one group, kind and size are carried out."""

    group: Annotated[str, Field(min_length=1)]
    """Their group: `data`, `model`, `all` and so on, as `group` in the table of collectives, without its number."""
    collective: Collective
    """Their kind."""
    bytes: Bytes
    """Their size."""
    phases: list[str]
    """Algorithm and collective of each phase, such as `ring reduce_scatter`, in their order."""


class JobCollectives(Strict):
    """How the collectives of one of several jobs are planned, where that is not as the scenario says."""

    all_reduce: Literal[
        "auto",
        "baseline",
        "enhanced",
        "hierarchical_2n",
        "hierarchical_2n_merged",
        "hierarchical",
        "hierarchical_optimal",
    ] = "auto"
    """How an all-reduce is composed over dimensions. `auto`: the quickest; where you name an algorithm of an
    all-reduce, the first composition in which it has a phase. `baseline`: one all-reduce in each dimension.
    `enhanced`: reduce-scatter in the lowest, all-reduce in the others, all-gather in the lowest (astra2020).
    `hierarchical_2n`: reduce-scatter upwards, all-gather downwards (hier2021). `hierarchical_2n_merged`: the same with
    one all-reduce in the highest. `hierarchical`, `hierarchical_optimal`: as in dlrm2020."""
    algorithms: dict[str, dict[Collective, str]] = {}
    """Algorithm by dimension, then by collective; `default` stands for all other dimensions. That of an all-reduce runs
    its reduce-scatter and all-gather too, unless these have one of their own. Where absent, the algorithm that takes
    the least time is chosen."""
    algorithms_of: list[AlgorithmsOf] = []
    """How the collectives of one group, kind and size are carried out. Goes before `all_reduce` and `algorithms`."""
    plans: dict[Collective, str] = {}
    """Path of your own plan, by collective."""
    logical: (
        Annotated[list[Positive], Field(min_length=1), either("a list of sizes, lowest dimension first")] | None
    ) = None
    """Sizes of the logical grid that plans assume, lowest dimension first, where it is not the fabric's."""
    chunks: Positive = 16
    """Chunks that a set is cut into."""
    chunks_of: dict[Collective, Positive] = {}
    """The same by collective, where it is another number."""
    min_chunk: Bytes = "4KiB"
    """Smallest chunk: a set is cut into fewer chunks rather than into smaller ones."""
    element: Bytes = "4B"
    """Element size by which data is cut."""


class Collectives(JobCollectives):
    """How collectives are carried out."""

    order: Literal["fifo", "lifo", "priority"] = "fifo"
    """Which set goes first: the one issued first, the one issued last, or all-to-all before all others."""
    schedulers: Literal["per_group", "per_rank"] | None = None
    """What `order`, `issue_threshold`, `issue_batch` and `active_chunks` apply to: the chunks of each process group by
    itself, as communicators of NCCL run side by side, or all chunks of a rank together, as in astra2020. Without it,
    `per_group` for `order: fifo`, else `per_rank`."""
    issue_threshold: Unlimited = 8
    """New chunks are issued while fewer than this many are in their first phase (T of astra2020)."""
    issue_batch: Unlimited = 16
    """How many chunks are issued at once (P of astra2020)."""
    queues: Annotated[
        Literal["per_link"] | Positive, either("per_link, or a whole number of at least 1", "per_link")
    ] = "per_link"
    """Logical scheduling queues of a phase; `per_link` is one for each ring or switch of the dimension, and one where
    the pair chooses the switch."""
    active_chunks: Unlimited = 4
    """Running chunks of a queue."""
    outstanding: Unlimited = "unlimited"
    """Running chunks of a dimension and NPU (64 in dlrm2020)."""
    concurrent: Unlimited = "unlimited"
    """Collectives of one rank that may be under way at once."""
    endpoint_delay: Time = "0s"
    """Constant delay after a message is received."""
    injection_latency: Time = "0s"
    """Time for a message from memory to the network interface."""
    reduction_rate: Rate | None = None
    """Rate at which received data is combined with local data. Without it, that costs no time."""
