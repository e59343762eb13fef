"""Makes the JSON schema of a scenario, for editors, in draft 7, the newest that common editors understand."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from syncline.config import (
    built,
    collectives,
    compute,
    fabric,
    faults,
    jitter,
    jobs,
    network,
    prices,
    scenario,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

FILE = "syncline.schema.json"
"""Name of the schema's file, at the root of the project and beside a scenario that ``init`` writes."""


def text() -> str:
    """The text of the schema's file."""
    return as_text(build())


def as_text(schema: dict[str, Any]) -> str:
    """The text of a file that holds ``schema``."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def build() -> dict[str, Any]:
    """The schema of a scenario, made from the models; their docstrings become its descriptions."""
    modules = (built, collectives, compute, fabric, faults, jitter, jobs, network, prices, scenario, workload)
    return build_of(scenario.Scenario, "syncline scenario", modules)


def build_of(root: type[BaseModel], title: str, modules: Iterable[ModuleType]) -> dict[str, Any]:
    """The schema of the model ``root``; ``modules`` hold the models that it refers to."""
    made = root.model_json_schema(by_alias=True, ref_template="#/definitions/{model}", schema_generator=_Draft7)
    definitions = made.pop("$defs", {})
    for name, model in _models(modules).items():
        # Models that exist only to be refused are not part of the schema.
        if model is root or name in definitions:
            _describe(made if model is root else definitions[name], model)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        **{key: value for key, value in made.items() if key != "title"},
        "definitions": definitions,
    }


class _Draft7(GenerateJsonSchema):
    """Leaves out titles that only repeat a key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("title", None)
        return made


def _describe(made: dict[str, Any], model: type[BaseModel]) -> None:
    documented = docstrings(model)
    for name, field in model.model_fields.items():
        entry = made.get("properties", {}).get(field.alias or name)
        if entry is not None and name in documented:
            # Draft 7 ignores keywords beside `$ref`, so put the reference into `allOf`.
            if "$ref" in entry:
                entry["allOf"] = [{"$ref": entry.pop("$ref")}]
            entry["description"] = documented[name]
    if model.model_config.get("extra") == "allow":
        _add_parameters(made)


def _add_parameters(made: dict[str, Any]) -> None:
    """Adds the parameters of all models. Which parameters a given model accepts is checked when it is loaded."""
    from syncline.models import MODELS

    types: dict[str, dict[str, Any]] = {
        "integer": {"type": "integer"},
        "boolean": {"type": "boolean"},
        "integers": {"type": "array", "items": {"type": "integer"}},
        "choice": {"type": "string"},
    }
    name = made["properties"]["model"]
    del name["type"]
    file = {"type": "string", "pattern": r"\.json$|/|\\", "examples": ["llama/config.json"]}
    name["anyOf"] = [{"enum": sorted(MODELS)}, file]
    for info in MODELS.values():
        for name, parameter in info.parameters.items():
            described = {**types[parameter.type], "description": parameter.meaning}
            made["properties"].setdefault(name, described)
    made["additionalProperties"] = False


def _models(modules: Iterable[ModuleType]) -> dict[str, type[BaseModel]]:
    found = (each for module in modules for each in vars(module).values() if inspect.isclass(each))
    return {each.__name__: each for each in found if issubclass(each, BaseModel)}


@cache
def docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring of each field of ``model`` and of its base classes, read from the source."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            found.update(_docstrings(tree))
    return found


def _docstrings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in itertools.pairwise(body):
        documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and documented:
            yield field.target.id, " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
