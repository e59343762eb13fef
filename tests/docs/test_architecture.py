"""ARCHITECTURE.md describes the current crates, and lists all unsafe code."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def crates():
    """Each crate, and the crates of this project that it depends on."""
    found = {}
    for file in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        manifest = tomllib.loads(file.read_text("utf-8"))
        on = [each.removeprefix("syncline-") for each in manifest.get("dependencies", {}) if "syncline-" in each]
        found[file.parent.name] = set(on)
    return found


def test_dependencies_match_the_manifests():
    rows = re.findall(r"^\| `crates/([\w-]+)` \| [^|]+ \| ([^|]*) \|$", TEXT, re.M)
    said = {crate: set(re.findall(r"[\w-]+", on)) - {"nothing"} for crate, on in rows}
    assert said == crates()


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
