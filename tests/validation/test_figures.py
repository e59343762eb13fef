"""All figures of a validation, as text, JSON, a page, and as what must not get worse."""

from __future__ import annotations

import json
import re

import pytest

from syncline.errors import SynclineError
from syncline.terminal.streams import as_text
from syncline.validation.figures import validated
from syncline.validation.folder import Remarks, load, read_outliers
from syncline.validation.groups import SETS, SOURCES
from syncline.validation.kept import recorded, worse
from syncline.validation.runs import Excluded, read_runs
from syncline.validation.screen import FEW, screen
from tests.validation.rows import FOLDER, outcome, write

VTRAIN = {
    "dataset": "vtrain",
    "cluster": "a100-vtrain",
    "model": "gpt-3.6b",
    "tp": 2,
    "pp": 1,
    "cp": 1,
    "calibrates": "a100",
}


def vtrain(*errors, **changes):
    """Rows of vTrain whose predictions have these errors."""
    return [outcome(5.0 * (1 + each), **{**VTRAIN, "id": f"vtrain-{at}", **changes}) for at, each in enumerate(errors)]


def test_a_group_that_keeps_its_bars_misses_none():
    found = validated(vtrain(0.01, -0.02, 0.03))
    (figures,) = found.groups
    assert (figures.name, figures.rows, figures.missed) == ("vtrain", 3, ())
    assert figures.step.mean == pytest.approx(0.02)
    assert dict(figures.calibrates) == {"a100": 3}
    assert (found.missed, found.outliers) == ([], [])


def test_a_missed_bar_and_an_outlier_are_named():
    found = validated(vtrain(0.0, 0.0, 0.3, -0.5), remarks=Remarks({"vtrain-3": "a slow server"}, {}))
    assert found.missed == ["vtrain: median", "vtrain: mean", "vtrain: p90"]
    # Beyond twice 14 %; the largest first.
    assert [(each.outcome.run.id, each.explanation) for each in found.outliers] == [
        ("vtrain-3", "a slow server"),
        ("vtrain-2", None),
    ]


def test_a_group_with_a_bar_misses_it_if_rows_are_refused():
    found = validated([*vtrain(0.0), outcome(None, **VTRAIN)])
    assert found.missed == ["vtrain: refused"]


def test_sources_are_listed_beside_groups():
    rows = [outcome(1.0, dataset=name, cluster="dgx-h100", step_s=2.0) for name in ("nemo", "bridge")]
    found = validated(rows)
    assert [each.name for each in found.groups] == ["h100-dense"]
    assert [(each.name, each.rows) for each in found.sources] == [("nemo", 1), ("bridge", 1)]


def nanotron():
    row = {"dataset": "nanotron", "cluster": "h100-hugging-face", "filters": "inputs"}
    return [
        outcome(1.0, 30 * 2**30, ran="yes", step_s=1.0, memory_gib=30.0, id="x", **row),
        outcome(2.0, 90 * 2**30, ran="failed", step_s=None, id="y", **row),
    ]


def test_the_screen_has_every_figure():
    found = validated([*vtrain(0.0, 0.4), *nanotron()], [Excluded("b", "nemo", "t5-3b", "no batch is published")])
    text = " ".join(as_text(screen(found, 160), 160).split())
    for part in (
        "3 measured steps compared with predictions; 1 row excluded.",
        "3 bars missed. Megatron and DeepSpeed on A100 (vTrain): median, mean, p90.",
        "median 3.0, mean 5.5, p90 14.0",
        "A100 (2)",
        "right for 2 of 2 (100.0 %)",
        "Fastest configuration of 1 cell",
        "1 outlier, beyond twice the bar of the 90th percentile; 1 unexplained.",
        "Megatron and DeepSpeed on A100 (vTrain): vtrain-1 +40 %",
        "Unexplained: nobody has looked into it.",
    ):
        assert part in text


def test_the_screen_lists_few_rows_and_nothing_empty():
    found = validated([outcome(6.0, 90 * 2**30, id="ours"), outcome(None, id="other")])
    text = " ".join(as_text(screen(found, 80), 80).split())
    assert "Rows of your own have no bars." in text
    assert "ours llama3-8b 16 5 s 6 s +20.0 % 90 GiB, too much" in text
    assert "fitted to" not in text
    assert "0 of 1 run that ran were predicted to fit into memory (0.0 %)." in text
    assert "A bar is" not in text
    many = validated([outcome(6.0, id=f"ours-{number}") for number in range(FEW + 1)])
    assert "ours-3" not in as_text(screen(many, 80), 80)


def test_json_has_every_row_with_its_prediction():
    (first, second) = validated([outcome(6.0, 30 * 2**30, memory_gib=40.0), outcome(None, id="r")]).as_dict()["rows"]
    assert first == {
        "id": "a",
        "measured_s": 5.0,
        "predicted_s": 6.0,
        "error": pytest.approx(0.2),
        "measured_memory_bytes": 40 * 2**30,
        "predicted_memory_bytes": 30 * 2**30,
        "memory_error": pytest.approx(-0.25),
        "ran": True,
        "fits": True,
    }
    assert (second["predicted_s"], second["error"], second["fits"]) == (None, None, None)


def test_json_has_every_row_that_is_not_used():
    found = validated(
        [*vtrain(0.4), outcome(None, id="r")], [Excluded("b", "nemo", "t5-3b", "no batch is published")]
    ).as_dict()
    json.dumps(found)
    assert found["refused"] == [{"id": "r", "reason": "not modelled"}]
    assert found["excluded"] == [{"id": "b", "reason": "no batch is published"}]
    assert found["outliers"] == [
        {"id": "vtrain-0", "group": "vtrain", "error": pytest.approx(0.4), "explanation": None, "seen": None}
    ]
    assert found["groups"][0]["step"]["largest"] == pytest.approx(0.4)


def test_figures_that_stay_or_improve_are_not_worse():
    before = recorded(validated([*vtrain(0.02, 0.03), *nanotron()]))
    assert worse(before, before) == []
    assert worse(recorded(validated([*vtrain(0.01, 0.02), *nanotron()])), before) == []


def test_figures_that_get_worse_are_named():
    before = recorded(validated([*vtrain(0.02, 0.03), *nanotron()]))
    now = recorded(validated([*vtrain(0.02, 0.05), *nanotron()]))
    assert worse(now, before) == [
        "vtrain: median is 0.035; it was 0.025",
        "vtrain: mean is 0.035; it was 0.025",
        "vtrain: p90 is 0.047; it was 0.029",
        "vtrain: largest is 0.05; it was 0.03",
    ]


def test_fewer_rows_are_worse():
    before = recorded(validated(vtrain(0.02, 0.02)))
    assert worse(recorded(validated(vtrain(0.02))), before) == ["vtrain: rows is 1; it was 2"]
    assert worse(recorded(validated([outcome(1.0)])), before)[0] == "vtrain is missing"
    refused = recorded(validated([*vtrain(0.02), outcome(None, **VTRAIN)]))
    assert worse(refused, before) == ["vtrain: refused is 1; it was 0"]


def test_a_wrong_fit_and_a_missed_cell_are_worse():
    before = recorded(validated(nanotron()))
    row = {"dataset": "nanotron", "cluster": "h100-hugging-face", "filters": "inputs"}
    wrong = [nanotron()[0], outcome(2.0, 20 * 2**30, ran="failed", step_s=None, id="y", **row)]
    assert worse(recorded(validated(wrong)), before) == ["memory: fits is 0.5; it was 1"]


def test_the_page_has_pictures_tables_and_reasons():
    pytest.importorskip("matplotlib")
    from syncline.validation.page import page

    rows = [*vtrain(0.0, 0.4), *nanotron()]
    html = page(validated(rows, [Excluded("b", "nemo", "t5-3b", "no <batch>")]))
    assert html == page(validated(rows, [Excluded("b", "nemo", "t5-3b", "no <batch>")]))
    assert html.count("<svg") == 2
    assert "no &lt;batch&gt;" in html
    assert 'class="missed"' in html and "<small>of 14</small>" in html
    assert "Unexplained" in html
    assert "http://" not in re.sub(
        r'xmlns(:\w+)?="[^"]*"|<metadata>.*?</metadata>|<!DOCTYPE[^>]*>', "", html, flags=re.S
    )
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(f'id="{used}"' in html for used in re.findall(r"url\(#([^)]+)\)", html))


def test_the_files_of_the_repository_are_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SynclineError) as raised:
        load()
    assert raised.value.diagnostics[0]["help"] == "name a file of runs, or run this in a checkout of syncline"


def test_what_is_known_of_outliers_is_read_beside_the_rows(tmp_path, monkeypatch):
    from tests.validation.rows import ROOT

    path = write(tmp_path)
    known = "explained: [{ rows: [a, b], why: one slow server }]\nunexplained: [{ rows: [c], seen: twice as slow }]\n"
    (tmp_path / "outliers.yaml").write_text(known, "utf-8")
    # Models and clusters are those of the repository, in whose root the test runs.
    monkeypatch.chdir(ROOT)
    found = load(path)
    assert found.remarks == Remarks({"a": "one slow server", "b": "one slow server"}, {"c": "twice as slow"})
    assert [each.run.id for each in found.rows] == ["a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("explained: [{ rows: [a], why: 3 }]", "text"),
        ("explained: [{ rows: [], why: x }]", "rows"),
        ("a: one slow server", "explained"),
        ("explained: [{ rows: [a], why: x }]\nunexplained: [{ rows: [a], seen: x }]", "two remarks"),
    ],
)
def test_a_wrong_remark_is_named(tmp_path, text, words):
    path = tmp_path / "outliers.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(SynclineError) as raised:
        read_outliers(path.as_posix())
    assert words in str(raised.value.diagnostics)


def test_outliers_with_one_remark_stand_together():
    remarks = Remarks({"vtrain-2": "a slow server"}, {"vtrain-3": "twice as long", "vtrain-4": "twice as long"})
    found = validated(vtrain(0.0, 0.0, 0.3, -0.5, -0.4), remarks=remarks)
    text = " ".join(as_text(screen(found, 80), 80).split())
    title = "Megatron and DeepSpeed on A100 (vTrain)"
    assert f"{title}: vtrain-3 -50 %, vtrain-4 -40 % Unexplained: twice as long" in text
    assert f"{title}: vtrain-2 +30 % a slow server" in text


def test_remarks_of_the_repository_are_about_its_rows():
    remarks = read_outliers((FOLDER / "outliers.yaml").as_posix())
    used = {each.id for each in read_runs((FOLDER / "runs.csv").as_posix())}
    assert {*remarks.explained, *remarks.seen} <= used


def test_sources_and_sets_have_titles():
    runs = list(read_runs((FOLDER / "runs.csv").as_posix()))
    assert {each.dataset for each in runs} <= set(SOURCES)
    assert {name for each in runs for name in (each.calibrates or "").split()} <= set(SETS)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_screen_fits_its_terminal(width):
    remarks = Remarks({"vtrain-2": "a slow server, " * 20}, {})
    rows = [*vtrain(0.0, 0.0, 0.3, -0.5), *nanotron(), outcome(2.0, model="mixtral-8x7b", dataset="bridge")]
    text = as_text(screen(validated(rows, remarks=remarks), width), width)
    assert max(map(len, text.splitlines())) <= width
