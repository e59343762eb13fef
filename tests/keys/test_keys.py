"""No key of a scenario is silently ignored: another value changes the outcome, or gives an error or a warning."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import syncline
from syncline.config.scenario import Scenario
from tests.keys.bases import BASES
from tests.keys.table import ELSEWHERE, TABLE, Case, Gone

ROOT = Path(__file__).parents[2]
SHOWN = {("Scenario", "name"), ("Scenario", "trace"), ("PriceList", "source"), ("PriceList", "year")}
"""Keys that affect only the report and the trace."""


def _models(annotation: Any) -> set[type[BaseModel]]:
    """The models (mappings of keys) that a type annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return set().union(*(_models(each) for each in get_args(annotation)))


def _all() -> set[tuple[str, str]]:
    """Every key of a scenario, with the model of its mapping."""
    found: set[tuple[str, str]] = set()
    seen: set[type[BaseModel]] = set()
    ahead: list[type[BaseModel]] = [Scenario]
    while ahead:
        model = ahead.pop()
        # Some models exist only to give better errors.
        if model in seen or model.__name__.startswith("_"):
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            found.add((model.__name__, field.alias or name))
            for mentioned in (field.annotation, *field.metadata):
                ahead.extend(_models(mentioned))
    return found


KEYS = sorted(_all())


def test_every_key_has_a_case() -> None:
    listed = {(model, key) for model, cases in TABLE.items() for key in cases}
    excused = {(model, key) for model, key in KEYS if (model, "*") in ELSEWHERE or (model, key) in ELSEWHERE}
    assert not set(KEYS) - listed - excused
    for reason in ELSEWHERE.values():
        assert (ROOT / reason.partition(":")[0]).exists(), reason


def _set(scenario: dict[str, Any], at: str, value: Any) -> None:
    """Sets or removes the value at a path."""
    node: Any = scenario
    *parents, last = at.strip(".").split(".")
    for part, following in zip(parents, [*parents[1:], last], strict=bool(parents)):
        missing: Any = [] if following.isdigit() else {}
        if isinstance(node, list):
            index = int(part)
            node.extend({} for _ in range(index + 1 - len(node)))
            node = node[index]
        else:
            if not isinstance(node.get(part), (dict, list)):
                node[part] = missing
            node = node[part]
    if isinstance(node, list):
        node[int(last) : int(last) + 1] = [] if isinstance(value, Gone) else [value]
    elif isinstance(value, Gone):
        node.pop(last, None)
    else:
        node[last] = value


def _scenario(case: Case, key: str, *, changed: bool) -> dict[str, Any]:
    scenario = copy.deepcopy(BASES[case.base])
    for at, value in case.also.items():
        _set(scenario, at, copy.deepcopy(value))
    if changed:
        for at, value in case.swapped.items():
            _set(scenario, at, copy.deepcopy(value))
        _set(scenario, f"{case.at}.{key}", copy.deepcopy(case.value))
    return scenario


@cache
def _outcome(text: str, *, shown: bool) -> str:
    """The summary, tables and warnings, or the errors, as text. ``shown`` adds the report and the trace."""
    try:
        result = syncline.simulate(json.loads(text))
    except syncline.SynclineError as error:
        return f"refused: {error}"
    tables = {name: result.table(name) for name in result.tables}
    outcome = repr((result.summary, [str(warning) for warning in result.warnings], tables))
    if not shown:
        return outcome
    with TemporaryDirectory() as folder:
        files = result.save(Path(folder) / "run")
        kept = [name for name in files if name == "report.html" or name.startswith("trace")]
        assert len(kept) > 1, files
        return outcome + "".join(str((Path(folder) / "run" / name).read_bytes()) for name in kept)


def test_an_outcome_is_the_same_every_time() -> None:
    text = json.dumps(BASES["prices"])
    assert _outcome.__wrapped__(text, shown=True) == _outcome.__wrapped__(text, shown=True)


@pytest.mark.parametrize(("model", "key"), [pair for pair in KEYS if pair[1] in TABLE.get(pair[0], {})])
def test_every_key_has_an_effect(model: str, key: str) -> None:
    case = TABLE[model][key]
    shown = (model, key) in SHOWN or model == "Trace"
    texts = [json.dumps(_scenario(case, key, changed=changed)) for changed in (False, True)]
    before, after = (_outcome(text, shown=shown) for text in texts)
    # If the unchanged scenario were refused, the test could not detect a key without effect.
    assert not before.startswith("refused"), before
    assert before != after
