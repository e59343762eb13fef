"""Host costs: their file, errors in it, and their measurement."""

from __future__ import annotations

import contextlib
import json

import pytest

import syncline
from syncline.cli.commands import testbed as command
from syncline.errors import SynclineError
from syncline.input.problem import error, raise_errors
from syncline.input.source import from_file
from syncline.testbed import check, costs
from syncline.testbed.check import Checked, MeasuredFlow, Rate
from syncline.testbed.costs import HostCosts
from syncline.testbed.flows import Flow, Port, Share
from syncline.testbed.layout import layout
from syncline.testbed.spec import read
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
    again = costs.read(path)
    assert again == HostCosts(7.17e-6, 80.5e-6, 1.235e9, 2)
    assert again.as_dict() == FOUND.as_dict()


def test_a_scenario_uses_host_costs(tmp_path):
    FOUND.save(tmp_path / "costs.yaml")
    found = from_file(str(tmp_path / "costs.yaml")).root.to_python()
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
def test_errors_in_a_file_are_reported_with_their_place(tmp_path, old, new, said):
    (tmp_path / "costs.yaml").write_text(TEXT.replace(old, new), "utf-8")
    with pytest.raises(SynclineError) as refused:
        costs.read(tmp_path / "costs.yaml")
    assert "costs.yaml" in str(refused.value)
    assert said in str(refused.value)
    assert refused.value.exit_status == 2


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(SynclineError) as refused:
        FOUND.save(tmp_path / "none" / "costs.yaml")
    assert "cannot be written: no such file or directory" in str(refused.value)
    assert refused.value.exit_status == 3


@needs_namespaces
def test_a_file_that_cannot_be_written_is_refused_before_a_testbed_comes_up(cli):
    spec = cli.write("bed.yaml", RACKS.format(name="costs"))
    done = cli("testbed", "check", spec, "--save", "none/costs.yaml")
    assert done.returncode == 3
    assert "none/costs.yaml" in done.stderr
    assert "Measuring" not in done.stderr


@pytest.mark.parametrize("as_json", [True, False])
def test_results_are_shown_even_if_saving_costs_fails(monkeypatch, capsys, tmp_path, as_json):
    """The disk may be full after the measurement."""
    (tmp_path / "bed.yaml").write_text(RACKS.format(name="costs"))
    monkeypatch.chdir(tmp_path)
    found = layout(read("bed.yaml"))
    port, other = (Port(host, 0) for host in found.hosts[:2])
    done = Checked(
        (Rate("one flow", (MeasuredFlow(Flow(port, other), Share(1e8, contended=False), 1e8, 1e8),), 0.1),), ()
    )

    @contextlib.contextmanager
    def there(*_, **__):
        yield found, []

    def full(costs, path):
        raise_errors(error("SL0801", "cannot be written: no space left on device"))

    monkeypatch.setattr(command, "_testbed", there)
    monkeypatch.setattr(check, "check", lambda *_, **__: done)
    monkeypatch.setattr(costs, "measure", lambda *_: FOUND)
    monkeypatch.setattr(HostCosts, "save", full)
    assert command.check("bed.yaml", [], "costs.yaml", as_json=as_json, quiet=False) == 3
    out, err = capsys.readouterr()
    assert "no space left on device" in err
    assert "Host costs are in" not in err
    if as_json:
        said = json.loads(out)
        assert (said["exit_status"], said["host_costs"]) == (3, FOUND.as_dict())
        assert [each["code"] for each in said["diagnostics"]] == ["SL0801"]
        assert said["rates"][0]["holds"]
    else:
        assert "All rates are within" in out


@needs_namespaces
@pytest.mark.timeout(120)
def test_check_saves_host_costs(cli):
    spec = cli.write("bed.yaml", RACKS.format(name="costs"))
    done = cli("testbed", "check", spec, "--json", "--save", "costs.yaml")
    assert done.returncode in (0, 1), done.stderr
    said = json.loads(done.stdout)["host_costs"]
    found = costs.read(cli.folder / "costs.yaml")
    assert found.as_dict() == said
    # Loose bounds, because the machine may be busy.
    assert 0 < found.link_latency_s < 0.01
    assert 0 < found.endpoint_delay_s < 0.1
    assert found.reduction_bytes_per_s > 10e6
