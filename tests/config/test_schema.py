"""The JSON schemas for editors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

from syncline import _core
from syncline.config import schema
from syncline.config.load import load
from syncline.design.bandwidth import schema as designs
from syncline.design.joint import schema as joints
from syncline.errors import SynclineError
from syncline.input import units as quantity
from syncline.input.source import from_file
from syncline.testbed import schema as testbeds
from tests.config.test_errors import CASES
from tests.conftest import ROOT

WRITTEN = sorted((ROOT / "examples").glob("*/*.yaml"))
DESIGNS = [path for path in WRITTEN if "schema: syncline-design/" in path.read_text("utf-8")]
TESTBEDS = [path for path in WRITTEN if "schema: syncline-testbed/" in path.read_text("utf-8")]
EXAMPLES = [path for path in WRITTEN if path not in DESIGNS + TESTBEDS]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    built = schema.build()
    jsonschema.Draft7Validator.check_schema(built)
    return jsonschema.Draft7Validator(built)


def test_the_file_is_current() -> None:
    assert (ROOT / schema.FILE).read_text("utf-8") == schema.text(), "run `make schema`"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_schema_accepts_the_examples(path: Path, validator: jsonschema.Draft7Validator) -> None:
    assert [error.message for error in validator.iter_errors(from_file(str(path)).root.to_python())] == []


def test_the_file_for_joint_designs_is_current() -> None:
    assert (ROOT / joints.FILE).read_text("utf-8") == joints.text(), "run `make schema`"


def test_the_file_for_designs_is_current() -> None:
    assert (ROOT / designs.FILE).read_text("utf-8") == designs.text(), "run `make schema`"


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.parent.name)
def test_the_schema_for_designs_accepts_the_examples(path: Path) -> None:
    built = designs.build()
    jsonschema.Draft7Validator.check_schema(built)
    value = from_file(str(path)).root.to_python()
    validator = jsonschema.Draft7Validator(built)
    assert [error.message for error in validator.iter_errors(value)] == []
    assert [error.message for error in validator.iter_errors({**value, "bugdet": {}})]


def test_the_file_for_testbeds_is_current() -> None:
    assert (ROOT / testbeds.FILE).read_text("utf-8") == testbeds.text(), "run `make schema`"


@pytest.mark.parametrize("path", TESTBEDS, ids=lambda path: path.parent.name)
def test_the_schema_for_testbeds_accepts_the_examples(path: Path) -> None:
    built = json.loads(testbeds.text())
    jsonschema.Draft7Validator.check_schema(built)
    value = from_file(str(path)).root.to_python()
    validator = jsonschema.Draft7Validator(built)
    assert [error.message for error in validator.iter_errors(value)] == []
    assert [error.message for error in validator.iter_errors({**value, "fabrik": {}})]


@pytest.mark.parametrize("case", ["an unknown key", "a bare number", "a missing key", "a number out of range"])
def test_the_schema_refuses_invalid_scenarios(case: str, validator: jsonschema.Draft7Validator, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(CASES[case][0])
    assert list(validator.iter_errors(from_file(str(path)).root.to_python()))
    with pytest.raises(SynclineError):
        load(path)


def test_every_field_is_described() -> None:
    built = schema.build()
    for name, definition in (*built["definitions"].items(), ("Scenario", built)):
        assert definition.get("description"), name
        for key, entry in definition.get("properties", {}).items():
            assert entry.get("description"), f"{name}.{key}"


@pytest.mark.parametrize("kind", ["time", "bytes", "rate", "flops", "flop_rate"])
def test_patterns_of_the_schema_accept_quantities_written_by_the_core(kind: str) -> None:
    name = {"time": "Time", "bytes": "Bytes", "rate": "Rate", "flops": "Flops", "flop_rate": "FlopRate"}[kind]
    (pattern,) = (each.json_schema for each in getattr(quantity, name).__metadata__ if hasattr(each, "json_schema"))
    for power in range(19):
        for text in (_core.exact_quantity(kind, 10**power), _core.format_quantity(kind, 3 * 10**power)):
            jsonschema.validate(text, pattern)


def test_the_first_line_of_a_scenario_names_the_schema() -> None:
    for path in (*EXAMPLES, *sorted((ROOT / "python/syncline/templates").glob("*.yaml"))):
        first = path.read_text("utf-8").splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        if path in EXAMPLES:
            target = os.path.normpath(path.parent / first.partition("=")[2])
            assert json.loads(Path(target).read_text("utf-8"))["title"] == "syncline scenario"
