"""``syncline show``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cli.commands.options import overrides
from syncline.codes import Code
from syncline.config.load import load
from syncline.files import write_whole
from syncline.input.problem import cannot_write, error, raise_errors
from syncline.terminal.streams import say, show_json
from syncline.terminal.streams import show as print_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import RenderableType


def show(
    part: str, scenario: str, sets: Iterable[str], network: str | None, picture: str | None = None, *, as_json: bool
) -> int:
    """Prints a part of a scenario, and writes a picture of its fabric to the file ``picture`` if given."""
    if picture is not None and part != "fabric":
        raise_errors(
            error(
                Code.BAD_VALUE,
                "only a fabric has a picture",
                key="--svg",
                help=f"syncline show fabric {scenario} --svg FILE",
            )
        )
    loaded = load(scenario, overrides(sets, {"--network": ("network", network)}))
    view = json.loads(loaded.call(_core.show, part))
    if part == "workload":
        from syncline.report.terminal.work import work

        job = loaded.resolved["workload"]
        view["work"] = work(job, view)
        if "layers" in job:
            view |= {"types": job["types"], "optimizer": job.get("optimizer", "sgd")}
    if picture is not None:
        _keep(view, loaded.name, picture)
    if as_json:
        show_json({part: view})
        return 0
    from syncline.report.terminal import views

    draw: Callable[[Any], Iterator[RenderableType]] = getattr(views, part)
    print_data(*draw(view))
    return 0


def _keep(view: dict[str, Any], name: str, file: str) -> None:
    from syncline.report.drawings.svg import MAX_LINKS, svg

    if view["links"] > MAX_LINKS:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the fabric has too many links for a picture",
                found=str(view["links"]),
                allowed=f"at most {MAX_LINKS}",
                help="draw a smaller fabric of the same kind: change its sizes with --set",
            )
        )
    try:
        write_whole(file, svg(view, name))
    except OSError as problem:
        raise_errors(cannot_write(file, problem))
    say(f"Wrote the picture to {file}")
