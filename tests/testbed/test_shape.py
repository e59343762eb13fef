"""Changed rates of links: names of links, the commands for the kernel, and what a testbed's file keeps."""

from __future__ import annotations

import io
import json
import os

import pytest

from syncline.cli.commands import testbed as command
from syncline.errors import SynclineError
from syncline.testbed import cleanup, commands, kernel, shape, state
from syncline.testbed.check import window
from syncline.testbed.difference import difference
from syncline.testbed.flows import pairs, shares
from syncline.testbed.layout import MAX_BITS, MIN_BITS, PAYLOAD, layout
from syncline.testbed.links import choose, link_rates, targets, with_rates
from syncline.testbed.spec import read
from tests.testbed.specs import BOX, ONE, RACKS

DIRECT = """\
name: {name}
fabric:
  npus: 3
  links:
    - {{ from: 0, to: 1, rate: 1Mb/s }}
    - {{ from: 1, to: 2, rate: 2Mb/s }}
"""
TENANT = RACKS + "traffic: [{{ from: {{ rack: 0 }}, to: {{ rack: 1 }} }}]\n"


@pytest.fixture
def made(cli):
    """Returns a function that makes the layout of a file with a given text."""
    return lambda text, name="bed.yaml": layout(read(str(cli.folder / cli.write(name, text.format(name="bed")))))


@pytest.fixture
def known(made, monkeypatch, tmp_path):
    """Returns the testbed of two racks, which is up by its file; no command reaches the kernel."""
    monkeypatch.setattr(state, "FOLDER", tmp_path / "state")
    monkeypatch.setattr(kernel, "NAMESPACES", tmp_path / "netns")
    monkeypatch.setattr(kernel, "require", lambda: None)
    there = state.TestbedState(made(RACKS), "bed.yaml", os.getpid(), complete=True)
    with state.locked():
        state.write(there)
    return there


@pytest.fixture
def ran(monkeypatch):
    """Returns the lines that were given to the kernel."""
    lines = []
    monkeypatch.setattr(kernel, "batch", lambda _program, inside, batch, _=None: lines.extend((inside, *batch)))
    return lines


def call(*given, rate=None, direction=None, duration=None, restore=False):
    """Calls the command for the testbed of two racks."""
    return command.shape("bed", given, rate, direction, duration, restore=restore, as_json=False, quiet=True)


def test_a_host_has_links_in_both_directions(made):
    racks = made(RACKS)
    out, back = ("h3.eth0", "leaf1"), ("leaf1", "h3.eth0")
    for text in ("h3", "host 3", "host3", " h3 ", "h3.eth0", "host 3 eth0"):
        assert choose(racks, text) == (out, back)
        assert choose(racks, text, "out") == (out,)
        assert choose(racks, text, "in") == (back,)
    box = made(BOX)
    assert choose(box, "h0", "out") == (("h0.eth0", "switch0"), ("h0.eth1", "switch0"))
    assert choose(box, "h0.eth1") == (("h0.eth1", "switch0"), ("switch0", "h0.eth1"))


def test_a_rack_has_the_links_of_its_switch_to_other_switches(made):
    racks = made(RACKS)
    assert choose(racks, "rack1") == choose(racks, "rack 1") == (("leaf1", "spine0"), ("spine0", "leaf1"))
    assert choose(racks, "rack1", "in") == choose(racks, "spine0-leaf1") == (("spine0", "leaf1"),)


def test_machines_of_tenants_have_links(made):
    assert choose(made(TENANT), "machine 5", "out") == choose(made(TENANT), "m5.eth0-leaf1") == (("m5.eth0", "leaf1"),)


def test_links_of_hosts_that_are_joined_directly_reach_the_other_host(made):
    ring = made(DIRECT)
    there = (("h0.eth0", "pair0"), ("pair0", "h1.eth0"))
    assert choose(ring, "h0-h1") == choose(ring, "h0", "out") == there
    assert choose(ring, "h1-h0") == choose(ring, "h0", "in") == (("h1.eth0", "pair0"), ("pair0", "h0.eth0"))
    assert len(choose(ring, "h1")) == 8
    assert "rack0" not in targets(ring)


@pytest.mark.parametrize("text", [RACKS, BOX, DIRECT, TENANT])
def test_every_link_has_a_name(made, text):
    there = made(text)
    names = targets(there)
    assert {link for target in names.values() for link in target.out + target.back} == set(link_rates(there))
    for a, b in link_rates(there):
        assert names[f"{a}-{b}"].out == ((a, b),)


@pytest.mark.parametrize("text", ["leaf1-spin0", "leaf1", "h4", "rack2", "h3.eth1", "hosts", ""])
def test_unknown_links_are_reported_with_those_that_exist(made, text):
    with pytest.raises(SynclineError) as refused:
        choose(made(RACKS), text)
    (problem,) = refused.value.diagnostics
    assert (problem["code"], refused.value.exit_status) == ("SL1103", 2)
    assert problem["message"] == "there is no such host, interface, rack or link"
    assert problem["allowed"] == "h0 to h3, interfaces such as h0.eth0, rack0 to rack1, links such as leaf0-spine0"
    assert problem["help"] == "syncline testbed status bed lists them"
    if text == "leaf1-spin0":
        assert problem["nearest"] == "leaf1-spine0"


def test_the_names_in_errors_exist(made):
    for text, allowed in (
        (ONE, "h0, interfaces such as h0.eth0"),
        (DIRECT, "h0 to h2, interfaces such as h0.eth0, links such as h0-h1"),
    ):
        with pytest.raises(SynclineError) as refused:
            choose(made(text), "nothing")
        assert refused.value.diagnostics[0]["allowed"] == allowed


def test_a_rack_without_links_to_other_switches_is_reported(made):
    with pytest.raises(SynclineError, match="no links to other switches"):
        choose(made(ONE), "rack0")


@pytest.mark.parametrize("text", [RACKS, BOX, DIRECT, TENANT])
def test_each_link_gets_its_own_rate(made, text):
    there = made(text)
    wanted = {link: 1000 + at for at, link in enumerate(link_rates(there))}
    found = with_rates(there, wanted)
    assert link_rates(found) == wanted
    assert with_rates(found, link_rates(there)) == there
    one = next(iter(wanted))
    assert link_rates(with_rates(there, {one: 7})) == link_rates(there) | {one: 7}


def limits(batches):
    """Returns the words of each line that limits a rate, by namespace and device, from its second word on."""
    found = {}
    for program, inside, lines in batches:
        for line in lines if program == "tc" else ():
            words = line.split()
            if "rate" in words:
                found[inside, words[words.index("dev") + 1]] = words
    return found


@pytest.mark.parametrize("shaper", ["htb", "tbf"])
@pytest.mark.parametrize("text", [RACKS, BOX, DIRECT, TENANT])
@pytest.mark.parametrize("bits", [MIN_BITS, 200_000_000, 10**10, MAX_BITS])
def test_changed_links_are_shaped_as_if_the_file_had_their_rates(made, shaper, text, bits):
    there = made(f"shaper: {shaper}\n{text}")
    after = with_rates(there, dict.fromkeys(link_rates(there), bits))
    fresh = limits(commands.batches(after))
    changed = limits(commands.changes(after, link_rates(after)))
    assert changed.keys() == fresh.keys()
    for key, words in changed.items():
        assert words[:2] == ["class" if shaper == "htb" else "qdisc", "change"]
        assert words[2:] == fresh[key][2:]
        # A link may send at once what it sends in a millisecond, and always a whole segment of TCP.
        assert int(words[words.index("burst") + 1]) == max(65536, round(bits / 8000))


@pytest.mark.parametrize(
    ("shaper", "line"),
    [
        (
            "htb",
            "class change dev h3n0 parent 1: classid 1:1 htb rate 20000000bit burst 65536 cburst 65536 quantum 1500",
        ),
        ("tbf", "qdisc change dev h3n0 root tbf rate 20000000bit burst 65536 limit 1000000"),
    ],
)
def test_only_the_ports_of_changed_links_are_changed(made, shaper, line):
    there = made(f"shaper: {shaper}\n{RACKS}")
    links = choose(there, "h3")
    after = with_rates(there, dict.fromkeys(links, 20_000_000))
    assert list(commands.changes(after, links[1:])) == [("tc", "syncline.bed.fabric", [line])]
    assert [inside for _, inside, _ in commands.changes(after, links)] == ["syncline.bed.fabric", "syncline.bed.h3"]
    assert not list(commands.changes(after, []))


def test_check_expects_the_changed_rate(made):
    there = made(RACKS)
    slow = with_rates(there, dict.fromkeys(choose(there, "rack1", "in"), 10_000_000))
    flow = dict(pairs(slow))["across racks"]
    assert [shares(bed, [flow])[0].bits for bed in (there, slow)] == pytest.approx([100e6 * PAYLOAD, 10e6 * PAYLOAD])
    # The queue is as long, so a packet waits ten times as long in it.
    assert window(slow, [flow], 1.0)[0] == pytest.approx(10 * 1_000_000 * 8 / 10e6)


def test_changes_are_kept_until_they_are_restored(known, ran):
    assert call("h3", "rack 1=50Mb/s", rate="20Mb/s") == 0
    there = state.require("bed")
    assert there.layout == known.layout
    assert there.changed == {
        ("h3.eth0", "leaf1"): 20_000_000,
        ("leaf1", "h3.eth0"): 20_000_000,
        ("leaf1", "spine0"): 50_000_000,
        ("spine0", "leaf1"): 50_000_000,
    }
    assert there.now.hosts[3].nics[0].up_bits == 20_000_000
    assert there.changes()[0] == {"from": "h3.eth0", "to": "leaf1", "rate_bits": 20_000_000, "file_bits": 200_000_000}
    # A file still matches the testbed.
    assert difference(there.layout, known.layout) is None
    assert [each for each in ran if each.startswith("syncline")] == ["syncline.bed.fabric", "syncline.bed.h3"]
    assert call("h3", restore=True, direction="in") == 0
    assert ("leaf1", "h3.eth0") not in state.require("bed").changed
    assert len(state.require("bed").changed) == 3
    ran.clear()
    assert call(restore=True) == 0
    assert state.require("bed") == known
    # Only changed links are touched.
    assert sum(each.startswith("class change") for each in ran) == 3


def test_a_link_with_the_rate_in_the_file_is_not_changed(known, ran):
    assert call("h0=50Mb/s", "h0", rate="200Mb/s") == 0
    assert state.require("bed") == known
    assert len([each for each in ran if each.startswith("class change")]) == 2


def test_if_the_kernel_refuses_a_rate_all_links_keep_theirs(known, monkeypatch):
    rates = {}

    def batch(_program, inside, lines, remedy=None):
        for line in lines:
            if inside.endswith("h3") and "rate 9000000bit" in line:
                kernel.raise_errors(kernel.error("SL1101", "no", help=remedy))
            rates[inside, line.split()[3]] = line.split()[line.split().index("rate") + 1]

    monkeypatch.setattr(kernel, "batch", batch)
    assert call("h3", rate="50Mb/s") == 0
    before = state.require("bed")
    with pytest.raises(SynclineError) as refused:
        call("rack1", "h3", rate="9Mb/s")
    assert "syncline testbed down bed" in refused.value.diagnostics[0]["help"]
    assert state.require("bed") == before
    assert rates == {
        ("syncline.bed.fabric", "h3n0"): "50000000bit",
        ("syncline.bed.h3", "eth0"): "50000000bit",
        ("syncline.bed.fabric", "t1a"): "100000000bit",
        ("syncline.bed.fabric", "t1b"): "100000000bit",
    }


def test_a_killed_change_is_restored_as_a_whole(known, monkeypatch):
    def killed(*_):
        raise SystemExit

    monkeypatch.setattr(kernel, "batch", killed)
    with pytest.raises(SystemExit):
        call("h3", rate="9Mb/s")
    # Nobody knows which links have which rate, so the testbed's file lists them all.
    assert set(state.require("bed").changed) == set(choose(known.layout, "h3"))


def test_a_temporary_change_ends_with_the_former_rates(known, ran):
    assert call("h3", rate="50Mb/s") == 0
    before = state.require("bed")
    with shape.temporary("bed", lambda there: dict.fromkeys(choose(there.layout, "rack0"), 9_000_000)) as there:
        assert len(there.changed) == 4
    assert state.require("bed") == before
    assert call("h3", "h2", rate="1Mb/s", duration="1ms") == 0
    assert state.require("bed") == before
    with (
        pytest.raises(KeyboardInterrupt),
        shape.temporary("bed", lambda there: dict.fromkeys(choose(there.layout, "rack0"), 9_000_000)),
    ):
        raise KeyboardInterrupt
    assert state.require("bed") == before


def test_ctrl_c_ends_a_temporary_change(known, ran, monkeypatch):
    def interrupted(_seconds):
        assert len(state.require("bed").changed) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", interrupted)
    assert call("h3", rate="1Mb/s", duration="3600s") == 130
    assert state.require("bed") == known


def test_the_cleanup_process_restores_rates(known, ran):
    pipe = io.BytesIO()
    shape.change("bed", lambda there: dict.fromkeys(choose(there.layout, "h3"), 9_000_000), cleanup.Watch(pipe))
    said = pipe.getvalue().decode()
    assert len(state.require("bed").changed) == 2
    cleanup.main(io.StringIO(said + "done\n"))
    assert len(state.require("bed").changed) == 2
    # Another testbed of the same name is left alone.
    cleanup.main(io.StringIO(said.replace(f" {os.getpid()} ", " 1 ")))
    assert len(state.require("bed").changed) == 2
    cleanup.main(io.StringIO(said))
    assert state.require("bed") == known


def test_a_new_testbed_has_the_rates_in_its_file(known, ran):
    assert call("h3", rate="50Mb/s") == 0
    state.forget("bed")
    with pytest.raises(SynclineError, match="there is no such testbed"):
        call("h3", rate="50Mb/s")
    shape.give_back("bed", os.getpid(), {("h3.eth0", "leaf1"): 7})
    assert state.find("bed") is None


@pytest.mark.parametrize(
    ("given", "options", "code", "words"),
    [
        ([], {}, "SL0103", "no link is named"),
        ([], {"rate": "1Mb/s"}, "SL0103", "no link is named"),
        (["h3"], {}, "SL0103", "no rate is given"),
        (["h3=1Mb/s", "h2"], {}, "SL0103", "h2=200Mb/s"),
        (["h3"], {"rate": "0b/s"}, "SL0102", "8b/s to 34Tb/s"),
        (["h3=7b/s"], {}, "SL0102", "8b/s to 34Tb/s"),
        (["h3=35Tb/s"], {}, "SL0102", "8b/s to 34Tb/s"),
        (["h3"], {"rate": "200"}, "SL0104", "unit"),
        (["h3"], {"rate": "-1Mb/s"}, "SL0104", "negative"),
        (["h3="], {"rate": "1Mb/s"}, "SL0104", "rate"),
        (["h3=1Mb/s"], {"restore": True}, "SL0102", "--restore takes no rate"),
        ([], {"restore": True, "rate": "1Mb/s"}, "SL0102", "--restore takes no rate"),
        (["h3"], {"rate": "1Mb/s", "direction": "up"}, "SL0102", "out or in"),
        (["leaf0-spine0"], {"rate": "1Mb/s", "direction": "out"}, "SL0102", "one direction"),
        (["h3"], {"rate": "1Mb/s", "duration": "10"}, "SL0104", "unit"),
        (["h9"], {"rate": "1Mb/s"}, "SL1103", "h0 to h3"),
    ],
)
def test_invalid_arguments_are_reported_and_change_nothing(known, ran, given, options, code, words):
    with pytest.raises(SynclineError) as refused:
        call(*given, **options)
    (problem,) = refused.value.diagnostics
    assert problem["code"] == code
    assert refused.value.exit_status == 2
    assert words in json.dumps(problem)
    assert state.require("bed") == known
    assert ran == []


def test_status_shows_both_rates(known, ran, capsys):
    assert call("h3=20Mb/s", "leaf1-spine0=50Mb/s") == 0
    assert command.status("bed", as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["testbed"]["hosts"][3]["nics"][0]["up_bits"] == 20_000_000
    assert told["changed"][2] == {
        "from": "leaf1",
        "to": "spine0",
        "rate_bits": 50_000_000,
        "file_bits": 100_000_000,
    }
    assert command.status("bed", as_json=False) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["leaf1", "spine0", "50", "Mb/s", "100", "Mb/s"] in rows
    assert ["h3.eth0-leaf1", "20", "Mb/s", "200", "Mb/s"] in rows
    assert ["leaf1-spine0", "50", "Mb/s", "100", "Mb/s"] in rows
    assert command.status(None, as_json=False) == 0
    assert "3 links with changed rates" in " ".join(capsys.readouterr().out.split())
