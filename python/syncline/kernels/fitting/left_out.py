"""How well models of kernels predict kernels that were left out of their fit.

``python -m syncline.kernels.fitting.left_out TABLE...`` prints errors with three quarters and half of the rows left out
at random, and with every fourth size of ``m``, ``n`` or ``k`` left out altogether. Beside them stands what needs no
model: linear interpolation of the logarithm of the time between measured shapes (Delaunay).
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from syncline.kernels.fitting import attention, gemm
from syncline.kernels.fitting.document import includes_cast
from syncline.kernels.fitting.held_out import held_out, split
from syncline.kernels.fitting.machines import MACHINES
from syncline.kernels.fitting.regression import Errors
from syncline.kernels.fitting.rows import Kernels, attentions, products, read

SEEDS = (0, 1, 2)
PLANES = 4
"""Every so many-th size is left out."""


def main(tables: list[str]) -> None:
    """Prints the errors of each table."""
    for path in tables:
        kernels = read([path], None)
        write(f"\n{kernels.accelerator}\n\n")
        write("| kernels | left out | rows | median | mean | 90 % | largest |\n|---|---|---|---|---|---|---|\n")
        for data_type in kernels.named("data_type"):
            _products(kernels, data_type)
        _attention(kernels)


def _products(kernels: Kernels, data_type: str) -> None:
    machine = MACHINES[kernels.accelerator]
    rows = products(kernels.products(data_type))
    casts = includes_cast(kernels, data_type)
    for part in (0.25, 0.5):
        found = [split(rows, part, seed) for seed in SEEDS]
        fits = [gemm.fit_products(machine, data_type, rows.take(kept), casts=casts) for kept, _ in found]
        label = f"gemm {data_type}"
        for name, corrected in (("", True), (", constants alone", False)):
            errors = [
                Errors.of(fit.times(rows.take(rest), corrected=corrected), rows.seconds[rest])
                for fit, (_, rest) in zip(fits, found, strict=True)
            ]
            _print(f"{label}{name}", f"{1 - part:.0%}", errors)
        _print(f"{label}, Delaunay", f"{1 - part:.0%}", [_delaunay(rows, *each) for each in found])
    for axis in "mnk":
        sizes = np.unique(getattr(rows, axis))
        errors = []
        for first in range(1, PLANES, 2):
            out = np.isin(getattr(rows, axis), sizes[first:-1:PLANES])
            fit = gemm.fit_products(machine, data_type, rows.take(~out), casts=casts)
            errors.append(Errors.of(fit.times(rows.take(out)), rows.seconds[out]))
        _print(f"gemm {data_type}", f"every fourth {axis}", errors)


def _attention(kernels: Kernels) -> None:
    machine = MACHINES[kernels.accelerator]
    rows = attentions(kernels.attention("bf16"))
    for name in ("corrected", "constants_only"):
        errors = []
        for seed in SEEDS:
            found = held_out(rows, partial(attention.fit_attention, machine, "bf16", prepares=True), seed=seed)[name]
            errors.append(Errors(*(found[each] for each in _NUMBERS)))
        _print(f"attention bf16{'' if name == 'corrected' else ', constants alone'}", "75%", errors)


_NUMBERS = ("rows", "mean_percent", "median_percent", "p90_percent", "largest_percent")


def _delaunay(rows: Any, kept: Any, rest: Any) -> Errors:
    from scipy.interpolate import LinearNDInterpolator

    sizes = np.log(np.stack([rows.m, rows.n, rows.k], axis=1).astype(float))
    found = np.exp(LinearNDInterpolator(sizes[kept], np.log(rows.seconds[kept]))(sizes[rest]))
    inside = np.isfinite(found)
    return Errors.of(found[inside], rows.seconds[rest][inside])


def _print(kernels: str, left_out: str, errors: list[Errors]) -> None:
    numbers = (np.mean([getattr(each, name) for each in errors]) for name in ("median", "mean", "p90"))
    cells = [kernels, left_out.replace("%", " %"), f"{errors[0].rows:,}", *(f"{each:.1f}" for each in numbers)]
    write(f"| {' | '.join([*cells, f'{max(each.largest for each in errors):.0f}'])} |\n")


def write(text: str) -> None:
    """Writes to stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
