"""The page of an estimate: complete, self-contained, the same every time, and drawn without complaint."""

from __future__ import annotations

import json
import re

import pytest

from syncline.jobs import estimate
from syncline.jobs.page import page
from tests.conftest import Cli
from tests.jobs.test_detail import LLAMA_70B, MIXTRAL, jobs, one
from tests.report.browser import LOOKS, PAINTED, Page, needed


def data(html: bytes):
    return json.loads(re.search(r'id="data">(.*?)</script>', html.decode(), re.DOTALL)[1])


def test_a_page_has_all_charts_and_loads_nothing():
    html = page(estimate(one()))
    charts = data(html)
    assert list(charts) == [
        "estimate_step",
        "estimate_communication",
        "pipeline",
        "estimate_memory",
        "estimate_kernels",
    ]
    assert b"http://" not in html.split(b"<script>")[0] and b"src=" not in html.split(b"<script>")[0]
    assert page(estimate(one())) == html


@pytest.mark.parametrize(
    ("changes", "said"), [({}, "schedule 1f1b"), ({"schedule": "zb-h1"}, "ZB-H1"), ({"pipeline": 1, "data": 8}, None)]
)
def test_a_page_names_the_schedule_of_a_pipeline_once(changes, said):
    facts = re.search(r'class="facts">(.*?)</p>', page(estimate(one(**changes))).decode())[1]
    assert facts.count("schedule") == (said == "schedule 1f1b")
    assert said is None or facts.count(said) == 1


def test_the_bar_of_the_page_adds_up():
    found = estimate(one())
    shown = data(page(found))["estimate_step"]["data"]["seconds"]
    assert sum(shown) == pytest.approx(found.step_s, rel=1e-4)


def test_a_job_without_pipeline_or_communication_has_no_such_charts():
    alone = one(tensor=1, sequence_parallel=False, pipeline=1, data=1, shard_group=1, micro_batches=1)
    html = page(estimate(alone))
    assert set(data(html)) == {"estimate_step", "estimate_memory", "estimate_kernels"}
    assert b"Does not fit" in html and b"No communication is exposed" in html


def test_a_long_pipeline_is_cut_and_says_so():
    html = page(estimate(one(micro_batches=2000, virtual_stages=10)))
    assert len(data(html)["pipeline"]["data"]["row"]) < 40_000
    assert b"The first 20,000 of" in html
    assert len(html) < 6_000_000


def test_names_are_escaped():
    found = estimate(one())
    object.__setattr__(found.job, "name", "<b>&")
    assert b"<b>&" not in page(found) and b"&lt;b&gt;&amp;" in page(found)


@needed
def test_the_choice_of_memory_names_the_stage_that_is_drawn(browser, tmp_path):
    """The fullest stage is drawn first, which is not always stage 0."""
    file = tmp_path / "page.html"
    # With GPipe, all stages keep all micro-batches, and the last one has logits, too.
    file.write_bytes(page(estimate(one(schedule="gpipe"))))
    fullest = data(file.read_bytes())["estimate_memory"]["data"]["fullest"]
    assert fullest == 3
    shown = Page(browser, file, *LOOKS[0])
    select = shown.charts()["estimate_memory"].query_selector("select")
    assert select.evaluate("each => each.selectedIndex") == fullest


def test_a_page_says_what_would_be_faster_or_fit():
    from syncline.jobs import faster

    slow = estimate(one(recompute="full"))
    better = faster(slow)
    text = page(slow, better=better).decode()
    assert "What would make it faster" in text and all(f"{each.key}=" in text for each in better)
    large = estimate(one(micro_batch=16))
    assert not large.fits and large.changes
    text = page(large).decode()
    assert "What would make it fit" in text and all(each.said in text for each in large.changes)


@needed
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("config", [LLAMA_70B, MIXTRAL], ids=["dense", "experts"])
def test_a_browser_draws_every_chart(browser, tmp_path, config, width, scheme):
    file = tmp_path / "page.html"
    file.write_bytes(page(estimate(jobs(config, 64, 64)[0])))
    shown = Page(browser, file, width, scheme)
    charts = shown.charts()
    assert {"estimate_step", "estimate_memory", "estimate_kernels"} <= set(charts)
    for section in charts.values():
        assert section.query_selector("canvas").evaluate(PAINTED) > 5
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.complaints == []


def test_the_commands_write_a_page(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    given = ("design", "parallel", "config.json", "--gpus", "256,512", "--price", "2", "--report", "page.html")
    found = cli(*given)
    assert found.returncode == 0, found.stderr
    html = (cli.folder / "page.html").read_bytes()
    assert b"The best candidates" in html
    frontier = data(html)["design_frontier"]["data"]
    assert frontier["frontier"] and frontier["best"] == 0
    again = cli(*given)
    assert again.returncode == 2 and "--force" in again.stderr
    assert cli(*given, "--force").returncode == 0
    assert (cli.folder / "page.html").read_bytes() == html


@pytest.mark.parametrize(("name", "words"), [("page.pdf", "ends in .html"), ("missing/page.html", "does not exist")])
def test_a_page_that_cannot_be_written_is_refused_before_the_search(cli: Cli, name, words):
    cli.write("config.json", json.dumps(LLAMA_70B))
    found = cli("design", "parallel", "config.json", "--gpus", "512", "--report", name)
    assert found.returncode in (2, 3, 4) and words in found.stderr
