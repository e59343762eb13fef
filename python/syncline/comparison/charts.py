"""Charts of two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.comparison.pairs import merge_equal_collectives, merge_equal_layers
from syncline.quantity import counted, percent, signed, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.comparison.comparison import Comparison

DRAWN = 20
"""Maximum number of rows of a chart with a name for each row."""

PAIR = "In each pair of bars, the faint one is A and the solid one is B."


def all_of(found: Comparison) -> list[Chart]:
    """Every chart with data that differs between the runs, the most important first."""
    made = (difference(found), layers(found), collectives(found), phases(found), dimensions(found))
    return [chart for chart in made if chart is not None]


def difference(found: Comparison) -> Chart | None:
    """The contribution of each layer to the difference between the steps."""
    rows = [each for each in merge_equal_layers(found.layers, found.step.difference_s) if each.difference_s]
    if not rows or not _computes(found):
        return None
    shown = rows[:DRAWN]
    first = shown[0]
    share = "" if first.share is None else f", {percent(abs(first.share))} of the step's difference"
    rest = sum(each.count for each in rows[DRAWN:])
    note = (f"The {DRAWN} largest are drawn; {counted(rest, 'layer')} more differ.",) if rest else ()
    against = any((each.share or 0) < 0 for each in rows)
    return Chart(
        "compare_difference",
        "Where the difference comes from",
        f"{first.name} differs most: {signed(first.difference_s)} per step{share}."
        + (" Some layers changed in the opposite direction to the step." if against else ""),
        "A bar is a layer, or several whose names differ only in numbers and whose times are equal. It shows by how"
        " much the layer's time in a step is longer in B (to the right) or shorter (to the left) than in A. The"
        " differences of all layers add up to that of the step.",
        _data(
            "layer",
            [each.name for each in shown],
            "time in a step, B minus A",
            ("compute", "compute", "", [each.compute.difference_s for each in shown]),
            ("exposed communication", "exposed", "", [each.exposed.difference_s for each in shown]),
        ),
        note,
    )


def layers(found: Comparison) -> Chart | None:
    """Compute and exposed communication of each layer in both runs."""
    if not found.layers or not _computes(found):
        return None
    rows = found.model
    slower = sum(each.difference_s > 0 for each in rows)
    faster = sum(each.difference_s < 0 for each in rows)
    return Chart(
        "compare_layers",
        "Layers side by side",
        f"Shorter in B: {faster} of {counted(len(rows), 'layer')}; longer: {slower}.",
        f"A pair of bars is a layer, in the order of the model; height is time in a step, the mean over ranks. {PAIR}"
        " Exposed communication is time in which compute was idle only because it waited for this layer's"
        " communication.",
        _data(
            "layer",
            [each.name for each in rows],
            "time in a step",
            ("A compute", "compute", "a", [each.compute.a_s for each in rows]),
            ("A exposed communication", "exposed", "a", [each.exposed.a_s for each in rows]),
            ("B compute", "compute", "b", [each.compute.b_s for each in rows]),
            ("B exposed communication", "exposed", "b", [each.exposed.b_s for each in rows]),
        ),
    )


def collectives(found: Comparison) -> Chart | None:
    """The collectives whose times differ most, in both runs."""
    differing = [each for each in merge_equal_collectives(found.collectives) if each.duration.difference_s]
    rows = differing[:DRAWN]
    if not rows:
        return None
    first = next((each for each in rows if not each.only), None)
    said = "No collective is in both runs."
    if first is not None:
        said = f"{first.name} differs most: {time(first.duration.b_s)} instead of {time(first.duration.a_s)}."
    left = len(differing) - len(rows)
    return Chart(
        "compare_collectives",
        "Collectives side by side",
        said,
        "Time from first issue to last result, hidden or not; means over iterations and groups. Collectives whose names"
        f" differ only in numbers and whose times are equal share a row. {PAIR}",
        _data(
            "collective",
            [each.name for each in rows],
            "time",
            ("A", "network", "a", [each.duration.a_s for each in rows]),
            ("B", "network", "b", [each.duration.b_s for each in rows]),
        ),
        (f"The {DRAWN} that differ most are drawn; {left} more differ.",) if left else (),
    )


def phases(found: Comparison) -> Chart | None:
    """Mean delays of the phases whose delays differ most."""
    rows = found.phases[:DRAWN]
    if not rows or not any(pair.difference_s for each in rows for pair in (each.queue, each.network, each.reduction)):
        return None
    first = next((each for each in rows if not each.only), None)
    said = "No phase is in both runs."
    if first is not None:
        said = (
            f"Delays differ most in {first.name}: queue {time(first.queue.a_s)} in A and {time(first.queue.b_s)} in B,"
        )
        said += f" network {time(first.network.a_s)} and {time(first.network.b_s)}."
    series = [
        (f"{side.upper()} {name}", colour, side, [getattr(getattr(each, pair), f"{side}_s") for each in rows])
        for side in ("a", "b")
        for name, colour, pair in (
            ("queue delay", "queue", "queue"),
            ("network delay", "network", "network"),
            ("reduction", "reduction", "reduction"),
        )
    ]
    used = [each for each in series if any(each[3]) or "reduction" not in each[0]]
    return Chart(
        "compare_phases",
        "Delays in the phases of collectives",
        said,
        "Queue delay: the mean time that a chunk queues. Network delay: the mean time of a message from send to"
        f" arrival. Reduction: the mean time to combine a message with local data. {PAIR}",
        _data("phase", [each.name for each in rows], "mean time", *used),
    )


def dimensions(found: Comparison) -> Chart | None:
    """How much of each dimension is used in both runs."""
    if not found.dimensions:
        return None

    def shares(of: str, side: int) -> list[float]:
        return [getattr(each, of)[side] or 0.0 for each in found.dimensions]

    both = [each for each in found.dimensions if None not in each.utilization]
    said = "No dimension is in both runs."
    if both:
        first = max(both, key=lambda each: abs((each.utilization[1] or 0.0) - (each.utilization[0] or 0.0)))
        said = f"{first.name} changed most: {percent(first.utilization[0] or 0.0)} of what its links could carry in A,"
        said += f" {percent(first.utilization[1] or 0.0)} in B."
    return Chart(
        "compare_dimensions",
        "How much of the network is used",
        said,
        "Utilisation is bytes carried over the bytes that all links of the dimension could have carried: in the whole"
        f" run, and in the time in which the dimension had something to send. {PAIR}",
        {
            "label": [each.name for each in found.dimensions],
            "row": "dimension",
            "unit": "share",
            "axis": "utilisation",
            "series": [
                {
                    "name": f"{letter} {name}",
                    "colour": colour,
                    "side": letter.lower(),
                    "values": rounded(shares(of, at)),
                }
                for name, colour, of in (
                    ("whole run", "network", "utilization"),
                    ("while busy", "wait", "utilization_while_busy"),
                )
                for at, letter in enumerate("AB")
            ],
        },
    )


def _computes(found: Comparison) -> bool:
    return bool(found.a.summary.compute_s or found.b.summary.compute_s)


def _data(row: str, label: list[str], axis: str, *series: tuple[str, str, str, Sequence[float]]) -> dict[str, Any]:
    return {
        "label": label,
        "row": row,
        "unit": "time",
        "axis": axis,
        "series": [
            {"name": name, "colour": colour, "side": side, "values": rounded(list(values))}
            for name, colour, side, values in series
        ],
    }
