"""Circuits that change during a step, as networks to compare with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncline.design.joint import known_switches, read, save, search
from syncline.design.joint.screen import screen
from syncline.errors import SynclineError
from tests.design.joint.test_search import asked


def test_a_job_that_only_reduces_gradients_keeps_its_circuits(tmp_path: Path) -> None:
    # Every operator on all servers: one ring, whose circuits stay, so a step is as fast as on a switch.
    ncf = {"model": "ncf", "parameters": {"batch": 64}, "link": "10Gb/s", "search": {"method": "greedy"}}
    request = read(asked(tmp_path, **ncf, compare=["ideal", "reconfigured", "sip_ml"]))
    found = search(request)
    steps = {each.baseline.name: each.answer.step_s for each in found.others}
    operators = {len(placed.servers) for placed in found.others[0].answer.strategy}
    if operators == {8}:
        assert steps["reconfigured"] == pytest.approx(steps["ideal"], rel=0.02)
        assert steps["sip_ml"] == pytest.approx(steps["ideal"], rel=0.02)
    assert steps["reconfigured"] >= 0.98 * steps["ideal"]


def test_slow_circuits_make_the_step_longer_and_fast_ones_do_not(tmp_path: Path) -> None:
    steps = []
    for pause in ("1us", "100us", "10ms"):
        spec = asked(tmp_path, compare=["reconfigured"], reconfiguration={"pause": pause}, search={"method": "greedy"})
        steps.append(search(read(spec)).others[0].answer.step_s)
    assert steps[0] < steps[1] < steps[2]


def test_the_switch_says_how_long_a_change_takes(tmp_path: Path) -> None:
    def circuits(**given: object) -> dict[str, object]:
        from syncline.design.joint import baselines_of

        (baseline,) = baselines_of(read(asked(tmp_path, compare=["reconfigured"], reconfiguration=given)))
        assert baseline.circuits is not None
        return baseline.circuits

    assert (circuits()["pause"], circuits()["period"]) == ("10ms", "50ms")
    assert circuits(switch="silicon_photonics")["pause"] == "900ns"
    assert circuits(switch="mems_2d")["period"] == "57500ns"
    assert circuits(pause="2us", period="3us")["period"] == "3us"
    # topoopt2022 Table 1.
    ports = [each.ports for each in known_switches().values()]
    assert ports == [1008, 384, 300, 256, 128, 64]


def test_optical_switches_cost_more_than_patch_panels(tmp_path: Path) -> None:
    from syncline.design.joint import baselines_of, direct_usd

    request = read(asked(tmp_path, servers=128, degree=4, link="100Gb/s", compare=["reconfigured", "sip_ml"]))
    reconfigured, sip_ml = baselines_of(request)
    # A port for 520 dollars instead of two for 100 and a 1x2 switch for 25.
    assert reconfigured.usd == pytest.approx(direct_usd(request) + 128 * 4 * (520 - 200 - 25))
    assert sip_ml.usd is None


def test_results_leave_out_what_is_not_known(tmp_path: Path) -> None:
    found = search(read(asked(tmp_path, compare=["sip_ml", "ideal"], search={"method": "greedy"})))
    assert [each.baseline.name for each in found.others] == ["sip_ml", "ideal"]
    save(found, str(tmp_path / "out"))
    assert '"usd": null' in (tmp_path / "out" / "design.json").read_text("utf-8")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "SiP-ML" in page
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    networks = data["design_networks"]["data"]
    assert networks["usd"][1] is None
    assert networks["first_step"][1] is None
    assert None not in networks["step"]
    assert screen(found, 80) is not None


def test_a_period_must_be_longer_than_the_pause(tmp_path: Path) -> None:
    spec = asked(tmp_path, compare=["reconfigured"], reconfiguration={"pause": "10ms", "period": "10ms"})
    with pytest.raises(SynclineError, match="more than the pause of 10ms"):
        search(read(spec))
    with pytest.raises(SynclineError, match="did you mean `mems_3d`"):
        read(asked(tmp_path, reconfiguration={"switch": "mems3d"}))
