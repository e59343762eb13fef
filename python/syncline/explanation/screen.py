"""Lays out what ``explain`` prints: a run section by section, and the meanings of names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from syncline.explanation.meanings import SUMMARY
from syncline.report import subject
from syncline.terminal.prose import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from syncline.explanation.explanation import Section
    from syncline.explanation.meanings import Meaning
    from syncline.result import Result


def story(result: Result, sections: Sequence[Section], width: int) -> Iterator[RenderableType]:
    """The explanation of a run, for a terminal of ``width`` columns."""
    yield Text.assemble((subject.name(result), "bold"), (f"  {result.folder or ''}", "dim"))
    for section in sections:
        yield ""
        yield Text(section.title, "bold")
        for paragraph in section.paragraphs:
            yield _paragraph(paragraph, width)


def _paragraph(text: str, width: int) -> RenderableType:
    """A paragraph; if it begins with a dash, it is indented as an entry of a list."""
    return Text(lines(text, width, "  ", "    " if text.startswith("- ") else None), no_wrap=True)


def meanings(what: str, found: Sequence[Meaning], width: int) -> Iterator[RenderableType]:
    """All meanings of a name; for a table or file, all of its columns."""
    if what.partition(".")[0] == found[0].table and "." not in what.removesuffix(".parquet").removesuffix(".json"):
        yield Text(found[0].file, "bold")
        yield _paragraph(_row(found[0]), width)
        yield ""
        table = Table.grid(padding=(0, 2))
        for each in found:
            table.add_row(Text(each.name, "bold"), _type(each).partition(":")[0], each.meaning.rstrip("."))
        yield table
        return
    if len(found) > 1:
        yield Text.assemble((what, "bold"), f" is in {len(found)} places.")
    for each in found:
        if len(found) > 1:
            yield ""
        kind = f"  {_type(each)}" + (f", {_unit(each)}" if each.unit else "")
        yield Text.assemble((each.full_name, "bold"), (kind, "dim"))
        page, heading = each.page
        for paragraph in (each.meaning, _row(each), f'It is in {each.file}. More: {page}, "{heading}".'):
            yield _paragraph(f"{paragraph.rstrip('.')}.", width)


def _type(each: Meaning) -> str:
    return each.type.replace("optional_", "optional ")


def _unit(each: Meaning) -> str:
    return "a fraction from 0 to 1" if each.unit == "fraction" else f"in {each.unit}"


def _row(each: Meaning) -> str:
    if each.table == SUMMARY:
        return each.row
    return f"Each row is {each.row[:1].lower()}{each.row[1:]}"
