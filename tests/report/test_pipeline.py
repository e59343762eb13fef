"""Charts of pipeline stages over time, and grouping of layers."""

from __future__ import annotations

import pytest

from syncline.report.grouping import boundaries, views
from syncline.report.html.charts import CHARTS
from syncline.report.html.source import Source
from syncline.report.html.stages import BACKWARD, BUBBLE, FORWARD, UPDATE, _stages, passes, stages_of
from tests.report.runs import flows, stages, transformer

STAGES, MICRO_BATCHES = 4, 8


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_bubbles_match_the_closed_form(schedule: str) -> None:
    """With free communication each of p stages idles (p - 1) / (m + p - 1) of a step (Narayanan et al. 2021, 2.2)."""
    source = Source(stages(schedule=schedule))
    chart = CHARTS["pipeline"](source)
    assert chart is not None
    whole = chart.data["until"] * chart.data["unit_ps"] * 1e-12
    assert whole == pytest.approx(source.summary.total_time_s, rel=1e-6)
    for forward, backward, update, exposed, bubble, skew in chart.data["sums"]:
        assert bubble / whole == pytest.approx((STAGES - 1) / (MICRO_BATCHES + STAGES - 1), rel=1e-3)
        assert (forward, backward) == (pytest.approx(8 * 30 * 10e-6), pytest.approx(8 * 30 * 20e-6, rel=1e-2))
        # A message takes a nanosecond; a stage waits for up to two messages in each micro-batch.
        assert update + skew == 0
        assert 0 < exposed < 2 * MICRO_BATCHES * 1.1e-9
        assert forward + backward + exposed + bubble == pytest.approx(whole, rel=1e-6)
    assert chart.notes == ()


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_every_micro_batch_has_each_pass_once(schedule: str) -> None:
    chart = CHARTS["pipeline"](Source(stages(schedule=schedule)))
    assert chart is not None
    kinds = chart.data["kinds"]
    drawn = sorted(
        (row, kinds[kind], number)
        for row, kind, number in zip(chart.data["row"], chart.data["kind"], chart.data["micro_batch"], strict=True)
        if kinds[kind] in ("forward", "backward")
    )
    assert drawn == sorted(
        (stage, kind, number)
        for stage in range(STAGES)
        for kind in ("forward", "backward")
        for number in range(1, MICRO_BATCHES + 1)
    )


def test_a_note_says_that_the_trace_was_cut() -> None:
    chart = CHARTS["pipeline"](Source(stages(max_spans=2000)))
    assert chart is not None
    assert chart.notes[-1].endswith("A higher `trace.max_spans` shows the rest.")


def test_a_dimension_named_as_a_wait_is_none() -> None:
    own = ["compute", "exposed communication", "bubble", "skew", "communication", "memory"]
    columns = {"rank": [0, 0, 0], "track": [0, 2, 6], "start_ps": [0, 5, 7], "duration_ps": [5, 2, 9]}
    spans = {"ranks": [0], "tracks": [*own, "bubble"], "labels": ["a forward", ""], "label": [0, 1, 1], **columns}
    (stage,) = _stages(spans, ["a"])
    assert stage.compute == [(0, 5, FORWARD, 0)]
    assert stage.waits == [(5, 7, BUBBLE)]


def test_jobs_without_stages_have_no_such_chart() -> None:
    assert CHARTS["pipeline"](Source(flows())) is None


def test_recomputation_belongs_to_the_backward_pass() -> None:
    """Three blocks of two layers: all forward, then each block forward again and backward; two micro-batches."""
    spans, at = [], 0
    for _ in range(2):
        for kind, layer in [(FORWARD, 0), (FORWARD, 1), (FORWARD, 2), (FORWARD, 3), (FORWARD, 4), (FORWARD, 5)]:
            spans.append((at, at + 1, kind, layer))
            at += 1
        for first in (4, 2, 0):
            for kind, layer in [(FORWARD, first), (FORWARD, first + 1), (BACKWARD, first + 1), (BACKWARD, first)]:
                spans.append((at, at + 1, kind, layer))
                at += 1
    spans += [(at, at + 1, UPDATE, layer) for layer in (3, 0)]
    found = [(run.kind, run.start, run.end, run.busy) for run in passes(spans)]
    assert found == [
        (FORWARD, 0, 6, 6),
        (BACKWARD, 6, 18, 12),
        (FORWARD, 18, 24, 6),
        (BACKWARD, 24, 36, 12),
        (UPDATE, 36, 37, 2),
    ]


def test_updates_between_layers_belong_to_the_backward_pass() -> None:
    """Each layer is updated as soon as its gradient is reduced, while the last backward pass continues."""
    spans = [
        (0, 10, FORWARD, 0),
        (10, 20, FORWARD, 1),
        (20, 40, BACKWARD, 1),
        (40, 43, UPDATE, 1),
        (43, 63, BACKWARD, 0),
        (63, 66, UPDATE, 0),
        (70, 80, FORWARD, 0),
    ]
    found = [(run.kind, run.start, run.end, run.busy, run.updates) for run in passes(spans)]
    assert found == [
        (FORWARD, 0, 20, 20, 0),
        (BACKWARD, 20, 63, 40, 3),
        (UPDATE, 63, 66, 3, 0),
        (FORWARD, 70, 80, 10, 0),
    ]


def test_pipeline_and_timeline_show_the_same_waits() -> None:
    """A stage has the same exposed communication, bubble and skew in both charts, and in the table of ranks."""
    source = Source(transformer())
    charts = [CHARTS[name](source) for name in ("pipeline", "timeline")]
    assert all(charts)
    stages, overlap = (chart.data for chart in charts if chart)
    ranks = source.table("ranks") or {}
    for wait in ("exposed communication", "bubble", "skew"):
        sums = [each[stages["kinds"].index(wait)] for each in stages["sums"]]
        track = overlap["tracks"].index(wait)
        blocks = zip(overlap["rank"], overlap["track"], overlap["duration"], strict=True)
        drawn = [0.0] * len(overlap["ranks"])
        for rank, on, duration in blocks:
            drawn[rank] += duration * overlap["unit_ps"] * 1e-12 if on == track else 0.0
        for rank, total in zip(stages["ranks"], sums, strict=True):
            assert drawn[overlap["ranks"].index(rank)] == pytest.approx(total, rel=1e-3, abs=1e-6)
        if wait == "exposed communication":
            assert sums == pytest.approx([ranks["exposed_communication_s"][rank] for rank in stages["ranks"]], rel=1e-5)
    assert all(each[stages["kinds"].index("bubble")] > 0 for each in stages["sums"])
    # Updates follow their gradients, but no backward pass is split.
    backward = [n for n, kind in zip(stages["micro_batch"], stages["kind"], strict=True) if kind == BACKWARD]
    assert sorted(backward) == sorted(list(range(1, MICRO_BATCHES + 1)) * STAGES)


def test_each_layer_is_in_one_group_of_each_view() -> None:
    layers = ["embedding", *(f"layers.{block}.{kind}" for block in range(50) for kind in ("q.proj", "mlp")), "head"]
    found = views(layers)
    assert [view.name for view in found] == ["block", "kind of layer", "layer"]
    assert [len(view.groups) for view in found] == [52, 4, 102]
    for view in found:
        assert sorted(row for group in view.groups for row in group.rows) == list(range(102))
    assert [group.name for group in found[0].groups[:3]] == ["embedding", "layers.0", "layers.1"]
    assert [group.name for group in found[1].groups] == ["embedding", "q.proj", "mlp", "head"]


@pytest.mark.parametrize("layers", [["a", "b"], [f"layer{number}" for number in range(200)]])
def test_layers_without_blocks_are_not_grouped(layers: list[str]) -> None:
    assert [view.name for view in views(layers)] == ["layer"]


def test_charts_of_layers_show_stages() -> None:
    source = Source(stages())
    held = stages_of(source)
    assert [held[f"block{block}.a"] for block in (0, 9, 10, 39)] == ["stage 0", "stage 0", "stage 1", "stage 3"]
    chart = CHARTS["layers"](source)
    assert chart is not None
    blocks, by_stage, kinds, alone = chart.data["views"]
    assert [view["what"] for view in chart.data["views"]] == ["block", "stage", "kind of layer", "layer"]
    assert blocks["stages"] == [(0, "stage 0"), (10, "stage 1"), (20, "stage 2"), (30, "stage 3")]
    assert by_stage["layer"] == [f"stage {stage}" for stage in range(4)]
    assert (by_stage["layers"], kinds["stages"], len(alone["layer"])) == ([30] * 4, [], 120)
    # The bars of every view add up to the same total.
    for view in chart.data["views"]:
        assert sum(view["compute"]) == pytest.approx(120 * 8 * 30e-6 / 4, rel=1e-2)
    assert chart.notes[0].startswith("The 120 layers are drawn as 40 blocks")
    assert boundaries(views(["a"])[0], ["a"], {}) == []
