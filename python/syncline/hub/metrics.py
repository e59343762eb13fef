"""How a hub is, for Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from syncline.errors import SynclineError
from syncline.extras import install
from syncline.runtime.addresses import resolve, with_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from syncline.hub.service import Service

PORT = 29_421
"""Where metrics are told, unless told otherwise."""


_MOVED = {
    "bytes_in": ("bytes_received", "Contributions"),
    "bytes_out": ("bytes_sent", "Values"),
    "pushes": ("chunk_pushes", "Contributions to chunks"),
    "steps": ("chunk_steps", "Steps of chunks"),
}
"""What a hub says that it has moved, what that is called here, and what it is."""


class _Collector:
    """What a hub says of itself whenever it is asked."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is told."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        status = self._service.status()
        if not status:
            return
        yield GaugeMetricFamily("syncline_hub_uptime_seconds", "Since the hub began.", value=status["uptime_s"])
        yield GaugeMetricFamily("syncline_hub_jobs", "Jobs.", value=len(status["jobs"]))
        yield GaugeMetricFamily("syncline_hub_memory_bytes", "What jobs may take.", value=status["memory"])
        taken = sum(job["memory"] for job in status["jobs"])
        yield GaugeMetricFamily("syncline_hub_memory_taken_bytes", "What jobs take at most.", value=taken)
        yield GaugeMetricFamily("syncline_hub_draining", "Takes no new jobs.", value=int(status["draining"]))
        yield CounterMetricFamily("syncline_hub_connections_refused", "Refused.", value=status["refused"])
        yield CounterMetricFamily("syncline_hub_ranks_lost", "Ranks that were lost.", value=status["lost"])
        # Of all jobs: one may have ended before anybody asks.
        for key, (name, what) in _MOVED.items():
            yield CounterMetricFamily(
                f"syncline_hub_all_{name}", f"{what}, of all jobs so far.", value=status["moved"][key]
            )
        ranks = GaugeMetricFamily("syncline_hub_ranks", "Ranks of a job.", labels=["job", "state"])
        received = CounterMetricFamily("syncline_hub_bytes_received", "Contributions.", labels=["job", "core"])
        sent = CounterMetricFamily("syncline_hub_bytes_sent", "Values.", labels=["job", "core"])
        pushes = CounterMetricFamily("syncline_hub_chunk_pushes", "Contributions to chunks.", labels=["job"])
        steps = CounterMetricFamily("syncline_hub_chunk_steps", "Steps of chunks.", labels=["job"])
        for job in status["jobs"]:
            for state, count in sorted(Counter(job["ranks"]).items()):
                ranks.add_metric([job["job"], state], count)
            for family, values in ((received, job["bytes_in"]), (sent, job["bytes_out"])):
                for core, value in enumerate(values):
                    family.add_metric([job["job"], str(core)], value)
            pushes.add_metric([job["job"]], job["pushes"])
            steps.add_metric([job["job"]], job["steps"])
        yield from (ranks, received, sent, pushes, steps)


def tell(service: Service, address: str) -> str:
    """Tells whoever asks at ``address`` (port 29421 unless it names one) how the hub is; the address that it became.

    Raises ``SynclineError`` where ``prometheus-client`` is not installed, or the address cannot be had.
    """
    host, port = resolve(address, PORT)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError as error:
        raise SynclineError(
            [
                {
                    "code": "SL0103",
                    "severity": "error",
                    "message": "metrics need the package prometheus-client",
                    "help": install("metrics"),
                }
            ]
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(service))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise SynclineError(
            [
                {
                    "code": "SL1201",
                    "severity": "error",
                    "message": "metrics cannot be told there",
                    "found": f"{with_port(host, port)}: {error.strerror}",
                }
            ],
            6,
        ) from error
    return with_port(host, server.server_port)
