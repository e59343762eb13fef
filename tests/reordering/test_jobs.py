"""Orders by simulations: beside all orders of few hosts, and beside what is known of racks and plans."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.distances import Measured, Pair, save
from syncline.errors import SynclineError
from syncline.reordering import ReorderedJob, reorder, reorder_job, reorder_plan
from syncline.reordering.annealing import CHAINS, moved
from syncline.reordering.difference import difference_of_job
from syncline.reordering.simulation import Traffic
from syncline.reordering.starts import Distances, Guide, clustered
from tests.conftest import Cli

FAST = {"network": "flow", "collectives": {"chunks": 2}}


def racks(hosts: int, size: int, *, near: float = 2e9, far: float = 2e8, seed: int = 1) -> tuple[Measured, list[int]]:
    """Hosts in racks that are joined by slower and longer paths, give or take a twentieth, and the rack of each."""
    rng = random.Random(seed)
    rack = [host // size for host in range(hosts)]
    rng.shuffle(rack)
    pairs = {}
    for a, b in itertools.combinations(range(hosts), 2):
        rtt, rate = (60e-6, near) if rack[a] == rack[b] else (200e-6, far)
        pairs[a, b] = Pair(rtt * rng.uniform(0.95, 1.05), rate_bytes_per_s=rate * rng.uniform(0.95, 1.05))
    return Measured(tuple(f"h{host}" for host in range(hosts)), pairs), rack


def scattered(hosts: int, seed: int = 1) -> Measured:
    """Hosts at random points of a square."""
    rng = random.Random(seed)
    at = [complex(rng.random(), rng.random()) for _ in range(hosts)]
    pairs = {(a, b): Pair(1e-4 * abs(at[a] - at[b]) + 1e-6) for a, b in itertools.combinations(range(hosts), 2)}
    return Measured(tuple(f"h{host}" for host in range(hosts)), pairs)


def transformer(**parallel: int) -> dict[str, Any]:
    job = {"model": "transformer", "layers": 1, "batch_per_npu": 16, "sequence": 512, "parallel": parallel}
    return {"workload": job, "compute": {"model": "roofline", "accelerator": "A100"}, **FAST}


def step_s(folder: Path, measured: Measured, order: tuple[int, ...], **scenario: Any) -> float:
    """The step in an order of hosts, by the public interface: measurements in a file, and a placement."""
    file = folder / "probe.parquet"
    if not file.exists():
        save(measured, str(file))
    scenario["fabric"] = {"measured": str(file), **scenario.get("fabric", {})}
    return syncline.simulate(**scenario, placement=list(order)).summary.step_time_s


@pytest.mark.parametrize(("hosts", "proposals"), [(5, 14), pytest.param(6, 89, marks=pytest.mark.slow)])
def test_no_other_order_is_faster(tmp_path: Path, hosts: int, proposals: int) -> None:
    measured = scattered(hosts)
    job = {
        "workload": {"collective": "all_reduce", "bytes": "1kB"},
        "collectives": {"algorithms": {"default": {"all_reduce": "tree"}}},
        "network": "flow",
    }
    orders = itertools.permutations(range(hosts))
    times = {order: step_s(tmp_path, measured, order, **job, fabric={"rate": "1GB/s"}) for order in orders}
    # With one proposal more, each of the eight chains would have tried all orders.
    for more, exhaustive in ((0, False), (1, True)):
        found = reorder_plan(measured, "tree", nbytes=1000, rate="1GB/s", proposals=proposals + more)
        assert found.step_s == min(times.values()) < found.step_before_s
        assert found.step_s == times[tuple(int(host[1:]) for host in found.hosts)]
        assert found.step_before_s == times[tuple(range(hosts))]
        assert found.bound_s <= found.step_s
        assert found.exhaustive == exhaustive
        assert (found.gap == 0) == exhaustive
        assert found.simulations == len(times) or not exhaustive


def test_tensor_groups_stay_within_racks(tmp_path: Path) -> None:
    # Activations are most of the bytes: four ranks exchange them in each layer.
    measured, rack = racks(8, 4)
    found = reorder_job(measured, transformer(tensor=4), proposals=5)
    inside = [rack[int(host[1:])] for host in found.hosts]
    assert len({*inside[:4]}) == len({*inside[4:]}) == 1
    assert len({*rack[:4]}) == 2
    order = tuple(int(host[1:]) for host in found.hosts)
    assert found.step_s == step_s(tmp_path, measured, order, **transformer(tensor=4))
    seen = difference_of_job(found)
    assert 0 < seen.far_bytes_after < 0.2 * seen.far_bytes_before
    assert 0 < seen.far_messages_after < seen.far_messages_before
    assert found.step_before_s > 2 * found.step_s


def test_stages_of_a_pipeline_meet_at_one_far_hop() -> None:
    # Four stages in a row: each sends activations to the next one. Racks are crossed once, in the middle.
    measured, rack = racks(4, 2)
    layer = {"forward": "1us", "input_grad": "1us", "weight_grad": "1us", "outputs": 1_000_000, "parameters": 1000}
    layers = [{"name": f"l{number}", **layer} for number in range(4)]
    job = {"layers": layers, "parallel": {"pipeline": 4}, "micro_batches": 2}
    found = reorder_job(measured, {"workload": job, **FAST})
    inside = [rack[int(host[1:])] for host in found.hosts]
    assert found.exhaustive
    assert inside[0] == inside[1] != inside[2] == inside[3]


def test_ranks_of_a_host_stay_together(tmp_path: Path) -> None:
    measured, rack = racks(4, 2, seed=3)
    nodes = {"nodes": {"npus": 2, "rate": "20GB/s", "latency": "1us"}}
    found = reorder_job(measured, {**transformer(tensor=4), "fabric": {"measured": "elsewhere", **nodes}})
    inside = [rack[int(host[1:])] for host in found.hosts]
    assert (found.ranks_per_host, found.exhaustive) == (2, True)
    assert inside[0] == inside[1] != inside[2]
    npus = tuple(2 * int(host[1:]) + npu for host in found.hosts for npu in range(2))
    assert found.step_s == step_s(tmp_path, measured, npus, **transformer(tensor=4), fabric=nodes)


def test_a_ring_is_as_short_as_by_its_closed_form() -> None:
    measured = scattered(9)
    found = reorder_plan(measured, "ring", nbytes=9000, rate="100GB/s", proposals=30)
    best = reorder(measured, nbytes=9000)
    cost = best.distances.cost([int(host[1:]) for host in found.hosts])
    assert cost == pytest.approx(best.cost_s, rel=0.05)
    assert found.step_s <= dict(found.starts)["closed form of ring"]


def test_the_number_of_cores_does_not_matter() -> None:
    measured = scattered(7)

    def of(cores: int) -> ReorderedJob:
        return reorder_plan(measured, "tree", nbytes=1000, rate="1GB/s", proposals=20, seed=5, cores=cores)

    assert of(1) == of(2) == of(7)
    assert of(1).simulations <= 20 * CHAINS + len(of(1).starts)


def test_a_limit_keeps_the_best_order_so_far() -> None:
    found = reorder_plan(scattered(9), "tree", rate="1GB/s", proposals=10**9, limit_s=0.3)
    assert found.stopped
    assert found.step_s <= found.step_before_s
    at_once = reorder_plan(scattered(9), "tree", rate="1GB/s", limit_s=0.0)
    assert (at_once.hosts, at_once.simulations) == (at_once.before, 1)


def test_equal_hosts_keep_their_order() -> None:
    pairs = {(a, b): Pair(1e-4, rate_bytes_per_s=1e9) for a, b in itertools.combinations(range(7), 2)}
    found = reorder_plan(Measured(tuple("gfedcba"), pairs), "tree", nbytes=1000, proposals=100)
    assert found.hosts == tuple("gfedcba")
    # The first round ends the search: no order is faster than one between equal hosts.
    assert found.step_s == found.bound_s
    assert found.simulations < 200
    assert not found.exhaustive


def test_traffic_follows_the_order() -> None:
    measured = scattered(7)
    found = reorder_plan(measured, "tree", nbytes=100_000, rate="1GB/s", proposals=5)
    for traffic in (found.traffic, found.traffic_before):
        # Up and down each link of the tree.
        assert len(traffic.nbytes) == 6
        assert set(traffic.nbytes.values()) == {200_000}
    assert found.traffic == found.traffic_before
    seen = difference_of_job(found)
    assert seen.exchanges == 6
    assert len(seen.added) == len(seen.dropped) > 0


class TestStarts:
    def test_hosts_of_a_rack_are_together(self) -> None:
        measured, rack = racks(24, 6)
        inside = [rack[host] for host in clustered(measured)]
        assert sum(a != b for a, b in itertools.pairwise(inside)) == 3

    def test_little_traffic_is_as_little_as_that_of_all_orders(self) -> None:
        rng = random.Random(2)
        pairs = list(itertools.combinations(range(6), 2))
        nbytes = {pair: rng.randrange(10**6) for pair in pairs if rng.random() < 0.7}
        traffic = Traffic(nbytes, {pair: rng.randrange(1, 9) for pair in nbytes})
        measured, _ = racks(6, 3)
        distances = Distances.of(measured)
        guide = Guide(traffic, distances)

        def estimate(order: tuple[int, ...]) -> float:
            total = 0.0
            for (a, b), count in nbytes.items():
                ends = (min(order[a], order[b]), max(order[a], order[b]))
                pair = measured.pairs[ends]
                assert pair.rtt_s is not None
                assert pair.rate_bytes_per_s is not None
                total += traffic.messages[a, b] * pair.rtt_s / 2 + count / pair.rate_bytes_per_s
            return total

        for order in itertools.islice(itertools.permutations(range(6)), 50):
            assert guide(order) == pytest.approx(estimate(order), rel=1e-6)
        best = min(map(estimate, itertools.permutations(range(6))))
        assert guide(guide.least(tuple(range(6)), rng)) == pytest.approx(best, rel=1e-6)

    def test_moves_keep_every_host(self) -> None:
        rng = random.Random(1)
        order = tuple(range(7))
        for _ in range(200):
            order = moved(order, rng)
            assert sorted(order) == list(range(7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload.parallel.tensor": 16}, "more than the fabric has"),
        ({"workload.parallel.data": 4}, "tensor 4 x data 4 does not equal the 8 NPUs of the fabric"),
        ({"placement": [0, 1, 2, 3, 4, 5, 6, 7]}, "the scenario places its ranks itself"),
        ({"limits.events": 10}, "a limit of the scenario ended the simulation before the job ended"),
        ({"workload.parallel.tensr": 4}, "unknown key"),
    ],
)
def test_an_impossible_job_is_refused(changes: dict[str, Any], message: str) -> None:
    measured, _ = racks(8, 4)
    with pytest.raises(SynclineError, match=message):
        reorder_job(measured, transformer(tensor=4), set=changes)


def test_results_of_a_run_are_refused(tmp_path: Path) -> None:
    job = {"workload": {"collective": "all_reduce", "bytes": "1MB"}, "fabric": {"shape": "Ring(8)", "rate": "1GB/s"}}
    syncline.simulate(job).save(tmp_path / "run")
    measured, _ = racks(8, 4)
    with pytest.raises(SynclineError, match="the results of a run have a network of their own"):
        reorder_job(measured, tmp_path / "run")


def test_several_jobs_are_refused() -> None:
    measured, _ = racks(8, 4)
    job = {"name": "one", "workload": {"collective": "all_reduce", "bytes": "1MB"}, "placement": [0, 1, 2, 3]}
    other = {**job, "name": "other", "placement": [4, 5, 6, 7]}
    with pytest.raises(SynclineError, match="the scenario has several jobs"):
        reorder_job(measured, {"jobs": [job, other]})


@pytest.mark.parametrize(
    ("plan", "hosts", "message"),
    [
        ("treee", 6, "there is no such algorithm"),
        ("bcube(base=4)", 6, "`bcube` needs a power of 4 ranks, not 6|needs a power of 4"),
        ("none.json", 6, "the file cannot be read"),
    ],
)
def test_an_impossible_plan_is_refused(plan: str, hosts: int, message: str) -> None:
    with pytest.raises(SynclineError, match=message):
        reorder_plan(scattered(hosts), plan, rate="1GB/s")


def test_without_rates_interfaces_need_one() -> None:
    with pytest.raises(SynclineError, match="missing key `rate`"):
        reorder_plan(scattered(4), "ring")


class TestCommand:
    @pytest.fixture
    def file(self, cli: Cli) -> str:
        save(racks(8, 4)[0], str(cli.folder / "probe.parquet"))
        (cli.folder / "job.json").write_text(json.dumps(transformer(tensor=4)))
        return "probe.parquet"

    def test_it_writes_an_order_for_a_job(self, cli: Cli, file: str) -> None:
        own = {**transformer(tensor=4), "fabric": {"shape": "Ring(8)", "rate": "1GB/s"}}
        (cli.folder / "own.json").write_text(json.dumps(own))
        done = cli("reorder", file, "--scenario", "own.json", "--proposals", "2", "--explain", "-w", "mpich=hostfile")
        assert done.returncode == 0, done.stderr
        assert "The new order is" in done.stdout
        assert "Simulated" in done.stdout
        assert "loose bound" in done.stdout
        assert "The measured network replaced the fabric of the scenario." in done.stdout
        assert "near hosts together" in done.stdout
        assert "Exchanges only in the old order" in done.stdout
        lines = (cli.folder / "hostfile").read_text().splitlines()
        assert sorted(lines) == [f"h{host}:1" for host in range(8)]
        again = cli("reorder", file, "--scenario", "job.json", "--proposals", "1", "--hosts", "hostfile", "--json")
        found = json.loads(again.stdout)["reorder"]
        assert found["before"] == [line.partition(":")[0] for line in lines]
        assert found["step_s"] <= found["step_before_s"]
        assert not found["fabric_replaced"]

    def test_slots_are_the_ranks_of_a_host(self, cli: Cli, file: str) -> None:
        nodes = "fabric.nodes={npus: 2, rate: 20GB/s}"
        (cli.folder / "four").write_text("h0 slots=2\nh3 slots=2\nh5 slots=2\nh6 slots=2\n")
        job = ("reorder", file, "--scenario", "job.json", "--set", "fabric.measured=elsewhere", "--set", nodes)
        done = cli(*job, "--hosts", "four", "-w", "openmpi=out")
        assert done.returncode == 0, done.stderr
        assert sorted((cli.folder / "out").read_text().split()) == ["h0", "h3", "h5", "h6", *["slots=2"] * 4]
        assert "simulated on 4 hosts with 2 ranks each" in done.stdout
        refused = cli(*job, "--hosts", "four", "--slots", "4", "-w", "openmpi=other")
        assert (refused.returncode, "the scenario has 2 ranks on each host" in refused.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (["--plan", "treee"], 2, "did you mean `tree`?"),
            (["--plan", "gather.json"], 2, "the plan is for all_gather, not for all_reduce"),
            (["--plan", "ring", "--algorithm", "ring"], 2, "an order is for one all-reduce or one job"),
            (["--algorithm", "tree"], 2, "`--plan` takes any algorithm"),
            (["--rate", "1GB/s"], 2, "`--rate` has no effect"),
            (["--set", "seed=1"], 2, "`--set` has no effect"),
            (["--scenario", "job.json", "--bytes", "1MB"], 2, "`--bytes` has no effect"),
            (["--scenario", "job.json", "--hosts", "two"], 2, "measured: 2 hosts with 1 NPU each"),
            (["--scenario", "none.yaml"], 3, "no such file"),
            (["--scenario", "job.json", "--rate", "3"], 2, "--rate"),
        ],
    )
    def test_it_refuses_by_name(self, cli: Cli, file: str, arguments: list[str], code: int, told: str) -> None:
        (cli.folder / "two").write_text("h0\nh1\n")
        streams = [
            {
                "ops": [
                    {"op": "send", "to": 1 - rank, "block": rank},
                    {"op": "receive", "from": 1 - rank, "block": 1 - rank},
                ]
            }
            for rank in range(2)
        ]
        plan = {
            "name": "swap",
            "kind": "all_gather",
            "ranks": 2,
            "blocks": 2,
            "seats": [{"streams": [each]} for each in streams],
        }
        (cli.folder / "gather.json").write_text(json.dumps(plan))
        done = cli("reorder", file, *arguments)
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr

    def test_rates_that_were_not_measured_are_asked_for(self, cli: Cli) -> None:
        save(scattered(4), str(cli.folder / "trips.csv"))
        done = cli("reorder", "trips.csv", "--plan", "tree")
        assert (done.returncode, "--rate 25Gb/s" in done.stderr) == (2, True), done.stderr
