"""``syncline.codes`` lists the codes of the core. ``UPDATE=1`` writes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import syncline.codes
from syncline import _core
from syncline.codes import Code


def test_python_has_the_codes_of_the_core() -> None:
    members = "".join(
        f'    {_constant(name)} = "{code}"\n    """{title[0].upper()}{title[1:]}."""\n'
        for code, name, title, *_ in _core.codes()
    )
    file = Path(syncline.codes.__file__)
    text = file.read_text("utf-8")
    head = text.partition('a diagnostic reports."""\n')
    expected = f"{head[0]}{head[1]}\n{members}"
    if os.environ.get("UPDATE"):
        file.write_text(expected, "utf-8")
    assert text == expected, "run again with UPDATE=1"


def test_a_code_is_its_text() -> None:
    assert f"{Code.BAD_VALUE}" == "SL0102" == Code.BAD_VALUE


def _constant(name: str) -> str:
    """``UnknownKey`` as ``UNKNOWN_KEY``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
