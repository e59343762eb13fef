"""``syncline design``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.cli.commands.folder import chosen, of_name
from syncline.cli.commands.options import overrides
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def bandwidth(spec: str, sets: Iterable[str], out: str | None, *, as_json: bool, quiet: bool) -> int:
    """Searches for the best bandwidths, saves and prints the results; returns the exit status."""
    from syncline.design import folder as folders
    from syncline.design.bandwidth import result_files
    from syncline.design.bandwidth.candidate import read
    from syncline.design.bandwidth.search_rates import search

    request = read(spec, overrides(sets, {}))
    folder = chosen(out, of_name(f"design-{request.name}"))
    folders.check(folder)
    with Waiting(quiet=quiet or as_json) as progress:
        found = search(request, progress, None if quiet else print_diagnostics)
    files = result_files.save(found, folder)
    if as_json:
        show_json({"exit_status": 0, "folder": folder, "design": result_files.as_dict(found)})
    else:
        from syncline.design.bandwidth.screen import screen

        show(screen(found, console().width))
    if not quiet:
        first = next(name for name in files if name.endswith(".yaml"))
        say(f"Results are in {folder}; simulate the winner with: syncline simulate {folder}/{first}")
    return 0


def joint(spec: str, sets: Iterable[str], out: str | None, *, with_simulation: bool, as_json: bool, quiet: bool) -> int:
    """Searches for a strategy and a topology, saves and prints the results; returns the exit status."""
    from syncline.design import folder as folders
    from syncline.design.joint import read, save, search, simulate
    from syncline.design.joint.result_files import as_dict

    request = read(spec, overrides(sets, {}))
    folder = chosen(out, of_name(f"design-{request.name}"))
    folders.check(folder)
    with Waiting(quiet=quiet or as_json) as progress:
        found = search(request, progress)
        if with_simulation:
            progress(0.99, "simulation")
            found = simulate(found)
    save(found, folder)
    if as_json:
        show_json({"exit_status": 0, "folder": folder, "design": as_dict(found)})
    else:
        from syncline.design.joint.screen import screen

        show(screen(found, console().width))
    if not quiet:
        say(f"Results are in {folder}; simulate the answer with: syncline simulate {folder}/scenario.yaml")
    return 0
