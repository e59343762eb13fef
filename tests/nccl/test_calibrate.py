"""``syncline calibrate`` finds the constants of a machine from the output of its nccl-tests."""

from __future__ import annotations

import json

import pytest

from syncline import nccl
from syncline.errors import SynclineError
from tests.conftest import Cli
from tests.nccl import made_up
from tests.nccl.made_up import output, seconds


@pytest.fixture(scope="module")
def files():
    return {gpus: output("all_reduce_perf", gpus) for gpus in (2, 4, 8)}


def test_known_constants_are_found_within_a_percent(cli: Cli, files):
    paths = [cli.write(f"{gpus}.txt", text) for gpus, text in files.items()]
    done = cli("calibrate", *paths, "--name", "ours", "--json")
    assert done.returncode == 0, done.stderr
    machine = json.loads(done.stdout)["machine"]
    assert (machine["name"], machine["gpu"], machine["software"]) == ("ours", "NVIDIA H100 80GB HBM3", "NCCL 2.27.3")
    assert machine["source"] == sorted(paths)
    found = machine["in_node"]["all_reduce"]
    assert found["gpus"] == [2, 4, 8]
    assert found["errors"]["rows"] == 63
    assert found["errors"]["largest"] < 0.01

    def us(text):
        return float(text.removesuffix("us")) * 1e-6

    def rate(text):
        return float(text.removesuffix("GB/s")) * 1e9

    assert us(found["launch"]) == pytest.approx(made_up.LAUNCH, rel=0.01)
    assert us(found["ll"]["hop"]) == pytest.approx(made_up.HOP_LL, rel=0.01)
    assert us(found["ll128"]["hop"]) == pytest.approx(made_up.HOP_LL128, rel=0.01)
    assert rate(found["ll128"]["rate"]) == pytest.approx(made_up.RATE_LL128, rel=0.01)
    assert rate(found["simple"]["bus_rate"]) == pytest.approx(made_up.BUS, rel=0.01)
    assert rate(found["simple"]["local_rate"]) == pytest.approx(made_up.LOCAL, rel=0.01)


def test_the_file_predicts_sizes_that_were_not_measured(cli: Cli, files):
    paths = [cli.write(f"{gpus}.txt", text) for gpus, text in files.items()]
    assert cli("calibrate", *paths, "--out", "machine.yaml", "--quiet").returncode == 0
    machine = nccl.load(str(cli.folder / "machine.yaml"))
    for size in (3_000, 90_000, 700_000, 5_000_000, 100_000_000):
        for gpus in (2, 4, 8):
            time = machine.time("all_reduce", size, gpus_per_node=gpus)
            assert time is not None
            assert time.seconds == pytest.approx(seconds(size, gpus, reduces=True), rel=0.02)


def test_an_existing_file_stays(cli: Cli, files):
    path = cli.write("8.txt", files[8])
    cli.write("8.yaml", "mine")
    done = cli("calibrate", path)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert (cli.folder / "8.yaml").read_text() == "mine"
    assert cli("calibrate", path, "--force").returncode == 0


def test_few_times_are_an_error(cli: Cli, files):
    lines = files[8].splitlines()
    done = cli("calibrate", cli.write("few.txt", "\n".join(lines[:20])))
    assert done.returncode == 2
    assert "too few times of one node" in done.stderr
    assert "all_reduce_perf -b 1K -e 1G -f 2" in done.stderr


def test_times_between_nodes_need_their_interfaces(cli: Cli, files):
    near, far = cli.write("near.txt", files[8]), cli.write("far.txt", output("all_reduce_perf", 16, nodes=2))
    done = cli("calibrate", near, far)
    assert done.returncode == 2
    assert "--nics 8 --nic-rate 400Gb/s" in done.stderr
    done = cli("calibrate", near, far, "--nics", "8", "--nic-rate", "400Gb/s", "--json")
    assert done.returncode == 0, done.stderr
    network = json.loads(done.stdout)["machine"]["network"]
    assert (network["gpus"], network["nics"], network["errors"]["rows"]) == (8, 8, 21)


@pytest.mark.parametrize(("rate", "words"), [("0Gb/s", "`--nic-rate` is 0"), ("400", "without a unit")])
def test_a_rate_that_is_none_is_refused(cli: Cli, files, rate, words):
    done = cli("calibrate", cli.write("near.txt", files[8]), "--nics", "8", "--nic-rate", rate)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_machine_of_an_unknown_name_is_an_error():
    with pytest.raises(SynclineError, match="h100-sxm"):
        nccl.load("h100-sxn")


SCENARIO = """\
schema: syncline/1
workload: {{ collective: {kind}, bytes: {size} }}
fabric: {{ shape: Switch({gpus}), rate: 450GB/s, latency: 100ns }}
collectives: {{ nccl: ours.yaml, element: 4B }}
"""


@pytest.mark.parametrize(
    ("size", "gpus", "is_beyond"), [("1GiB", 8, False), ("512B", 4, False), ("2GiB", 8, True), ("1MiB", 2, True)]
)
def test_a_run_says_which_calls_were_not_measured(cli: Cli, files, size, gpus, is_beyond):
    paths = [cli.write(f"{each}.txt", files[each]) for each in (4, 8)]
    assert cli("calibrate", *paths, "--out", "ours.yaml", "--quiet").returncode == 0
    cli.write("scenario.yaml", SCENARIO.format(kind="all_reduce", size=size, gpus=gpus))
    done = cli("simulate", "scenario.yaml", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["summary"]["calibrated"]
    beyond = "; beyond the sizes or numbers of GPUs that were measured: all_reduce"
    assert said.endswith(beyond) is is_beyond
    assert ("beyond" in said) is is_beyond
