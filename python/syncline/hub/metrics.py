"""Serves the metrics of a hub to Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from syncline.runtime import prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from syncline.hub.service import Service

PORT = 29_421
"""Default port of the metrics."""


_MOVED = {
    "bytes_in": ("bytes_received", "Bytes of contributions received"),
    "bytes_out": ("bytes_sent", "Bytes of values sent"),
    "pushes": ("chunk_pushes", "Contributions to chunks received"),
    "steps": ("chunk_steps", "Steps of chunks completed"),
}
"""By counter of the hub's status: the name of its metric, and its description."""


class _Collector:
    """Reads the hub's status at every scrape, and converts it to metrics."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics of one scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        status = self._service.status()
        if not status:
            return
        yield GaugeMetricFamily("syncline_hub_uptime_seconds", "Seconds since the hub began.", value=status["uptime_s"])
        yield GaugeMetricFamily("syncline_hub_jobs", "Jobs on the hub.", value=len(status["jobs"]))
        yield GaugeMetricFamily("syncline_hub_memory_bytes", "Memory that jobs may take.", value=status["memory"])
        taken = sum(job["memory"] for job in status["jobs"])
        yield GaugeMetricFamily("syncline_hub_memory_taken_bytes", "Memory reserved for jobs.", value=taken)
        draining = "1 if the hub drains and takes no new jobs, else 0."
        yield GaugeMetricFamily("syncline_hub_draining", draining, value=int(status["draining"]))
        yield CounterMetricFamily("syncline_hub_connections_refused", "Connections refused.", value=status["refused"])
        yield CounterMetricFamily("syncline_hub_ranks_lost", "Ranks lost.", value=status["lost"])
        # Totals over all jobs include jobs that begin and end between two scrapes.
        for key, (name, what) in _MOVED.items():
            yield CounterMetricFamily(
                f"syncline_hub_all_{name}", f"{what}, of all jobs so far.", value=status["moved"][key]
            )
        ranks = GaugeMetricFamily("syncline_hub_ranks", "Ranks of a job by state.", labels=["job", "state"])
        by_core, by_job = ["job", "core"], ["job"]
        received = CounterMetricFamily(
            "syncline_hub_bytes_received", "Bytes of contributions received.", labels=by_core
        )
        sent = CounterMetricFamily("syncline_hub_bytes_sent", "Bytes of values sent.", labels=by_core)
        pushes = CounterMetricFamily("syncline_hub_chunk_pushes", "Contributions to chunks received.", labels=by_job)
        steps = CounterMetricFamily("syncline_hub_chunk_steps", "Steps of chunks completed.", labels=by_job)
        for job in status["jobs"]:
            for state, count in sorted(Counter(job["ranks"]).items()):
                ranks.add_metric([job["job"], state], count)
            for family, values in ((received, job["bytes_in"]), (sent, job["bytes_out"])):
                for core, value in enumerate(values):
                    family.add_metric([job["job"], str(core)], value)
            pushes.add_metric([job["job"]], job["pushes"])
            steps.add_metric([job["job"]], job["steps"])
        yield from (ranks, received, sent, pushes, steps)


def serve(service: Service, address: str) -> str:
    """Serves the metrics of a hub over HTTP at ``address`` (port 29421 unless it names one).

    Returns the address with its port. Raises ``SynclineError`` as :func:`syncline.runtime.prometheus.serve`.
    """
    return prometheus.serve(_Collector(service), address, PORT)
