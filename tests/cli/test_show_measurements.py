"""``syncline show measurements``: what is printed, what is drawn, and what is refused."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import sys
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from syncline.cli.commands.measurements import measurements
from syncline.distances import Measured, Pair, save
from syncline.errors import SynclineError

RACKS = [host % 4 for host in range(16)]
"""Rack of each host: those of a rack are far from each other in the file."""


def measured(racks=RACKS, names=None) -> Measured:
    """Round trips and rates in both directions, all different, that are short and high in a rack; one pair lacks."""
    pairs = {}
    for at, (a, b) in enumerate(itertools.permutations(range(len(racks)), 2)):
        if {a, b} == {0, 1}:
            continue
        near = racks[a] == racks[b]
        pairs[a, b] = Pair(
            rtt_s=(10e-6 if near else 50e-6) * (1 + at / 10_000),
            rtt_error_s=1e-7,
            samples=100,
            rate_bytes_per_s=(2e9 if near else 1e9) * (1 - at / 10_000),
            transfers=5,
        )
    return Measured(names or tuple(f"node{host:02}" for host in range(len(racks))), pairs)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(measured(), "probe.parquet")
    return "probe.parquet"


def shown(capsys, *arguments, **options):
    assert measurements(*arguments, **{"as_json": False, **options}) == 0
    return capsys.readouterr().out


def test_the_screen_says_what_was_measured(file, capsys):
    text = " ".join(shown(capsys, file, None, None, None).split())
    for part in (
        "16 hosts; file of 2",
        "119 of 120 pairs of hosts (99.2 %) measured, 119 in both directions: round trips and rates.",
        "Each round trip has 100 samples, with 95 % confidence within 0.2 % (median; 1.0 % at worst).",
        "Each rate has 5 transfers.",
        "1 pair without a measurement: node00 - node01.",
        "shortest round trips node00 - node04",
        "lowest rates node14 - node15",
        "Round trips between hosts, ordered by cluster",
    ):
        assert part in text


def test_the_heat_map_has_a_row_for_each_host_with_racks_side_by_side(file, capsys):
    lines = shown(capsys, file, None, None, None).splitlines()
    rows = [line for line in lines if re.match(r"node\d\d [█▓▒░ ·\\]", line)]
    hosts = [int(line[4:6]) for line in rows]
    assert sorted(hosts) == list(range(16))
    assert [len(list(run)) for _, run in itertools.groupby(RACKS[host] for host in hosts)] == [4] * 4
    for at, (host, row) in enumerate(zip(hosts, rows, strict=True)):
        cells = row[7:].ljust(32)[::2]
        for other, cell in zip(hosts, cells, strict=True):
            if {host, other} == {0, 1}:
                assert cell == "·"
            elif host == other:
                assert cell == "\\" and cells.index("\\") == at
            else:
                assert (cell == "█") == (RACKS[host] == RACKS[other])


def test_json_is_the_same_as_data(file, capsys):
    view = json.loads(shown(capsys, file, None, None, None, as_json=True))["measurements"]
    assert (view["possible"], view["measured"], view["both_directions"]) == (120, 119, 119)
    assert view["missing"] == [["node00", "node01"]]
    assert view["samples"] == {"fewest": 100, "median": 100, "most": 100}
    racks = [RACKS[int(name[4:])] for name in view["order"]]
    assert [len(list(run)) for _, run in itertools.groupby(racks)] == [4] * 4
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", view["written"])
    (a, b), shortest = min(measured().round_trips.items(), key=lambda each: each[1])
    assert view["round_trips"]["lowest"][0] == {"hosts": [f"node{a:02}", f"node{b:02}"], "value": shortest}


def test_a_file_of_only_rates_shows_rates(tmp_path, capsys):
    path = str(tmp_path / "rates.csv")
    (tmp_path / "rates.csv").write_text("from,to,rate_bytes_per_s\na,b,1e9\nb,c,2e9\n")
    text = shown(capsys, path, None, None, None)
    assert "2 of 3 pairs of hosts" in text
    assert "Rates between hosts" in text
    assert "samples" not in text


def test_a_file_without_any_value_says_so(tmp_path, capsys):
    (tmp_path / "none.csv").write_text("from,to,rtt_us,lost\na,b,,100\n")
    text = " ".join(shown(capsys, str(tmp_path / "none.csv"), None, None, None).split())
    assert "0 of 1 pair of hosts (0.0 %) measured: nothing." in text
    assert "The file lists 1 of them, without a value." in text


def test_groups_order_the_heat_map(file, capsys):
    groups = [[f"node{host:02}" for host in range(16) if host // 8 == half] for half in (0, 1)]
    Path("groups.yaml").write_text(f"groups: {json.dumps(groups)}\n")
    text = shown(capsys, file, None, "groups.yaml", None)
    assert "in the order of groups" in text
    hosts = [int(name) for name in re.findall(r"^node(\d\d) [█▓▒░ ·\\]", text, re.M)]
    assert [len(list(run)) for _, run in itertools.groupby(host // 8 for host in hosts)] == [8, 8]


def texts(path):
    """The texts of a picture."""
    root = ElementTree.parse(path).getroot()
    return [each.text for each in root.iter() if each.tag.endswith("}text")]


def image(path):
    """Pixels of the heat map, the largest image of a picture."""
    numpy = pytest.importorskip("numpy")
    pillow = pytest.importorskip("PIL.Image")
    found = re.findall(r"data:image/png;base64,([^\"]+)", path.read_text())
    images = [numpy.array(pillow.open(BytesIO(base64.b64decode(each))).convert("RGBA")) for each in found]
    return max(images, key=lambda each: each.size)


class TestPicture:
    @pytest.fixture(autouse=True)
    def _library(self):
        pytest.importorskip("matplotlib")

    def test_every_host_is_named_on_both_panels(self, file, tmp_path, capsys):
        measurements(file, "map.svg", None, None, as_json=False)
        assert "Wrote the picture to map.svg" in capsys.readouterr().err
        found = texts("map.svg")
        for host in range(16):
            # Two axes of the heat map, and the map.
            assert found.count(f"node{host:02}") == 3
        assert "30 us" in found
        first = (tmp_path / "map.svg").read_bytes()
        measurements(file, "map.svg", None, None, as_json=True)
        assert (tmp_path / "map.svg").read_bytes() == first

    def test_the_heat_map_has_the_colours_of_the_values(self, file, tmp_path):
        """Each cell is as bright as its value is short: pixels are compared with the matrix."""
        measurements(file, "map.svg", None, None, as_json=True)
        pixels = image(tmp_path / "map.svg").astype(float)
        assert pixels.shape == (512, 512, 4)
        order = [int(name[4:]) for name in re.findall(r"node\d\d", " ".join(texts("map.svg")))[:16]]
        trips = measured().round_trips
        seen = []
        for x, y in itertools.product(range(16), repeat=2):
            red, green, _, alpha = pixels[32 * y + 16, 32 * x + 16]
            a, b = sorted((order[x], order[y]))
            assert (alpha > 0) == ((a, b) in trips)
            if alpha > 0:
                seen.append((trips[a, b] < 30e-6, red + green))
        assert min(light for near, light in seen if near) > max(light for near, light in seen if not near) + 50

    def test_groups_have_colours_and_a_legend(self, file, tmp_path):
        groups = [[f"node{host:02}" for host in range(16) if RACKS[host] == rack] for rack in range(4)]
        (tmp_path / "groups.yaml").write_text(f"groups: {json.dumps(groups)}\n")
        measurements(file, "map.svg", "groups.yaml", "rate", as_json=True)
        found = texts("map.svg")
        assert [f"group {number}" for number in range(4)] == [text for text in found if text.startswith("group ")]
        assert any("GB/s" in text for text in found)
        assert "prefers-color-scheme: dark" in (tmp_path / "map.svg").read_text()

    def test_many_hosts_make_a_small_file_with_fewer_names(self, tmp_path):
        numpy = pytest.importorskip("numpy")
        from syncline.grouping.drawing import draw_values
        from syncline.grouping.synthetic import DataCentre

        centre = DataCentre(hosts=400, rack=20, noise=0.1, missing=0.1, seed=1)
        names = tuple(f"node{host}" for host in range(400))
        path = tmp_path / "many.svg"
        draw_values(names, centre.measured().round_trips, "rtt", str(path), groups=centre.racks.tolist())
        # As many cells as hosts, at least 512 pixels; 1,024 hosts have seven times as many.
        assert image(path).shape == (800, 800, 4)
        assert path.stat().st_size < 400_000
        named = [text for text in texts(path) if text.startswith("node")]
        assert len(named) <= 2 * 40 + 24
        assert numpy.unique(image(path).reshape(-1, 4), axis=0).shape[0] <= 256

    def test_long_and_odd_names_are_drawn(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        names = ("a<b>&$x$", "x_{1}^2$", *(f"node{host}.rack.example.org" for host in range(6)))
        save(measured([0, 0, 0, 0, 1, 1, 1, 1], names), "odd.parquet")
        measurements("odd.parquet", "odd.svg", None, None, as_json=True)
        assert texts("odd.svg").count("a<b>&$x$") == 3
        assert texts("odd.svg").count("node5.rack.exam…") == 3

    @pytest.mark.parametrize("count", [2, 3])
    def test_few_hosts_are_drawn(self, count, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rows = "".join(f"h{host},h{host + 1},{10 + host}\n" for host in range(count - 1))
        (tmp_path / "few.csv").write_text(f"from,to,rtt_us\n{rows}")
        assert measurements("few.csv", "few.svg", None, None, as_json=True) == 0

    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            (("map.pdf", None, None), "SL0102", ("not a name of a picture", "ends in .svg")),
            (("no/map.svg", None, None), "SL0801", ("the folder does not exist", "may write to")),
            ((".", None, None), "SL0102", ()),
            (("map.svg", "other.yaml", None), "SL1301", ("other hosts", "syncline group probe.parquet")),
            (("map.svg", "some.yaml", None), "SL1301", ("in no group", "add it to a group")),
            (("map.svg", "none.yaml", None), "SL0105", ("no such file",)),
        ],
    )
    def test_what_cannot_be_drawn_is_refused(self, file, tmp_path, options, code, words):
        (tmp_path / "other.yaml").write_text("groups: [[a, b], [c]]\n")
        (tmp_path / "some.yaml").write_text("groups: [[node00, node01], [node02]]\n")
        with pytest.raises(SynclineError) as raised:
            measurements(file, *options, as_json=False)
        assert raised.value.diagnostics[0]["code"] == code
        for word in words:
            assert word in str(raised.value.diagnostics)
        assert not (tmp_path / "map.svg").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_without_permission_is_refused(self, file, tmp_path):
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(SynclineError, match="permission denied"):
            measurements(file, "closed/map.svg", None, None, as_json=False)

    def test_rates_that_were_not_measured_cannot_be_drawn(self, tmp_path):
        path = tmp_path / "rtt.csv"
        path.write_text("from,to,rtt_us\na,b,10\n")
        with pytest.raises(SynclineError) as raised:
            measurements(str(path), None, None, "rate", as_json=False)
        assert "--what rate" in raised.value.diagnostics[0]["help"]
        assert "--by rtt" in raised.value.diagnostics[0]["help"]


def test_the_screen_needs_no_optional_package(file, capsys, monkeypatch):
    for name in ("numpy", "scipy", "scipy.cluster", "scipy.cluster.hierarchy", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    text = shown(capsys, file, None, None, None)
    hosts = [int(name) for name in re.findall(r"^node(\d\d) [█▓▒░ ·\\]", text, re.M)]
    assert [len(list(run)) for _, run in itertools.groupby(RACKS[host] for host in hosts)] == [4] * 4
    with pytest.raises(SynclineError, match="matplotlib") as raised:
        measurements(file, "map.svg", None, None, as_json=False)
    assert "pip install" in raised.value.diagnostics[0]["help"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.parquet", None, "no such file"),
        ("none.parquet", None, "a Parquet file of `syncline probe`"),
        ("none.csv", None, "no such file"),
        ("empty.csv", "", "the file is empty"),
        ("empty.parquet", "", "truncated or corrupt"),
        ("one.csv", "us,a\na,0\n", "2 to 16,384 hosts"),
        ("ring.yaml", "schema: syncline/1\n", "corrupt"),
    ],
)
def test_files_that_hold_no_measurements_are_refused(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SynclineError) as raised:
        measurements(str(tmp_path / name), None, None, None, as_json=False)
    assert words in str(raised.value.diagnostics)


def test_options_of_scenarios_and_of_measurements_exclude_each_other(cli, ring):
    save(measured(), str(cli.folder / "probe.parquet"))
    done = cli("show", "measurements", "probe.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    for arguments, message in (
        (("measurements", "probe.parquet", "--network", "flow"), "`--network` needs a scenario"),
        (("measurements", "probe.parquet", "--set", "a=1"), "`--set` needs a scenario"),
        (("fabric", ring, "--groups", "groups.yaml"), "`--groups` needs measurements"),
        (("plan", ring, "--by", "rtt"), "`--by` needs measurements"),
        (("measurements", "probe.parquet", "--by", "both"), "both"),
    ):
        done = cli("show", *arguments)
        assert done.returncode == 2
        assert message in done.stderr


@pytest.mark.parametrize("columns", ["40", "60", "100"])
def test_the_screen_fits_a_narrow_terminal_in_ascii(cli, columns):
    save(measured(), str(cli.folder / "probe.parquet"))
    done = cli("show", "measurements", "probe.parquet", COLUMNS=columns, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= max(int(columns), 60)
    assert "?" not in done.stdout
    assert "##" in done.stdout
