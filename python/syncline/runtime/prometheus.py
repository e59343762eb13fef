"""Serves metrics to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors
from syncline.runtime.addresses import resolve, with_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric


class Collector(Protocol):
    """Makes the metrics of each scrape."""

    def collect(self) -> Iterable[Metric]:
        """Yields the metrics of one scrape."""


def serve(collector: Collector, address: str, port: int) -> str:
    """Serves metrics over HTTP at ``address``, and at ``port`` unless it names one; port 0 is any free one.

    Returns the address with its port. Raises ``SynclineError`` if ``prometheus-client`` is not installed (SL0902), or
    the server cannot listen there (SL1201).
    """
    host, port = resolve(address, port)
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise_errors(
            error(
                Code.MISSING_PACKAGE,
                "metrics need prometheus-client, which is not installed",
                help=install("metrics"),
            )
        )
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as problem:
        found = f"{with_port(host, port)}: {problem.strerror}"
        help = "give each process of a host a port of its own, or port 0 for any free one"
        raise_errors(error(Code.NO_MEETING, "metrics cannot be served at this address", found=found, help=help))
    return with_port(host, server.server_port)
