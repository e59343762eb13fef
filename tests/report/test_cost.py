"""Cost in every output: screen, summary, tables, report, comparisons, `explain`, `show`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import syncline
from syncline.quantity import per_million
from syncline.report.html.charts import CHARTS
from syncline.report.html.page import report
from syncline.report.html.source import Source
from tests.conftest import RING, Cli

POWER = {
    "list": "hier2021",
    "components": {"switch": {"usd_per_GBps": 24, "watts_per_GBps": 0.5}, "nic": {"usd_per_GBps": 48, "watts": 20}},
}


def run(rate: str = "10GB/s", prices: Any = "hier2021", **more: Any) -> syncline.Result:
    layer = {
        "name": "layer",
        "forward": "1ms",
        "weight_grad": "2ms",
        "exchanges": [{"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "3MB"}],
    }
    sections = {} if prices is None else {"prices": prices}
    return syncline.simulate(
        workload={"layers": [layer], "iterations": 2},
        fabric={"shape": "Switch(3)", "rate": rate, "latency": "1us"},
        **sections,
        **more,
    )


def test_performance_per_dollar_is_iterations_a_second_over_the_price() -> None:
    found = run()
    summary = found.summary
    assert (summary.prices, summary.cost_usd, summary.cost_per_npu_usd, summary.power_w) == (
        "hier2021",
        2220,
        740,
        None,
    )
    assert summary.iterations_per_s_per_usd == pytest.approx(1 / summary.step_time_s / 2220, rel=1e-12)
    assert summary.iterations_per_s_per_w is None
    costs = found.table("costs")
    assert sum(costs["cost_usd"]) == 2220
    assert costs["component"] == ["nic", "switch", "link"]
    assert costs["power_w"] == [None, None, None]


def test_power_is_reported_if_the_list_has_it() -> None:
    summary = run(prices=POWER).summary
    # Three NICs of 20 W each, and 3 x 10 GB/s at 0.5 W per GB/s.
    assert summary.power_w == 75
    assert summary.iterations_per_s_per_w == pytest.approx(1 / summary.step_time_s / 75, rel=1e-12)
    assert "cost: the list gives no power for: link" in summary.notes
    assert "75 W" in str(run(prices=POWER))


def test_without_prices_there_is_no_cost() -> None:
    found = run(prices=None)
    assert found.summary.cost_usd is None
    assert not [key for key in found.summary.as_dict() if "usd" in key or "prices" in key or key.endswith("_w")]
    assert "costs" not in found.tables
    assert "Cost" not in str(found)
    assert CHARTS["cost"](Source(found)) is None


def test_prices_change_no_other_number() -> None:
    with_prices, without = run().summary.as_dict(), run(prices=None).summary.as_dict()
    assert {key: with_prices[key] for key in without} == without


def test_the_screen_shows_cost_and_performance() -> None:
    found = run()
    worth = 1 / found.summary.step_time_s / 2220 * 1e6
    text = " ".join(str(found).split())
    assert "Cost: $2,220, $740 per NPU (prices of hier2021)." in text
    assert f"Performance: {worth:.0f} iterations/s per $1 M." in text


def test_each_of_several_jobs_has_its_own_performance_per_dollar() -> None:
    jobs = [
        {"name": name, "workload": {"collective": "all_reduce", "bytes": size}, "placement": npus}
        for name, size, npus in (("one", "1MB", "0-1"), ("two", "2MB", "2-3"))
    ]
    found = syncline.simulate(jobs=jobs, fabric={"shape": "Switch(4)", "rate": "10GB/s"}, prices="hier2021")
    summary = found.summary
    assert summary.iterations_per_s_per_usd is None
    for job in summary.jobs:
        assert job.iterations_per_s_per_usd == pytest.approx(1 / job.step_time_s / summary.cost_usd, rel=1e-12)
    assert found.table("jobs")["iterations_per_s_per_usd"] == [job.iterations_per_s_per_usd for job in summary.jobs]
    assert "Performance: one " in " ".join(str(found).split())


def test_a_run_without_a_step_has_a_price_and_no_performance() -> None:
    found = run(limits={"sim_time": "10us"})
    assert found.summary.iterations == 0
    assert found.summary.cost_usd == 2220
    assert found.summary.iterations_per_s_per_usd is None


def test_the_report_has_the_bill() -> None:
    found = run()
    chart = CHARTS["cost"](Source(found))
    assert chart is not None
    assert chart.data["component"] == ["NIC", "switch", "link"]
    assert chart.data["usd"] == [1440, 720, 60]
    assert chart.data["total"] == 2220
    assert "64.9 % of it is NIC: $1,440." in chart.finding
    page = report(found).decode()
    assert "What the network costs" in page
    assert 'data-key="cost_usd" data-value="2220.0">$2,220<' in page
    assert f"<dd class='more'>{per_million(found.summary.iterations_per_s_per_usd or 0.0)}<" in page
    assert found.plot("cost")


def test_two_runs_are_compared_by_performance_per_dollar() -> None:
    slow, fast = run(), run("20GB/s")
    found = syncline.compare(slow, fast)
    pairs = {each["key"]: each for each in found.json()["cost_and_performance"]}
    assert pairs["cost_usd"]["ratio"] == 2
    ratio = slow.summary.step_time_s / fast.summary.step_time_s / 2
    assert pairs["iterations_per_s_per_usd"]["ratio"] == pytest.approx(ratio, rel=1e-9)
    assert (
        f"B's network costs $4,440 instead of $2,220 (2x); a dollar buys {ratio:.4g}x the training in B."
        in found.answer
    )
    from syncline.comparison.page import page
    from syncline.comparison.screen import as_text

    assert "cost of the network" in as_text(found)
    assert b"iterations/s per $1 M" in page(found)
    # A change to another list is reported by name, not key by key.
    changes = syncline.compare(slow, run(prices="topoopt2022")).changes
    assert changes is not None
    assert [(each.key, each.a, each.b) for each in changes] == [("prices", "hier2021", "topoopt2022")]


def test_commands_show_the_cost_of_a_scenario_and_a_run(tmp_path: Any) -> None:
    cli = Cli(tmp_path)
    cli.write("ring.yaml", RING)
    done = cli("show", "fabric", "ring.yaml", "--set", "prices=hier2021", "--json")
    bill = json.loads(done.stdout)["fabric"]["bill"]
    assert bill["items"] == [
        {
            "component": "link",
            "part": "ring",
            "description": "25 GB/s at $2 a GB/s",
            "quantity": 4,
            "unit_usd": 50.0,
            "usd": 200.0,
            "watts": None,
        }
    ]
    assert "costs $200" in cli("show", "fabric", "ring.yaml", "--set", "prices=hier2021").stdout
    assert "bill" not in json.loads(cli("show", "fabric", "ring.yaml", "--json").stdout)["fabric"]
    assert cli("simulate", "ring.yaml", "--set", "prices=hier2021", "--out", "run", "--quiet").returncode == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert summary["cost_usd"] == 200
    # A run's folder contains the whole list; another list may replace it.
    again = cli("simulate", "run", "--set", "prices=topoopt2022", "--out", "again", "--json")
    assert json.loads(again.stdout)["summary"]["prices"] == "topoopt2022"
    told = cli("explain", "run").stdout
    assert "What the network costs" in told
    assert "Cost: $200, $50 per NPU" in told
    meaning = cli("explain", "iterations_per_s_per_usd").stdout
    assert "docs/how-to/cost.md" in meaning
