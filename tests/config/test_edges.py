"""Edge lists in CSV form: their meaning, and errors that name line, column and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.input import limits

SCENARIO = "workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { file: edges.csv }\n"
HEAD = "from,to,rate,latency\n"


@pytest.fixture
def read(scenario: Callable[..., object], tmp_path: Path) -> Callable[..., dict]:
    """A function that returns the resolved graph of an edge list."""

    def graph(text: str, more: str = "") -> dict:
        Path("edges.csv").write_text(text, "utf-8")
        return scenario(SCENARIO.replace("edges.csv", f"edges.csv{more}")).resolved["fabric"]["graph"]

    return graph


@pytest.fixture
def wrong(read: Callable[..., dict]) -> Callable[..., list]:
    """A function that returns the errors of an edge list."""

    def diagnostics(text: str, more: str = "") -> list:
        with pytest.raises(SynclineError) as caught:
            read(text, more)
        return caught.value.diagnostics

    return diagnostics


def link(start: int, end: int, rate: str = "1GB/s", latency: str = "0s") -> dict:
    return {"from": start, "to": end, "rate": rate, "latency": latency}


def test_columns_may_be_in_any_order_and_links_in_parallel(read):
    text = "\ufefflatency, rate, to, from, count\n# two cables\n1ns, 1GB/s, npu1, npu0, 2\n"
    assert read(text)["links"] == [link(0, 1, latency="1ns"), link(1, 0, latency="1ns")] * 2


@pytest.mark.parametrize("again", ["npu0,npu1,8Gb/s,", "npu1,npu0,1GB/s,0us", "0,1,1GB/s,0ns"])
def test_a_link_that_is_given_twice_is_refused(again, wrong):
    (problem,) = wrong(HEAD + "npu0,npu1,1GB/s,\n# a comment\n" + again + "\n")
    assert (problem["message"], problem["place"]["line"]) == ("a link is given twice", 4)
    assert problem["notes"] == ["the first is in line 2"]
    assert "count: 2" in problem["help"]


def test_different_links_between_the_same_vertices_are_parallel(read):
    text = (
        "from,to,rate,latency,duplex\nnpu0,npu1,1GB/s,,\nnpu0,npu1,2GB/s,,\nnpu0,npu1,1GB/s,1ns,\nnpu0,npu1,1GB/s,,no\n"
    )
    assert len(read(text + "npu1,npu0,1GB/s,,no\n")["links"]) == 8


@pytest.mark.parametrize(
    ("count", "fine"), [("1", True), ("65536", True), ("65537", False), ("0", False), ("two", False)]
)
def test_the_count_of_cables_is_a_positive_whole_number(count, fine, read, wrong):
    text = f"from,to,rate,count\nnpu0,npu1,1GB/s,{count}\n"
    if fine:
        assert len(read(text)["links"]) == 2 * int(count)
    else:
        assert wrong(text)[0]["place"]["line"] == 2


def test_the_total_number_of_cables_is_limited(read, wrong, monkeypatch):
    monkeypatch.setattr(limits, "MAX_EDGES", 4)
    lines = "from,to,rate,count\nnpu0,npu1,1GB/s,3\nnpu0,npu2,1GB/s,"
    assert len(read(lines + "1\n")["links"]) == 8
    assert wrong(lines + "2\n")[0]["message"] == "a fabric has too many links"


def test_switches_are_numbered_after_npus_and_a_link_may_be_one_way(read):
    graph = read("from,to,rate,duplex\nnpu0,switch0,1GB/s,no\nswitch0,npu1,1GB/s,\n")
    assert (graph["npus"], graph["switches"]) == (2, 1)
    assert graph["links"] == [link(0, 2), link(2, 1), link(1, 2)]


def test_vertices_may_have_custom_names(read):
    assert read("from,to,rate\na,tor,1GB/s\nb,tor,1GB/s\n", ", npus: [a, b], switches: [tor]")["npus"] == 2


@pytest.mark.parametrize(
    ("text", "code", "at", "message"),
    [
        ("", "SL0106", (0, 0), "the file is empty"),
        (HEAD, "SL0201", (0, 0), "the file has no link below its header"),
        ("from,to,rat,rate\n", "SL0101", (1, 9), "unknown column `rat`"),
        ("from,to\n", "SL0103", (1, 1), "missing column `rate`"),
        ("from,to,rate,from\n", "SL0102", (1, 14), "column `from` is given twice"),
        (HEAD + "npu0,npu1,1GB/s\n", "SL0106", (2, 1), "3 cells under 4 columns"),
        (HEAD + "\nnpu0,npu1,1,1ns\n", "SL0104", (3, 11), "a number without a unit"),
        (HEAD + "npu0, npu1, 1GB/s, -1ns\n", "SL0104", (2, 20), "a time cannot be negative"),
        (HEAD + "npu0,npu0,1GB/s,1ns\n", "SL0201", (2, 6), "a link joins a vertex with itself"),
        (HEAD + "npu0,npu1,1GB/s,1ns\nnpu0,gpu1,1GB/s,1ns\n", "SL0201", (3, 6), "no such vertex"),
        (HEAD + "npu0,npu1,1GB/s,1ns\nnpu-1,npu1,1GB/s,1ns\n", "SL0201", (3, 1), "no such vertex"),
        (HEAD + "npu0,npu2,1GB/s,1ns\n", "SL0201", (2, 6), "no link joins npu1"),
        (HEAD + "npu0,switch99999999,1GB/s,1ns\n", "SL0201", (2, 6), "no link joins switch0"),
        (HEAD + "npu0,,1GB/s,1ns\n", "SL0103", (2, 1), "missing key `to`"),
        ("from,to,rate,duplex\nnpu0,npu1,1GB/s,both\n", "SL0102", (2, 17), "not a value of `duplex`"),
        ('from,to,rate\n"npu0,npu1,1GB/s\n', "SL0106", (2, 1), "not well-formed CSV"),
    ],
)
def test_errors_name_line_and_column(text, code, at, message, wrong):
    first = wrong(text)[0]
    place = first["place"]
    assert (first["code"], (place["line"], place["column"])) == (code, at)
    assert place["file"] == "edges.csv"
    assert first["message"].startswith(message)


def test_errors_suggest_the_nearest_name(wrong):
    assert wrong("from,to,rat,rate\n")[0]["nearest"] == "rate"
    assert wrong(HEAD + "npu0,npu1,1GB/s,\nnpu0,npu11,1GB/s,\n".replace("npu11", "npuu1"))[0]["nearest"] == "npu1"


def test_an_error_of_the_core_is_reported_once(scenario):
    Path("edges.csv").write_text(HEAD + "npu0,npu1,0GB/s,1ns\n", "utf-8")
    (problem,) = scenario(SCENARIO).check()
    assert (problem["message"], problem["place"]["line"], problem["place"]["column"]) == (
        "a link needs a rate above zero",
        2,
        11,
    )


@pytest.mark.parametrize(
    ("path", "key", "message"),
    [
        ("[npu0, swich0, npu1]", "fabric.routing.1.1", "no such vertex"),
        ("[npu0, npu2, npu1]", "fabric.routing.1", "no link leads from NPU 0 to NPU 2"),
        ("[npu0, switch0, npu1]", "fabric.routing.1", "two paths from NPU 0 to NPU 1"),
        (
            "[npu1, switch0, npu2, switch0, npu0]",
            "fabric.routing.1",
            "a path visits switch 0 twice: a routing loop",
        ),
        ("[npu0]", "fabric.routing.1", "a path must lead from one NPU to another"),
    ],
)
def test_an_invalid_path_is_reported_with_its_place(path, key, message, scenario):
    Path("edges.csv").write_text("from,to,rate\n" + "".join(f"npu{i},switch0,1GB/s\n" for i in range(3)), "utf-8")
    routing = f"edges.csv, routing: [[npu0, switch0, npu1], {path}]"
    try:
        (problem,) = scenario(SCENARIO.replace("edges.csv", routing)).check()
    except SynclineError as refused:
        (problem,) = refused.diagnostics
    place = problem["place"]
    assert (problem["message"], problem["key"]) == (message, key)
    assert (place["file"], place["line"]) == ("s.yaml", 2)
    assert place["text"][place["column"] - 1 :].startswith("swich0" if "swich0" in path else path)


def test_routes_of_the_scenario_override_those_of_a_yaml_file(scenario, refused):
    links = "[{ from: 0, to: 1, rate: 1GB/s }, { from: 1, to: 2, rate: 1GB/s }, { from: 0, to: 2, rate: 1GB/s }]"
    Path("edges.yaml").write_text(f"npus: 3\nlinks: {links}\n", "utf-8")
    text = SCENARIO.replace("edges.csv", "edges.yaml, routing: [[0, 1, 2]]")
    assert scenario(text).resolved["fabric"]["graph"]["routing"] == {"explicit": [[0, 1, 2]]}
    assert "s.yaml:2:29" in refused(SCENARIO.replace("edges.csv", "edges.yaml, npus: [a, b, c]"))


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ("ecmp", {"ecmp": {"seed": None}}),
        ("{ policy: ecmp }", {"ecmp": {"seed": None}}),
        ("{ policy: ecmp, seed: 7 }", {"ecmp": {"seed": 7}}),
        ("shortest", "shortest"),
    ],
)
def test_the_routing_policy_is_resolved(given, resolved, read, scenario):
    text = "from,to,rate\nnpu0,npu1,1GB/s\n"
    assert read(text, f", routing: {given}")["routing"] == resolved
    Path("edges.yaml").write_text(f"npus: 2\nlinks: [{{ from: 0, to: 1, rate: 1GB/s }}]\nrouting: {given}\n", "utf-8")
    assert scenario(SCENARIO.replace("edges.csv", "edges.yaml")).resolved["fabric"]["graph"]["routing"] == resolved
    loaded = scenario(SCENARIO, f"fabric.routing={given}")
    assert loaded.resolved["fabric"]["graph"]["routing"] == resolved


@pytest.mark.parametrize(
    ("given", "key", "allowed", "nearest"),
    [
        ("ecpm", "fabric.routing", "shortest, ecmp", "ecmp"),
        ("{ policy: shortes }", "fabric.routing.policy", "ecmp", None),
        ("{ policy: ecmp, sed: 1 }", "fabric.routing.sed", "policy, seed", "seed"),
        ("{ policy: ecmp, seed: -1 }", "fabric.routing.seed", "at least 0", None),
        ("{ policy: ecmp, seed: one }", "fabric.routing.seed", "a whole number", None),
        ("{ seed: 1 }", "fabric.routing.policy", None, None),
        ("3", "fabric.routing", "shortest, ecmp, a list, or a mapping with the key policy", None),
        ("[npu0]", "fabric.routing.0", "a list", None),
    ],
)
def test_invalid_routing_is_refused(given, key, allowed, nearest, wrong):
    (problem,) = wrong("from,to,rate\nnpu0,npu1,1GB/s\n", f", routing: {given}")
    assert (problem["key"], problem.get("allowed"), problem.get("nearest")) == (key, allowed, nearest)
    assert problem["place"]["line"] == 2


def test_the_number_of_reported_errors_is_limited(wrong):
    lines = HEAD + "npu0,npu1,1,1ns\n" * (limits.MAX_PROBLEMS + 7)
    found = wrong(lines)
    assert len(found) == limits.MAX_PROBLEMS
    assert found[-1]["notes"] == ["7 more errors are not shown"]


def test_a_number_of_vertices_that_no_links_can_join_is_refused(refused):
    fabric = f"npus: {limits.MAX_VERTICES + 1}, links: [{{ from: 0, to: 1, rate: 1GB/s }}]"
    assert "at most 1000000" in refused(SCENARIO.replace("file: edges.csv", fabric))


def test_a_file_may_have_a_fabric_of_any_form(scenario, tmp_path):
    text = "workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { file: own.yaml }\n"
    given = "switch: { hosts: 4, rate: 1GB/s }\nnodes: { npus: 2, rate: 2GB/s }\n"
    Path("own.yaml").write_text(given, "utf-8")
    inline = "workload: { collective: all_reduce, bytes: 1MiB }\nfabric:\n" + "".join(
        f"  {each}\n" for each in given.splitlines()
    )
    assert scenario(text).resolved["fabric"] == scenario(inline).resolved["fabric"]
    Path("own.json").write_text('{"shape": "Ring(4)", "rate": "1GB/s"}', "utf-8")
    assert len(scenario(text.replace("own.yaml", "own.json")).resolved["fabric"]["dims"]) == 1


@pytest.mark.parametrize(
    ("given", "more", "message", "place"),
    [
        ("switch: { hosts: 4, rate: 1GB }\n", "", "`GB` is not a unit of rate", ("own.yaml", 1)),
        ("switch: { host: 4, rate: 1GB/s }\n", "", "missing key `hosts`", ("own.yaml", 1)),
        ("file: other.yaml\n", "", "a file of a fabric names another file", ("own.yaml", 1)),
        (
            "shape: Ring(4)\nrate: 1GB/s\n",
            ", routing: ecmp",
            "applies only to a file that gives links one by one",
            None,
        ),
        ("nodes: { npus: 4, rate: 1GB/s }\n", "", "", ("own.yaml", 1)),
    ],
)
def test_errors_in_a_file_of_a_fabric_have_their_place(given, more, message, place, scenario, tmp_path):
    Path("own.yaml").write_text(given, "utf-8")
    with pytest.raises(SynclineError) as caught:
        scenario("workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { file: own.yaml" + more + " }\n")
    problem = caught.value.diagnostics[0]
    assert message in problem["message"]
    assert place is None or (problem["place"]["file"], problem["place"]["line"]) == place
