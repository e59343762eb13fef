"""The columns of measurements in files, and what is checked of every row."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.distances.hosts import check_name
from syncline.distances.measured import Measured, Pair
from syncline.input import limits
from syncline.input.problem import error, exception
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.errors import SynclineError
    from syncline.input.node import Mark

PAIR = {each.name: str(each.type) for each in fields(Pair)}
"""Fields of a pair, and their types."""
NAMES = ("from", "to")
"""Columns with names of hosts."""
NUMBERS = ("from_host", "to_host")
"""Columns with numbers of hosts."""
COLUMNS = {
    "from": "The host that measured.",
    "to": "The host that it measured.",
    "from_host": "Number of the host that measured, in the order of the host list.",
    "to_host": "Number of the host that it measured.",
    "rtt_s": "Round trip: the 10th percentile of the samples.",
    "rtt_median_s": "Median of the samples.",
    "rtt_error_s": "Half the width of the 95 % confidence interval of `rtt_s`.",
    "samples": "Echoes that came back.",
    "lost": "Echoes that did not come back.",
    "duplicates": "Echoes that came back again.",
    "rate_bytes_per_s": "Rate of one connection: the median of the transfers.",
    "transfers": "Transfers that were timed.",
}
"""Columns of the table and their meanings. Times and rates that were not measured are null."""

RANGES = {
    "rtt_s": (1e-10, 3600.0),
    "rtt_median_s": (1e-10, 3600.0),
    "rtt_error_s": (0.0, 3600.0),
    "rate_bytes_per_s": (1.0, 1e15),
}
"""Values that are possible. A round trip that rounds to 0 would make the nearest hosts look unmeasured."""
MAX_COUNT = 1 << 53


def add_pair(
    pairs: dict[tuple[int, int], Pair],
    key: tuple[int, int],
    names: Sequence[str],
    values: dict[str, Any],
    where: str,
    mark: Mark,
) -> None:
    """Adds what was measured between two hosts.

    ``where`` is its place in the file.

    :raises SynclineError: the pair is there already, or a value is impossible.
    """
    title = f"{where}: {names[0]} to {names[1]}"
    if key[0] == key[1]:
        raise impossible("a host is measured from itself", title, mark, help="leave the row out")
    if key in pairs:
        raise impossible("a pair is given twice", title, mark)
    for name, value in values.items():
        if value is None:
            continue
        least, most = RANGES.get(name, (0, MAX_COUNT))
        if not (math.isfinite(value) and least <= value <= most):
            help = None
            if name.startswith("rtt_"):
                help = "columns in other units are `rtt_us` and `rtt_ms`; leave cells empty that were not measured"
            raise exception(
                error(
                    Code.BAD_DISTANCES,
                    f"{title}: impossible value",
                    mark=mark,
                    key=name,
                    found=f"{value}",
                    allowed=f"{least:g} to {most:g}",
                    help=help,
                )
            )
    pairs[key] = Pair(**values)


def impossible(message: str, found: str, mark: Mark, help: str | None = None) -> SynclineError:
    """The exception for measurements that cannot be."""
    return exception(error(Code.BAD_DISTANCES, message, mark=mark, found=found, help=help))


def made(hosts: tuple[str, ...], pairs: dict[tuple[int, int], Pair], path: str, mark: Mark) -> Measured:
    """The measurements of a file.

    :raises SynclineError: there are too few hosts, or too many.
    """
    if not 1 < len(hosts) <= limits.MAX_HOSTS:
        message = f"a file holds measurements of 2 to {limits.MAX_HOSTS:,} hosts"
        help = "measure at least two hosts with `syncline probe`" if len(hosts) < 2 else None
        raise impossible(message, counted(len(hosts), "host"), mark, help)
    for name in hosts:
        check_name(name, mark)
    return Measured(hosts, pairs, path)
