"""What tests do to jobs, and what follows: their lines ``Fault: what happens -> what follows``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.docs.pages import ROOT

PLACES = {
    "tests/runtime/test_faults.py": ("Ranks", "processes"),
    "tests/runtime/test_partitions.py": ("Ranks", "an emulated cluster"),
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
}
"""Files with tests of faults: of what, and where they are tried."""

RANDOM = ", many random cases"
"""What a test of properties adds to that: it is given what it tries, where others try what is written in them."""

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
        if file.endswith(".py"):
            lines = [(what, follows, test, tried) for test, what, follows in PYTHON.findall(text)]
        else:
            lines = [
                (what, follows, test, tried if alone else tried + RANDOM)
                for what, follows, test, alone in RUST.findall(text)
            ]
        found += [Fault(what, follows, where, test.removeprefix("test_")) for what, follows, test, where in lines]
    return found
