"""The JSON schema of a scenario, for editors: draft 7, which is the newest that common editors understand."""

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
"""Name of the file at the root of the project, and beside a scenario that ``init`` writes."""


def text() -> str:
    """The schema as a file holds it."""
    return as_text(build())


def as_text(schema: dict[str, Any]) -> str:
    """A schema as a file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def build() -> dict[str, Any]:
    """The schema, made from the models; their docstrings are its descriptions."""
    modules = (built, collectives, compute, fabric, faults, jitter, jobs, network, prices, scenario, workload)
    return build_of(scenario.Scenario, "syncline scenario", modules)


def build_of(root: type[BaseModel], title: str, modules: Iterable[ModuleType]) -> dict[str, Any]:
    """The schema of a form; ``modules`` hold the models that it is made of."""
    made = root.model_json_schema(by_alias=True, ref_template="#/definitions/{model}", schema_generator=_Draft7)
    definitions = made.pop("$defs", {})
    for name, model in _models(modules).items():
        # Forms that only exist to be refused are not part of it.
        if model is root or name in definitions:
            _describe(made if model is root else definitions[name], model)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        **{key: value for key, value in made.items() if key != "title"},
        "definitions": definitions,
    }


class _Draft7(GenerateJsonSchema):
    """Without titles that only repeat a key."""

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
            # Draft 7 ignores what stands beside a reference.
            if "$ref" in entry:
                entry["allOf"] = [{"$ref": entry.pop("$ref")}]
            entry["description"] = documented[name]
    if model.model_config.get("extra") == "allow":
        _add_parameters(made)


def _add_parameters(made: dict[str, Any]) -> None:
    """The parameters of all models together; which of them a model takes is checked later."""
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
    """What the source says under each field of ``model`` and of the models that it extends."""
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
