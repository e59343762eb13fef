"""Kernels of training: measured on the device at hand, and models that were fitted to measured ones.

:mod:`.models` evaluates models: ``load("H100").gemm(4096, 4096, 4096)``. :mod:`.fitting` fits them to tables of
measured kernels, which needs the extra ``kernels``.

Measuring needs the standard library and PyTorch alone, so that ``python -m syncline.kernels.measure`` runs wherever
this package can be imported. :mod:`.table`, which reads a table with clear errors, may use the rest of ``syncline``.
In reading order: :mod:`.columns` says what a row holds; :mod:`.cases` what is measured in which order;
:mod:`.families` has one module for each family of operations, with its grid of shapes; :mod:`.bench` times kernels on
buffers from a pool; :mod:`.device` reads clocks and facts of the device; :mod:`.worker` measures case after case in a
process of its own; :mod:`.measure` supervises it and writes rows; :mod:`.table` reads a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.lazy import lazy

if TYPE_CHECKING:
    from syncline.kernels.models import Estimate, KernelModels, load, names

__all__ = ["Estimate", "KernelModels", "load", "names"]

__getattr__ = lazy(
    __name__,
    {name: f"syncline.kernels.models.{name}" for name in __all__},
)
