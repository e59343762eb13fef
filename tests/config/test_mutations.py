"""Valid files with random bytes changed are read, or refused with diagnostics, quickly and with little memory.

Cases are numbered and the same on every machine. ``SYNCLINE_FUZZ=10000`` runs that many for each file. The readers in
Rust have the same test in ``crates/formats/tests/mutations.rs``.
"""

from __future__ import annotations

import os
import random
import re
import resource
import time
from pathlib import Path

import pytest

from syncline.config.load import load
from syncline.errors import SynclineError
from tests.conftest import ROOT

CASES = int(os.environ.get("SYNCLINE_FUZZ", "60"))
FOLDERS = sorted(path.parent for path in (ROOT / "examples").glob("*/scenario.yaml"))
FILES = [file for folder in FOLDERS for file in sorted(folder.iterdir()) if file.suffix in (".yaml", ".csv", ".json")]
PIECES = [
    b"-1", b"0", b"1e999", b".nan", b"4294967295", b"99999999999999999999", b"0x1f", b"null", b"true", b"GB/s", b"us",
    b"[", b"]", b"{", b"}", b'"', b"'", b"&a ", b"*a", b"!!python/object:x ", b"? ", b"- ", b": ", b", ", b"#", b"<<: ",
    b"|\n", b">\n", b"\n", b"\r", b"\t", b"\x00", b"---\n", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\xef\xbb\xbf",
]  # fmt: skip


def changed(good: bytes, rng: random.Random) -> bytes:
    """``good`` with a few bytes changed."""
    data = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randint(1, 24))
        match rng.randrange(7):
            case 0:
                del data[at:]
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = rng.choice(PIECES)
            case 3:
                data[at:end] = rng.choice(PIECES)
            case 4:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 5:
                data[at:at] = bytes(data[at:end]) * rng.randint(1, 100)
            case _:
                if digits := list(re.finditer(rb"[0-9]+", data)):
                    number = rng.choice(digits)
                    data[number.start() : number.end()] = str(10 ** rng.randrange(22) + rng.randrange(10)).encode()
    return bytes(data)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_files_with_changed_bytes_are_read_or_refused(file: Path, tmp_path: Path) -> None:
    for each in file.parent.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    good = file.read_bytes()
    load(tmp_path / "scenario.yaml").check()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted = 0
    for case in range(CASES):
        data = changed(good, random.Random(f"{file.name} {case}"))
        (tmp_path / file.name).write_bytes(data)
        started = time.monotonic()
        try:
            found = load(tmp_path / "scenario.yaml").check()
            accepted += 1
        except SynclineError as error:
            found = error.diagnostics
            assert error.exit_status in (2, 3), (case, data)
        except BaseException as error:
            raise AssertionError((case, data)) from error
        assert all(each["code"] != "SL0901" for each in found), (case, data)
        assert time.monotonic() - started < 10, (case, data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 300_000, f"{grown} KiB more for files of {len(good)} bytes"
    assert accepted or CASES < 20
