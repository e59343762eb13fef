"""``syncline astra-sim``: takes the flags and prints the lines of ASTRA-sim 2's analytical simulators."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cli.commands.folder import chosen, of_traces
from syncline.codes import Code
from syncline.errors import ExitStatus
from syncline.input.dump import dump
from syncline.input.node import Mark, Text
from syncline.input.problem import cannot_write, error, exit_status, nearest, raise_errors
from syncline.terminal.streams import ascii_only, console, print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.errors import Diagnostic

HELP = """\
Usage: syncline astra-sim --workload-configuration=PREFIX --system-configuration=FILE
                          --network-configuration=FILE [OPTIONS]

Simulates ASTRA-sim 2's inputs and prints the same lines as ASTRA-sim, to the nanosecond.

  --remote-memory-configuration=FILE  remote memory; optional, though ASTRA-sim requires it
  --comm-group-configuration=FILE   communicator groups; "empty" for none
  --network=analytical|queued       its congestion-unaware (default) or congestion-aware network
  --native                          simulate the same inputs by syncline's own rules instead
  --num-queues-per-dim=N            default 1
  --injection-scale=X               default 1
  --rendezvous-protocol=true|false  default false
  --max-events=N, --max-time-ns=N   stop early; exit status 5
  --out=DIR                         results folder (default: runs/FOLDER-NAME for traces FOLDER/NAME)
  --logging-folder=DIR              also write the lines to DIR/log.log
  --json                            print one JSON object instead

--logging-configuration, --compute-scale and --comm-scale are accepted but, as in ASTRA-sim,
change no result.
"""

_BOOL = {"true": True, "false": False, "1": True, "0": False}
_FLAGS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "workload-configuration": ("workload", str, "a path prefix"),
    "system-configuration": ("system", str, "a path"),
    "network-configuration": ("network", str, "a path"),
    "remote-memory-configuration": ("memory", str, "a path"),
    "comm-group-configuration": ("groups", str, "a path"),
    "network": ("model", {"analytical": "analytical", "queued": "queued"}.__getitem__, "analytical, queued"),
    "out": ("out", str, "a path"),
    "logging-folder": ("logs", str, "a path"),
    "num-queues-per-dim": ("queues_per_dim", lambda text: _whole(text, 1, 2**32 - 1), "a whole number from 1"),
    "injection-scale": ("injection_scale", lambda text: _number(text), "a number of at least 0"),
    "rendezvous-protocol": ("rendezvous", lambda text: _BOOL[text.lower()], "true, false"),
    "max-events": ("max_events", lambda text: _whole(text, 1, 2**63), "a whole number from 1"),
    "max-time-ns": ("max_time_ns", lambda text: _whole(text, 1, 2**62), "a whole number from 1"),
}
_IGNORED = ("logging-configuration", "compute-scale", "comm-scale")
_SWITCHES = ("json", "native")
_BACKENDS = {"analytical": "unaware", "queued": "aware"}
_REQUIRED = ("workload-configuration", "system-configuration", "network-configuration")


def astra_sim(arguments: Sequence[str]) -> int:
    """Runs ``syncline astra-sim``; returns the exit status."""
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(HELP)
        return 0
    options, switches = _options(arguments)
    folder = chosen(options.pop("out", None), of_traces(options["workload"]))
    model = options.pop("model", "analytical")
    if "native" in switches:
        return _native(options, model, folder, as_json="json" in switches)
    from syncline.report.html.page import FILE, report
    from syncline.result import Result

    logs = options.pop("logs", None)
    lines, outcome, found, finished, run = _core.astra_sim(**options, backend=_BACKENDS[model])
    diagnostics: list[Diagnostic] = json.loads(found)
    answer = json.loads(outcome)
    if answer["ended"] == "interrupted":
        status: int = ExitStatus.INTERRUPTED
    else:
        status = ExitStatus.DONE if finished else exit_status(diagnostics)
    page = report(Result(run, {"name": Path(options["workload"]).name}))
    run.write(folder, dump({"astra-sim": {**options, "network": model}}), 0, extra=[(FILE, page)])
    if logs is not None:
        _log(Path(logs), lines)
    if "json" in switches:
        show_json({"exit_status": status, "folder": folder, **answer, "diagnostics": diagnostics})
    else:
        sys.stdout.write(lines)
        sys.stdout.flush()
    print_diagnostics(diagnostics)
    say(f"Results are in {folder}")
    return status


def _native(options: dict[str, Any], model: str, folder: str, *, as_json: bool) -> int:
    """Simulates the same inputs by syncline's own rules; returns the exit status."""
    from syncline.report.terminal.answer import answer
    from syncline.result import Result

    refused = [name for name in ("queues_per_dim", "injection_scale", "rendezvous", "logs") if name in options]
    if refused:
        flags = ", ".join(f"--{name}" for name, (key, *_) in _FLAGS.items() if key in refused)
        raise_errors(
            error(
                Code.ASTRA_UNSUPPORTED, f"{flags} has no effect with --native", help="drop either the flag or --native"
            )
        )
    text, found = _core.astra_scenario(
        options["workload"],
        options["system"],
        options["network"],
        options.get("memory"),
        options.get("groups"),
        model=model,
    )
    scenario = json.loads(text)
    scenario["limits"] = {
        key: value
        for key, value in (("events", options.get("max_events")), ("sim_time", _nanoseconds(options)))
        if value is not None
    }
    run = _core.simulate(json.dumps(scenario))
    result = Result(run, scenario)
    result.save(folder)
    ended = result.summary.ended
    reached = ExitStatus.LIMIT if ended == "limit_reached" else ExitStatus.DONE
    status = ExitStatus.INTERRUPTED if run.interrupted else reached
    diagnostics = [*json.loads(found), *result.warnings]
    if as_json:
        show_json(
            {"exit_status": status, "folder": folder, "summary": result.summary.as_dict(), "diagnostics": diagnostics}
        )
    else:
        show(answer(result, console().width, ascii_only=ascii_only(sys.stdout)))
    print_diagnostics(diagnostics)
    say(f"Results are in {folder}")
    return status


def _nanoseconds(options: dict[str, Any]) -> str | None:
    limit = options.get("max_time_ns")
    return None if limit is None else f"{limit}ns"


def _log(folder: Path, lines: str) -> None:
    """Writes the lines to ``log.log`` in the folder that ``--logging-folder`` names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log.log").write_text(lines, "utf-8")
    except OSError as problem:
        raise_errors(cannot_write(folder, problem))


def _options(arguments: Sequence[str]) -> tuple[dict[str, Any], set[str]]:
    options: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    switches: set[str] = set()
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        if flag.removeprefix("--") in _SWITCHES and flag.startswith("--"):
            switches.add(flag.removeprefix("--"))
            continue
        name, equals, value = flag.removeprefix("--").partition("=")
        mark = Mark(Text("astra-sim", [flag]), 1, 1, 0)
        if not flag.startswith("--") or (name not in _FLAGS and name not in _IGNORED):
            known = [f"--{each}" for each in (*_FLAGS, *_IGNORED, *_SWITCHES)]
            near = nearest(f"--{name}", known)
            # ASTRA-sim silently accepts unknown flags, so that a misspelt one would leave the default in place.
            problems.append(error(Code.UNKNOWN_KEY, "unknown flag", mark=mark, allowed=", ".join(known), nearest=near))
            continue
        if not equals:
            if not rest or rest[0].startswith("--"):
                problems.append(
                    error(Code.MISSING_KEY, "flag without a value", mark=mark, help=f"write --{name}=VALUE")
                )
                continue
            value = rest.pop(0)
        if name in _IGNORED:
            continue
        key, parse, allowed = _FLAGS[name]
        try:
            options[key] = parse(value)
        except (KeyError, ValueError):
            problems.append(error(Code.BAD_VALUE, "value not allowed", mark=mark, found=value, allowed=allowed))
    missing = [name for name in _REQUIRED if _FLAGS[name][0] not in options]
    if missing and not problems:
        what = ", ".join(f"--{name}" for name in missing)
        problems.append(
            error(Code.MISSING_KEY, f"missing flag {what}", help="syncline astra-sim --help lists all flags")
        )
    if problems:
        raise_errors(*problems)
    return options, switches


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
