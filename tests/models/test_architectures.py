"""Models by name: the package has those of the repository's measured runs, and counts their parameters right."""

from __future__ import annotations

import os
from importlib.resources import files

import pytest

from syncline.errors import SynclineError
from syncline.input.dump import dump
from syncline.models.architecture import Architecture
from syncline.models.architectures import FILE, architectures, named
from tests.validation.rows import MODELS


def test_the_package_has_the_models_of_the_repository():
    """``UPDATE=1`` copies them."""
    known = {name: each for name, each in MODELS.items() if isinstance(each, Architecture)}
    if os.environ.get("UPDATE"):
        head = "# Architectures of published models: those of validation/models.yaml that are complete.\n\n"
        text = head + dump({name: each.model_dump(exclude_defaults=True) for name, each in known.items()})
        (files("syncline") / "data" / FILE).write_text(text, "utf-8")
        architectures.cache_clear()
    assert architectures() == known, "run again with UPDATE=1"


@pytest.mark.parametrize("name", ["llama3-70b", "mixtral-8x7b", "deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b"])
def test_published_numbers_of_parameters(name):
    found = named(name)
    assert found.parameters is not None
    assert found.weights() == pytest.approx(found.parameters, rel=0.02)


def test_a_name_that_no_model_has_is_refused_with_the_nearest():
    with pytest.raises(SynclineError, match="llama3-70b"):
        named("llama-3-70b")
