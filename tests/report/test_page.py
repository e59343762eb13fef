"""The report as a file: its text, its data, and its protection against injected scripts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.report.html.charts import CHARTS
from syncline.report.html.layers import _exposed
from syncline.report.html.page import report
from tests.conftest import RING, Cli
from tests.report.runs import HOSTILE, RARE, SMALL, embedded, resnet


@pytest.fixture(scope="module")
def small() -> syncline.Result:
    return syncline.simulate(SMALL)


def test_the_manifest_lists_the_report(tmp_path: Path, small: syncline.Result) -> None:
    assert "report.html" in small.save(tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_bytes()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    entry = next(each for each in manifest["files"] if each["name"] == "report.html")
    assert (entry["bytes"], entry["sha256"]) == (len(page), hashlib.sha256(page).hexdigest())


def test_the_same_run_gives_the_same_bytes(small: syncline.Result) -> None:
    assert report(small) == report(syncline.simulate(SMALL))


def test_the_report_is_left_out_on_request(cli: Cli, ring: str) -> None:
    assert cli("simulate", ring, "--no-report").returncode == 0
    assert not (cli.folder / "runs/ring/report.html").exists()
    again = cli("simulate", "runs/ring", "--out", "again")
    assert (again.returncode, (cli.folder / "again/report.html").exists()) == (0, False)
    assert cli("simulate", ring, "--set", "report=true", "--out", "with").returncode == 0
    assert (cli.folder / "with/report.html").is_file()


def test_names_do_not_become_markup(small: syncline.Result) -> None:
    page = report(small).decode()
    assert HOSTILE not in page
    assert "<img" not in page.replace(" ", "")
    assert page.count("<script") == page.count("</script>") == 2
    assert embedded(page)["layers"]["data"]["views"][0]["layer"] == [HOSTILE, "$second ${name}", "third & <b>last</b>"]


def test_only_the_bundled_script_may_run(small: syncline.Result) -> None:
    page = report(small).decode()
    policy = re.search(r"script-src '([^']+)'", page)
    script = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = hashlib.sha256(script.encode()).digest()
    assert policy and policy[1] == "sha256-" + base64.b64encode(digest).decode()
    assert "default-src 'none'" in page


def test_the_report_loads_nothing_from_elsewhere(small: syncline.Result) -> None:
    page = report(small).decode()
    tags = re.findall(r"<[a-z][^>]*>", page[: page.index('<script type="application/json"')])
    assert tags
    assert not [tag for tag in tags if re.search(r"(?:src|href)=\"?[^\"#]", tag)]
    assert "url(" not in page[: page.index("<body>")]


def test_key_figures_match_the_summary(small: syncline.Result) -> None:
    page = report(small).decode()
    found = {key: float(value) for key, value in re.findall(r'data-key="(\w+)" data-value="([^"]+)"', page)}
    summary = json.loads(small._tables.summary())
    assert found
    assert found == {key: summary[key] for key in found}


def test_charts_contain_the_numbers_of_the_tables() -> None:
    result = resnet()
    data = {name: chart["data"] for name, chart in embedded(report(result).decode()).items()}
    layers, summary = result.table("layers"), result.summary
    assert data["layers"]["views"][0]["exposed"] == pytest.approx(layers["exposed_communication_s"], rel=1e-5)
    assert data["communication"]["views"][0]["parts"]["weight_grad"] == pytest.approx(
        layers["communication_s"], rel=1e-5
    )
    assert data["dimensions"]["whole"] == [dim.utilization for dim in summary.dims]
    # Blocks of compute add up to the time that rank 0 computes, and none ends after the run.
    timeline = data["timeline"]
    unit = timeline["unit_ps"] * 1e-12
    compute = sum(length for track, length in zip(timeline["track"], timeline["duration"], strict=True) if track == 0)
    assert compute * unit == pytest.approx(result.table("ranks")["compute_s"][0], rel=1e-4)
    starts = [sum(timeline["step"][: at + 1]) for at in range(len(timeline["step"]))]
    last = max(start + length for start, length in zip(starts, timeline["duration"], strict=True))
    assert last * unit == pytest.approx(summary.total_time_s, rel=1e-6)
    # The means of all phases are those of the table, weighted by messages.
    phases = result.table("phases")
    first = [row for row, phase in enumerate(phases["phase"]) if phase == 1]
    messages = sum(phases["messages"][row] for row in first)
    network = sum(phases["network_delay_s"][row] * phases["messages"][row] for row in first) / messages
    assert data["phases"]["rows"][0][1][2] == pytest.approx(network, rel=1e-5)
    # The busiest link's load is the busy share of a link in the `queued` model.
    load = max(max(strip["places"]) for strip in data["fabric"]["strips"])
    assert load == pytest.approx(max(result.table("links")["utilization"]), rel=1e-2)


def test_an_ordinary_report_is_small() -> None:
    assert len(report(resnet())) < 1_000_000


def test_a_run_that_was_cut_short_says_so_first(tmp_path: Path) -> None:
    result = syncline.simulate(SMALL, limits={"events": 200})
    assert result.summary.ended == "limit_reached"
    page = report(result).decode()
    assert page.index("Cut short") < page.index("The bottleneck" if "The bottleneck" in page else 'id="answer"')
    assert "No iteration was completed" in page


def test_a_job_without_compute_has_the_charts_of_communication(cli: Cli) -> None:
    result = syncline.simulate(cli.folder / cli.write("ring.yaml", RING))
    page = report(result).decode()
    assert "The communication takes" in page
    assert set(embedded(page)) == {
        "timeline",
        "collectives",
        "phases",
        "dimensions",
        "activity",
        "fabric",
        "critical_path",
    }


def test_activity_and_critical_path_show_compute_and_dimensions(small: syncline.Result) -> None:
    data = embedded(report(small).decode())
    assert [lane["name"] for lane in data["activity"]["data"]["lanes"]] == ["compute", "dim1", "dim2"]
    path = data["critical_path"]
    whole = small.summary.total_time_s
    assert sum(seconds for *_, seconds in path["data"]["sums"]) == pytest.approx(whole)
    # Some compute overlaps with the communication on the critical path.
    compute = sum(seconds for kind, _, seconds in path["data"]["sums"] if kind == "compute")
    assert 0 < compute < small.summary.compute_s


def test_a_dimension_called_compute_has_a_lane_of_its_own() -> None:
    fabric = {"shape": "Ring(4)_Switch(2)", "rate": "25GB/s", "names": ["compute", "rail"]}
    result = syncline.simulate(workload=SMALL["workload"], compute="given", fabric=fabric)
    found = embedded(report(result).decode())["activity"]
    lanes = [(lane["name"], lane.get("dimension")) for lane in found["data"]["lanes"]]
    assert lanes == [("compute", None), ("compute", 0), ("rail", 1)]
    compute, links = found["data"]["lanes"][:2]
    assert compute["mean"] != links["mean"]
    # Without a task of compute, the dimension is not taken for it.
    result = syncline.simulate(workload={"collective": "all_reduce", "bytes": "1MB"}, fabric=fabric)
    page = report(result).decode()
    found = embedded(page)["activity"]
    assert found["title"] == "The network over time"
    assert "compute carries " in found["finding"]
    assert "whose compute is busy" not in page


def test_dimensions_have_the_same_colour_in_every_chart() -> None:
    fabric = {"shape": "Ring(4)_Ring(1)_Switch(2)", "rate": "25GB/s"}
    for workload in ({"collective": "all_reduce", "bytes": "1MB"}, SMALL["workload"]):
        result = syncline.simulate(workload=workload, compute="given", fabric=fabric)
        data = embedded(report(result).decode())
        places = {lane["name"]: lane.get("dimension") for lane in data["activity"]["data"]["lanes"]}
        of_timeline = data["timeline"]["data"]["tracks"][6:]
        computes = {"compute": None} if "layers" in workload else {}
        assert places == {**computes, "dim1": of_timeline.index("dim1"), "dim3": of_timeline.index("dim3")}
        assert ("Compute and" in data["activity"]["title"]) == bool(computes)


class TestWaiting:
    """The sentence about the layers that compute waits for."""

    def finding(self, **exposed: float) -> str:
        table = {
            "layer": list(exposed),
            "compute_s": [1e-3] * len(exposed),
            "exposed_communication_s": list(exposed.values()),
        }
        return _exposed(table).partition(" Compute is longest in")[0]

    def test_most_of_the_wait_is_for_one_layer(self) -> None:
        start = "Compute waits 10 ms per step for the communication of 2 layers: "
        assert self.finding(a=9e-3, b=1e-3, c=0.0) == f"{start}most of it, 90.0 %, is for a."
        assert self.finding(a=5e-3, b=5e-3) == f"{start}50.0 % for each."

    def test_the_wait_is_spread_over_layers(self) -> None:
        start = "Compute waits 10 ms per step for the communication of 3 layers: "
        assert self.finding(a=4e-3, b=3.5e-3, c=2.5e-3) == f"{start}at most 40.0 % for one of them."

    def test_equal_layers_are_merged(self) -> None:
        blocks = {f"b.{at}.{part}": each for at in range(80) for part, each in (("q", 1e-3), ("k", 2e-3))}
        start = "Compute waits 250 ms per step for the communication of 161 layers: at most 4.0 % for one of them; "
        assert self.finding(head=1e-2, **blocks) == f"{start}most of it, 64.0 %, is for b.0.k (80 equal)."
        assert self.finding(**{f"l{at}": 1e-3 for at in range(3)}).endswith("of 3 layers: 33.3 % for each.")


def test_the_timeline_includes_slow_ranks() -> None:
    result = syncline.simulate(SMALL, faults=[{"rank": 5, "factor": 2}])
    assert embedded(report(result).decode())["timeline"]["data"]["ranks"] == [0, 5]


def test_a_job_of_one_collective_names_it_once() -> None:
    fabric = {"shape": "Ring(4)_Switch(2)", "rate": "25GB/s"}
    result = syncline.simulate(workload={"collective": "all_reduce", "bytes": "1MB"}, fabric=fabric)
    labels = set(embedded(report(result).decode())["timeline"]["data"]["labels"])
    assert {"all_reduce 1MB", "all_reduce 1MB reduce_scatter", "all_reduce 1MB all_gather"} <= labels
    assert not [label for label in labels if "other" in label or label.count("all_reduce") > 1]


def test_large_fabrics_are_drawn_by_groups() -> None:
    fabric = {"shape": "Ring(8)_FC(8)_Switch(16)", "rate": "25GB/s", "latency": "1us"}
    result = syncline.simulate(workload={"collective": "all_reduce", "bytes": "1MiB"}, fabric=fabric)
    chart = embedded(report(result).decode())["fabric"]["data"]
    assert chart["groups"]
    assert {edge[2] for edge in chart["edges"]} == {0, 1, 2}
    assert len(chart["edges"]) == 8 * 2 + 8 * 7 + 16 * 2
    assert [strip["links"] for strip in chart["strips"]] == [2048, 7168, 2048]


def _hierarchy(algorithm: str, size: int) -> dict[str, Any]:
    """The drawing of a fabric of 64 NPUs times ``size``. The run lists links individually if there are at most
    65,536."""
    dims = [
        {"name": "ring", "shape": "ring", "size": 8},
        {"name": "fc", "shape": "fully_connected", "size": 8},
        {"name": "switch", "shape": "switch", "size": size},
    ]
    fabric = {"dims": [{**dim, "rate": "25GB/s", "latency": "1us"} for dim in dims]}
    plans = {"algorithms": {"fc": {"reduce_scatter": algorithm, "all_gather": algorithm}}, "chunks": 1}
    workload = {"collective": "all_reduce", "bytes": "64MiB"}
    result = syncline.simulate(workload=workload, fabric=fabric, collectives=plans)
    found: dict[str, Any] = embedded(result.plot("fabric").html)["fabric"]["data"]
    return found


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling"])
def test_groups_are_drawn_equally_if_links_are_listed_by_class(algorithm: str) -> None:
    small, large = (
        {edge[:3]: edge[3] for edge in map(tuple, _hierarchy(algorithm, size)["edges"]) if edge[2] < 2}
        for size in (16, 128)
    )
    assert small.keys() == large.keys()
    assert len(small) == 8 * 2 + 8 * 7
    # The load differs, but the same pairs communicate in the group of all-to-all links.
    assert {edge for edge, load in small.items() if load} == {edge for edge, load in large.items() if load}


def test_groups_too_large_for_a_drawing_are_described_in_words() -> None:
    chart = _hierarchy("direct", 128)
    assert chart["words"] == ["", "", "128 on a switch"]
    assert {edge[2] for edge in chart["edges"]} == {0, 1}


@pytest.mark.parametrize(
    ("shape", "groups", "dims"),
    [
        ("Ring(1)_FC(4)", False, {1}),
        ("Ring(4)_FC(2)_Switch(3)_Ring(3)", True, {0, 1, 2, 3}),
        ("FC(65)_Ring(4)", True, {1}),
    ],
)
def test_a_fabric_is_drawn_with_its_dimensions(shape: str, groups: bool, dims: set[int]) -> None:
    fabric = {"shape": shape, "rate": "25GB/s"}
    result = syncline.simulate(workload={"collective": "all_gather", "bytes": "1kB"}, fabric=fabric)
    chart = embedded(result.plot("fabric").html)["fabric"]["data"]
    assert (chart["groups"], {edge[2] for edge in chart["edges"]}) == (groups, dims)
    assert len(chart["sizes"]) == shape.count("_") + 1


def test_switches_that_join_the_same_npus_are_drawn_as_one() -> None:
    dims = [{"name": "node", "shape": "switch", "size": 4, "switches": 3, "rate": "25GB/s"}]
    result = syncline.simulate(workload={"collective": "all_gather", "bytes": "1MB"}, fabric={"dims": dims})
    edges = embedded(result.plot("fabric").html)["fabric"]["data"]["edges"]
    assert {edge[0] for edge in edges} == {"switches 0-2", *(f"NPU {number}" for number in range(4))}
    assert {edge[4] for edge in edges} == {3}


def test_jobs_without_time_have_a_report() -> None:
    result = syncline.simulate(workload={"layers": [{"name": "nothing"}]}, fabric={"shape": "Ring(2)", "rate": "1GB/s"})
    assert b"report" in report(result)


def test_runs_of_the_astra_sim_drop_in_have_a_report(cli: Cli) -> None:
    assert (cli.folder / cli.astra_sim("runs/a") / "report.html").is_file()


class TestPlot:
    @pytest.mark.parametrize("name", [name for name in CHARTS if name not in RARE])
    def test_every_chart_of_the_report_is_available_as_a_plot(self, name: str, small: syncline.Result) -> None:
        plot = small.plot(name)
        assert list(embedded(plot.html)) == [name]
        assert plot._repr_html_().startswith("<iframe srcdoc=")
        assert HOSTILE not in plot._repr_html_()
        assert repr(plot).startswith(f"<Plot {name}: ")

    def test_a_misspelt_chart_suggests_the_nearest_name(self, small: syncline.Result) -> None:
        with pytest.raises(ValueError, match=r"there is no chart 'layer', only layers, .* Did you mean 'layers'\?"):
            small.plot("layer")

    def test_a_chart_without_data_is_refused(self, tmp_path: Path, small: syncline.Result) -> None:
        small.save(tmp_path / "run")
        loaded = syncline.Result.load(tmp_path / "run")
        with pytest.raises(ValueError, match="this result has no data for the chart 'timeline', only for layers, "):
            loaded.plot("timeline")

    def test_a_plot_is_saved_as_a_page(self, tmp_path: Path, small: syncline.Result) -> None:
        small.plot("layers").save(tmp_path / "layers.html")
        assert (tmp_path / "layers.html").read_text("utf-8").startswith("<!doctype html>")

    def test_results_from_a_folder_have_plots_but_no_timeline(self, tmp_path: Path, small: syncline.Result) -> None:
        small.save(tmp_path / "run")
        loaded = syncline.Result.load(tmp_path / "run")
        assert embedded(loaded.plot("layers").html) == embedded(small.plot("layers").html)
        with pytest.raises(ValueError, match="no data for the chart 'timeline'"):
            loaded.plot("timeline")


def test_a_notebook_shows_the_answer_and_a_chart(small: syncline.Result) -> None:
    shown = small._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "A training step takes" in shown
    assert "data-chart=&quot;layers&quot;" in shown
