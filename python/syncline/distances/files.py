"""Reads and writes measurements between hosts, in any format.

Three formats are read: the Parquet table that ``syncline probe`` writes; a CSV file of pairs with the table's columns,
of which ``from``, ``to`` and ``rtt_s`` (or ``rtt_us``, ``rtt_ms``) or ``rate_bytes_per_s`` suffice; and a CSV file of a
matrix. Its first line holds a unit and the names of hosts, each other line a host's name and a number for each host.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syncline.distances.checks import PAIR
from syncline.distances.csv_files import from_csv, to_csv
from syncline.distances.table import from_parquet, to_parquet
from syncline.files import write_whole
from syncline.input.problem import cannot_write, raise_errors

if TYPE_CHECKING:
    from syncline.distances.measured import Measured


def read(path: str) -> Measured:
    """Reads measurements from a file: of CSV if its name ends in ``.csv``, else a Parquet table.

    :raises SynclineError: the file cannot be read, is malformed, or holds impossible values.
    """
    return from_parquet(path) if is_table(path) else from_csv(path)


def is_table(path: str) -> bool:
    """Whether a file of measurements has, or gets, the form of a Parquet table: all but ``.csv`` files do."""
    return Path(path).suffix.lower() != ".csv"


def save(measured: Measured, path: str) -> None:
    """Writes measurements, sorted: as a CSV file of pairs if the name ends in ``.csv``, else as a Parquet table.

    :raises SynclineError: the file cannot be written.
    """
    rows = [
        (measured.hosts[a], measured.hosts[b], a, b, *(getattr(pair, name) for name in PAIR))
        for (a, b), pair in sorted(measured.pairs.items())
    ]
    try:
        write_whole(path, to_parquet(rows) if is_table(path) else to_csv(rows))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))
