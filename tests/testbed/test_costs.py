"""Host costs: what their file looks like, what is wrong with one, and that they are measured."""

from __future__ import annotations

import json

import pytest

import syncline
from syncline.config.source import from_file
from syncline.errors import SynclineError
from syncline.testbed import costs
from syncline.testbed.costs import HostCosts
from tests.testbed.specs import RACKS, needs_namespaces

FOUND = HostCosts(7.1666e-6, 80.512e-6, 1.23456e9, 2)
TEXT = """\
schema: syncline-host-costs/1
cores: 2
link_latency: 7.17us
collectives:
  endpoint_delay: 80.5us
  reduction_rate: 1235MB/s
"""


@pytest.mark.parametrize("name", ["costs.yaml", "costs.json"])
def test_a_file_keeps_three_digits(tmp_path, name):
    path = tmp_path / name
    FOUND.save(path)
    if name.endswith("yaml"):
        assert path.read_text("utf-8") == TEXT
    read = costs.read(path)
    assert read == HostCosts(7.17e-6, 80.5e-6, 1.235e9, 2)
    assert read.plain() == FOUND.plain()


def test_a_scenario_takes_them(tmp_path):
    FOUND.save(tmp_path / "costs.yaml")
    found = from_file(str(tmp_path / "costs.yaml")).root.plain()
    fabric = {"shape": "Switch(2)", "rate": "1Gb/s", "latency": found["link_latency"]}
    job = {"collective": "reduce", "bytes": "4B"}
    plain = syncline.simulate(workload=job, fabric=fabric).summary.total_time_s
    with_costs = syncline.simulate(workload=job, fabric=fabric, collectives=found["collectives"]).summary.total_time_s
    # 4 B at 1.235 GB/s take 3.2 ns more.
    assert with_costs - plain == pytest.approx(80.5e-6 + 3.24e-9, rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("80.5us", "80.5", "unit"),
        ("endpoint_delay", "endpoint_delays", "did you mean `endpoint_delay`"),
        ("1235MB/s", "fast", "rate"),
        ("cores: 2", "cores: 0", "cores"),
        ("host-costs/1", "host-costs/2", "syncline-host-costs/1"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, old, new, said):
    (tmp_path / "costs.yaml").write_text(TEXT.replace(old, new), "utf-8")
    with pytest.raises(SynclineError) as refused:
        costs.read(tmp_path / "costs.yaml")
    assert "costs.yaml" in str(refused.value)
    assert said in str(refused.value)
    assert refused.value.exit_status == 2


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(SynclineError) as refused:
        FOUND.save(tmp_path / "none" / "costs.yaml")
    assert "cannot be written: no such file or directory" in str(refused.value)
    assert refused.value.exit_status == 3


@needs_namespaces
@pytest.mark.timeout(120)
def test_check_saves_them(cli):
    spec = cli.write("bed.yaml", RACKS.format(name="costs"))
    done = cli("testbed", "check", spec, "--json", "--save", "costs.yaml")
    assert done.returncode in (0, 1), done.stderr
    said = json.loads(done.stdout)["host_costs"]
    found = costs.read(cli.folder / "costs.yaml")
    assert found.plain() == said
    # Of a machine that may be busy: a message takes some microseconds, and memory is faster than a slow disk.
    assert 0 < found.link_latency_s < 0.01
    assert 0 < found.endpoint_delay_s < 0.1
    assert found.reduction_bytes_per_s > 10e6
