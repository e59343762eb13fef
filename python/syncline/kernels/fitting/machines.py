"""What is known of an accelerator before any kernel is measured: where fits begin, and what they stay near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.models import ModelError
from syncline.models.accelerators import find

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.kernels.fitting.rows import Kernels


@dataclass(frozen=True, slots=True)
class Machine:
    """An accelerator in numbers."""

    name: str
    """Name in ``data/accelerators.yaml``, or one of a user's own."""
    multiprocessors: int
    cache_bytes: float
    """Size of the cache in front of the memory."""
    largest_tile: int
    """Most elements of a tile of the result of a matrix product."""
    boost: float
    """Highest clock over the clock of the data sheet's peak rates."""
    reached: Mapping[str, float] | None = None
    """Highest measured FLOP per second by data type, of an accelerator whose data sheet is not known."""
    moved: float | None = None
    """Highest measured bytes per second of the memory of such an accelerator."""

    @property
    def memory_bytes_per_s(self) -> float:
        """Bytes per second of the memory by the data sheet."""
        return float(find(self.name).memory_bytes_per_s) if self.moved is None else self.moved

    def flop_per_s(self, data_type: str) -> float:
        """Peak rate of a data type by the data sheet; that of the fastest type if it does not name the type."""
        if self.reached is not None:
            return self.reached.get(data_type, max(self.reached.values()))
        peaks = find(self.name).peak_flop_per_s
        if data_type == "nvfp4":
            # Twice the rate of fp8 on Blackwell (NVIDIA B200 data sheet: 9 and 4.5 PFLOP/s, dense).
            return 2.0 * peaks["fp8"]
        return float(peaks.get(data_type, max(peaks.values())))

    def bound(self, data_type: str) -> float | None:
        """FLOP per second that no kernel exceeds, at the highest clock; None if the data sheet is not known."""
        return None if self.reached is not None else self.flop_per_s(data_type) * self.boost


_MIB = 2.0**20
MACHINES = {
    # Multiprocessors and cache: NVIDIA A100 Tensor Core GPU Architecture white paper (2020), table 4. Its peak rate is
    # that of 2048 FLOP a cycle and multiprocessor at 1410 MHz, its highest clock.
    "A100-SXM4-80GB": Machine("A100-SXM4-80GB", 108, 40 * _MIB, 128 * 256, 1.0),
    # NVIDIA H100 Tensor Core GPU Architecture white paper (2022), table 3: SXM5. Its peak rate is that of 4096 FLOP at
    # 1830 MHz; it runs at up to 1980 MHz.
    "H100-SXM5-80GB": Machine("H100-SXM5-80GB", 132, 50 * _MIB, 128 * 256, 1980 / 1830),
    # As `cudaGetDeviceProperties` and `nvidia-smi` report them: the peak rate is that of 8192 FLOP at 1856 MHz, the
    # highest clock 1965 MHz.
    "B200-SXM-180GB": Machine("B200-SXM-180GB", 148, 126 * _MIB, 256 * 256, 1965 / 1856),
}
"""Machines by their name in ``data/accelerators.yaml``."""
_TILE = 128 * 256
"""Most elements of a tile on other accelerators."""
_BOOST = 1.1
"""Highest clock over that of the peak rates where no source says it; that of the accelerators above is 1.06 to 1.08."""
_ROOM = 1.25
"""How much faster matrix units may be than the fastest product that was measured."""


def machine_of(kernels: Kernels) -> Machine:
    """What is known of the accelerator of measured kernels: by its name, or else by the table and its header.

    :raises SynclineError: neither says how many multiprocessors it has, and how large their cache is.
    """
    if kernels.accelerator in MACHINES:
        return MACHINES[kernels.accelerator]
    counts = [kernels.facts.get(name, "") for name in ("sm_count", "l2_bytes")]
    if not all(each.isascii() and each.isdigit() and 0 < int(each) < 1 << 40 for each in counts):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "nothing says how many multiprocessors this accelerator has, and how large its cache is",
                found=kernels.accelerator,
                allowed=", ".join(MACHINES),
                help="fit a table of `syncline kernels measure`, which says it as sm_count and l2_bytes in its header",
            )
        )
    multiprocessors, cache = map(int, counts)
    try:
        find(kernels.accelerator)
    except ModelError:
        return Machine(kernels.accelerator, multiprocessors, cache, _TILE, _ROOM, _rates(kernels), _moved(kernels))
    return Machine(kernels.accelerator, multiprocessors, cache, _TILE, _BOOST)


def _rates(kernels: Kernels) -> dict[str, float]:
    """The highest measured rates of matrix products, by data type."""
    found: dict[str, float] = {}
    for row in kernels.rows:
        if row["operation"] == "gemm" and row["seconds"] > 0:
            rate = 2.0 * row["m"] * row["n"] * row["k"] / row["seconds"]
            found[row["data_type"]] = max(found.get(row["data_type"], 0.0), rate)
    return found


def _moved(kernels: Kernels) -> float:
    """The highest measured rate of the memory: of kernels that move bytes, or else of the operands of products."""
    plain = [row["bytes"] / row["seconds"] for row in kernels.rows if row.get("bytes") and not row.get("flop")]
    products = [
        2.0 * (row["m"] * row["k"] + row["n"] * row["k"] + row["m"] * row["n"]) / row["seconds"]
        for row in kernels.rows
        if row["operation"] == "gemm" and row["seconds"] > 0
    ]
    return max(plain or products, default=1e12)
