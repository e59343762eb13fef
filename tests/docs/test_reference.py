"""The reference matches the code: every key, column, code and flag is described."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys

import pytest

from syncline.errors import ExitStatus
from tests.docs import faults
from tests.docs.pages import PAGES, ROOT, UPDATE, name
from tests.docs.reference import (
    DESIGN,
    DESIGN_PARTS,
    GENERATORS,
    JOB,
    JOB_PARTS,
    JOINT,
    JOINT_PARTS,
    MARKED,
    PARTS,
    SCHEMA,
    SOURCES,
    build,
    manifest,
)

GENERATED = [page for page in PAGES if MARKED.search(page.read_text("utf-8"))]
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_generated_parts_are_up_to_date(page):
    now, made = page.read_text("utf-8"), build(page)
    if UPDATE:
        page.write_text(made, "utf-8")
        return
    diff = difflib.unified_diff(now.splitlines(), made.splitlines(), "the page", "the code", lineterm="", n=1)
    assert now == made, "UPDATE=1 pytest tests/docs rewrites it:\n" + "\n".join(diff)


def test_every_generator_is_used():
    used = {found[2] for page in GENERATED for found in MARKED.finditer(page.read_text("utf-8"))}
    assert used == set(GENERATORS)


def test_every_part_of_the_schema_is_described():
    text = (REFERENCE / "scenario.md").read_text("utf-8")
    described = {found[3] for found in MARKED.finditer(text) if found[2] == "keys"}
    assert described == {"Scenario", *SCHEMA["definitions"]}
    headings = set(re.findall(r"^#+ (.+)$", text, re.M))
    assert set(PARTS) == set(SCHEMA["definitions"])
    assert {heading for heading, _ in PARTS.values()} <= headings


def test_every_part_of_a_design_is_described():
    text = (REFERENCE / "design.md").read_text("utf-8")
    described = {found[3] for found in MARKED.finditer(text) if found[2] == "design"}
    assert described == {"Spec", *DESIGN["definitions"]}
    assert set(DESIGN_PARTS) == set(DESIGN["definitions"])
    assert {heading for heading, _ in DESIGN_PARTS.values()} <= set(re.findall(r"^#+ (.+)$", text, re.M))


def test_every_part_of_a_joint_design_is_described():
    text = (REFERENCE / "design.md").read_text("utf-8")
    described = {found[3] for found in MARKED.finditer(text) if found[2] == "joint"}
    assert described == {"Joint", *JOINT["definitions"]}
    assert set(JOINT_PARTS) == set(JOINT["definitions"])
    assert {heading for heading, _ in JOINT_PARTS.values()} <= set(re.findall(r"^#+ (.+)$", text, re.M))


def test_every_part_of_a_job_file_is_described():
    text = (REFERENCE / "job.md").read_text("utf-8")
    described = {found[3] for found in MARKED.finditer(text) if found[2] == "job"}
    assert described == {"JobFile", *JOB["definitions"]}
    assert set(JOB_PARTS) == set(JOB["definitions"])
    assert {heading for heading, _ in JOB_PARTS.values()} <= set(re.findall(r"^#+ (.+)$", text, re.M))


def test_sources_belong_to_existing_keys():
    for source in SOURCES:
        part, _, key = source.partition(".")
        assert key in SCHEMA["definitions"][part]["properties"], source


def test_every_code_has_its_section():
    from syncline import _core

    text = (REFERENCE / "errors.md").read_text("utf-8")
    sections = {section.split(":", 1)[0]: section for section in re.split(r"^### ", text, flags=re.M)[1:]}
    assert sorted(sections) == [code for code, *_ in _core.codes()]
    for code, _, title, meaning, status in _core.codes():
        section = " ".join(sections[code].split())
        assert section.startswith(f"{code}: {title} "), f"{code} has another title: {title}"
        assert meaning in section, f"{code} means: {meaning}"
        assert f"Exit status {status}." in section, f"{code} ends with exit status {status}"
        assert re.search(r"\*\*Remedy\.\*\* \w", section), f"{code} has no remedy"


def test_every_exit_status_is_listed():
    text = (REFERENCE / "cli.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.M))
    for status in ExitStatus:
        assert status.meaning.startswith(listed.pop(str(status)).strip())
    assert not listed


def test_every_file_of_a_run_is_described():
    text = (REFERENCE / "results.md").read_text("utf-8")
    for file in manifest()["files"]:
        assert f"`{file['name']}`" in text, file["name"]


def test_every_table_is_in_the_list_of_files():
    from syncline import _core

    text = (REFERENCE / "results.md").read_text("utf-8")
    listed = text[text.index("## Files") : text.index("## Rules of columns")]
    tables = {table for table, *_ in _core.result_names()} - {"summary"}
    assert {table for table in tables if f"`{table}.parquet`" not in listed} == set()


def test_every_key_of_the_summary_is_described():
    import syncline

    text = (REFERENCE / "results.md").read_text("utf-8")
    small = {"workload.bytes": "64KiB"}
    result = syncline.simulate(ROOT / "examples" / "all-reduce-3d" / "scenario.yaml", set=small)
    values = json.loads(result._tables.summary())
    assert all(f"`{key}`" in text for key in values), "a key of summary.json is not described"
    assert all(f"`dims[].{key}`" in text for key in values["dims"][0])


def test_every_fault_line_is_in_the_table():
    tests = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    tell = re.compile(r'(?m)^\s*(?:"""|/// )Fault: .+ -> ')
    found = {str(each.relative_to(ROOT)) for each in tests if tell.search(each.read_text("utf-8"))}
    assert found <= {*faults.PLACES, "tests/docs/faults.py"}, "files with fault lines that `PLACES` does not list"
    for file, (part, _) in faults.PLACES.items():
        lines = (ROOT / file).read_text("utf-8").count("Fault: ")
        tests = {each.test for each in faults.read(part)}
        named = re.findall(r"(?:def test_|fn )(\w+)\(", (ROOT / file).read_text("utf-8"))
        assert lines and len(tests & set(named)) >= lines, file


def test_important_faults_are_tested():
    tried = " ".join(each.what for part in {part for part, _ in faults.PLACES.values()} for each in faults.read(part))
    for word in (
        *("killed", "stopped", "slowed down by a factor of 10", "one way or both", "middle of a frame", "garbage"),
        "arrives twice",
        *("second process of a rank", "another world size", "another version", "started again", "replayed"),
    ):
        assert word in tried, word


def test_every_flag_of_the_drop_in_is_described():
    text = (REFERENCE / "astra-sim.md").read_text("utf-8")
    from syncline.cli.commands.astra_sim import _FLAGS, _IGNORED

    for flag in (*_FLAGS, *_IGNORED):
        assert f"--{flag}" in text, flag


def test_help_of_the_drop_in_names_every_flag():
    process = subprocess.run(
        [sys.executable, "-m", "syncline", "astra-sim", "--help"], capture_output=True, text=True, check=True
    )
    for flag in re.findall(r"--[a-z-]+", process.stdout):
        assert flag in (REFERENCE / "astra-sim.md").read_text("utf-8"), flag
