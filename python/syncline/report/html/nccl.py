"""What NCCL chose for collectives, as a table. Works without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.quantity import counted, size, time
from syncline.report.nccl_choices import choices

if TYPE_CHECKING:
    from syncline.run import Run

SHOWN = 60
"""Maximum number of rows."""

_READING = (
    "A row is all collectives of one group, operation and size. Algorithm, protocol and the time alone are those of the"
    " calibrated model. The time in the run is the mean from a rank's issue to its result: it is longer where ranks"
    " come late, or where links are shared, slow or broken. Channels: fewer than all where each would have less than"
    " its smallest share. Unknown: the machine has no times of this collective, so it takes the time of its plan on"
    " the fabric."
)
_HEADINGS = ("group", "collective", "size", "algorithm", "protocol", "channels", "calls", "alone", "in the run")


def nccl(result: Run) -> str:
    """HTML of the section; empty without a calibrated NCCL."""
    found = choices(result.table("collectives"))
    if not found:
        return ""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in _HEADINGS)
    rows = []
    for each in found[:SHOWN]:
        known = each.algorithm != ""
        cells = (
            each.kind,
            size(each.nbytes),
            each.algorithm if known else "unknown",
            each.protocol,
            each.channels,
            str(each.calls),
            time(each.alone_s) if known else "",
            time(each.mean_s),
        )
        row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{escape(each.group)} ({each.ranks})</th>{row}</tr>')
    more = len(found) - SHOWN
    note = (
        f'<p class="note">{counted(more, "kind")} of calls with less time {"is" if more == 1 else "are"} left out.</p>'
    )
    return f"""<section id="nccl"><h2>What NCCL chooses</h2>
<p class="finding">{escape(_finding(result, len(found)))}</p>
<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>
{note if more > 0 else ""}<details class="reading"><summary>How to read this</summary><p>{_READING}</p></details>
</section>
"""


def _finding(result: Run, kinds: int) -> str:
    return f"{counted(kinds, 'kind')} of calls. Calibrated: {result.summary.calibrated}."
