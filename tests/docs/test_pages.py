"""Links on pages have targets, and pages contain nothing specific to one machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)


def prose(page):
    """A page without its fenced blocks."""
    return _FENCED.sub("", page.read_text("utf-8"))


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_existing_files_and_headings(page):
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), f"{target} is not a secure link"
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_relative_to(ROOT), f"{target} leaves the project"
        assert linked.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(linked), f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_contain_nothing_specific_to_a_machine(page):
    text = page.read_text("utf-8")
    for word in ("/home/", "/tmp/", "localhost", f"{Path.home()}/", str(ROOT)):
        assert word not in text, f"{word} is a place of one machine"
    assert "\t" not in text, "a tab"
    for number, line in enumerate(prose(page).splitlines(), start=1):
        assert line == line.rstrip() or line.endswith("  "), f"line {number} ends in space"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_names_exist(page):
    for path in re.findall(r"`((?:crates|python|tests|examples|docs|\.ci)/[\w./-]+)`", prose(page)):
        assert (ROOT / path).exists(), f"{path} does not exist"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "internals").glob("*.md")), ids=name)
def test_sources_that_a_page_names_without_their_folders_exist(page):
    tops = ("crates", "python", "tests", "experiments")
    sources = [path for top in tops for path in (ROOT / top).rglob("*")]
    for named in re.findall(r"`([\w/-]+\.(?:rs|py))`", prose(page)):
        assert any(source.match(named) for source in sources), f"{named} does not exist"


def test_every_page_can_be_reached():
    """Links from README.md or docs/index.md lead to every page."""
    reached, ahead = set(), [ROOT / "README.md", ROOT / "docs" / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        for target in _LINK.findall(prose(page)):
            path = target.partition("#")[0]
            if path.endswith(".md") and not path.startswith("http"):
                ahead.append((page.parent / path).resolve())
    lost = [name(page) for page in PAGES if page not in reached]
    assert not lost, f"no page links to {', '.join(lost)}"


def test_the_site_lists_every_page():
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert listed == pages


def test_the_readme_states_the_requirements():
    text = (ROOT / "README.md").read_text("utf-8")
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["rust-version"]
    python = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    assert f"`cargo` {rust} or newer" in text
    assert f"Python {python.removeprefix('>=')} or newer" in text
