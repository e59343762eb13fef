"""Errors of a model on measured kernels that its fit did not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.kernels.fitting.regression import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.kernels.fitting import attention, gemm

FITTED_PART = 0.25
"""Part of the rows to which a model is fitted."""


def split(rows: Any, part: float, seed: int) -> tuple[Any, Any]:
    """The numbers of the rows for a fit, a random ``part`` of all, and of the others."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(rows))
    cut = int(len(rows) * part)
    return np.sort(order[:cut]), np.sort(order[cut:])


def held_out(rows: Any, fit: Callable[[Any], gemm.Fitted | attention.Fitted], *, seed: int = 0) -> dict[str, Any]:
    """Errors on the rows that are left out of a fit, with and without corrections.

    :param rows: :class:`~syncline.kernels.fitting.gemm.Products` or
        :class:`~syncline.kernels.fitting.attention.Attentions`.
    :param fit: fits a model to some of the rows.
    :param seed: which rows are left out.
    """
    kept, rest = (rows.take(each) for each in split(rows, FITTED_PART, seed))
    model: Any = fit(kept)
    errors = {
        name: Errors.of(model.times(rest, corrected=name == "corrected"), rest.seconds).as_dict()
        for name in ("corrected", "constants_only")
    }
    return {"left_out": 1 - FITTED_PART, "seed": seed, **errors}
