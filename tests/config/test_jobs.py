"""Several jobs: their resolved form, and errors that name their job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import syncline
from syncline.config.load import Loaded, load

FABRIC = "fabric: { switch: { hosts: 8, rate: 100Gb/s, latency: 1us } }\n"
COMM = "{ collective: all_reduce, bytes: 1MiB }"


def test_each_job_has_its_own_section(scenario: Callable[..., Loaded]) -> None:
    text = f"""
{FABRIC}compute: {{ model: roofline, accelerator: A100 }}
collectives: {{ chunks: 7, order: lifo }}
jobs:
  - {{ name: a, workload: {{ model: mlp, precision: fp16 }}, placement: "0-2, 7" }}
  - {{ name: b, workload: {COMM}, placement: [3, 4], start: 2ms, compute: given, collectives: {{ chunks: 3 }} }}
"""
    loaded = scenario(text)
    assert loaded.check() == []
    assert loaded.resolved["workload"]["source"] == "jobs"
    a, b = loaded.resolved["workload"]["jobs"]
    assert (a["name"], a["placement"], a["start"], a["collectives"]) == ("a", {"npus": [0, 1, 2, 7]}, "0s", None)
    assert a["compute"]["peak"] == "312TFLOP/s"
    assert (b["placement"], b["start"], b["compute"]["model"]) == ({"npus": [3, 4]}, "2ms", "given")
    assert (b["collectives"]["chunks"], b["collectives"]["order"]) == (3, "lifo")


def test_jobs_may_take_all_npus(scenario: Callable[..., Loaded]) -> None:
    loaded = scenario(f"{FABRIC}jobs: [{{ name: a, workload: {COMM} }}, {{ name: b, workload: {COMM} }}]")
    assert [job["placement"] for job in loaded.resolved["workload"]["jobs"]] == ["linear"] * 2
    assert loaded.check() == []


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ("[]", "missing key `workload`"),
        ("{}", "allowed: a list"),
        (f"[{{ workload: {COMM} }}]", "missing key `name`"),
        ("[{ name: a }]", "missing key `workload`"),
        (f"[{{ name: a, workload: {COMM}, npus: 0-3 }}]", "unknown key `npus`"),
        (f"[{{ name: a, workload: {COMM}, placement: 3-0 }}]", "not valid ranges of NPUs"),
        (f"[{{ name: a, workload: {COMM}, placement: 0-99999999 }}]", "not valid ranges of NPUs"),
        (f"[{{ name: a, workload: {COMM}, placement: some }}]", "ranges such as 0-7"),
        (f"[{{ name: a, workload: {COMM}, start: 5 }}]", "a number without a unit"),
        (f"[{{ name: a, workload: {COMM}, collectives: {{ order: lifo }} }}]", "unknown key `order`"),
        ("[{ name: a, workload: { model: resnet51 } }]", "did you mean `resnet50`?"),
        ("[{ name: a, workload: { model: mlp, batch: 3 } }]", "jobs.0.workload.batch"),
        (f"[{{ name: a, workload: {COMM} }}]\nworkload: {COMM}", "both `workload` and `jobs` are given"),
        (f"[{{ name: a, workload: {COMM} }}]\nplacement: [0]", "give each job its own `placement`"),
    ],
)
def test_invalid_jobs_are_refused(jobs: str, expected: str, refused: Callable[..., str]) -> None:
    assert expected in refused(f"{FABRIC}jobs: {jobs}\n")


@pytest.mark.parametrize(
    ("jobs", "key", "line", "message"),
    [
        (f"  - {{ name: a, workload: {COMM} }}\n  - {{ name: a, workload: {COMM} }}", "jobs.1.name", 4, "two jobs"),
        (
            f"  - {{ name: a, workload: {COMM} }}\n  - {{ name: b, workload: {COMM}, placement: 6-9 }}",
            "jobs.1.placement",
            4,
            "rank 2 is placed on NPU 8",
        ),
        (
            f"  - {{ name: a, workload: {COMM} }}\n  - {{ name: b, workload: {COMM.replace('1MiB', '0B')} }}",
            "jobs.1.workload",
            4,
            "a collective needs a size",
        ),
    ],
)
def test_errors_of_the_core_have_a_place(
    jobs: str, key: str, line: int, message: str, scenario: Callable[..., Loaded]
) -> None:
    problem = scenario(f"{FABRIC}jobs:\n{jobs}\n").check()[0]
    assert problem["message"].startswith(message)
    assert problem["key"].startswith(key)
    assert problem["place"]["line"] == line


def test_a_run_is_repeated_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "plan").mkdir()
    jobs = [
        {"name": name, "workload": {"collective": "all_to_all", "bytes": "1MB"}, "placement": placement}
        for name, placement in (("a", "0-3"), ("b", "2-5"))
    ]
    fabric = {"switch": {"hosts": 8, "rate": "100Gb/s", "latency": "1us"}}
    result = syncline.simulate(jobs=jobs, fabric=fabric, network="queued")
    result.save(tmp_path / "run")
    again = syncline.simulate(tmp_path / "run")
    assert again.summary == result.summary
    assert [job.name for job in result.summary.jobs] == ["a", "b"]
    assert all(job.slowdown and job.slowdown > 1.2 for job in result.summary.jobs)
    assert load(tmp_path / "run").resolved["workload"] == result.scenario["workload"]


def test_paths_of_jobs_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from syncline.config import files

    resolved = {
        "workload": {
            "source": "jobs",
            "jobs": [
                {
                    "workload": {"source": "chakra", "prefix": "t/job"},
                    "collectives": {"plans": {"all_reduce": "p.json"}},
                }
            ],
        }
    }
    monkeypatch.chdir(tmp_path)
    (job,) = files.moved(resolved, "deep", "")["workload"]["jobs"]
    assert (job["workload"]["prefix"], job["collectives"]["plans"]) == ("deep/t/job", {"all_reduce": "deep/p.json"})


BIG = "{ model: gpt3_175b, layers: 96, batch_per_npu: 1, parallel: { data: all } }"


@pytest.mark.parametrize(
    ("whole", "own", "fits"),
    [
        ("given", "{ model: roofline, accelerator: A100 }", False),
        (
            "{ model: roofline, accelerator: A100 }",
            "{ model: roofline, accelerator: A100, memory_capacity: 10TB }",
            True,
        ),
        (
            "{ model: roofline, accelerator: A100, memory_capacity: 10TB }",
            "{ model: roofline, accelerator: A100, memory_capacity: 1TB }",
            False,
        ),
        ("{ model: roofline, accelerator: A100 }", None, False),
    ],
)
def test_each_job_has_the_memory_of_its_own_compute(
    whole: str, own: str | None, fits: bool, scenario: Callable[..., Loaded]
) -> None:
    compute = "" if own is None else f", compute: {own}"
    text = f"""
{FABRIC}compute: {whole}
jobs:
  - {{ name: small, workload: {COMM}, placement: 0-3 }}
  - {{ name: big, workload: {BIG}, placement: 4-7{compute} }}
"""
    found = scenario(text).check()
    if fits:
        assert found == []
        return
    (problem,) = found
    assert problem["code"] == "SL0308"
    assert problem["key"].startswith("jobs.1")
    assert problem["place"]["line"] in (6, 7)
