"""The model of matrix products, fitted to measured ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.kernels.fitting.lattices import axis, encode
from syncline.kernels.fitting.least_squares import Constant, fit
from syncline.kernels.fitting.regression import Regression
from syncline.schemas import KERNEL_MODELS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from syncline.kernels.fitting.machines import Machine

    Array = NDArray[np.float64]

SPLITS = (1, 2, 3, 4, 6, 8)
"""In how many parts a sum may be split."""
BLOCK_K = 64
"""Products that a tile adds between two loads of operands."""
_SIDES = ((64, 8), (64, 16), (64, 32), (64, 64), (64, 128), (64, 256), (128, 32), (128, 64), (128, 128), (128, 192))
_LARGE = ((128, 256), (192, 192), (192, 256), (256, 256))
"""Shapes of tiles in CUTLASS and cuBLAS, in either orientation."""
_FIT_ROWS = 1500
"""Constants are fitted to this many rows: they are few."""
_QUANTISED = ((128, 256), (256, 128), (128, 128), (256, 256))
"""Tiles whose wave quantisation tells shapes apart."""
_FEW_ROWS = 16
_ALIGNED = 8
_CLOSEST = 1.05
"""Ratio of neighbouring points of a lattice, at least."""
_MOST_ROWS, _MOST = 48, 24
"""Most points of a lattice for ``m``, and for ``n`` and ``k``."""
_SMALL = (1, 2, 4, 8, 12, 16)
"""Points of a lattice among the smallest sizes."""
_ELEMENT_BYTES = {"fp8": 1.0, "nvfp4": 0.5625, "int8": 1.0, "tf32": 4.0, "fp32": 4.0}
"""Bytes of an operand's element; nvfp4 has a scale of one byte for each 16 elements. Two for all other types."""


@dataclass(frozen=True, slots=True)
class Products:
    """Measured matrix products, one a row."""

    m: NDArray[np.int64]
    n: NDArray[np.int64]
    k: NDArray[np.int64]
    seconds: Array

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, rows: Any) -> Products:
        """Some of the rows."""
        return Products(self.m[rows], self.n[rows], self.k[rows], self.seconds[rows])

    def columns(self) -> tuple[list[int], list[int], list[int]]:
        """The sizes as ``_core`` takes them."""
        return self.m.tolist(), self.n.tolist(), self.k.tolist()


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted model, as a section of a file."""

    machine: Machine
    section: dict[str, Any]

    def models(self) -> _core.KernelModels:
        """The model as ``_core`` evaluates it."""
        document = {
            "schema": KERNEL_MODELS,
            "accelerator": self.machine.name,
            "software": "",
            "source": "",
            "multiprocessors": self.machine.multiprocessors,
            "gemm": {"fit": self.section},
            "memory_bound": {"launch_s": 1e-6, "bytes_per_s": 1e12, "range": [1, 1]},
        }
        return _core.KernelModels.parse(json.dumps(document), "fit")

    def times(self, rows: Products, *, corrected: bool = True) -> Array:
        """Times of products, in seconds."""
        import numpy as np

        return np.array(self.models().gemm_times("fit", *rows.columns(), corrected=corrected))


def fit_products(machine: Machine, data_type: str, rows: Products, *, casts: bool, correct: bool = True) -> Fitted:
    """The model with constants, and corrections unless not ``correct``, of a data type's measured products.

    :param casts: rows include the cast of the left operand from two bytes an element.
    """
    import numpy as np

    order = np.random.default_rng(0).permutation(len(rows))[:_FIT_ROWS]
    fitted = _constants(machine, data_type, rows.take(np.sort(order)), casts=casts)
    whole = {
        name: [int(column.min()), int(column.max())]
        for name, column in zip("mnk", (rows.m, rows.n, rows.k), strict=True)
    }
    fitted = replace(fitted, section={**fitted.section, "range": whole})
    if not correct:
        return fitted
    return replace(fitted, section={**fitted.section, "corrections": _corrections(fitted, rows)})


def _tiles(machine: Machine) -> list[tuple[int, int]]:
    sides = [each for each in (*_SIDES, *_LARGE) if each[0] * each[1] <= machine.largest_tile or each == (192, 192)]
    return sorted({*sides, *((columns, rows) for rows, columns in sides)})


def _constants(machine: Machine, data_type: str, rows: Products, *, casts: bool) -> Fitted:
    import numpy as np

    peak, memory = machine.flop_per_s(data_type), machine.memory_bytes_per_s
    constants = [
        Constant("flop_per_s", peak, most=peak * machine.boost),
        Constant("operand_bytes_per_s", 120e9),
        Constant("memory_bytes_per_s", 0.88 * memory, 0.3),
        Constant("cache_bytes_per_s", 4.5 * memory),
        Constant("cache_bytes", machine.cache_bytes / 2),
        Constant("reread", 0.2),
        Constant("launch_s", 2e-6),
        Constant("tile_s", 0.4e-6),
        Constant("block_s", 5e-9),
        Constant("element_s", 30e-12),
        Constant("split_s", 2e-6),
        Constant("throttle", 0.1),
        Constant("throttle_s", 0.5e-3),
        Constant("spread", 0.2),
        *([Constant("cast_s", 8e-6), Constant("cast_bytes", 5.0, 0.5)] if casts else []),
    ]
    tiles = _tiles(machine)
    section: dict[str, Any] = {
        "element_bytes": _ELEMENT_BYTES.get(data_type, 2.0),
        "output_bytes": 4.0 if data_type in ("tf32", "fp32") else 2.0,
        "block_k": BLOCK_K,
        "splits": list(SPLITS),
        "range": {name: [1, 1] for name in "mnk"},
        "layouts": {"nt": 1.0},
    }
    columns = rows.columns()

    def made(values: list[float]) -> Fitted:
        named = dict(zip((each.name for each in constants), values, strict=False))
        efficiencies = values[len(constants) :]
        shapes = [[*sides, part] for sides, part in zip(tiles, efficiencies, strict=True)]
        return Fitted(machine, {**section, "tiles": shapes, "constants": named})

    def predict(values: list[float]) -> Array:
        return np.array(made(values).models().gemm_times("fit", *columns, corrected=False))

    efficiency = [Constant(f"{height}x{width}", 1.0, 0.3, most=1.0) for height, width in tiles]
    return made(fit([*constants, *efficiency], predict, rows.seconds))


def _points(fitted: Fitted, rows: Products) -> Array:
    """What distinguishes products, each in units of its importance.

    Sizes and their products; how far each tile is from the best; ratios of computation, memory and cache; the split;
    idle parts of waves. The units were chosen by errors on kernels that were left out, on an H100 and a B200.
    """
    import numpy as np

    features = np.array(fitted.models().gemm_features("fit", *rows.columns()))
    tiles, ratios, split = features[:, :-3], features[:, -3:-1], features[:, -1:]
    sizes = np.log(np.stack([rows.m, rows.n, rows.k], axis=1).astype(float))
    unaligned = ((rows.m % _ALIGNED != 0) & (rows.m > _FEW_ROWS)).astype(float)[:, None]
    waves = [
        np.ceil(rows.m / height) * np.ceil(rows.n / width) / fitted.machine.multiprocessors
        for height, width in _QUANTISED
    ]
    idle = np.stack([np.log(np.ceil(each) / each).clip(0, 2) for each in waves], axis=1)
    areas = sizes[:, [0, 1, 0]] + sizes[:, [1, 2, 2]]
    parts = [sizes / 5, areas / 16, tiles.clip(-0.5, 0.5) / 2, ratios / 8, split / 6, unaligned / 3, idle / 1.3]
    return np.concatenate(parts, axis=1)


def _corrections(fitted: Fitted, rows: Products) -> dict[str, Any]:
    """The logarithm of measured over modelled time on lattices, by regression."""
    import numpy as np

    regression = Regression(_points(fitted, rows), np.log(rows.seconds / fitted.times(rows, corrected=False)))
    aligned = (rows.m % _ALIGNED == 0) | (rows.m <= _FEW_ROWS)
    found = {}
    for name, chosen in (("aligned", aligned), ("unaligned", ~aligned)):
        if not chosen.any():
            continue
        axes = [_axis(rows.m[chosen], _MOST_ROWS), _axis(rows.n, _MOST), _axis(rows.k, _MOST)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        nodes = Products(grid[:, 0], grid[:, 1], grid[:, 2], np.ones(len(grid)))
        values = regression(_points(fitted, nodes)).reshape([len(axis) for axis in axes])
        found[name] = encode(axes, values)
    return found


def _axis(sizes: NDArray[np.int64], most: int) -> list[int]:
    """Points of a lattice: all sizes but some of the smallest."""
    import numpy as np

    chosen = sizes[(sizes > _FEW_ROWS) | np.isin(sizes, _SMALL)]
    return axis(chosen if len(chosen) else sizes, _CLOSEST, most)
