"""Helpers to open pages of reports and comparisons in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

needed = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
"""Marks tests that need a browser."""

LOOKS = [(1280, "light"), (390, "dark")]
"""Widths of a window and colour schemes: each of them once, because a page takes seconds to draw."""

PAINTED = """canvas => {
    const { width, height } = canvas;
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    return new Set(pixels).size;
}"""
"""Script that counts the colours of a canvas; an empty canvas has one."""


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser; skips the tests if playwright is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        yield opened
        opened.close()


class Page:
    """An open report, and the errors that the browser reported."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        self.complaints: list[str] = []
        # The tests read pixels back on purpose.
        self.page.on("console", lambda said: "getImageData" in said.text or self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self._asked(asked.url))
        self.page.goto(file.as_uri())

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:", "about:")):
            self.complaints.append(f"asked for {url}")

    def charts(self) -> dict[str, Any]:
        """All charts by name; waits until they are drawn."""
        found = {}
        for section in self.page.query_selector_all("section[data-chart]"):
            section.scroll_into_view_if_needed()
            section.wait_for_selector(".canvas[data-drawn] canvas")
            found[section.get_attribute("data-chart")] = section
        return found

    def table(self, name: str) -> list[list[str]]:
        """The table below a chart, as rows of text."""
        self.page.click(f"#{name} details.numbers > summary")
        self.page.wait_for_selector(f"#{name} .numbers table")
        rows: list[list[str]] = self.page.eval_on_selector_all(
            f"#{name} .numbers table tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return rows
