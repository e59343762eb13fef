"""The report in a browser: there is no error, and every chart is drawn with the numbers of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.quantity import percent, time
from syncline.report.html.charts import CHARTS
from syncline.report.html.page import report
from tests.report.browser import LOOKS, PAINTED, Page, needed
from tests.report.runs import OF_FLOWS, OF_PACKETS, OF_STAGES, RARE, SMALL, flows, packets, resnet, stages

pytestmark = needed


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[syncline.Result, Path]:
    result = resnet()
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_bytes(report(result))
    return result, file


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_chart_is_drawn(browser: Any, example: tuple[syncline.Result, Path], width: int, scheme: str) -> None:
    opened = Page(browser, example[1], width, scheme)
    charts = opened.charts()
    assert set(charts) == set(CHARTS) - set(RARE)
    for name, section in charts.items():
        colours = section.query_selector(".canvas canvas").evaluate(PAINTED)
        assert colours > 20, name
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert not opened.complaints


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_charts_of_flows_are_drawn(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(report(flows()))
    opened = Page(browser, file, width, scheme)
    charts = opened.charts()
    assert set(OF_FLOWS) <= set(charts)
    for name in OF_FLOWS:
        assert charts[name].query_selector(".canvas canvas").evaluate(PAINTED) > 20, name
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.complaints


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_stages_and_blocks_are_drawn(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(report(stages()))
    opened = Page(browser, file, width, scheme)
    charts = opened.charts()
    for name in ("pipeline", "layers"):
        assert charts[name].query_selector(".canvas canvas").evaluate(PAINTED) > 10, name
    assert [row[0] for row in opened.table("pipeline")[1:]] == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert [row[:2] for row in opened.table("layers")[1:]] == [[f"block{block}", "3"] for block in range(40)]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.complaints


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> tuple[syncline.Result, Path]:
    result = packets()
    file = tmp_path_factory.mktemp("packets") / "report.html"
    file.write_bytes(report(result))
    return result, file


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_charts_of_packets_are_drawn(
    browser: Any, lossy: tuple[syncline.Result, Path], width: int, scheme: str
) -> None:
    opened = Page(browser, lossy[1], width, scheme)
    charts = opened.charts()
    assert set(charts) == set(CHARTS) - set(OF_FLOWS) - set(OF_STAGES)
    for name in OF_PACKETS:
        assert charts[name].query_selector(".canvas canvas").evaluate(PAINTED) > 20, name
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.complaints


def test_losses_are_shown_by_dimension(browser: Any, lossy: tuple[syncline.Result, Path]) -> None:
    result, file = lossy
    opened, queues = Page(browser, file), result.table("queues")
    losses = opened.charts()["losses"]

    def of(dimension: str, column: str) -> list[str]:
        found = zip(queues["dimension"], queues[column], strict=True)
        return [str(value) for name, value in found if name == dimension]

    head, *rows = opened.table("losses")
    assert head[:4] == ["up, from", "to", "utilisation", "busiest link"]
    dropped = head.index("packets dropped")
    assert [row[dropped] for row in rows] == of("up", "dropped")
    # Utilisation is known only for the first two iterations.
    assert rows[0][2].endswith("%")
    assert rows[-1][2] == "-"
    losses.query_selector("select").select_option(label="out")
    head, *rows = opened.page.eval_on_selector_all(
        "#losses table tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert head[0] == "out, from"
    assert [row[head.index("time-outs (RTO)")] for row in rows] == of("out", "timeouts")
    # The tooltip of one lane shows the values of all lanes.
    box = losses.query_selector(".canvas").bounding_box()
    opened.page.mouse.move(box["x"] + 400, box["y"] + 100)
    told = "document.querySelector('#losses .canvas').textContent"
    opened.page.wait_for_function(f"{told}.includes('busiest link') && {told}.includes('segments sent again')")
    assert not opened.complaints


def test_names_are_shown_and_never_run(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(report(syncline.simulate(SMALL)))
    opened = Page(browser, file)
    opened.page.on("dialog", lambda _: opened.complaints.append("a dialog"))
    opened.charts()
    assert opened.page.text_content("h1") == SMALL["name"]
    layer = SMALL["workload"]["layers"][0]["name"]
    assert opened.table("layers")[1][0] == layer
    # Charts write tooltips as markup.
    box = opened.page.query_selector("#layers .canvas").bounding_box()
    opened.page.mouse.move(box["x"] + 120, box["y"] + 150)
    opened.page.wait_for_function("document.querySelector('#layers .canvas').textContent.includes('<img')")
    assert not opened.page.query_selector_all("img")
    assert not opened.complaints


def test_the_page_shows_the_numbers_of_the_run(browser: Any, example: tuple[syncline.Result, Path]) -> None:
    result, file = example
    opened, summary = Page(browser, file), result.summary
    opened.charts()
    steps = summary.iterations
    assert time(summary.step_time_s) in opened.page.text_content(".lead")
    shown = opened.page.eval_on_selector_all(".figures dd[data-key]", "all => all.map(each => each.textContent)")
    seconds = (summary.total_time_s, summary.exposed_communication_s, summary.communication_s)
    assert shown[:3] == [time(each / steps) for each in seconds]
    # The page's script writes the tables below charts; their digits equal those on the terminal.
    layers = result.table("layers")
    rows = opened.table("layers")[1:]
    assert [row[0] for row in rows] == layers["layer"]
    assert [row[1] for row in rows] == [time(each) for each in layers["compute_s"]]
    assert [row[2] for row in rows] == [time(each) for each in layers["exposed_communication_s"]]
    dimensions = opened.table("dimensions")[1:]
    assert [row[:4] for row in dimensions] == [
        [dim.name, percent(dim.utilization), percent(dim.utilization_while_busy), percent(dim.busiest_link_busy)]
        for dim in summary.dims
    ]
    assert not opened.complaints


def test_keys_zoom_and_move_the_timeline(browser: Any, example: tuple[syncline.Result, Path]) -> None:
    opened = Page(browser, example[1])
    opened.charts()
    canvas = opened.page.query_selector("#timeline .canvas")
    opened.page.focus("#timeline .canvas")
    opened.page.evaluate(PICTURE)
    for key, zoom in (("+", "25 75"), ("+", "37.5 62.5"), ("ArrowRight", "43.75 68.75"), ("-", "31.25 81.25")):
        opened.page.keyboard.press(key)
        assert canvas.get_attribute("data-zoom") == zoom
    assert opened.page.evaluate(DIFFERENT) > 0.05
    opened.page.keyboard.press("0")
    assert canvas.get_attribute("data-zoom") == "0 100"
    # The picture is as before, except that lines one pixel wide may be drawn in another order.
    assert opened.page.evaluate(DIFFERENT) < 0.0005
    assert not opened.complaints


def test_patterns_are_drawn_on_request(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(report(syncline.simulate(SMALL)))
    opened = Page(browser, file)
    layers = opened.charts()["layers"].query_selector(".canvas")
    name = layers.get_attribute("aria-label")
    plain = layers.query_selector("canvas").evaluate(PAINTED)
    opened.page.click("text=Patterns")
    opened.page.wait_for_timeout(200)
    assert layers.query_selector("canvas").evaluate(PAINTED) > 1.2 * plain
    assert layers.get_attribute("aria-label") == name
    assert not opened.complaints


NEXT_FRAME = "await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));"
PIXELS = """
    const canvas = document.querySelector("#timeline canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const pixels = new Uint32Array(data.buffer);
"""
PICTURE = f"async () => {{ {NEXT_FRAME} {PIXELS} window.before = pixels; }}"
"""Script that stores the pixels of the timeline."""
DIFFERENT = f"""async () => {{ {NEXT_FRAME} {PIXELS}
    return pixels.reduce((sum, pixel, at) => sum + (pixel !== window.before[at]), 0) / pixels.length;
}}"""
"""Script that returns the fraction of pixels that have changed since."""


def test_every_chart_has_a_name_and_a_table(browser: Any, example: tuple[syncline.Result, Path]) -> None:
    opened = Page(browser, example[1])
    for name, section in opened.charts().items():
        canvas = section.query_selector(".canvas")
        assert canvas.get_attribute("role") == "img"
        assert len(canvas.get_attribute("aria-label")) > 40
        assert len(opened.table(name)) > 1, name


def test_all_charts_are_printed_in_light_colours(
    browser: Any, example: tuple[syncline.Result, Path], tmp_path: Path
) -> None:
    opened = Page(browser, example[1], scheme="dark")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "light"
    drawn = "document.querySelectorAll('.canvas[data-drawn]').length"
    assert opened.page.evaluate(drawn) == len(opened.page.query_selector_all(".canvas"))
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.page.pdf(path=str(tmp_path / "report.pdf"))
    assert not opened.complaints


def test_a_thousand_layers_and_npus_open_quickly(browser: Any, tmp_path: Path) -> None:
    layers = [
        {
            "name": f"layer{number}",
            "forward": "100us",
            "weight_grad": "200us",
            "exchanges": [{"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "1MB"}],
        }
        for number in range(1000)
    ]
    result = syncline.simulate(
        workload={"layers": layers},
        compute="given",
        fabric={"shape": "Ring(8)_Ring(8)_Ring(16)", "rate": "100GB/s", "latency": "100ns"},
        collectives={"chunks": 1},
        prices="hier2021",
    )
    file = tmp_path / "report.html"
    file.write_bytes(report(result))
    assert file.stat().st_size < 1_500_000
    opened = Page(browser, file)
    ready = opened.page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    # Milliseconds; an idle machine needs a tenth of that.
    assert ready < 5_000
    assert set(opened.charts()) == set(CHARTS) - set(RARE)
    # Bars of equal height that are about a pixel wide form one even area without bands.
    shades = opened.page.query_selector("#layers canvas").evaluate(SHADES)
    assert shades == 1
    assert not opened.complaints


SHADES = """canvas => {
    const at = canvas.getContext("2d");
    const middle = Math.round(canvas.height * 0.52);
    const pixels = new Uint32Array(at.getImageData(0, middle, canvas.width, 1).data.buffer);
    return new Set(pixels.slice(0.2 * canvas.width, 0.8 * canvas.width)).size;
}"""
"""Script that counts the colours on a line across the bars."""


def test_labels_of_shares_are_not_cut_off_on_narrow_pages(browser: Any, example: tuple[syncline.Result, Path]) -> None:
    opened = Page(browser, example[1], width=390)
    left = opened.charts()["activity"].query_selector("canvas").evaluate(LEFTMOST)
    assert left > 1


LEFTMOST = """canvas => {
    const { width, height } = canvas;
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
    return pixels.reduce((least, pixel, at) => (pixel ? Math.min(least, at % width) : least), width);
}"""
"""Script that returns the first column with a drawn pixel."""


def test_a_plot_is_shown_in_a_notebook(browser: Any, tmp_path: Path) -> None:
    result = syncline.simulate(SMALL)
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><p>a notebook</p>{result.plot('layers')._repr_html_()}", "utf-8")
    opened = Page(browser, file)
    frame = opened.page.wait_for_selector("iframe").content_frame()
    frame.wait_for_selector("#layers .canvas[data-drawn]")
    assert not opened.complaints
