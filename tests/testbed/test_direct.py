"""Hosts that are joined directly: their layout, the commands for the kernel, and a job on them."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.testbed import commands
from syncline.testbed.difference import difference
from syncline.testbed.layout import from_dict, layout
from syncline.testbed.processes import environment
from syncline.testbed.screen import overview
from syncline.testbed.spec import read
from tests.conftest import ROOT
from tests.testbed.specs import needs_namespaces

RING = """fabric:
  npus: 4
  links:
    - { from: 0, to: 1, rate: 100Mb/s, duplex: false }
    - { from: 1, to: 2, rate: 100Mb/s, duplex: false }
    - { from: 2, to: 3, rate: 100Mb/s, duplex: false }
    - { from: 3, to: 0, rate: 100Mb/s, duplex: false }
"""


@pytest.fixture
def made(cli):
    """Returns a function that makes the layout of a file with a given text."""
    return lambda text, name="bed.yaml": layout(read(str(cli.folder / cli.write(name, text))))


def test_each_pair_of_joined_hosts_has_a_network_of_its_own(made):
    found = made(RING)
    assert [[nic.bridge for nic in host.nics] for host in found.hosts] == [
        ["pair0", "pair1"],
        ["pair0", "pair2"],
        ["pair2", "pair3"],
        ["pair1", "pair3"],
    ]
    assert len({nic.address for host in found.hosts for nic in host.nics}) == 8
    # Host 0 sends to host 1 at the link's rate; the way back only resolves addresses.
    assert (found.hosts[0].nics[0].up_bits, found.hosts[1].nics[0].up_bits) == (100_000_000, 1_000_000)
    assert from_dict(found.as_dict()) == found
    assert "joined directly" in overview(found)


def test_paths_follow_the_links_unless_the_file_gives_them(made):
    paths = {(path[0], path[-1]): path for path in made(RING).paths}
    assert len(paths) == 12
    assert paths[0, 1] == (0, 1)
    assert paths[1, 0] == (1, 2, 3, 0)
    both = RING + "    - { from: 0, to: 2, rate: 100Mb/s }\n"
    assert {path for path in made(both).paths if path[0] == 0 and path[-1] == 3} == {(0, 2, 3)}
    given = both + "  routing: [[0, 1, 2, 3]]\n"
    assert {path for path in made(given).paths if path[0] == 0 and path[-1] == 3} == {(0, 1, 2, 3)}
    assert difference(made(both), made(given)) is not None


def test_hosts_forward_by_the_address_of_the_sender(made):
    found = made(RING)
    inside = {space: lines for program, space, lines in commands.batches(found) if program == "ip"}
    lines = inside[found.namespace(1)]
    first = [host.nics[0].address for host in found.hosts]
    # From host 0 to host 2, the packet leaves host 1 through its second interface, where host 2 has its first address.
    assert f"rule add pref 1000 from {first[0]} lookup 1000" in lines
    assert f"route add {first[2]}/32 dev eth1 table 1000" in lines
    # Its own packets to host 0 go the long way.
    own = next(line for line in lines if line.startswith(f"route add {first[0]}/32"))
    assert "dev eth1" in own
    assert f"src {first[1]}" in own


def test_programs_see_one_interface_of_each_host(made):
    found = made(RING)
    told = environment(found, [0, 1, 2, 3], 2)
    assert told["SYNCLINE_ADDRESSES"] == found.hosts[2].nics[0].address
    assert told["SYNCLINE_PEERS"].split(",") == [host.nics[0].address for host in found.hosts]


def test_regular_fabrics_without_switches_are_emulated(made):
    torus = made("fabric: { torus: { sizes: 4x4, rate: 100Mb/s } }\n")
    assert len(torus.hosts) == 16
    assert {len(host.nics) for host in torus.hosts} == {4}
    # Two steps in each of two rings of four.
    assert max(len(path) - 1 for path in torus.paths) == 4
    ring = made("fabric: { shape: Ring(4), rate: 100Mb/s }\n")
    assert {nic.up_bits for host in ring.hosts for nic in host.nics} == {100_000_000}


def test_a_switch_without_links_is_not_a_host(made):
    assert len(made(RING.replace("npus: 4", "npus: 4\n  switches: 1")).hosts) == 4


def test_some_hosts_on_a_switch_and_others_joined_directly_are_refused(made):
    text = RING.replace("npus: 4", "npus: 4\n  switches: [tor]")
    with pytest.raises(SynclineError, match="some hosts are joined directly, and others by switches"):
        made(text + "    - { from: 0, to: tor, rate: 100Mb/s }\n    - { from: 1, to: tor, rate: 100Mb/s }\n")


@needs_namespaces
def test_a_job_sums_over_hosts_that_forward(cli):
    bed = cli.write("bed.yaml", RING)
    done = cli("testbed", "run", bed, "--", "python", str(ROOT / "examples" / "testbed" / "sum.py"))
    assert done.returncode == 0, done.stderr
    assert "every sum is {10.0}" in done.stdout
    refused = cli("testbed", "check", bed)
    assert refused.returncode != 0
    assert "joined directly" in refused.stderr
