"""The search for strategy and topology: what it finds, what it writes, and what it refuses."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import syncline
from syncline.design.joint import Found, baselines_of, direct_usd, read, save, search, simulate, traffic_of
from syncline.design.joint.screen import screen
from syncline.errors import SynclineError
from tests.conftest import Cli

SMALL = {
    "model": "dlrm",
    "parameters": {
        "tables": 4,
        "entries": 1000,
        "bottom": 256,
        "bottom_layers": 2,
        "top": 512,
        "top_layers": 3,
        "batch": 2048,
    },
    "servers": 8,
    "degree": 3,
    "link": "100Gb/s",
    "search": {"proposals": 400},
}


def asked(folder: Path, **changes: Any) -> str:
    """A spec's file."""
    path = folder / "spec.yaml"
    spec = {key: value for key, value in {**SMALL, **changes}.items() if value is not None}
    path.write_text(json.dumps(spec), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The result of a small search."""
    return simulate(search(read(asked(tmp_path_factory.mktemp("joint")))))


def test_a_search_gives_the_same_result_for_the_same_seed(found: Found, tmp_path: Path):
    again = search(read(asked(tmp_path)))
    assert again.answer == found.answer
    assert [each.answer for each in again.others] == [each.answer for each in found.others]
    other = search(read(asked(tmp_path, search={"proposals": 400, "seed": 1})))
    assert other.answer.accepted != found.answer.accepted


def test_a_spec_may_be_a_mapping(found: Found) -> None:
    assert read(SMALL).graph == found.request.graph
    with pytest.raises(SynclineError, match="servers"):
        read({"model": "dlrm", "servers": "many", "degree": 3, "link": "10Gb/s"})


def test_the_search_improves_on_data_parallelism(found: Found):
    assert found.answer.step_s < found.answer.start_s
    times = [seconds for _, seconds in found.answer.trace]
    assert times == sorted(times, reverse=True)
    assert times[-1] == found.answer.step_s


def test_prediction_and_simulation_agree(found: Found):
    # Two models of one network: a sweep over operators, and flows that share links fairly.
    assert found.simulated_s == pytest.approx(found.answer.step_s, rel=0.1)


def test_trees_replace_rings_on_request(tmp_path: Path):
    trees = {"proposals": 200, "all_reduce": "double_binary_trees"}
    small = {"blocks": 2, "batch": 4}
    found = simulate(search(read(asked(tmp_path, model="bert", parameters=small, degree=4, search=trees))))
    groups = [each for each in found.topology.groups if each.pattern == "double_binary_trees"]
    assert groups
    made = {(links.sender, links.receiver) for links in found.topology.links}
    for group in groups:
        for links in group.links:
            # Two trees with seven edges each, in both directions.
            assert len(links) == 4 * (len(group.members) - 1)
            assert set(links) <= made
    assert found.simulated_s == pytest.approx(found.answer.step_s, rel=0.1)


def test_trees_need_four_interfaces(tmp_path: Path):
    with pytest.raises(SynclineError, match="more interfaces than a server has") as refused:
        read(asked(tmp_path, search={"all_reduce": "double_binary_trees"}))
    assert "degree of at least 4" in str(refused.value)


def test_prices_match_table_3_of_topoopt2022(tmp_path: Path):
    # topoopt2022 Table 3: an interface takes a NIC, a transceiver, two ports of patch panels, a 1x2 switch and 500 m of
    # fibre; four of them 4,536 dollars. Ideal fat-trees cost about twice as much; see 5.2.
    request = read(asked(tmp_path, servers=128, degree=4, link="100Gb/s", compare=["ideal", "same_price"]))
    assert direct_usd(request) == pytest.approx(128 * 4 * (660 + 99 + 2 * 100 + 25 + 150))
    ideal, same = baselines_of(request)
    assert 2 < ideal.usd / direct_usd(request) < 2.6
    assert same.usd == pytest.approx(direct_usd(request), rel=1e-6)
    assert 100e9 < same.rate < 200e9


def test_traffic_is_the_sum_of_transfers_and_all_reduces(found: Found):
    sent = traffic_of(found)
    moved = sum(size for *_, size in found.answer.transfers)
    assert sum(map(sum, sent.transfers)) == moved
    # A ring of k members sends 2 (k - 1) times the vector.
    reduced = sum(2 * (len(each.members) - 1) * each.bytes * each.count for each in found.answer.all_reduces)
    assert reduced > 0
    assert sum(map(sum, sent.all_reduces)) == pytest.approx(reduced, rel=1e-4)
    rows = list(sent.rows())
    assert sum(size for *_, size in rows) == sum(sent.total(a, b) for a in range(8) for b in range(8))


def test_files_simulate_to_the_same_time(found: Found, tmp_path: Path):
    folder = tmp_path / "out"
    names = save(found, str(folder))
    assert set(names) == {
        "design.json",
        "operators.json",
        "report.html",
        "run",
        "scenario.yaml",
        "topology.svg",
        "topology.yaml",
        "trace.csv",
        "traffic.svg",
        "transfers.csv",
    }
    result = syncline.simulate(folder / "scenario.yaml")
    assert result.summary.total_time_s == found.simulated_s
    answer = json.loads((folder / "design.json").read_text("utf-8"))
    assert answer["step_s"] == found.answer.step_s
    assert len(answer["strategy"]) == 10
    # The packet model takes the same files.
    packets = syncline.simulate(folder / "scenario.yaml", network="packet")
    assert packets.summary.total_time_s == pytest.approx(found.answer.step_s, rel=0.35)
    save(found, str(folder))


@pytest.mark.parametrize("model", ["flow", "packet"])
def test_reranking_takes_the_shortest_simulated_step(tmp_path: Path, model: str):
    some = {"proposals": 100, "chains": 3}
    plain = search(read(asked(tmp_path, search=some)))
    found = search(read(asked(tmp_path, search={**some, "rerank": model})))
    assert len(found.reranked) > 1
    assert found.simulated_s == min(each.simulated_s for each in found.reranked) == found.reranked[0].simulated_s
    # The answers are those of the same search without it, of which one has the shortest predicted step.
    assert min(each.step_s for each in found.reranked) == plain.answer.step_s
    assert {each.step_s for each in found.reranked} <= {
        each.step_s for each in (plain.answer, *plain.answer.runners_up)
    }
    save(found, str(tmp_path / "out"))
    simulated = syncline.simulate(tmp_path / "out" / "scenario.yaml")
    assert simulated.summary.total_time_s == found.simulated_s
    assert f"network: {model}\n" in (tmp_path / "out" / "scenario.yaml").read_text("utf-8")


def test_a_network_profits_from_what_was_found_for_others(tmp_path: Path):
    # CANDLE's best strategy on switches keeps layers on some servers each. Chains that start from data parallelism on
    # direct links alone do not find it.
    given = {"model": "candle", "parameters": None, "servers": 16, "degree": 4, "link": "10Gb/s"}
    alone = search(read(asked(tmp_path, **given, compare=[])))
    beside = search(read(asked(tmp_path, **given, compare=["ideal"])))
    assert beside.answer.step_s <= alone.answer.step_s
    assert beside.answer.proposals > alone.answer.proposals
    assert beside.answer.start_s == alone.answer.start_s


def test_a_first_strategy_is_not_called_data_parallelism(tmp_path: Path):
    small = {"accelerator": "A100-SXM4-40GB", "limit_memory": True}
    given = {"model": "decoder", "parameters": {"layers": 12, "hidden": 8192, "heads": 64, "dropout": False}}
    result = search(read(asked(tmp_path, **given, server=small, split_parameters=True, optimizer="adam")))
    # 12 * 12 * 8192^2 parameters need 16 bytes each: 155 GB. Eight servers hold an eighth of them each.
    assert not result.answer.data_parallel_fits
    assert result.data_parallel_s is None
    with StringIO() as text_of:
        Console(file=text_of, width=80, color_system=None).print(screen(result, 80))
        text = " ".join(text_of.getvalue().split())
    assert "first strategy" in text and "data parallel " not in text
    assert "does not fit into memory, and the first strategy that does" in text


def test_a_search_is_compared_with_other_networks(tmp_path: Path):
    every = ["ideal", "same_price", "oversubscribed", "expander"]
    result = search(read(asked(tmp_path, compare=every, link="100Gb/s", search={"method": "greedy"})))
    assert [each.baseline.name for each in result.others] == every
    ideal, same, over, _ = (each.answer.step_s for each in result.others)
    assert ideal <= same and ideal <= over
    cost = {each.baseline.name: each.baseline.usd for each in result.others}
    assert cost["expander"] < cost["same_price"] < cost["ideal"]
    assert cost["oversubscribed"] < cost["ideal"]


def test_strategies_fit_into_the_memory_of_servers(tmp_path: Path):
    tables = {"tables": 4, "entries": 10_000_000, "top_layers": 3, "bottom_layers": 2}
    server = {"accelerator": "V100-SXM2-16GB", "limit_memory": True}
    fits = search(read(asked(tmp_path, parameters=tables, server=server, compare=[])))
    servers = [placed.servers for placed in fits.answer.strategy[:4]]
    # A table has 5.1 GB, and its server has no room for a fourth.
    assert max(servers.count(each) for each in servers) <= 3
    huge = {**tables, "entries": 100_000_000}
    with pytest.raises(SynclineError, match="memory of accelerators"):
        search(read(asked(tmp_path, parameters=huge, server=server, compare=[])))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"degree": 0}, "degree"),
        ({"degree": 8}, "more interfaces than there are other servers"),
        ({"servers": 1}, "servers"),
        ({"link": "0Gb/s"}, "above 0"),
        ({"link": "100"}, "without a unit"),
        ({"model": "dlmr"}, "did you mean `dlrm`"),
        ({"model": None}, "missing key `model`"),
        ({"parameters": {"tabels": 1}}, "did you mean `tables`"),
        ({"server": {"accelerator": "A1000"}}, "accelerator"),
        ({"measured": "none.json"}, "no such file"),
        ({"compare": ["idael"]}, "compare"),
        ({"prices": "topoopt2021"}, "topoopt2022"),
        ({"search": {"method": "exhaustive"}}, "too many strategies"),
        ({"colour": 1}, "unknown key `colour`"),
        ({"parameters": {"tables": 1_000_000}}, "from 1 to 4096"),
        ({"parameters": {"top": 10**12}}, "more work than can be counted"),
        ({"parameters": {"batch": "many"}}, "whole number"),
    ],
)
def test_invalid_specs_are_refused(tmp_path: Path, changes: dict[str, Any], text: str):
    with pytest.raises(SynclineError) as refused:
        search(read(asked(tmp_path, **changes)))
    assert text in str(refused.value)


def test_the_screen_compares_with_the_same_price(found: Found):
    from io import StringIO

    for width in (60, 80, 120):
        console = Console(file=StringIO(), width=width, color_system=None)
        with console.capture() as captured:
            console.print(screen(found, width), crop=False)
        text = captured.get()
        assert "On a fat-tree of the same price" in " ".join(text.split())
        assert "Topology: at most" in text
        assert max(map(len, text.splitlines())) <= width


def test_the_command_writes_its_files_and_never_replaces_others(cli: Cli):
    path = asked(cli.folder, search={"proposals": 100})
    done = cli("design", "joint", path, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "on direct links" in done.stdout and "out/scenario.yaml" in done.stderr
    done = cli("design", "joint", path, "--out", "out", "--json", "--no-simulate")
    assert json.loads(done.stdout)["design"]["simulated_s"] is None
    (cli.folder / "mine").mkdir()
    (cli.folder / "mine" / "notes.txt").write_text("mine", "utf-8")
    refused = cli("design", "joint", path, "--out", "mine")
    assert refused.returncode == 3 and "notes.txt" in refused.stderr
