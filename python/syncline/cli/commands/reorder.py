"""``syncline reorder``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.cli.commands.options import seconds, size
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, require_writable, shown
from syncline.terminal.progress import Waiting
from syncline.terminal.streams import console, say, show, show_json

if TYPE_CHECKING:
    from syncline.reordering import Format


@dataclass(frozen=True)
class Options:
    """What the command line asks for, before it is checked."""

    algorithm: str
    bytes: str
    hosts: str | None
    """A file with the present order."""
    slots: int | None
    write: tuple[str, ...]
    """``FORMAT=FILE``."""
    seed: int
    proposals: int | None
    limit: str | None


def reorder(measurements: str, options: Options, *, explain: bool, force: bool, as_json: bool, quiet: bool) -> int:
    """Searches for an order of hosts, writes it, and prints what it is worth; returns the exit status."""
    from syncline import reordering
    from syncline.distances import read, read_hosts
    from syncline.reordering.difference import difference

    files = [_file(each) for each in options.write]
    _check_files(files, options, force=force)
    nbytes = size("--bytes", options.bytes)
    limit_s = None if options.limit is None else seconds("--limit", options.limit)
    measured = read(measurements)
    given = None if options.hosts is None else read_hosts(options.hosts)
    names = measured.hosts if given is None else tuple(host.name for host in given)
    slots = {host.name: host.slots for host in given or ()}
    with Waiting(quiet=quiet or as_json) as progress:
        found = reordering.reorder(
            measured,
            algorithm=options.algorithm,
            nbytes=nbytes,
            order=names,
            seed=options.seed,
            proposals=options.proposals,
            limit_s=limit_s,
            progress=lambda done: progress(done, "search"),
        )
    counts = [options.slots or slots.get(host, 1) for host in found.hosts]
    for form, path in files:
        reordering.write(form, path, found.hosts, counts)
    from syncline.reordering.screen import as_dict, screen

    if as_json:
        show_json({"exit_status": 0, "reorder": as_dict(found, difference(found))})
    else:
        show(screen(found, difference(found), console().width, explain=explain, listed=not files))
    if not quiet:
        for form, path in files:
            say(f"Wrote {path}; {form.use(path)}")
    return 0


def _check_files(files: list[tuple[Format, str]], options: Options, *, force: bool) -> None:
    """Refuses, before the search, files that could not be written after it."""
    paths = [path for _, path in files]
    if twice := next((path for at, path in enumerate(paths) if path in paths[:at]), None):
        raise_errors(error(Code.BAD_VALUE, "two files have one name", key="--write", found=shown(twice)))
    for path in paths:
        require_writable(path, force=force)
    if options.slots is not None and not any(form.has_slots for form, _ in files):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "`--slots` has no effect",
                key="--slots",
                found=f"{options.slots}",
                help="write a file that holds slots, such as --write openmpi=hostfile",
            )
        )


def _file(text: str) -> tuple[Format, str]:
    """Reads ``FORMAT=FILE``."""
    from syncline.reordering import Format

    name, equals, path = text.partition("=")
    mark = Mark(Text("--write", [text]), 1, 1, len(name))
    formats = [each.value for each in Format]
    if name not in formats or not equals or not path:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "not of the form FORMAT=FILE",
                mark=mark,
                found=shown(text),
                allowed=", ".join(formats),
                nearest=nearest(name, formats),
                help="write it like openmpi=hostfile",
            )
        )
    return Format(name), path
