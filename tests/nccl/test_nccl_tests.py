"""The output of nccl-tests is read whatever surrounds it, and what it lacks is an error with a remedy."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.nccl import nccl_tests
from tests.nccl.made_up import output


def read(tmp_path, text, **options):
    file = tmp_path / "tests.txt"
    file.write_text(text, "utf-8")
    return nccl_tests.read(str(file), **options)


def test_a_row_says_what_was_measured(tmp_path):
    rows = read(tmp_path, output("all_reduce_perf", 8))
    assert len(rows) == 21
    first = rows[0]
    assert (first.operation, first.gpus, first.nodes, first.bytes) == ("all_reduce", 8, 1, 1024)
    assert (first.gpu, first.software, first.data_type) == ("NVIDIA H100 80GB HBM3", "NCCL 2.27.3", "float")
    # Launch, 14 hops of 0.8 us and 1 kB at 12 GB/s: 6 + 11.2 + 0.085 us, printed with two digits.
    assert first.seconds == pytest.approx(17.29e-6)


def test_ranks_on_several_hosts_are_nodes(tmp_path):
    assert {(row.gpus, row.nodes) for row in read(tmp_path, output("all_gather_perf", 16, nodes=2))} == {(16, 2)}


def test_a_file_may_hold_several_runs(tmp_path):
    rows = read(tmp_path, output("all_reduce_perf", 4) + output("reduce_scatter_perf", 8))
    assert {(row.operation, row.gpus) for row in rows} == {("all_reduce", 4), ("reduce_scatter", 8)}


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: ", "2026-11-28T10:00:00.123 "])
def test_prefixes_of_launchers_are_dropped(tmp_path, prefix):
    text = "".join(f"{prefix}{line}\n" for line in output("alltoall_perf", 8, reduces=False).splitlines())
    assert {(row.operation, row.gpus) for row in read(tmp_path, text)} == {("all_to_all", 8)}


def test_the_command_line_names_the_operation(tmp_path):
    lines = output("all_reduce_perf", 2).splitlines()[1:]
    rows = read(tmp_path, "$ mpirun -np 2 ./build/broadcast_perf -b 1K -e 1G -f 2\n" + "\n".join(lines))
    assert {row.operation for row in rows} == {"broadcast"}


def test_old_versions_have_other_columns(tmp_path):
    text = (
        "# Rank  0 Pid 1 on a device  0 [0x07] Tesla V100\n# Rank  1 Pid 1 on a device  1 [0x0a] Tesla V100\n"
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "     1048576        262144   float    45.10   23.25   23.25  0e+00    44.00   23.83   23.83  0e+00\n"
    )
    (row,) = read(tmp_path, text, operation="all_reduce")
    assert (row.bytes, row.gpus, row.gpu) == (1048576, 2, "Tesla V100")
    assert row.seconds == pytest.approx(45.1e-6)


def test_options_replace_what_a_file_says(tmp_path):
    rows = read(tmp_path, output("all_reduce_perf", 8), operation="all_gather", gpus=16, nodes=4)
    assert {(row.operation, row.gpus, row.nodes) for row in rows} == {("all_gather", 16, 4)}


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "not the output of nccl-tests", "with the lines that begin with #"),
        ("hello\nworld 1 2 3\n", "not the output of nccl-tests", "with the lines that begin with #"),
        (output("x", 8).replace("# Collective test starting: x\n", ""), "which operation", "--operation all_reduce"),
        (output("all_reduce_perf", 8).replace("#  Rank", "#  Gpu"), "how many GPUs", "--gpus N"),
        (output("all_reduce_perf", 1), "times of one GPU tell nothing", "measure several GPUs"),
        (output("hypercube_perf", 8), "this program has no model", "remove this run"),
        (output("all_reduce_perf", 8).replace("float", "float7"), "unknown data type", None),
        (output("all_reduce_perf", 3, nodes=2), "nodes have different numbers of GPUs", "--nodes M"),
    ],
    ids=["empty", "prose", "no operation", "no ranks", "one GPU", "no model", "type", "uneven"],
)
def test_what_cannot_be_read_is_an_error_with_a_remedy(tmp_path, text, message, remedy):
    with pytest.raises(SynclineError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.diagnostics
    assert message in problem["message"]
    assert remedy is None or remedy in problem["help"]
    assert problem["place"]["file"].endswith("tests.txt")


def changed(change):
    """An output in which the cells of one line are changed."""
    text = output("all_reduce_perf", 8)
    whole = next(line for line in text.splitlines() if line.split()[:1] == ["1048576"])
    return text.replace(whole, " ".join(change(whole.split())))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (output("all_reduce_perf", 8).replace("(us)", "(ms)"), "another unit"),
        (changed(lambda cells: [*cells[:5], str(float(cells[5]) / 1000), *cells[6:]]), "contradict each other"),
        (changed(lambda cells: [*cells[:3], *cells[4:]]), "contradict each other"),
        (changed(lambda cells: cells[:6]), "contradict each other"),
        (output("all_reduce_perf", 8).replace("time   algbw   busbw", "algbw   busbw   time"), "contradict each other"),
        (changed(lambda cells: [*cells[:8], "17", *cells[9:]]), "results of a call were wrong"),
        ("\n".join(output("all_reduce_perf", 8).splitlines()[:-8]) + "\n     1048576   2621", "ends within a line"),
    ],
    ids=["unit", "milliseconds", "a column less", "no rate", "other columns", "wrong results", "cut"],
)
def test_a_time_that_cannot_be_right_is_an_error(tmp_path, text, message):
    with pytest.raises(SynclineError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.diagnostics
    assert message in problem["message"]
    assert problem["help"] and problem["place"]["file"].endswith("tests.txt")


def test_a_line_that_was_cut_is_an_error(tmp_path):
    text = output("all_reduce_perf", 8)
    whole = next(line for line in text.splitlines() if line.split()[:1] == ["1048576"])
    with pytest.raises(SynclineError, match="a line has no time"):
        read(tmp_path, text.replace(whole, " ".join(whole.split()[:5]) + " nan 0 0"))


def cut_after(size, text=None):
    """An output without the lines after those of a size."""
    lines = (text or output("all_reduce_perf", 8)).splitlines()
    at = next(at for at, line in enumerate(lines) if line.split()[:1] == [str(size)])
    return "\n".join(lines[: at + 1]) + "\n", at + 1


def warnings(tmp_path, text, **options):
    found = []
    read(tmp_path, text, warnings=found, **options)
    return found


def test_a_run_that_was_cut_is_warned_of_with_its_last_line(tmp_path):
    text, line = cut_after(1 << 20)
    (found,) = warnings(tmp_path, text)
    assert found["severity"] == "warning" and found["place"]["line"] == line
    assert found["message"].startswith("a run ends here before its largest size, and without the line `# Avg bus")
    assert found["found"] == "the last size is 1 MiB, and 2 MiB up to 1 GiB are missing"


def test_the_last_lines_alone_may_be_missing(tmp_path):
    text, _ = cut_after(1 << 30)
    (found,) = warnings(tmp_path, text)
    assert found["message"] == "a run ends here without the line `# Avg bus bandwidth`: its output may have been cut"
    assert found["found"] == "the last size is 1 GiB"


def test_each_run_of_a_file_is_looked_at(tmp_path):
    first, line = cut_after(1 << 29)
    (found,) = warnings(tmp_path, first + output("all_gather_perf", 4, reduces=False))
    assert found["place"]["line"] == line
    # Lines were removed, but not the last.
    whole = output("all_reduce_perf", 8)
    ends = whole.index("# Out of bounds")
    (found,) = warnings(tmp_path, first + whole[ends:])
    assert "before its largest size" in found["message"] and "without" not in found["message"]


def test_whole_runs_are_not_warned_of(tmp_path):
    assert not warnings(tmp_path, output("all_reduce_perf", 8) + output("all_gather_perf", 4, reduces=False))
    # Sizes are shortened so that six GPUs have equal parts: 1,073,741,760 bytes stand for 1 GiB.
    text = output("all_gather_perf", 6, reduces=False)
    lines = [
        line.replace(f"{1 << 30:>12}", f"{(1 << 30) // 96 * 96:>12}") if line.split()[:1] == [str(1 << 30)] else line
        for line in text.splitlines()
    ]
    assert not warnings(tmp_path, "\n".join(lines) + "\n")
    # The smallest size is the largest.
    alone = output("all_reduce_perf", 8).replace("maxBytes 1073741824", "maxBytes 1024")
    lines = [line for line in alone.splitlines() if not line.split()[0].isdigit() or line.split()[0] == "1024"]
    assert not warnings(tmp_path, "\n".join(lines) + "\n")


def test_steps_may_be_bytes(tmp_path):
    heading = output("all_reduce_perf", 8)
    by_bytes = heading.replace(
        "minBytes 1024 maxBytes 1073741824 step: 2(factor)", "minBytes 1024 maxBytes 4096 step: 1024(bytes)"
    )
    lines = by_bytes.splitlines()
    keep = [line for line in lines if not line.split()[0].isdigit() or int(line.split()[0]) <= 2048]
    (found,) = warnings(tmp_path, "\n".join(keep) + "\n")
    assert found["found"] == "the last size is 2 KiB, and 3 KiB up to 4 KiB are missing"


def test_rows_alone_say_nothing_about_the_end(tmp_path):
    row = "     1048576        262144   float    45.10   23.25   23.25  0e+00    44.00   23.83   23.83  0e+00\n"
    assert not warnings(tmp_path, row, operation="all_reduce", gpus=8)


def test_times_of_different_gpus_are_an_error(tmp_path):
    a100 = output("all_reduce_perf", 4).replace("H100 80GB HBM3", "A100-SXM4-80GB")
    file = tmp_path / "tests.txt"
    file.write_text(output("all_reduce_perf", 8) + a100, "utf-8")
    with pytest.raises(SynclineError, match="different GPUs") as raised:
        nccl_tests.read_all([str(file)])
    assert raised.value.diagnostics[0]["found"] == "NVIDIA H100 80GB HBM3, NVIDIA A100-SXM4-80GB"
    lines = output("all_reduce_perf", 2).splitlines()
    lines[5] = lines[5].replace("H100 80GB HBM3", "A100-SXM4-80GB")
    with pytest.raises(SynclineError, match="different GPUs") as raised:
        read(tmp_path, "\n".join(lines))
    assert raised.value.diagnostics[0]["place"]["line"] == 6


def test_a_test_that_failed_at_once_is_named(tmp_path):
    heading = output("all_reduce_perf", 2).splitlines()[:10]
    text = "\n".join(
        [*heading, "node0: Test NCCL failure common.cu:961 'unhandled cuda error'", " .. node0 pid 4000: Test failure"]
    )
    with pytest.raises(SynclineError, match="ended with an error before its first time") as raised:
        read(tmp_path, text)
    assert raised.value.diagnostics[0]["place"]["line"] == 11
