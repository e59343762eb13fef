"""What is known of an accelerator before any kernel is measured: where fits begin, and what they stay near."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.models.accelerators import find


@dataclass(frozen=True, slots=True)
class Machine:
    """An accelerator in numbers."""

    name: str
    """Name in ``data/accelerators.yaml``."""
    multiprocessors: int
    cache_bytes: float
    """Size of the cache in front of the memory."""
    largest_tile: int
    """Most elements of a tile of the result of a matrix product."""
    boost: float
    """Highest clock over the clock of the data sheet's peak rates."""

    @property
    def memory_bytes_per_s(self) -> float:
        """Bytes per second of the memory by the data sheet."""
        return float(find(self.name).memory_bytes_per_s)

    def flop_per_s(self, data_type: str) -> float:
        """Peak rate of a data type by the data sheet; that of the fastest type if it does not name the type."""
        peaks = find(self.name).peak_flop_per_s
        if data_type == "nvfp4":
            # Twice the rate of fp8 on Blackwell (NVIDIA B200 data sheet: 9 and 4.5 PFLOP/s, dense).
            return 2.0 * peaks["fp8"]
        return float(peaks.get(data_type, max(peaks.values())))


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
