"""Measures of a step: tokens a second, model FLOP utilisation (MFU)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.estimate.job import Job
    from syncline.estimate.machines import Machine
    from syncline.models.architecture import Decoder


def tokens_per_s(job: Job, step_s: float) -> float:
    """Tokens a second of an accelerator."""
    return job.global_batch * job.sequence / (step_s * job.ranks)


def mfu(architecture: Decoder, job: Job, machine: Machine, step_s: float) -> float | None:
    """Operations that the model needs, over those that the accelerators could do in 16 bits (MFU).

    None if the peak of the accelerator is not known.
    """
    peak = machine.peak_flop_per_s
    if peak is None:
        return None
    flop = flop_per_token(architecture, job.sequence, frozen=job.adapters is not None)
    return flop * tokens_per_s(job, step_s) / peak


def flop_per_token(architecture: Decoder, sequence: int, *, frozen: bool = False) -> float:
    """Operations of a token in forward and backward pass: 6 for each weight that it meets, and attention.

    A causal mask hides half of the scores, and a window all of those before it. Weights that are ``frozen``, because
    only adapters are trained, need no gradients: 4 for each. The few of the adapters do not count.
    """
    heads, size = architecture.heads, architecture.dimension
    if architecture.latent is not None:
        size = (architecture.latent.nope_dim + architecture.latent.rope_dim + architecture.latent.value_dim) // 2
    scores = 0.0
    for layer in range(architecture.layers):
        window = architecture.window
        limited = window is not None and (not window.full_every or (layer + 1) % window.full_every)
        # The first tokens of a sequence see less than a window.
        within = min(window.tokens, sequence) if limited and window is not None else sequence
        seen = within * (1 - within / (2 * sequence))
        scores += 4 * seen * heads * size
    return (4 if frozen else 6) * architecture.multiplied() + 3 * scores
