"""``syncline show measurements``."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import bad_value, error, raise_errors, require_writable
from syncline.terminal.streams import console, say, show_json
from syncline.terminal.streams import show as print_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.distances import Measured
    from syncline.distances.summary import By, Summary


def measurements(file: str, picture: str | None, groups: str | None, by: By | None, *, as_json: bool) -> int:
    """Prints what a file of measurements holds, and draws it to the file ``picture`` if given.

    ``by`` chooses what is drawn: round trips, if there are any, by default. ``groups`` is a file of groups.
    """
    from syncline.distances import read
    from syncline.distances.summary import summarise, values
    from syncline.grouping.heat_map import CELLS
    from syncline.grouping.order import by_cluster, distances

    if picture is not None:
        _check_picture(picture)
    with _no_collection():
        measured = read(file)
        found = summarise(measured)
    drawn: By = by or ("rtt" if found.round_trips is not None or found.rates is None else "rate")
    of_pairs = values(measured, drawn)
    if not of_pairs and (by is not None or picture is not None):
        _nothing(found, drawn)
    of_host = None if groups is None else _of_hosts(groups, measured, file)
    if picture is not None:
        from syncline.grouping.drawing import draw_values

        title = f"{Path(file).name}: {len(measured.hosts):,} hosts"
        draw_values(measured.hosts, of_pairs, drawn, picture, groups=of_host, title=title)
    few = len(measured.hosts) <= CELLS and bool(of_pairs)
    order = by_cluster(len(measured.hosts), distances(of_pairs, drawn), of_host) if few else None
    written = datetime.fromtimestamp(Path(file).stat().st_mtime, UTC)
    if as_json:
        view = found.as_dict() | {
            "written": f"{written:%Y-%m-%dT%H:%M:%SZ}",
            "order": None if order is None else [measured.hosts[host] for host in order],
        }
        show_json({"measurements": view})
    else:
        from syncline.grouping.measurements import screen

        print_data(
            screen(
                found,
                of_pairs,
                drawn,
                order,
                console().width,
                written=f"{written:%Y-%m-%d %H:%M} UTC",
                grouped=of_host is not None,
                drawn=picture is not None,
            )
        )
    if picture is not None:
        say(f"Wrote the picture to {picture}")
    return 0


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pauses Python's search for unused objects: it would look through millions of pairs, all of which are used."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _check_picture(path: str) -> None:
    """Refuses, before long work, a picture that could not be written."""
    from syncline.grouping.packages import needed

    if Path(path).suffix.lower() != ".svg":
        raise bad_value("not a name of a picture", path, allowed="a name that ends in .svg")
    needed("matplotlib", "matplotlib", "plot")
    try:
        require_writable(path)
    except SynclineError as problem:
        help = "name a file in a folder that exists and that you may write to"
        raise SynclineError([{"help": help, **each} for each in problem.diagnostics], problem.exit_status) from None


def _nothing(found: Summary, by: By) -> None:
    words: dict[By, str] = {"rtt": "round trips", "rate": "rates"}
    other: By = "rate" if by == "rtt" else "rtt"
    help = f"measure them with `syncline probe --what {by}`"
    if found.spread(other) is not None:
        help += f", or draw the others with `--by {other}`"
    raise_errors(error(Code.BAD_DISTANCES, f"no {words[by]} were measured", found=found.source, help=help))


def _of_hosts(path: str, measured: Measured, file: str) -> Sequence[int]:
    """The group of each host, from a file of groups.

    :raises SynclineError: the file cannot be read, or groups other hosts.
    """
    from syncline.grouping.files import read

    hosts = set(measured.hosts)
    own = read(path)
    if not any(host in hosts for group in own for host in group):
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "the groups are of other hosts",
                key="--groups",
                found=f"{own[0][0]} in {path}",
                allowed=f"hosts of {file}, such as {measured.hosts[0]}",
                help=f"find its groups with `syncline group {file} --out groups.yaml`",
            )
        )
    group_of = {host: number for number, group in enumerate(read(path, measured.hosts)) for host in group}
    return [group_of[host] for host in measured.hosts]
