"""The blocks of a job one by one, for simulations: what a rank computes, holds and sends to experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from syncline.input.base import Strict

if TYPE_CHECKING:
    from syncline.jobs.training_job import TrainingJob


class Share(Strict):
    """What a rank computes in a part of a block, and holds.

    Communication of tensor-parallel ranks and of keys and values counts as computing, as far as it is not hidden. So
    does what kernels of hidden exchanges take of the multiprocessors.
    """

    forward_s: float
    """The forward pass of a micro-batch, seconds."""
    input_s: float
    """Gradients of inputs, and what the backward pass computes again, seconds."""
    weight_s: float
    """Gradients of weights, and their sums, seconds."""
    update_s: float
    """The update of parameters, once a step, seconds."""
    parameters: float
    """Parameters."""
    gathered: float
    """Bytes of these, as ranks gather them; those of adapters alone, if others are not divided."""
    trained: float
    """Of these, or of adapters, those that are trained: whose gradients are summed, and which are updated."""


class Experts(Strict):
    """The experts of a block, and the exchanges of their tokens."""

    share: Share
    """What the rank's experts compute and hold."""
    bytes: float
    """Bytes that a rank sends in each exchange of tokens; 0 if they stay."""
    repeats: bool
    """Whether the backward pass repeats the exchanges of the forward pass."""


class Block(Strict):
    """A block of one micro-batch on one rank."""

    kind: Literal["embedding", "layer", "output"]
    layer: int | None
    """The layer, from 0."""
    dense: Share
    """All but experts."""
    experts: Experts | None
    """Experts, if the block has some."""


class Blocks(Strict):
    """A job, block by block: the type ``Blocks`` of the crate ``estimate``."""

    chunks: list[list[Block]]
    """The blocks of each chunk of the model, in the order of the forward pass."""
    stages: list[list[int]]
    """The chunks that each stage holds."""
    message_bytes: int
    """Bytes of the message of one micro-batch from a rank of a stage to one of the next."""


def blocks(job: TrainingJob) -> Blocks:
    """The blocks of a job."""
    return Blocks.model_validate_json(job.estimator.blocks(job.software.model_dump_json(), job.framework))
