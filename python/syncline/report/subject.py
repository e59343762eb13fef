"""Describes a run in words: its name, its job, how it ended, and its main findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, digits, listed, money, per_kilowatt, per_million, percent, scaled, time

if TYPE_CHECKING:
    from syncline.run import Run
    from syncline.summary import JobSummary, Summary

ENDED = {
    "limit_reached": "A limit was reached: all numbers describe the time before it.",
    "interrupted": "Interrupted: all numbers describe the time before that.",
}
"""First sentence about a run that was cut short."""

FEW = 4
"""Maximum number of jobs whose numbers of iterations are listed one by one."""

NO_STEP = "No iteration was completed: the step time is not known."


def name(result: Run) -> str:
    """The scenario's name, or else the folder's."""
    return str((result.scenario or {}).get("name") or (result.folder.name if result.folder else "result"))


def facts(result: Run) -> list[str]:
    """Model, ranks, parallelism, iterations."""
    summary = result.summary
    workload = (result.scenario or {}).get("workload", {})
    what = [str(workload["model"])] if workload.get("model") else []
    what.append(counted(summary.ranks, "rank"))
    if summary.npus != summary.ranks:
        what.append(counted(summary.npus, "NPU"))
    if summary.parallelism:
        what.append(summary.parallelism)
    what.append(steps(summary))
    return what


def steps(summary: Summary) -> str:
    """Numbers of iterations: ``3 iterations of 4 micro-batches``; for several jobs ``2 jobs of 2 and 4 iterations``."""
    if summary.jobs:
        numbers = [job.iterations for job in summary.jobs]
        jobs = counted(len(numbers), "job")
        if min(numbers) == max(numbers):
            return f"{jobs} of {counted(numbers[0], 'iteration')}{' each' if len(numbers) > 1 else ''}"
        few = len(numbers) <= FEW
        each = listed([str(number) for number in numbers]) if few else f"{min(numbers)} to {max(numbers)}"
        return f"{jobs} of {each} iterations"
    of = f" of {summary.micro_batches} micro-batches" if summary.micro_batches else ""
    return f"{counted(summary.iterations, 'iteration')}{of}"


def bottleneck(summary: Summary) -> tuple[str, str, str] | None:
    """The bottleneck in words, as three parts: the words before its name, the name, and the words after it."""
    name = summary.bottleneck.name
    match summary.bottleneck.kind:
        case "nothing":
            return None
        case "skew":
            return "the ", name, " between ranks"
        case "bubble":
            return "the ", name, " of the pipeline"
        case "memory":
            return "", name, ", or the host"
        case "reduction":
            return "local ", name, ""
        case "timeout":
            return "a retransmission ", name, ""
        case "compute" | "latency" | "communication":
            return "", name, ""
        case "links" if name == "network" and len(summary.dims) == 1:
            return "the ", name, ""
        case "links":
            return "the network's ", name, ""


Part = tuple[str, str, float]
"""CSS class of its colour, name, seconds in the whole run."""


def parts(summary: Summary) -> list[Part]:
    """The parts of the mean rank's time, compute first; they add up to the total time."""
    found = [
        ("compute", "compute", summary.compute_s),
        ("exposed", "exposed communication", summary.exposed_communication_s),
        ("bubble", "bubble", summary.bubble_s),
        ("skew", "skew", summary.skew_s),
        ("memory", "exposed memory operations", summary.exposed_memory_s),
        ("idle", "idle", summary.idle_s),
    ]
    # A smaller part is rounding error.
    return [part for part in found if part[2] > summary.total_time_s * 1e-9]


def axes(summary: Summary) -> list[tuple[str, float]]:
    """Exposed communication by axis of the mesh, longest first; empty if there is only one axis."""
    found = sorted(((axis.name, axis.exposed_communication_s) for axis in summary.exposed_by_axis), key=lambda e: -e[1])
    return found if len(found) > 1 else []


def simulated(summary: Summary) -> list[str]:
    """What was simulated if the rest is equal, such as ``1 of 32 ranks``; empty if everything was simulated."""
    return [
        f"{some} of {counted(number, what)}"
        for some, number, what in (
            (summary.simulated_ranks, summary.ranks, "rank"),
            (summary.simulated_iterations, summary.iterations, "iteration"),
            (
                summary.simulated_micro_batches or 0,
                summary.iterations * (summary.micro_batches or 1),
                "micro-batch",
            ),
        )
        if 0 < some < number
    ]


def work(summary: Summary) -> list[str]:
    """The rate of training: samples and tokens per second; then FLOP/s per NPU, and MFU. Empty if neither is known."""
    said = []
    if summary.samples_per_s is not None:
        a_step = f" ({counted(summary.samples_per_step or 0, 'sample')} per step)"
        rates = [f"{scaled(summary.samples_per_s, '')}".rstrip() + " samples/s"]
        if summary.tokens_per_s is not None:
            rates.insert(0, f"{scaled(summary.tokens_per_s, '')}".rstrip() + " tokens/s")
        said.append(f"{', '.join(rates)}{a_step}")
    if summary.model_tflop_per_s_per_npu:
        parts = [f"{scaled(summary.model_tflop_per_s_per_npu * 1e12, 'FLOP/s')} per NPU"]
        known = (("MFU", summary.mfu), ("with masked scores", summary.mfu_unmasked), ("HFU", summary.hfu))
        parts += [f"{name} {percent(part)}" for name, part in known if part is not None]
        said.append(", ".join(parts))
    return said


def calibration(summary: Summary) -> str:
    """Says whether the models were calibrated against measurements."""
    return "not calibrated" if summary.calibrated == "no" else f"calibrated: {summary.calibrated}"


def packets(summary: Summary) -> str:
    """Counts of lost, repeated and marked packets, in a sentence; empty if the network model has no packets."""
    counts = summary.packets
    if counts is None:
        return ""
    if counts.dropped or counts.retransmissions:
        what = f"{counts.dropped} of {counted(counts.sent, 'packet')} dropped, "
        what += f"{counted(counts.retransmissions, 'segment')} sent again, {counted(counts.timeouts, 'time-out')}"
    else:
        what = f"none of {counted(counts.sent, 'packet')} lost"
    marked = f", {counts.marked} marked" if counts.marked else ""
    marked += f", ports paused {counted(counts.pauses, 'time')}" if counts.pauses else ""
    trips = f"; round trips of {time(counts.rtt_mean_s)} (p99 {time(counts.rtt_p99_s)})" if counts.rtt_mean_s else ""
    return f"Packets: {what}{marked}{trips}."


def cost(summary: Summary) -> str:
    """Cost and power of the fabric, in a sentence; empty if the scenario has no prices."""
    if summary.prices is None or summary.cost_usd is None:
        return ""
    each = "" if summary.cost_per_npu_usd is None else f", {money(summary.cost_per_npu_usd)} per NPU"
    said = f"Cost: {money(summary.cost_usd)}{each} (prices of {summary.prices})"
    if summary.power_w is not None:
        said += f"; {scaled(summary.power_w, 'W')}"
    return f"{said}."


def value(summary: Summary | JobSummary) -> list[str]:
    """Performance per dollar and per watt."""
    worth = []
    if summary.iterations_per_s_per_usd is not None:
        worth.append(per_million(summary.iterations_per_s_per_usd))
    if summary.iterations_per_s_per_w is not None:
        worth.append(per_kilowatt(summary.iterations_per_s_per_w))
    return worth


def values(summary: Summary) -> str:
    """Performance per dollar and per watt, in words; with several jobs, of each job."""
    each = [(f"{job.name} ", value(job)) for job in summary.jobs] or [("", value(summary))]
    return "; ".join(f"{name}{listed(worth)}" for name, worth in each if worth)


def worst_ports(result: Run) -> str:
    """Names the port that dropped most packets, and the port that was paused longest; empty without drops or pauses."""
    summary = result.summary
    if not summary.packets or "ports" not in result.tables:
        return ""
    ports = result.table("ports")
    said = []
    dropped, paused = ports["dropped"], ports.get("paused_s", [])
    if any(dropped):
        worst, whole = _worst(dropped), sum(dropped)
        name, count = _port(result, worst), dropped[worst]
        if count == whole:
            said.append(f"All drops are at {name}.")
        elif count > whole / 2:
            said.append(f"Most drops are at {name}: {count} of {whole}.")
        else:
            said.append(f"The port with most drops is {name}: {count} of {whole}.")
    if any(paused):
        worst = _worst(paused)
        share = f" ({percent(paused[worst] / summary.total_time_s)} of the time)" if summary.total_time_s else ""
        said.append(f"The port paused longest is {_port(result, worst)}: {time(paused[worst])}{share}.")
    return " ".join(said)


def _worst(values: list[float]) -> int:
    """The first row with the largest value."""
    return max(range(len(values)), key=lambda row: (values[row], -row))


def _port(result: Run, row: int) -> str:
    """The name of a port: that of its link, and its dimension if there are several."""
    ports = result.table("ports")
    name = f"{ports['from'][row]} -> {ports['to'][row]}"
    links = result.table("links")
    number = ports["link"][row]
    if len(result.summary.dims) < 2 or number not in links["link"]:
        return name
    return f"{name} in {links['dimension'][links['link'].index(number)]}"


def known(summary: Summary) -> str:
    """Names the dimensions whose busiest link is unknown, as in ``outside dim1``; empty if there are none."""
    unknown = [dim.name for dim in summary.dims if dim.busiest_link_busy is None]
    return f" outside {listed(unknown)}" if unknown else ""


def overload(summary: Summary) -> str:
    """Says where the network model was too optimistic, and by how much at least; empty if nowhere."""
    found = summary.overload
    if found is None:
        return ""
    others = f" and {counted(found.links - 1, 'other link')}" if found.links > 1 else ""
    said = (
        f"{summary.network_model} ignores contention inside the network: {found.link}{others} would have to carry up to"
        f" {digits(found.times)} times their rate."
    )
    if (more := found.least_time_s - summary.total_time_s) > 0:
        said += f" The time is at least {percent(more / summary.total_time_s)} too short ({time(found.least_time_s)})."
    elif found.late_s:
        said += f" Some of these bytes would arrive at least {time(found.late_s)} later; other work may hide that."
    return f"{said} `--network flow` models shared links."


def faults(summary: Summary) -> str:
    """The faults, and how much they cost."""
    said = f"Faults: {'; '.join(summary.faults)}."
    cost, healthy = summary.fault_cost_s, summary.healthy_step_time_s
    if cost is None or healthy is None:
        return said
    share = f" ({percent(cost / healthy)})" if healthy else ""
    if cost < 0:
        return f"{said} The step is {time(-cost)} shorter than without them: messages came in a different order{share}."
    return f"{said} They add {time(cost)} to a step that takes {time(healthy)} without them{share}."
