"""Papers name their algorithms, so no scenario of an experiment leaves the choice to the simulator."""

from __future__ import annotations

import json

import pytest

from syncline import _core
from syncline.config.load import load
from tests.conftest import ROOT

WITHOUT = {"hier2021/fig12/example.yaml": "whose subject is its price"}
SCENARIOS = [
    path
    for path in sorted((ROOT / "experiments").rglob("*.yaml"))
    if "schema: syncline/1\n" in path.read_text("utf-8")
    and path.relative_to(ROOT / "experiments").as_posix() not in WITHOUT
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.parent.name + "/" + path.stem)
def test_every_algorithm_is_named(scenario):
    plans = json.loads(load(str(scenario), {}).call(_core.show, "plan"))
    chosen = {phase["algorithm"] for plan in plans for phase in plan["phases"] if phase["chosen"]}
    assert plans and not chosen
