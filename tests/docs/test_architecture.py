"""ARCHITECTURE.md describes the crates and Python packages, and lists all unsafe code."""

from __future__ import annotations

import re
import tomllib
from itertools import product
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.imports import imported

TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
PYTHON = ROOT / "python" / "syncline"
EVERYWHERE = {"_core", "codes", "errors"}
"""Imported by most packages, so the table does not list them."""


def crates():
    """Each crate, and the crates of this project that it depends on."""
    found = {}
    for file in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        manifest = tomllib.loads(file.read_text("utf-8"))
        on = [each.removeprefix("syncline-") for each in manifest.get("dependencies", {}) if "syncline-" in each]
        found[file.parent.name] = set(on)
    return found


def packages(root: Path = PYTHON):
    """Each package or module directly in ``root``, and those that its files import."""
    found: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        # `python -m syncline` is the command line.
        here = "cli" if parts[0] == "__main__" else parts[0]
        module = ".".join((root.name, *(part for part in parts if part != "__init__")))
        for base, name in imported(file, module):
            top, _, rest = base.partition(".")
            if top == root.name:
                found.setdefault(here, set()).add(rest.split(".")[0] or name)
        found.setdefault(here, set()).discard(here)
    return found


def table(heading: str):
    """The first and the last column of the table below a heading: a name, and the names that it uses."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w/-]+)` \| [^|]+ \| ([^|]*) \|$", section, re.M)
    return {name.removeprefix("crates/"): set(re.findall(r"[\w-]+", on)) - {"nothing"} for name, on in rows}


def floors(names: set[str]):
    """The floor of each name in the drawing that shows them all, from 0 at the top."""
    for drawing in re.findall(r"^```text\n(.*?)^```$", TEXT, re.M | re.S):
        lines = [re.split(r"\s{2,}", line.strip()) for line in drawing.splitlines()]
        found = {name: floor for floor, line in enumerate(lines) for name in line if name in names}
        if set(found) == names:
            return found
    raise AssertionError(f"no drawing shows all of {', '.join(sorted(names))}")


@pytest.mark.parametrize(("heading", "actual"), [("Crates", crates()), ("Python packages", packages())])
def test_the_table_lists_what_each_uses(heading, actual):
    left_out = EVERYWHERE if heading == "Python packages" else set()
    rows = table(heading)
    for name in sorted({*rows, *actual}):
        assert rows.get(name) == actual.get(name, set()) - left_out, f"the row of {name}"


@pytest.mark.parametrize("actual", [crates(), packages()])
def test_each_uses_only_lower_layers(actual):
    floor = floors(set(actual))
    upward = [(a, b) for a, uses in actual.items() for b in uses - {"_core"} if floor[b] <= floor[a]]
    assert not upward


IMPORTS = (
    "import pkg.b\n",
    "from pkg import b\n",
    "from pkg.b import x\n",
    "from pkg.b.deep import x\n",
    "from . import b\n",
    "from .b import x\n",
)
PLACES = ("{}", "def f():\n    {}", "if TYPE_CHECKING:\n    {}", "class C:\n    def f(self):\n        {}")


@pytest.mark.parametrize(("statement", "place"), list(product(IMPORTS, PLACES)))
def test_imports_are_found_everywhere(tmp_path, statement, place):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text(place.format(statement))
    assert packages(tmp_path / "pkg") == {"a": {"b"}}


def test_relative_imports_of_a_package_are_found(tmp_path):
    folder = tmp_path / "pkg" / "a"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import c\nfrom ..b import x\n")
    (folder / "c.py").write_text("from .. import d\nfrom . import e\n")
    assert packages(tmp_path / "pkg") == {"a": {"b", "d"}}


UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|trait\b|extern\b|\()")
"""Rust code that the compiler does not check: not the word in comments or in `unsafe_code`."""


def unsafe_files():
    files = (ROOT / "crates").rglob("*.rs")
    return {str(file.relative_to(ROOT)) for file in files if UNSAFE.search(file.read_text("utf-8"))}


def test_unsafe_code_is_listed():
    section = TEXT.split("## Unsafe code\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(crates/[\w/-]+\.rs)` \|([^|]+)\|([^|]+)\|([^|]+)\|$", section, re.M)
    assert {file for file, *_ in rows} == unsafe_files()
    assert all(cell.strip() for row in rows for cell in row)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("unsafe { f() }", True),
        ("pub const unsafe fn f() {}", True),
        ("unsafe impl Send for A {}", True),
        ("#[unsafe(no_mangle)]", True),
        ("#![allow(unsafe_code)]", False),
        ("//! It has `unsafe` code.", False),
        ("fn unsafe_from_address() {}", False),
    ],
)
def test_unsafe_code_is_found(code, found):
    assert bool(UNSAFE.search(code)) == found


def test_one_place_gives_addresses_to_operations():
    places = [file for file in (ROOT / "python").rglob("*.py") if "unsafe_from_address" in file.read_text("utf-8")]
    assert places == [ROOT / "python/syncline/torch/elements.py"]
