"""Tables on narrow terminals do not break words or numbers."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from syncline.terminal.table import of_numbers

ROWS = [
    ("block1.attention (80 equal)", "599.9 ms", "2.407 s", "+476.9 ms", "20.7 %"),
    ("P1 nvlink reduce_scatter (halving_doubling)", "1.272 s", "4.781 s", "+743.6 ms", "40.3 %"),
]


def printed(width: int, *spare: str) -> list[str]:
    table = of_numbers("layer", "A", "B", "difference", "of all", spare=spare)
    for row in ROWS:
        table.add_row(*row)
    out = Console(file=io.StringIO(), width=width, color_system=None)
    out.print(table, crop=False)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_words_and_numbers_are_never_broken(width: int) -> None:
    said = "\n".join(printed(width))
    for row in ROWS:
        assert all(word in said.split() for word in row[0].split())
        assert all(number in said for number in row[1:])


def test_the_least_important_columns_are_left_out_first() -> None:
    assert "difference" in printed(80, "difference", "B")[0]
    narrow = printed(55, "difference", "B")
    assert "difference" not in narrow[0] and "B" in narrow[0].split()
    assert max(map(len, narrow)) <= 55
    narrower = printed(43, "difference", "B")[0].split()
    assert narrower == ["layer", "A", "of", "all"]
