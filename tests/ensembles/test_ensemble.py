"""Several runs of one scenario: each equals a single run, whatever runs in parallel."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import syncline
from tests.conftest import Cli

JITTERED: dict[str, Any] = {
    "workload": {"collective": "reduce", "bytes": "500kB"},
    "fabric": {"shape": "Switch(5)", "rate": "100Gb/s", "latency": "0.5us"},
    "collectives": {"algorithms": {"default": {"reduce": "direct"}}},
    "network": {"model": "packet", "buffer": "200kB"},
    "jitter": {"start": "1us"},
    "seed": 4,
}


def test_runs_equal_single_runs_of_each_seed() -> None:
    one, two = (syncline.ensemble(JITTERED, seeds=4, workers=workers) for workers in (1, 3))
    assert one.seeds == two.seeds == (4, 5, 6, 7)
    assert one.summaries == two.summaries
    alone = [syncline.simulate({**JITTERED, "seed": seed}).summary for seed in one.seeds]
    assert list(one.summaries) == alone
    assert len(set(one.values("total_time_s"))) > 1
    spread = one.spread("total_time_s")
    assert (spread.least, spread.most) == (min(one.values("total_time_s")), max(one.values("total_time_s")))
    assert one.values("packets.dropped") == [each.packets.dropped for each in alone if each.packets]


def test_every_run_has_its_folder_and_the_next_ensemble_replaces_them(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    syncline.ensemble(JITTERED, seeds=3, out=out, set={"report": False})
    kept = syncline.ensemble(JITTERED, seeds=2, out=out, set={"report": False})
    assert sorted(each.name for each in out.iterdir()) == ["ensemble.json", "seed-4", "seed-5", "seeds.csv"]
    written = json.loads((out / "ensemble.json").read_text())
    assert written == json.loads(json.dumps(kept.as_dict()))
    assert written["seeds"] == [4, 5] and written["finished"] == 2
    rows = list(csv.DictReader((out / "seeds.csv").open()))
    assert [row["seed"] for row in rows] == ["4", "5"]
    assert syncline.Result.load(out / "seed-5").summary == kept.summaries[1]
    assert float(rows[1]["total_time_s"]) == kept.summaries[1].total_time_s


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(syncline.SynclineError, match="holds files that no run of several seeds wrote"):
        syncline.ensemble(JITTERED, seeds=2, out=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jitter": {}}, "nothing in the scenario depends on its seed"),
        ({"jitter": {"start": "1us", "seed": 3}}, "`jitter.seed` fixes the random parts"),
        ({"jitter": {"start": "0s"}}, "nothing in the scenario"),
    ],
)
def test_runs_that_would_all_be_the_same_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(syncline.SynclineError, match=said):
        syncline.ensemble({**JITTERED, **changes}, seeds=2)


@pytest.mark.parametrize(
    "changes",
    [
        {"jitter": {"compute": "2%"}},
        {"faults": [{"random_ranks": 1, "factor": 2}]},
        {"network": {"model": "packet", "mark": {"from": "5kB", "to": "50kB"}}},
        {"network": {"model": "packet", "transport": "rdma"}},
        {
            "fabric": {
                "leaf_spine": {"leaves": 2, "hosts_per_leaf": 2, "spines": 2, "rate": "100Gb/s"},
                "routing": "ecmp",
            }
        },
        {"fabric": {"expander": {"hosts": 8, "degree": 3, "rate": "100Gb/s"}}},
    ],
    ids=str,
)
def test_every_feature_that_depends_on_the_seed_is_recognised(changes: dict[str, Any]) -> None:
    made = syncline.ensemble({**JITTERED, "jitter": {}, **changes}, seeds=2, set={"report": False})
    assert made.seeds == (4, 5)


@pytest.mark.parametrize("seeds", [0, -1, True, 100_001])
def test_a_number_of_seeds_out_of_range_is_refused(seeds: int) -> None:
    with pytest.raises(syncline.SynclineError, match="not a valid number of seeds"):
        syncline.ensemble(JITTERED, seeds=seeds)


def test_the_first_error_of_a_run_is_raised() -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.ensemble(
            {**JITTERED, "jitter": {"compute": "2%"}, "network": "queued"}, seeds=2, set={"fabric.rate": "1b/s"}
        )
    assert caught.value.exit_status == 2


def test_the_command_prints_median_and_range(cli: Cli) -> None:
    (cli.folder / "incast.json").write_text(json.dumps(JITTERED))
    shown = cli("simulate", "incast.json", "--seeds", "16", "--quiet", "--no-report")
    assert shown.returncode == 0
    assert "16 runs, seeds 4 to 19" in shown.stdout and "median" in shown.stdout and "groups" in shown.stdout
    assert (cli.folder / "runs" / "incast-seeds" / "seed-19" / "summary.json").is_file()
    printed = json.loads(cli("simulate", "incast.json", "--seeds", "2", "--seed", "7", "--json", "--no-report").stdout)
    assert printed["exit_status"] == 0 and printed["ensemble"]["seeds"] == [7, 8]
    refused = cli("simulate", "incast.json", "--seeds", "0")
    assert refused.returncode == 2 and "not a valid number of seeds" in refused.stderr


def test_runs_that_a_limit_stopped_do_not_count(cli: Cli) -> None:
    (cli.folder / "incast.json").write_text(json.dumps({**JITTERED, "limits": {"sim_time": "10us"}}))
    shown = cli("simulate", "incast.json", "--seeds", "2", "--quiet", "--no-report")
    assert shown.returncode == 5
    assert "2 runs reached a limit and are left out" in shown.stdout
