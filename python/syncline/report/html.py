"""The answer in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.report.answer import plain

if TYPE_CHECKING:
    from syncline.result import Result


def fragment(result: Result) -> str:
    """The first screen, escaped, in a block that keeps its columns."""
    return f'<pre style="line-height:1.2">{escape(plain(result, 100))}</pre>'
