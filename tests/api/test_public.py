"""Examples, experiments, benchmarks and the documentation use the public names of the package alone."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pytest

from tests.conftest import ROOT
from tests.docs import public
from tests.docs.pages import PAGES, blocks, name
from tests.imports import imported, imported_by

MODULES = public.modules()
USERS = [file for folder in ("examples", "experiments", "benches") for file in sorted((ROOT / folder).rglob("*.py"))]


def private(imports):
    """What is imported from inside the package, of modules and names."""
    found = []
    for module, each in sorted(imports):
        if module.split(".")[0] != "syncline":
            continue
        inside = f"{module}.{each}" in MODULES or (module in MODULES and (not each or each in public.names(module)))
        found += [] if inside else [f"{module} {each}".strip()]
    return found


@pytest.mark.parametrize("file", USERS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_programs_use_public_names_alone(file):
    assert private(imported(file)) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_use_public_names_alone(page):
    if "internals" in page.parts:
        pytest.skip("the page is about the inside")
    for block in blocks(page):
        if block.language == "python":
            assert private(imported_by("\n".join(block.lines))) == [], f"line {block.line}"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import syncline\nfrom syncline import simulate, quantity\nfrom syncline.runtime import Plans", []),
        ("from syncline import _core", ["syncline _core"]),
        ("def f():\n    from syncline.runtime.security import Security", ["syncline.runtime.security Security"]),
        ("from syncline.runtime import security", ["syncline.runtime security"]),
        ("import syncline.config.load", ["syncline.config.load"]),
    ],
)
def test_other_names_are_found(statement, found):
    assert private(imported_by(statement)) == found


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists_and_is_described(module):
    names = public.names(module)
    assert len(set(names)) == len(names)
    undescribed = [each for each in names if not each.startswith("__") and not public.definition(module, each).sentence]
    assert not undescribed
    if module != "syncline.torch" or find_spec("torch"):
        loaded = importlib.import_module(module)
        assert [each for each in names if not hasattr(loaded, each)] == []
