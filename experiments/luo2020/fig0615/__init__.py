"""Figure 6.15: the tuner follows a host whose links become slow, and fast again."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measured, Measurement, Session
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, source
from experiments.luo2020.exchange import Exchange
from syncline.runtime import Resources
from syncline.testbed import PAYLOAD
from syncline.tuning import Assignment, even_groups, quicktune

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.cluster import Cluster
    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
FREE, LIMITED = FOLDER / "eight.yaml", FOLDER / "limited.yaml"
PROGRAM = FOLDER / "follow.py"
HOSTS, NBYTES, BLOCKS = 8, 1 << 20, 32
"""Blocks of the vector: four for each rank, the tuner's number."""
MESSAGE = 8 << 10
"""Bytes of a message: a quarter of a block."""
RATE, LIMIT = 250e6, 100e6
"""Bits per second of a host, and of host 0 while it is limited: in the ratio of the dissertation's 5 and 2 Gb/s."""
BEFORE_S, LIMITED_S, AFTER_S, UNTUNED_S = 25.0, 45.0, 45.0, 15.0
"""Time before the limit, under it, and afterwards; and before and under it in the job without a tuner."""
SETTLED = 3
"""A phase counts as settled in the last of this many parts of it."""
PAPER, EVEN = 1.27, 1.05

SPEEDUP = Claim(
    "luo-12",
    "Fig. 6.15",
    "while one node of 8 is limited from 5 to 2 Gb/s, the tuner's assignment of masters gives at least 1.27 times the "
    "throughput of the balanced one.",
)
IMBALANCE = Claim(
    "luo-13",
    "Fig. 6.15",
    "after the limit is lifted, the assignment becomes balanced again: the rank that sends most sends less than 1.05 "
    "times as much as the one that sends least.",
)
NEAR = beside.claim("fig0615")

BALANCED, TUNED, AGAIN = "limited, balanced", "limited, tuned", "lifted, tuned"
PHASES = ("not limited, balanced", BALANCED, TUNED, AGAIN)


def assignment(rate: float) -> Assignment:
    """The masters for host 0 at ``rate`` bits per second and the others at :data:`RATE`."""
    return quicktune(even_groups(HOSTS), [rate, *[RATE] * (HOSTS - 1)], BLOCKS)


def least_s(masters: Assignment, rate: float) -> float:
    """The closed form of an all-reduce: the longest time for which a rank sends, with host 0 at ``rate``."""
    rates = [rate, *[RATE] * (HOSTS - 1)]
    vectors = max(sent / each for sent, each in zip(masters.sent, rates, strict=True))
    return vectors * 8 * NBYTES / PAYLOAD


def exchange(scenario: Path, masters: Assignment, folder: Path) -> Exchange:
    """An all-reduce with these masters, to be simulated."""
    path = (folder / f"masters-{'-'.join(map(str, masters.global_masters))}.json").resolve()
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        masters.plan().save(path)
    windows = {"active_chunks": Resources().window // MESSAGE}
    chunks = NBYTES // BLOCKS // MESSAGE
    return Exchange(scenario, "masters", NBYTES, range(HOSTS), chunks, str(path), collectives=windows)


def measure(runner: Runner) -> Findings:
    """Predicts all-reduces with balanced and tuned masters, and lets a tuner follow the limit."""
    phases = Table(
        "phases", f"All-reduces of 1 MiB by {HOSTS} hosts", ("phase", "closed_form_s", *COLUMNS, "imbalance")
    )
    found = runner.bench.collect(
        Session("tuned", lambda python: follow(python, quick=runner.quick), quick=runner.quick)
    )
    even = assignment(RATE)
    pairs: dict[str, Pair] = {}
    for phase, scenario, masters, rate in (
        (PHASES[0], FREE, even, RATE),
        (BALANCED, LIMITED, even, LIMIT),
        (TUNED, LIMITED, assignment(LIMIT), LIMIT),
        (AGAIN, FREE, even, RATE),
    ):
        each = exchange(scenario, masters, runner.store.place / "plans")
        pairs[phase] = Pair(phase, each, each.predicted(runner), _measurement(found, phase))
        loads = None if isinstance(found, str) else float(found.values["phases"][phase]["imbalance"])
        phases.add(phase, least_s(masters, rate), *pairs[phase].cells(), loads)
    tables = [phases, _decisions(found), *_series(found)]
    verdicts = [_speedup(pairs), _imbalance(found), beside.judged(NEAR, list(pairs.values()), WHY)]
    return Findings(tables, verdicts)


WHY = (
    "The closed form is the longest time for which a rank sends; the simulation adds the rounds of messages. Every "
    "rank sends to seven others in messages of 8 KiB, and eight hosts share two cores."
)


def _measurement(found: Measured | str, phase: str) -> Measurement | str:
    """The time of an all-reduce in a phase."""
    if isinstance(found, str):
        return found
    of = found.values["phases"][phase]
    return Measurement(of["median_s"], of["least_s"], of["count"], found.others, found.made, found.stolen)


def _decisions(found: Measured | str) -> Table:
    """The trials of the tuner."""
    columns = ("at_s", "reason", "tried", "before_s", "after_s", "kept")
    decisions = Table(
        "decisions", "Trials of the tuner, with the time of an all-reduce before and in the trial", columns
    )
    for each in [] if isinstance(found, str) else found.values["decisions"]:
        kept = "yes" if each["adopted"] else "no"
        decisions.add(each["at_s"], each["reason"], each["tried"], each["before_s"], each["after_s"], kept)
    if not decisions.rows:
        decisions.add(None, found if isinstance(found, str) else "no trial", None, None, None, None)
    return decisions


def _series(found: Measured | str) -> list[Table]:
    """What was measured in each second, and when the limit began and ended; for files and the picture."""
    series = Table(
        "series", "All-reduces in each second, and the imbalance of bytes sent", ("at_s", "per second", "imbalance")
    )
    limit = Table("limit", "When the limit began and ended", ("from_s", "until_s"))
    series.listed = limit.listed = False
    if not isinstance(found, str):
        of = found.values["series"]
        for row in zip(of["at_s"], of["per_second"], of["imbalance"], strict=True):
            series.add(*row)
        limit.add(found.values["limited_s"], found.values["restored_s"])
    return [series, limit]


def _speedup(pairs: Mapping[str, Pair]) -> Verdict:
    balanced, tuned = pairs[BALANCED], pairs[TUNED]
    ratio = balanced.best_s / tuned.best_s
    ideal = least_s(assignment(RATE), LIMIT) / (8 * NBYTES / LIMIT / PAYLOAD)
    return SPEEDUP.judged(
        ratio >= PAPER,
        f"{ratio:.2f} times, simulated {balanced.predicted_s / tuned.predicted_s:.2f}{source([balanced, tuned])}",
        "A balanced assignment lets every host send 2 (N - 1) / N vectors. A host that is the master of nothing sends "
        f"its vector once, which is the least possible: at most {ideal:.2f} times the throughput. The paper's ratio is "
        "of training with ResNet-50, which also computes; here hosts compute nothing, so all of the gain shows.",
    )


def _imbalance(found: Measured | str) -> Verdict:
    if isinstance(found, str):
        ends = assignment(RATE).sent
        said = f"predicted {max(ends) / min(ends):.2f} ({found})"
        return IMBALANCE.judged(holds=False, measured=said, why="Nothing was measured.")
    lifted, limited = (float(found.values["phases"][each]["imbalance"]) for each in (AGAIN, TUNED))
    last = [each for each in found.values["decisions"] if each["adopted"]]
    surplus = least_s(assignment(LIMIT), RATE) / least_s(assignment(RATE), RATE) - 1
    kept = (
        f"The last trial that was kept: {last[-1]['tried']}, {last[-1]['at_s']:.0f} s after the start." if last else ""
    )
    return IMBALANCE.judged(
        lifted < EVEN,
        f"{lifted:.2f} in the end, {limited:.2f} at the limit",
        f"Once the limit is lifted, masters for the limit take only {100 * surplus:.0f} % longer than balanced ones by "
        "the closed form, and the tuner keeps plans only if they are 3 % faster: where the machine's cores decide as "
        f"well, too little is left to gain. {kept}".strip(),
    )


# The session


def follow(python: str, *, quick: bool) -> dict[str, Any]:
    """Measures: a job without a tuner, free and limited; then a job with one, before, under and after the limit."""
    before, limited, after, untuned = (3.0, 3.0, 3.0, 3.0) if quick else (BEFORE_S, LIMITED_S, AFTER_S, UNTUNED_S)
    with cluster(FREE, python) as bed:
        plain = _job(bed, "off", untuned, untuned, 0.0)
        tuned = _job(bed, "on", before, limited, after)
    free, slow, _ = plain.phases()
    _, adapted, lifted = tuned.phases()
    phases = {PHASES[0]: plain.summary(free), BALANCED: plain.summary(slow)}
    phases |= {TUNED: tuned.summary(_end(adapted)), AGAIN: tuned.summary(_end(lifted))}
    return {
        "phases": phases,
        "limited_s": round(tuned.changed - tuned.begun, 2),
        "restored_s": round(tuned.restored - tuned.begun, 2),
        "series": tuned.series(),
        "decisions": [_decision(each, tuned.begun) for each in tuned.decisions],
    }


def _end(phase: range) -> range:
    """The last part of a phase, when it has settled."""
    return phase[len(phase) - len(phase) // SETTLED :]


def _decision(each: Mapping[str, Any], begun: float) -> dict[str, Any]:
    """A decision, with the time since the job began, and times of all-reduces instead of times for each byte."""

    def taken(of: float | None) -> float | None:
        return None if of is None else round(of * NBYTES, 5)

    found = {key: each[key] for key in ("reason", "tried", "adopted", "why")}
    found["at_s"] = round(each["at_s"] - begun, 1)
    return {**found, "before_s": taken(each["before_s_per_byte"]), "after_s": taken(each["after_s_per_byte"])}


class _Job:
    """A job that ran, and when the limit began and ended."""

    def __init__(self, ranks: Sequence[Mapping[str, Any]], changed: float, restored: float) -> None:
        self.steps: list[float] = ranks[0]["steps"]
        self.decisions: list[dict[str, Any]] = ranks[0]["decisions"]
        self.sent: list[dict[int, int]] = [dict(rank["sent"]) for rank in ranks]
        self.begun, self.changed, self.restored = self.steps[0], changed, restored

    def between(self, start: float, end: float) -> range:
        """The steps that began and ended in some time."""
        inside = [at for at in range(1, len(self.steps)) if start <= self.steps[at - 1] and self.steps[at] <= end]
        return range(inside[0], inside[-1] + 1) if inside else range(0)

    def phases(self) -> tuple[range, range, range]:
        """The steps before, under and after the limit."""
        ends = (self.begun, self.changed, self.restored, self.steps[-1])
        before, under, after = (self.between(start, end) for start, end in pairwise(ends))
        return before, under, after

    def imbalance(self, steps: range) -> float | None:
        """What the rank that sent most in some steps has sent, over that of the one that sent least."""
        read = [step for step in self.sent[0] if step in steps]
        if len(read) < 2:
            return None
        sent = [rank[read[-1]] - rank[read[0]] for rank in self.sent]
        return round(max(sent) / min(sent), 3)

    def summary(self, steps: range) -> dict[str, Any]:
        """Times of all-reduces in some steps, and the imbalance."""
        times = [self.steps[at] - self.steps[at - 1] for at in steps]
        if not times:
            raise RuntimeError("no all-reduce ended in a phase")
        found = {"median_s": round(median(times), 5), "least_s": round(min(times), 5), "count": len(times)}
        return {**found, "imbalance": self.imbalance(steps)}

    def series(self) -> dict[str, list[Any]]:
        """What was measured in each second."""
        rows: dict[str, list[Any]] = {"at_s": [], "per_second": [], "imbalance": []}
        for second in range(int(self.steps[-1] - self.begun)):
            steps = self.between(self.begun + second, self.begun + second + 1)
            if steps:
                times = [self.steps[at] - self.steps[at - 1] for at in steps]
                rows["at_s"].append(second + 0.5)
                rows["per_second"].append(round(1 / mean(times), 2))
                rows["imbalance"].append(self.imbalance(steps))
        return rows


def _job(bed: Cluster, mode: str, before: float, limited: float, after: float) -> _Job:
    """Runs a job, in which host 0 is limited for some time."""
    with TemporaryDirectory(prefix="syncline-") as folder:
        end = Path(folder) / "end"
        running = bed.begin([str(PROGRAM), mode, str(NBYTES), str(BLOCKS), str(end)])
        try:
            time.sleep(before)
            changed, restored = bed.shape("h0", f"{LIMIT:.0f}b/s", limited)
            time.sleep(after)
            end.touch()
            return _Job(running.result(), changed, restored)
        finally:
            end.touch()
            running.stop()


def draw(findings: Findings) -> Figure:
    """Draws throughput over time, with the mean of each phase."""
    series, limit = findings.table("series"), findings.table("limit")
    figure, axes = plot.new(height=3.0)
    phases = findings.table("phases")
    if series.rows:
        at, rate = series.column("at_s"), series.column("per second")
        axes.plot(at, rate, color=plot.BLUE, label="measured, tuned")
        ((start, end),) = limit.rows
        for x in (start, end):
            axes.axvline(x, color=plot.GREY, linewidth=0.8, linestyle=":")
        (balanced,) = phases.column("measured_s", phase=BALANCED)
        axes.plot([start, end], [1 / balanced] * 2, color=plot.ORANGE, label="measured, balanced at the limit")
    else:
        start, end = BEFORE_S, BEFORE_S + LIMITED_S
    (predicted,) = phases.column("predicted_s", phase=TUNED)
    axes.plot(
        [start, end], [1 / predicted] * 2, color=plot.GREEN, linestyle="--", label="predicted, tuned at the limit"
    )
    (predicted,) = phases.column("predicted_s", phase=BALANCED)
    axes.plot(
        [start, end], [1 / predicted] * 2, color=plot.RED, linestyle="--", label="predicted, balanced at the limit"
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("all-reduces [1/s]")
    axes.legend(ncols=2, loc="lower right")
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "a tuner follows a host whose links become slow",
    (SPEEDUP, IMBALANCE, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)
