"""Measures how fast a hub exchanges, with ranks that compute nothing.

This is the ``ZeroComputeEngine`` of luo2020, section 6.1.4.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from syncline.hub.terms import Terms
from syncline.hub.worker import Hub
from syncline.runtime.settings import TimeLimits

if TYPE_CHECKING:
    from syncline.runtime.security import Security

WARM_UP = 3
"""Number of exchanges before the first that is timed."""


@dataclass(frozen=True)
class BenchResult:
    """The measurement, taken at rank 0."""

    ranks: int
    bytes: int
    chunk: int
    steps: int
    median_s: float
    p95_s: float

    @property
    def exchanges_per_s(self) -> float:
        """Exchanges per second; all ranks take part in each."""
        return 1 / self.median_s

    def as_dict(self) -> dict[str, Any]:
        """Returns the measurement as data for JSON."""
        return {**asdict(self), "exchanges_per_s": self.exchanges_per_s}

    def text(self) -> str:
        """Returns the measurement as a line of text."""
        rate = 2 * self.ranks * self.bytes / self.median_s / 1e9
        return (
            f"{self.ranks} ranks exchange {self.bytes} bytes in chunks of {self.chunk}: "
            f"median {1e3 * self.median_s:.2f} ms, p95 {1e3 * self.p95_s:.2f} ms, "
            f"{self.exchanges_per_s:.1f} exchanges/s, {rate:.2f} GB/s through the hub"
        )


def run(
    address: str,
    world: int,
    nbytes: int,
    steps: int,
    *,
    chunk: int,
    security: Security | None = None,
) -> BenchResult:
    """Exchanges an f32 vector of ``nbytes`` bytes among ``world`` ranks in this process, ``steps`` times.

    Raises ``SynclineError`` if the hub does not answer, or ends.
    """
    elements = nbytes // 4
    job = f"bench {time.time_ns():x}"
    times: list[float] = []
    errors: list[BaseException] = []

    def rank(number: int) -> None:
        try:
            vector = bytearray(4 * elements)
            keys = {"vector": ("f32", elements)}
            joined = Hub.join(
                address,
                keys,
                rank=number,
                world=world,
                job=job,
                terms=Terms(chunk=chunk),
                security=security,
                limits=TimeLimits(wait_s=10.0),
            )
            with joined as hub:
                view = memoryview(vector).cast("f")
                for step in range(WARM_UP + steps):
                    began = time.perf_counter()
                    hub.push_pull("vector", view).wait()
                    if number == 0 and step >= WARM_UP:
                        times.append(time.perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 - raised again once the threads are joined
            errors.append(error)

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    times.sort()
    p95 = times[min(len(times) - 1, round(0.95 * (len(times) - 1)))]
    return BenchResult(world, 4 * elements, chunk, steps, statistics.median(times), p95)
