"""Orders of hosts: beside all orders of few hosts, and beside what is known of racks."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from syncline.distances import Measured, Pair, save
from syncline.errors import SynclineError
from syncline.reordering import reorder
from syncline.reordering.difference import difference, split
from tests.conftest import Cli


def racks(hosts: int, size: int, *, missing: float = 0.0, seed: int = 1) -> tuple[Measured, list[int]]:
    """Round trips of 60 us within racks and 200 us between them, give or take a tenth, and the rack of each host."""
    rng = random.Random(seed)
    rack = [host // size for host in range(hosts)]
    rng.shuffle(rack)
    pairs = {
        (a, b): Pair((60e-6 if rack[a] == rack[b] else 200e-6) * rng.uniform(0.95, 1.05))
        for a in range(hosts)
        for b in range(hosts)
        if a != b and rng.random() >= missing
    }
    return Measured(tuple(f"h{host}" for host in range(hosts)), pairs), rack


def test_a_ring_costs_half_the_sum_of_its_round_trips() -> None:
    measured, _ = racks(7, 3)
    found = reorder(measured)

    def cost(order: tuple[int, ...]) -> float:
        hops = zip(order, (*order[1:], order[0]), strict=True)
        return sum(max(measured.pairs[a, b].rtt_s or 0, measured.pairs[b, a].rtt_s or 0) / 2 for a, b in hops)

    best = min(cost((0, *rest)) for rest in itertools.permutations(range(1, 7)))
    order = tuple(measured.hosts.index(host) for host in found.hosts)
    assert found.cost_s == pytest.approx(cost(order), rel=1e-6)
    assert found.cost_s == pytest.approx(best, rel=1e-6)
    assert found.cost_before_s == pytest.approx(cost(tuple(range(7))), rel=1e-6)
    assert found.bound_s <= found.cost_s * (1 + 1e-9)


def test_rates_add_the_time_of_the_bytes() -> None:
    pairs = {(0, 1): Pair(2e-6, rate_bytes_per_s=1e9), (1, 0): Pair(4e-6, rate_bytes_per_s=5e8)}
    found = reorder(Measured(("a", "b"), pairs), nbytes=1_000_000)
    # Two hops, each half of 4 us and a megabyte at 500 MB/s.
    assert found.cost_s == pytest.approx(2 * (2e-6 + 2e-3))


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_a_ring_enters_each_rack_once(missing: float) -> None:
    measured, rack = racks(32, 8, missing=missing)
    found = reorder(measured, seed=3)
    inside = [rack[int(host[1:])] for host in found.hosts]
    assert sum(a != b for a, b in zip(inside, inside[1:] + inside[:1], strict=True)) == 4
    # Both directions of a pair must be missing.
    unknown = sum((a, b) not in measured.pairs and (b, a) not in measured.pairs for a in range(32) for b in range(a))
    assert (found.filled, found.hosts[0]) == (unknown, "h0")
    seen = difference(found)
    assert (seen.exchanges, seen.far_after) == (32, 4)
    assert seen.far_before > 15
    assert 30e-6 < (seen.far_s or 0) < 100e-6
    assert {each.hosts for each in seen.dropped}.isdisjoint(each.hosts for each in seen.added)
    assert seen.longest_before.time_s >= seen.dropped[0].time_s


def test_the_seed_determines_the_order() -> None:
    measured, _ = racks(16, 4)
    for algorithm in ("ring", "halving_doubling", "double_binary_tree", "bcube(base=4)"):
        orders = {reorder(measured, algorithm=algorithm, seed=seed).hosts for seed in (1, 1)}
        assert len(orders) == 1


def test_distances_without_near_and_far_ones_are_not_split() -> None:
    assert split([1.0] * 10) is None
    assert split([1.0, 1.1, 1.2]) is None
    assert split([1.0, 1.1, 3.0, 3.1]) == 3.0


@pytest.mark.parametrize(
    ("order", "algorithm", "message"),
    [
        (("h0", "h1", "h9"), "ring", "the host was not measured"),
        (("h0", "h1", "h0"), "ring", "the host is listed twice"),
        (("h0",), "ring", "an order needs two hosts or more"),
        (None, "halving_doubling", "the number of hosts is not a power of 2, which halving_doubling needs"),
        (None, "torus", "no cost model for this algorithm"),
    ],
)
def test_an_impossible_order_is_refused(order: tuple[str, ...] | None, algorithm: str, message: str) -> None:
    measured, _ = racks(6, 3)
    with pytest.raises(SynclineError) as refused:
        reorder(measured, order=order, algorithm=algorithm)
    assert refused.value.diagnostics[0]["message"] == message


def test_hosts_that_nobody_measured_are_named() -> None:
    measured = Measured(("a", "b", "c", "d"), {(0, 1): Pair(1e-6), (2, 3): Pair(1e-6)})
    with pytest.raises(SynclineError, match="measured round trips do not connect c and 1 more to a"):
        reorder(measured)
    with pytest.raises(SynclineError, match="no round trips were measured"):
        reorder(Measured(("a", "b"), {(0, 1): Pair(rate_bytes_per_s=1e9)}))
    assert reorder(measured, order=("d", "c")).hosts == ("d", "c")


class TestCommand:
    @pytest.fixture
    def file(self, cli: Cli) -> str:
        save(racks(16, 4)[0], str(cli.folder / "probe.parquet"))
        return "probe.parquet"

    def test_it_writes_what_launchers_take(self, cli: Cli, file: str) -> None:
        forms = {
            "hosts": "h0",
            "openmpi": "h0 slots=8",
            "mpich": "h0:8",
            "rankfile": "rank 0=h0 slot=0",
            "slurm": "h0",
            "torchrun": "h0 0",
        }
        asked = [part for form in forms for part in ("--write", f"{form}={form}.txt")]
        done = cli("reorder", file, "--slots", "8", *asked)
        assert done.returncode == 0, done.stderr
        assert "no order costs less" in done.stdout or "more than the best possible" in done.stdout
        lines = {form: (cli.folder / f"{form}.txt").read_text().splitlines() for form in forms}
        assert {form: found[0] for form, found in lines.items()} == forms
        assert {form: len(found) for form, found in lines.items()} == {
            **dict.fromkeys(forms, 16),
            "rankfile": 128,
            "slurm": 128,
        }
        order = lines["hosts"]
        assert lines["torchrun"] == [f"{host} {rank}" for rank, host in enumerate(order)]
        assert lines["rankfile"][9] == f"rank 9={order[1]} slot=1"
        assert "mpirun --hostfile openmpi.txt" in done.stderr
        # What was written is a present order.
        again = cli("reorder", file, "--hosts", "openmpi.txt", "--json")
        found = json.loads(again.stdout)["reorder"]
        assert found["before"] == order
        assert found["cost_s"] <= found["cost_before_s"]

    def test_it_explains(self, cli: Cli, file: str) -> None:
        done = cli("reorder", file, "--explain", "--quiet")
        assert "Exchanges only in the old order" in done.stdout
        assert "Hosts by rank" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (["--write", "pbs=x"], 2, "not of the form FORMAT=FILE"),
            (["--write", "hosts=probe.parquet"], 2, "the file exists already"),
            (["--write", "hosts=none/x"], 3, "cannot be written"),
            (["--bytes", "25"], 2, "--bytes"),
            (["--limit", "soon"], 2, "--limit"),
            (["--hosts", "none"], 3, "none"),
            (["--slots", "0"], 2, "slots"),
        ],
    )
    def test_it_refuses_by_name(self, cli: Cli, file: str, arguments: list[str], code: int, told: str) -> None:
        done = cli("reorder", file, *arguments)
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr

    def test_a_limit_ends_the_search(self, cli: Cli, file: str) -> None:
        done = cli("reorder", file, "--proposals", "100000000", "--limit", "200ms", "--json")
        found = json.loads(done.stdout)["reorder"]
        assert found["stopped_by_limit"]
        assert found["cost_s"] <= found["cost_before_s"]


def test_groups_undo_noise_that_misleads_single_pairs(cli: Cli) -> None:
    """A round trip of a pair between racks was as short as within one, by chance: the ring must not follow it."""
    rng = random.Random(5)
    rack = [host % 4 for host in range(16)]
    pairs = {}
    for a, b in itertools.combinations(range(16), 2):
        noise = rng.lognormvariate(0, 0.7)
        pairs[a, b] = Pair((60e-6 if rack[a] == rack[b] else 200e-6) * noise)
    save(Measured(tuple(f"h{host}" for host in range(16)), pairs), str(cli.folder / "rtt.csv"))
    groups = [[f"h{host}" for host in range(16) if rack[host] == each] for each in range(4)]
    (cli.folder / "racks.yaml").write_text(json.dumps({"groups": groups}))

    def crossings(*more: str) -> int:
        found = json.loads(cli("reorder", "rtt.csv", "--json", *more).stdout)["reorder"]["hosts"]
        inside = [rack[int(host[1:])] for host in found]
        return sum(a != b for a, b in zip(inside, inside[1:] + inside[:1], strict=True))

    assert crossings() > 4
    assert crossings("--groups", "racks.yaml") == 4


def test_groups_must_have_all_hosts(cli: Cli) -> None:
    save(racks(4, 2)[0], str(cli.folder / "rtt.csv"))
    for groups, named in (([["h0", "h1"], ["h2", "h9"]], "h9"), ([["h0", "h1"], ["h2"]], "h3")):
        (cli.folder / "racks.yaml").write_text(json.dumps({"groups": groups}))
        found = cli("reorder", "rtt.csv", "--groups", "racks.yaml")
        assert found.returncode == 2
        assert named in found.stderr
