"""Orders of ranks that `syncline reorder` finds on an emulated cluster, beside random ones.

Usage: reorder.py [--gloo PYTHON] [CASE...]. Sixteen hosts in four racks, whose uplinks carry a quarter of what the
hosts can send. `syncline probe` does not know which hosts share a rack. Cases `gloo` and `mpi` time a ring all-reduce
in the order found, and in 20 random orders. The other cases are algorithms of the executor (`ring`, `halving_doubling`,
`double_binary_tree`, `bcube`), whose predicted costs of 30 orders are correlated with measured times. Ten of these
orders are random, and nearly equal; the others are the order found after 1 to 20 random swaps. Needs root.

Orders that take the same time limit the correlation: a ring takes as long as the link that most of its hops share, and
in random orders that is mostly three or four hops. Of 30 random ones about 24 tie, and then no prediction reaches more
than ``sqrt(1 - sum(t**3 - t) / (n**3 - n))`` = 0.7 (for ties of ``t`` among ``n``), however good it is.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from emulated import TESTBED, can_emulate, measure_mpi
from emulated import name as bed_name
from peers import arguments, output_of, with_mpi
from requirement import print_out, requirement

from syncline.distances import Measured, read

# The project's folder, which has the experiments: they measure orders, too.
sys.path.append(str(Path(__file__).parents[1]))

from experiments.luo2020.orders import PLANS, PROGRAM, costs, shuffled, spearman, swapped, written

HOSTS = 16
SPEC = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 4, hosts_per_leaf: 4, spines: 1, rate: 250Mb/s, uplink_rate: 250Mb/s }}
"""
BYTES = 26_214_400
MPI_RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]
"""Options by which Open MPI's all-reduce is a ring. For 25 MB on 16 hosts, it chooses another algorithm by itself."""
RANDOM_ORDERS = 20


def probe(called: str, folder: Path) -> Measured:
    """Measures the round trips between all hosts of the testbed."""
    hosts = [f"syncline.{called}.h{host}" for host in range(HOSTS)]
    out = folder / "probe.parquet"
    command = [sys.executable, "-m", "syncline", "probe", *hosts, "--out", str(out), "--force", "--quiet"]
    subprocess.run([*command, "--launch", "ip netns exec {host} python3 -"], check=True, capture_output=True)  # noqa: S603
    return read(str(out))


def times(called: str, python: str, library: str, plan: str, nbytes: int, orders: list[list[int]]) -> list[float]:
    """Measured seconds of each order."""
    listed = ";".join(",".join(map(str, order)) for order in orders)
    program = [python, "-W", "ignore", str(PROGRAM), library, plan, str(nbytes), listed]
    output = output_of([*TESTBED, "run", called, "--", *program])
    line = next(line for line in output.splitlines() if "[" in line and line.rstrip().endswith("]") and "," in line)
    return [
        float(each) for each in json.loads(line[line.index("[", line.index("]") if line.startswith("[0]") else 0) :])
    ]


def compared(name: str, better: float, others: list[float]) -> str:
    """A line about an order beside random ones."""
    mean = statistics.mean(others)
    spread = f"{min(others):.2f} to {max(others):.2f}"
    return (
        f"{name}: {better:.2f} s in the order found, on average {mean:.2f} s in {len(others)} random ones ({spread}), "
        f"{mean / better:.2f} times as long {requirement(mean / better, 2)}"
    )


def main(given: list[str]) -> None:
    """Probes, reorders and measures."""
    python, cases = arguments(given, ["gloo", "mpi", *PLANS])
    if not can_emulate():
        return
    called = bed_name("reorder-bench")
    with tempfile.TemporaryDirectory() as folder:
        bed = Path(folder) / "bed.yaml"
        bed.write_text(SPEC.format(name=called))
        output_of([*TESTBED, "up", str(bed)])
        try:
            measured = probe(called, Path(folder))
            start = shuffled(HOSTS, 1, 99)[0]
            for case in cases:
                if case == "gloo" and python:
                    order = costs(measured, "ring", start).best
                    seconds = times(called, python, "gloo", "", BYTES, [order, *shuffled(HOSTS, RANDOM_ORDERS, 1)])
                    print_out(compared("Gloo", seconds[0], seconds[1:]))
                elif case == "mpi" and (mpi := with_mpi(folder)):
                    orders = [costs(measured, "ring", start).best, *shuffled(HOSTS, RANDOM_ORDERS, 1)]
                    seconds = [
                        statistics.median(measure_mpi(called, called, mpi, BYTES, written(each), MPI_RING).seconds)
                        for each in orders
                    ]
                    print_out(compared("Open MPI", seconds[0], seconds[1:]))
                elif case in PLANS:
                    plan = PLANS[case]
                    model = costs(measured, plan, start)
                    orders = [*shuffled(HOSTS, 10, 2), *swapped(model.best, 20, 3)]
                    seconds = times(called, sys.executable, "syncline", plan, BYTES, orders)
                    predicted = [model.of(each) for each in orders]
                    every = spearman(predicted, seconds)
                    at_random = spearman(predicted[:10], seconds[:10])
                    print_out(
                        f"{plan}: Spearman's correlation of predicted and measured orders {every:.2f} "
                        f"{requirement(every, 0.9)}; of the 10 random ones {at_random:.2f}; "
                        f"{min(seconds):.2f} to {max(seconds):.2f} s"
                    )
        finally:
            output_of([*TESTBED, "down", called])


if __name__ == "__main__":
    main(sys.argv[1:])
