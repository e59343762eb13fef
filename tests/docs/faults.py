"""What tests do to jobs, and what follows: their lines ``Fault: what happens -> what follows``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.pages import ROOT

PLACES = {
    "tests/runtime/test_faults.py": ("Ranks", "processes"),
    "tests/runtime/test_partitions.py": ("Ranks", "an emulated cluster"),
    "tests/runtime/test_forks.py": ("Ranks", "processes"),
    "crates/runtime/tests/executor.rs": ("Ranks", "threads, real sockets"),
    "crates/runtime/tests/world.rs": ("Ranks", "whole jobs in one thread and virtual time"),
    "crates/runtime/tests/lanes.rs": ("Ranks", "lanes without sockets"),
    "crates/runtime/tests/transfers.rs": ("Ranks", "lanes without sockets"),
    "crates/runtime/tests/session.rs": ("Joining", "threads, real sockets"),
    "crates/runtime/tests/admission.rs": ("Joining", "handshakes without sockets"),
    "crates/runtime/src/handshake.rs": ("Joining", "handshakes without sockets"),
    "tests/runtime/test_epochs.py": ("Going on", "processes"),
    "tests/torch/test_elastic.py": ("Going on", "processes that train with PyTorch"),
    "tests/hub/test_faults.py": ("Hubs", "processes"),
    "tests/hub/test_slow.py": ("Hubs", "an emulated cluster"),
    "crates/runtime/tests/service.rs": ("Hubs", "threads, real sockets"),
}
"""Files with tests of faults: of what, and where they are tried."""

RANDOM = ", many random cases"
"""What a test of properties adds to that: it is given what it tries, where others try what is written in them."""

SKIPPED = {"needs_namespaces": "root", 'importorskip("torch"': "PyTorch"}
"""What a file has whose tests are skipped on some machines, and what these lack."""

IGNORED = re.compile(r'#\[ignore = "[^"]*(make [a-z-]+)"\]\s*fn (\w+)')
"""Tests that are run by a command of their own, and that."""

PYTHON = re.compile(r'^def (test_\w+)\([^)]*\):\n    """Fault: (.+?) -> (.+?)"""', re.M)
RUST = re.compile(r"^[ \t]*/// Fault: (.+?) -> (.+?)$(?:\n[ \t]*(?:#\[.*\]|///.*))*\n[ \t]*fn (\w+)\(\s*(\)?)", re.M)


@dataclass(frozen=True)
class Fault:
    """What a test does, what follows from it, and where."""

    what: str
    follows: str
    tried: str
    test: str


def read(part: str) -> list[Fault]:
    """Faults of one part of the page, as tests have them."""
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
