"""``syncline show``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cli.options import overrides
from syncline.cli.streams import show as print_data
from syncline.cli.streams import show_json
from syncline.config.load import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import RenderableType


def show(part: str, scenario: str, sets: Iterable[str], network: str | None, *, as_json: bool) -> int:
    """Prints a part of a scenario."""
    loaded = load(scenario, overrides(sets, {"--network": ("network", network)}))
    view = json.loads(loaded.call(_core.show, part))
    if part == "workload":
        from syncline.report.work import work

        view["work"] = work(loaded.resolved["workload"], view)
    if as_json:
        show_json({part: view})
        return 0
    from syncline.report import views

    draw: Callable[[Any], Iterator[RenderableType]] = getattr(views, part)
    print_data(*draw(view))
    return 0
