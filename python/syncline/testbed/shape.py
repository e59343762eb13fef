"""Changes the rates of links while a testbed is up. Packets that wait in queues are not dropped."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from syncline.errors import SynclineError
from syncline.testbed import cleanup, commands, kernel, state
from syncline.testbed.links import link_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from syncline.testbed.cleanup import Watch
    from syncline.testbed.links import Link
    from syncline.testbed.state import TestbedState


def change(
    name: str, choose: Callable[[TestbedState], Mapping[Link, int]], watch: Watch | None = None
) -> tuple[TestbedState, dict[Link, int]]:
    """Gives links of a testbed the rates that ``choose`` returns, in bits per second.

    Returns the testbed as it is afterwards, and the rates that these links had before. ``watch`` restores those if this
    process dies. If a rate cannot be changed, all links keep the rates that they had.

    Raises :class:`SynclineError` if the testbed is not up, or the kernel refuses a rate.
    """
    kernel.require()
    with state.locked():
        known = state.require(name)
        wanted = choose(known)
        had = link_rates(known.now)
        before = {link: had[link] for link in wanted}
        if watch is not None:
            watch.rates(name, known.maker, before)
        return _apply(known, wanted), before


@contextlib.contextmanager
def temporary(name: str, choose: Callable[[TestbedState], Mapping[Link, int]]) -> Iterator[TestbedState]:
    """Changes rates as :func:`change` does while the block runs; they are restored even if this process is killed."""
    with cleanup.watch() as watch:
        known, before = change(name, choose, watch)
        try:
            yield known
        finally:
            give_back(name, known.maker, before)
            watch.done()


def give_back(name: str, maker: int, rates: Mapping[Link, int]) -> None:
    """Gives links of a testbed the rates that :func:`change` returned, unless it is no longer the one of ``maker``."""
    with state.locked():
        known = state.find(name)
        if known is not None and known.complete and known.maker == maker:
            _apply(known, rates)


def _apply(known: TestbedState, rates: Mapping[Link, int]) -> TestbedState:
    """Changes rates in the kernel, and in the testbed's file; returns the testbed as it is afterwards."""
    in_file = link_rates(known.layout)
    touched = {**known.changed, **rates}
    after = replace(known, changed={link: bits for link, bits in touched.items() if bits != in_file[link]})
    # If this process is killed, the file still lists every link whose rate may not be that of the testbed's file.
    state.write(replace(known, changed=touched))
    try:
        _set(after, rates)
    except BaseException:
        with contextlib.suppress(SynclineError):
            _set(known, rates)
            state.write(known)
        raise
    state.write(after)
    return after


def _set(known: TestbedState, links: Iterable[Link]) -> None:
    remedy = f"take the testbed down, and bring it up again: syncline testbed down {known.layout.name}"
    for program, inside, lines in commands.changes(known.now, set(links)):
        kernel.batch(program, inside, lines, remedy)
