"""Time by layer: compute and exposed communication (astra2020 Fig. 15), raw communication (Fig. 13 and 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.input.words import PASSES
from syncline.quantity import counted, percent, size, time
from syncline.report.equal_rows import group_equal, group_label
from syncline.report.grouping import boundaries, views
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.stages import stages_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.report.grouping import View
    from syncline.report.html.source import Source, Table

_RAW = tuple(each for each in PASSES if each != "update")
"""Passes with communication."""

_MAJORITY = 0.5
"""A share above this is called "most of it"."""


def layers(source: Source) -> Chart | None:
    """Compute and exposed communication of each layer, stacked."""
    table = source.table("layers", "compute_s", "exposed_communication_s")
    if table is None or not any(table["compute_s"]):
        return None
    stages = stages_of(source)
    return Chart(
        "layers",
        "Where the time goes, layer by layer",
        _exposed(table),
        "A bar is a layer, or a block of layers, in the order of the model; its height is time in one step, the mean"
        " over ranks. Compute is forward pass, both gradients and the update of the parameters. Exposed communication"
        " is time in which compute was idle only because it waited for this layer's communication. Communication that"
        " is hidden behind compute costs no time and is not shown.",
        {
            "views": [
                {
                    **_bars(view, table["layer"], stages),
                    "exposed": _sums(view, table["exposed_communication_s"]),
                    "compute": _sums(view, table["compute_s"]),
                    "parts": {part: _sums(view, table[f"{part}_compute_s"]) for part in PASSES},
                }
                for view in views(table["layer"], stages)
            ]
        },
        _grouped(table["layer"]),
    )


def _bars(view: View, names: Sequence[str], stages: Mapping[str, str]) -> dict[str, Any]:
    """The bars of a view: what a bar is, their names and numbers of layers, and where stages begin."""
    return {
        "what": view.name,
        "layer": [group.name for group in view.groups],
        "layers": [len(group.rows) for group in view.groups],
        "stages": boundaries(view, names, stages),
    }


def _sums(view: View, values: Sequence[float]) -> list[float]:
    """The sum of each bar over its layers."""
    return rounded([sum(values[row] for row in group.rows) for group in view.groups])


def _grouped(names: Sequence[str]) -> tuple[str, ...]:
    """The note for a view whose bars are sums of layers."""
    first = views(names)[0]
    if first.name == "layer":
        return ()
    drawn = counted(len(first.groups), first.name)
    said = f"The {len(names)} layers are drawn as {drawn}, each the sum of its layers."
    return (f"{said} Other groupings can be chosen above, including one bar for each layer.",)


def _exposed(table: Table) -> str:
    exposed, names = table["exposed_communication_s"], table["layer"]
    longest = max(range(len(names)), key=table["compute_s"].__getitem__)
    compute = f"Compute is longest in {names[longest]} ({time(table['compute_s'][longest])})."
    waiting = sum(exposed)
    if not waiting:
        return f"No layer makes compute wait: all communication is hidden behind compute. {compute}"
    waits = [(name, each) for name, each in zip(names, exposed, strict=True) if each > 0]
    if len(waits) == 1:
        name = waits[0][0]
        return f"{name} is the only layer whose communication makes compute wait: {time(waiting)} per step. {compute}"
    groups = group_equal(waits, lambda each: each[0], lambda each: each[1:])
    most = max(groups, key=lambda group: sum(each for _, each in group))
    share = sum(each for _, each in most) / waiting
    least, largest = (percent(end(each for _, each in waits) / waiting) for end in (min, max))
    of = f"{largest} for each" if least == largest else f"at most {largest} for one of them"
    if len(most) < len(waits) and (len(most) > 1 or share > _MAJORITY):
        name = group_label([name for name, _ in most])
        part = f"{'most of it' if share > _MAJORITY else 'the largest part'}, {percent(share)}, is for {name}"
        of = f"{of}; {part}" if len(most) > 1 else part
    whose = counted(len(waits), "layer")
    return f"Compute waits {time(waiting)} per step for the communication of {whose}: {of}. {compute}"


def communication(source: Source) -> Chart | None:
    """Raw communication of each layer, stacked by the part of the step that it belongs to."""
    table = source.table("layers", "communication_s", *(f"{part}_communication_s" for part in _RAW))
    # For a job of collectives alone, the chart of collectives shows more.
    if table is None or not any(table["communication_s"]) or not any(table["compute_s"]):
        return None
    raw, names = table["communication_s"], table["layer"]
    count = sum(1 for each in raw if each > 0)
    longest = max(range(len(names)), key=raw.__getitem__)
    hidden = max(sum(raw) - sum(table["exposed_communication_s"]), 0.0) / sum(raw)
    stages = stages_of(source)
    behind = "hidden behind compute or other communication"
    if hidden in (0, 1):
        overlap = f"All communication is {behind if hidden else 'exposed'}."
    else:
        overlap = f"{percent(hidden)} of all raw communication time is {behind}."
    return Chart(
        "communication",
        "Communication of each layer",
        f"{counted(count, 'layer')} of {len(names)} communicate. The longest is {names[longest]}:"
        f" {time(raw[longest])} for {size(table['collective_bytes'][longest])}. {overlap}",
        "Raw time is the time from the issue of a layer's collectives to their results, whatever else happens"
        " meanwhile. Raw times of different layers overlap, so their sum may exceed the step. Colours show which"
        " exchange it is: of the forward pass, of the gradient with respect to the input, or of the gradient of the"
        " parameters.",
        {
            "views": [
                {
                    **_bars(view, names, stages),
                    "bytes": _sums(view, table["collective_bytes"]),
                    "parts": {part: _sums(view, table[f"{part}_communication_s"]) for part in _RAW},
                }
                for view in views(names, stages)
            ]
        },
        _grouped(names),
    )
