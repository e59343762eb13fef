"""Faults that tests cause, read from docstring lines of the form ``Fault: what happens -> what follows``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.pages import ROOT

PLACES = {
    "tests/runtime/test_faults.py": ("Ranks", "processes"),
    "tests/runtime/test_partitions.py": ("Ranks", "an emulated cluster"),
    "tests/runtime/test_incast.py": ("Ranks", "an emulated cluster of 64 hosts, by `make test-slow`"),
    "tests/runtime/test_forks.py": ("Ranks", "processes"),
    "crates/executor/tests/executor.rs": ("Ranks", "threads, real sockets"),
    "crates/executor/tests/on_demand.rs": ("Ranks", "threads, real sockets"),
    "crates/membership/tests/world/on_demand.rs": ("Ranks", "whole jobs in one thread and virtual time"),
    "crates/membership/tests/world.rs": ("Ranks", "whole jobs in one thread and virtual time"),
    "crates/protocol/tests/lanes.rs": ("Ranks", "lanes without sockets"),
    "crates/protocol/tests/transfers.rs": ("Ranks", "lanes without sockets"),
    "crates/executor/tests/session.rs": ("Joining", "threads, real sockets"),
    "crates/membership/tests/admission.rs": ("Joining", "handshakes without sockets"),
    "crates/protocol/src/handshake.rs": ("Joining", "handshakes without sockets"),
    "tests/runtime/test_epochs.py": ("Going on", "processes"),
    "tests/torch/test_elastic.py": ("Going on", "processes that train with PyTorch"),
    "tests/torch/test_torchrun.py": ("Going on", "processes that train with PyTorch"),
    "tests/hub/test_faults.py": ("Hubs", "processes"),
    "tests/hub/test_racks.py": ("Hubs", "processes"),
    "tests/hub/test_saves.py": ("Hubs", "processes"),
    "tests/hub/test_slow.py": ("Hubs", "an emulated cluster"),
    "crates/hub/tests/service.rs": ("Hubs", "threads, real sockets"),
}
"""Files with tests of faults: the part of the page, and the environment of the tests."""

RANDOM = ", many random cases"
"""Suffix of the environment of property tests, which get random cases."""

SKIPPED = {"needs_namespaces": "root", 'importorskip("torch"': "PyTorch"}
"""Markers of files with tests that some machines skip, and what those machines lack."""

IGNORED = re.compile(r'#\[ignore = "[^"]*(make [a-z-]+)"\]\s*fn (\w+)')
"""Matches ignored Rust tests and the `make` command that runs them."""

PYTHON = re.compile(r'^def (test_\w+)\([^)]*\):\n    """Fault: (.+?) -> (.+?)"""', re.M)
RUST = re.compile(r"^[ \t]*/// Fault: (.+?) -> (.+?)$(?:\n[ \t]*(?:#\[.*\]|///.*))*\n[ \t]*fn (\w+)\(\s*(\)?)", re.M)


@dataclass(frozen=True)
class Fault:
    """A fault, its consequence, the environment, and the name of the test."""

    what: str
    follows: str
    tried: str
    test: str


def read(part: str) -> list[Fault]:
    """Faults of one part of the page."""
    found = []
    for file, (of, tried) in PLACES.items():
        if of != part:
            continue
        text = (ROOT / file).read_text("utf-8")
        tried += "".join(f" (skipped without {what})" for marker, what in SKIPPED.items() if marker in text)
        own = {test: f" (`{command}`)" for command, test in IGNORED.findall(text)}
        if file.endswith(".py"):
            lines = [(what, follows, test, tried) for test, what, follows in PYTHON.findall(text)]
        else:
            lines = [
                (what, follows, test, (tried if alone else tried + RANDOM) + own.get(test, ""))
                for what, follows, test, alone in RUST.findall(text)
            ]
        found += [Fault(what, follows, where, test.removeprefix("test_")) for what, follows, test, where in lines]
    return found
