"""Numbers about predictions in sentences match the figures that the repository keeps."""

from __future__ import annotations

import re

from tests.docs.accuracy import measured_steps
from tests.docs.pages import ROOT


def test_the_readme_says_with_how_many_measured_steps_predictions_are_compared():
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert re.findall(r"(\d+) published measurements of training steps", text) == [str(measured_steps())]
