"""Graph fabrics in results: custom names, rows of tiers, overloaded links, and legible pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import syncline
from syncline.comparison import screen
from syncline.config.load import load
from syncline.report import subject
from syncline.report.drawings.svg import svg
from syncline.report.html import network
from syncline.report.html.charts import CHARTS
from syncline.report.html.source import Source
from syncline.report.terminal import answer

RACKS: dict[str, Any] = {
    "npus": ["h0", "h1", "h2", "h3"],
    "switches": ["tor0", "tor1", "agg"],
    "routing": "ecmp",
    "links": [
        *({"from": f"h{host}", "to": f"tor{host // 2}", "rate": "8Gb/s", "latency": "1us"} for host in range(4)),
        *({"from": f"tor{rack}", "to": "agg", "rate": "8Gb/s", "latency": "1us"} for rack in range(2)),
    ],
}
EXCHANGE = {"collective": "all_to_all", "bytes": "4MB"}


def simulate(fabric: dict[str, Any], **more: Any) -> syncline.Result:
    return syncline.simulate(workload=EXCHANGE, fabric=fabric, **more)


@pytest.mark.parametrize("network", ["analytical", "queued", "flow", "packet"])
def test_custom_names_are_in_every_table(network: str) -> None:
    done = simulate(RACKS, network=network, faults=[{"link": ["tor0", "agg"], "factor": 2}])
    own = {*RACKS["npus"], *RACKS["switches"]}
    checked = 0
    for name in done.tables:
        table = done.table(name)
        for column in ("from", "to"):
            # Connections of packets name NPUs by number.
            if isinstance(next(iter(table.get(column, ())), None), str):
                assert set(table[column]) <= own, (name, column)
                checked += 1
    assert checked >= 2
    assert "tor0 <-> agg" in done.summary.faults[0]
    said = json.dumps(done.summary.as_dict()) + answer.as_text(done, 120)
    assert not re.search(r"NPU \d|switch \d", said), said


def test_custom_names_are_in_pictures_and_messages() -> None:
    view = json.loads(_show(RACKS))
    assert view["names"] == [*RACKS["npus"], *RACKS["switches"]]
    picture = svg(view, "racks")
    assert "<title>h3</title>" in picture and "<title>tor1</title>" in picture
    apart = {**RACKS, "links": RACKS["links"][:-1]}
    with pytest.raises(syncline.SynclineError, match="no path leads from h0 to h2"):
        simulate(apart)


@pytest.mark.parametrize("names", [("n0", "n1", "n2"), ("node 0", "node 1", "node x")])
def test_reports_are_written_for_hosts_with_custom_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Names of several hosts with the same neighbours need not end in numbers."""
    star = [{"from": host, "to": "tor", "rate": "8Gb/s", "latency": "1us"} for host in names]
    simulate({"npus": list(names), "switches": ["tor"], "links": star}).save(tmp_path / "star")
    page = (tmp_path / "star" / "report.html").read_text("utf-8")
    assert all(host in page for host in names)


def test_the_kind_of_a_vertex_does_not_depend_on_its_name(tmp_path: Path) -> None:
    """Hosts with consecutively numbered names are not merged like switches, and a switch may be named like an NPU."""
    hosts, switches = ["node 0", "node 1", "node 2"], ["NPU 0", "spine 1", "spine 2"]
    up = [{"from": host, "to": "NPU 0", "rate": "8Gb/s", "latency": "1us"} for host in hosts]
    across = [{"from": "NPU 0", "to": spine, "rate": "8Gb/s", "latency": "1us"} for spine in switches[1:]]
    result = simulate({"npus": hosts, "switches": switches, "links": [*up, *across]})
    chart = CHARTS["fabric"](Source(result))
    assert chart is not None
    assert chart.data["npus"] == {"node 0": 0, "node 1": 1, "node 2": 2}
    assert {end for edge in chart.data["edges"] for end in edge[:2]} == {*hosts, "NPU 0", "spines 1-2"}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["spine 0", "spine 1"], "spines 0-1"),
        (["switch 2", "switch 3", "switch 4"], "switches 2-4"),
        (["NVSwitch 0", "NVSwitch 1"], "NVSwitches 0-1"),
        (["agg0", "agg1"], "agg0-1"),
        (["spine 0", "spine 2"], ""),
        (["spine 0", "leaf 1"], ""),
        (["east", "west"], ""),
    ],
)
def test_equal_switches_have_a_common_name(names: list[str], said: str) -> None:
    assert network._common(names) == said


@pytest.mark.parametrize(
    ("shape", "vertices", "left_out"),
    [("Switch(8)_Switch(64)", 64 + 8 + 8, 64 - 8), ("Ring(8)_Ring(8)_Ring(8)", 64, 8 - 4), ("Ring(4)_Ring(4)", 16, 0)],
)
def test_only_some_members_of_long_dimensions_are_drawn(shape: str, vertices: int, left_out: int) -> None:
    dims = shape.count("_") + 1
    picture = svg(json.loads(_show({"shape": shape, "rate": ["8Gb/s"] * dims, "latency": "1us"})), shape)
    root = ElementTree.fromstring(picture)
    assert picture.count("<title>") == vertices + 1
    assert max(float(root.attrib[side]) for side in ("width", "height")) < 900
    assert ("members are drawn" in picture) == bool(left_out)
    assert "<title>NPU 0</title>" in picture
    # Lines that close rings leave the picture on one side and enter on the other.
    assert ("come in on the other" in picture) == shape.startswith("Ring")
    # No line extends outside of the picture.
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", picture):
        assert 0 <= float(x) <= width and 0 <= float(y) <= height


def test_a_fabric_given_by_links_is_drawn_in_levels_with_its_names() -> None:
    root = ElementTree.fromstring(svg(json.loads(_show(RACKS)), "racks"))
    heights = {each.text: float(each.attrib["y"]) for each in root.iter() if each.tag.endswith("text")}
    assert heights["agg"] < heights["tor0"] == heights["tor1"] < heights["h0"] == heights["h3"]


def _show(fabric: dict[str, Any]) -> str:
    loaded = load({"workload": EXCHANGE, "fabric": fabric})
    from syncline import _core

    return str(loaded.call(_core.show, "fabric"))


def test_overloaded_links_are_reported_beside_the_time() -> None:
    """Two hosts of a rack each send 2 MB to the other rack, over a link that carries 1 MB per millisecond."""
    done = simulate(RACKS)
    over = done.summary.overload
    assert over is not None
    assert over.least_time_s == pytest.approx(4e-3)
    assert done.summary.total_time_s < 3.1e-3
    lines = answer.as_text(done, 200).splitlines()
    step = next(at for at, line in enumerate(lines) if line.strip().startswith("time"))
    assert "ignores contention inside the network" in lines[step + 1]
    assert "too short (4 ms)" in lines[step + 1]
    shared = simulate(RACKS, network="flow")
    assert shared.summary.overload is None
    assert subject.overload(shared.summary) == ""
    assert shared.summary.total_time_s >= over.least_time_s
    compared = screen.as_text(syncline.compare(done, shared), 200)
    assert "Note: The times of A are too short." in compared


def rails(nodes: int, npus: int) -> dict[str, Any]:
    return {
        "leaf_spine": {"leaves": npus, "hosts_per_leaf": nodes, "spines": npus, "rate": "400Gb/s", "latency": "1us"},
        "nodes": {"npus": npus, "rate_per_npu": "450GB/s", "latency": "1us", "rails": True},
    }


def test_tiers_are_rows_of_the_answer() -> None:
    done = syncline.simulate(workload={"collective": "all_reduce", "bytes": "64MB"}, fabric=rails(4, 4))
    assert [dim.name for dim in done.summary.dims] == ["scale-up", "host-leaf", "leaf-spine"]
    said = answer.as_text(done, 100)
    assert all(f"\n  {name}" in said for name in ("scale-up", "host-leaf", "leaf-spine"))
    assert "Simulated: 1 of 16 ranks" in said


def test_a_picture_of_512_npus_is_as_wide_as_a_page() -> None:
    picture = svg(json.loads(_show(rails(64, 8))), "rails")
    root = ElementTree.fromstring(picture)
    assert float(root.attrib["width"]) < 1400
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert "NPU x 512" in texts and "24 are drawn" in texts and "leaf x 8" in texts
    titles = [each.text for each in root.iter() if each.tag.endswith("title")]
    assert {"NPU 0", "NPU 15", "NPU 511", "NVSwitch 0", "NVSwitch 63", "leaf 7", "spine 7"} <= set(titles)
    assert "NPU 100" not in titles
    # Every drawn vertex is joined to another.
    lines = sum(each.tag.endswith("path") for each in root.iter())
    assert lines > 24 + 24 + 64
