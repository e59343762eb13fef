"""Measured round trips between zones of IBM Cloud, if the file is there."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from syncline.distances import Measured, Pair

FILE = Path(__file__).parents[4] / "shared" / "data" / "measured" / "network" / "ibm_cloud_latency_matrices.csv.gz"
"""Latencies that IBM publishes (github.com/ibm-cloud-docs/vpc, ``_include-segments/network-latency.md``), week by week:
between zones of a region (``inter-AZ``), and between regions (``inter-region``). The file is not part of the
project."""
PERIOD = "16 Aug 2026"
CITIES = {
    "au-syd": "Sydney",
    "br-sao": "Sao Paulo",
    "ca-mon": "Montreal",
    "ca-tor": "Toronto",
    "eu-de": "Frankfurt",
    "eu-es": "Madrid",
    "eu-gb": "London",
    "in-che": "Chennai",
    "in-mum": "Mumbai",
    "jp-osa": "Osaka",
    "jp-tok": "Tokyo",
    "us-east": "Washington DC",
    "us-south": "Dallas",
}
"""The city that names a region in the latencies between regions."""


def region(zone: str) -> str:
    """The region of a zone: ``us-south`` of ``us-south-dal10-a``."""
    return zone.rsplit("-", 2)[0]


def read(file: Path = FILE) -> Measured:
    """Latencies between all zones of a period. Of two zones in different regions it is that between the regions."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["period"] == PERIOD]
    latencies = {(row["kind"], row["src"], row["dst"]): float(row["avg_latency_ms"]) for row in rows}
    zones = tuple(sorted({end for kind, *ends in latencies if kind == "inter-AZ" for end in ends}))
    pairs = {}
    for a, one in enumerate(zones):
        for b, other in enumerate(zones):
            near = region(one) == region(other)
            key = ("inter-AZ", one, other) if near else ("inter-region", CITIES[region(one)], CITIES[region(other)])
            if a != b and key in latencies:
                pairs[a, b] = Pair(rtt_s=1e-3 * latencies[key])
    return Measured(zones, pairs)
