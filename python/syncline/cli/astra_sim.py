"""``syncline astra-sim``: the flags and lines of ASTRA-sim 2's analytical simulators."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cli.streams import complain, show_json
from syncline.config.node import Mark, Text
from syncline.config.problem import error, exit_status, nearest, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.errors import Diagnostic

HELP = """\
Usage: syncline astra-sim --workload-configuration=PREFIX --system-configuration=FILE
                          --network-configuration=FILE --remote-memory-configuration=FILE [OPTIONS]

Simulates ASTRA-sim 2's inputs and prints its lines, to the same nanosecond.

  --comm-group-configuration=FILE   communicator groups; "empty" for none
  --backend=unaware|aware           which of its analytical networks (default: unaware)
  --num-queues-per-dim=N            default 1
  --injection-scale=X               default 1
  --rendezvous-protocol=true|false  default false
  --max-events=N, --max-time-ns=N   stop early; exit status 5
  --json                            print one JSON object instead

--logging-configuration, --logging-folder, --compute-scale and --comm-scale are accepted and, as
there, change no result.
"""

_BOOL = {"true": True, "false": False, "1": True, "0": False}
_FLAGS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "workload-configuration": ("workload", str, "a path prefix"),
    "system-configuration": ("system", str, "a path"),
    "network-configuration": ("network", str, "a path"),
    "remote-memory-configuration": ("memory", str, "a path"),
    "comm-group-configuration": ("groups", str, "a path"),
    "backend": ("backend", {"unaware": "unaware", "aware": "aware"}.__getitem__, "unaware, aware"),
    "num-queues-per-dim": ("queues_per_dim", lambda text: _whole(text, 1, 2**32 - 1), "a whole number from 1"),
    "injection-scale": ("injection_scale", lambda text: _number(text), "a number of at least 0"),
    "rendezvous-protocol": ("rendezvous", lambda text: _BOOL[text.lower()], "true, false"),
    "max-events": ("max_events", lambda text: _whole(text, 1, 2**63), "a whole number from 1"),
    "max-time-ns": ("max_time_ns", lambda text: _whole(text, 1, 2**62), "a whole number from 1"),
}
_IGNORED = ("logging-configuration", "logging-folder", "compute-scale", "comm-scale")
_REQUIRED = ("workload-configuration", "system-configuration", "network-configuration")


def astra_sim(arguments: Sequence[str]) -> int:
    """Runs it; gives the exit status."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(HELP)
        return 0
    options, as_json = _options(arguments)
    lines, outcome, found, finished = _core.astra_sim(**options)
    diagnostics: list[Diagnostic] = json.loads(found)
    answer = json.loads(outcome)
    status = 130 if answer["ended"] == "interrupted" else exit_status(diagnostics) if not finished else 0
    if as_json:
        show_json({"exit_status": status, **answer, "diagnostics": diagnostics})
    else:
        sys.stdout.write(lines)
        sys.stdout.flush()
    complain(diagnostics)
    return status


def _options(arguments: Sequence[str]) -> tuple[dict[str, Any], bool]:
    options: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    as_json = False
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        if flag == "--json":
            as_json = True
            continue
        name, equals, value = flag.removeprefix("--").partition("=")
        mark = Mark(Text("astra-sim", [flag]), 1, 1, 0)
        if not flag.startswith("--") or (name not in _FLAGS and name not in _IGNORED):
            known = [f"--{each}" for each in (*_FLAGS, *_IGNORED)]
            near = nearest(f"--{name}", known)
            # ASTRA-sim takes any flag without a word; a misspelt one would silently mean the default.
            problems.append(error("SL0101", "unknown flag", mark=mark, allowed=", ".join(known), nearest=near))
            continue
        if not equals:
            if not rest or rest[0].startswith("--"):
                problems.append(error("SL0103", "flag without a value", mark=mark, help=f"write --{name}=VALUE"))
                continue
            value = rest.pop(0)
        if name in _IGNORED:
            continue
        key, parse, allowed = _FLAGS[name]
        try:
            options[key] = parse(value)
        except (KeyError, ValueError):
            problems.append(error("SL0102", "value not allowed", mark=mark, found=value, allowed=allowed))
    missing = [name for name in _REQUIRED if _FLAGS[name][0] not in options]
    if missing and not problems:
        what = ", ".join(f"--{name}" for name in missing)
        problems.append(error("SL0103", f"missing flag {what}", help="syncline astra-sim --help lists them all"))
    if problems:
        refuse(*problems)
    return options, as_json


def _whole(text: str, low: int, high: int) -> int:
    value = int(text) if len(text) < 25 else high + 1
    if not low <= value <= high:
        raise ValueError(text)
    return value


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e18:
        raise ValueError(text)
    return value
