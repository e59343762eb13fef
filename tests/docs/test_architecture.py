"""ARCHITECTURE.md describes the current crates."""

from __future__ import annotations

import re
import tomllib

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
