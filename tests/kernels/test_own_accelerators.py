"""Accelerators that the package does not know: measured by a user, fitted, and used in a search."""

from __future__ import annotations

import itertools
import json

import pytest

from syncline import kernels
from syncline.errors import SynclineError
from syncline.estimate import machine
from syncline.kernels.columns import header, line
from tests.conftest import Cli
from tests.design.test_parallel import LLAMA_70B

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from syncline.kernels.fitting import document, machines  # noqa: E402
from syncline.kernels.fitting.rows import read  # noqa: E402

RATE, MEMORY, SMS = 400e12, 2e12, 100
FACTS = {"device": "Own 1", "sm_count": SMS, "l2_bytes": 64 << 20, "memory_bytes": 64 << 30, "date": "2026-11-28"}


def table(facts=FACTS):
    """Kernels of a device of 400 TFLOP/s and 2 TB/s, at four fifths of these and 4 us beside."""
    lines = [header(facts)]
    for m, n, k in itertools.product((128, 512, 2048, 8192), (512, 1024, 4096, 8192), (512, 1024, 4096, 8192, 16384)):
        least = max(2 * m * n * k / RATE, 2 * (m * n + m * k + n * k) / MEMORY)
        row = {"operation": "gemm", "pass": "forward", "data_type": "bf16", "layout": "nt", "m": m, "n": n, "k": k}
        flop, moved = 2 * m * n * k, 2 * (m * n + m * k + n * k)
        lines.append(line({**row, "groups": 1, "flop": flop, "bytes": moved, "seconds": 4e-6 + least / 0.8}))
        swapped = {**row, "layout": "nt", "m": m + 64, "flop": flop, "bytes": moved}
        lines.append(line({**swapped, "groups": 1, "seconds": 4e-6 + least * (m + 64) / m / 0.8}))
    for batch, sequence, heads, group in itertools.product((1, 2, 4), (512, 1024, 4096, 8192), (8, 16, 32), (1, 4, 8)):
        shape = {"batch": batch, "sequence": sequence, "heads": heads, "kv_heads": heads // group, "head_dim": 128}
        flop = 4 * batch * heads * sequence**2 * 128 / 2
        row = {"operation": "attention", "pass": "forward", "data_type": "bf16", **shape, "causal": True}
        lines.append(line({**row, "flop": int(flop), "seconds": 6e-6 + flop / (0.5 * RATE)}))
    return "".join(lines)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Models of the device."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.csv").write_text(table(), "utf-8")
    (folder / "own.json").write_text(document.fit(read([str(folder / "own.csv")], "Own 1")), "utf-8")
    return folder / "own.json"


def test_what_the_header_says_is_known_of_the_device(tmp_path):
    (tmp_path / "own.csv").write_text(table(), "utf-8")
    found = machines.machine_of(read([str(tmp_path / "own.csv")], "Own 1"))
    assert (found.name, found.multiprocessors, found.cache_bytes) == ("Own 1", SMS, 64 << 20)
    assert 0.7 * RATE < found.flop_per_s("bf16") < 0.81 * RATE
    assert found.bound("bf16") is None


def test_a_fit_predicts_the_measured_kernels(fitted):
    models = kernels.load(str(fitted))
    assert models.accelerator == "Own 1" and models.document["memory_bytes"] == 64 << 30
    assert models.gemm(8192, 8192, 8192).seconds == pytest.approx(2 * 8192**3 / (0.8 * RATE), rel=0.1)
    measured = 4 * 4 * 32 * 8192**2 * 128 / 2 / (0.5 * RATE)
    assert models.attention(batch=4, sequence=8192, heads=32, head_dim=128).seconds == pytest.approx(measured, rel=0.1)


def test_a_table_that_does_not_describe_its_device_is_refused(tmp_path):
    (tmp_path / "own.csv").write_text(table({"device": "A processor"}), "utf-8")
    with pytest.raises(SynclineError, match="how many multiprocessors") as found:
        document.fit(read([str(tmp_path / "own.csv")], "Own 1"))
    assert "sm_count" in found.value.diagnostics[0]["help"]


def test_tables_of_several_devices_are_refused(tmp_path):
    for name, count in (("a", 100), ("b", 120)):
        (tmp_path / f"{name}.csv").write_text(table({**FACTS, "sm_count": count}), "utf-8")
    with pytest.raises(SynclineError, match="several devices"):
        read([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], "Own 1")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101])
def test_names_can_be_printed(tmp_path, name):
    (tmp_path / "own.csv").write_text(table(), "utf-8")
    with pytest.raises(SynclineError, match="not a name of an accelerator"):
        read([str(tmp_path / "own.csv")], name)


def test_rows_of_a_table_are_read_like_everywhere_else(tmp_path):
    """The same errors as `syncline kernels` gives elsewhere: with line, column and what is allowed."""
    (tmp_path / "own.csv").write_text(table() + line({"operation": "gemm", "m": -5, "seconds": 1e-6}), "utf-8")
    with pytest.raises(SynclineError) as found:
        read([str(tmp_path / "own.csv")], "Own 1")
    first = found.value.diagnostics[0]
    assert first["key"] == "m" and first["place"]["line"] == len(table().splitlines()) + 1


def test_a_machine_needs_what_no_file_says(fitted):
    with pytest.raises(SynclineError) as found:
        machine(str(fitted))
    assert [each["key"] for each in found.value.diagnostics] == ["domain", "nic_bytes_per_s", "nccl"]
    assert "--nccl" in found.value.diagnostics[2]["help"]


def test_a_search_uses_the_models(fitted, cli: Cli):
    cli.write("config.json", json.dumps({**LLAMA_70B, "num_hidden_layers": 8}))
    base = ("design", "parallel", "config.json", "--gpus", "64", "--accelerator", str(fitted))
    own = ("--domain", "8", "--nic-rate", "400Gb/s", "--nccl", "h100-sxm", "--top", "2")
    found = cli(*base, *own)
    assert found.returncode == 0, found.stderr
    assert "of Own 1" in found.stdout and "MFU" not in found.stdout.splitlines()[0]
    assert "No measured step of dense models on Own 1 was compared with times of kernels of" in " ".join(
        found.stdout.split()
    )
    told = json.loads(cli(*base, *own, "--json").stdout)["parallel"]
    assert told["configurations"][0]["mfu"] is None and told["errors"] is None
    # 61.4 GiB of 64: what stays free is 4 %.
    assert told["capacity_bytes"] == int((64 << 30) * 0.96)
    assert cli(*base, *own, "--memory", "1GiB").returncode == 2
    wrong = cli(*base, *own, "--precision", "fp8")
    assert wrong.returncode == 2 and "does not compute in fp8" in wrong.stderr
    energy = cli(*base, *own, "--best-by", "energy")
    assert energy.returncode == 2 and "--power" in energy.stderr


def test_a_job_file_and_its_page_use_the_models(fitted, cli: Cli):
    """The estimate is that of the search; the page has no roofline, because nobody knows the roof."""
    cli.write("config.json", json.dumps({**LLAMA_70B, "num_hidden_layers": 8}))
    own = ("--domain", "8", "--nic-rate", "400Gb/s", "--nccl", "h100-sxm")
    search = ("design", "parallel", "config.json", "--gpus", "8", "--accelerator", str(fitted), *own, "--top", "1")
    found = cli(*search, "--report", "found.html", "--simulate", "1", "--json")
    assert found.returncode == 0, found.stderr
    best = json.loads(found.stdout)["parallel"]["configurations"][0]
    cluster = f"{{ accelerator: {fitted}, gpus: 8, domain: 8, nic_rate: 400Gb/s, nccl: h100-sxm }}"
    how = best["job"]
    cli.write(
        "job.yaml",
        "model: config.json\n"
        f"cluster: {cluster}\n"
        f"parallel: {{ tensor: {how['tensor']}, sequence_parallel: {str(how['sequence_parallel']).lower()},"
        f" pipeline: {how['pipeline']}, virtual_stages: {how['virtual_stages']}, split: {how['split']},"
        f" context: {how['context']}, zero: {how['zero']} }}\n"
        f"batch: {{ sequence: 8192, micro_batch: {how['micro_batch']}, global_batch: 512 }}\n"
        f"recompute: {how['recompute']}\n"
        "overlap: { tensor: true, gradients: true, parameters: true, pipeline: true }\n",
    )
    told = cli("estimate", "job.yaml", "--json", "--report", "page.html")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["estimate"]["step_s"] == best["step_s"]
    for page in ("found.html", "page.html"):
        text = (cli.folder / page).read_text("utf-8")
        assert "estimate_step" in text and "estimate_kernels" not in text.partition('id="data"')[0]
    bare = cli("estimate", "job.yaml", "--set", f"cluster={{accelerator: {fitted}, gpus: 8}}")
    assert bare.returncode == 2 and "write nccl under cluster" in bare.stderr and "cluster.nic_rate" in bare.stderr


def test_a_file_of_a_known_accelerator_takes_its_machine(tmp_path):
    shipped = kernels.load("H100")
    (tmp_path / "mine.json").write_text(shipped.text, "utf-8")
    own, sold = machine(str(tmp_path / "mine.json")), machine("H100")
    assert (own.domain, own.memory_bytes, own.precisions) == (sold.domain, sold.memory_bytes, sold.precisions)
    assert own.texts()[0] == sold.texts()[0]


def test_kernels_of_a_known_accelerator_have_no_error_bar_of_others(cli: Cli, tmp_path):
    cli.write("config.json", json.dumps({**LLAMA_70B, "num_hidden_layers": 8}))
    cli.write("mine.json", kernels.load("H100").text)
    base = ("design", "parallel", "config.json", "--gpus", "64", "--top", "1", "--accelerator")
    assert "half of" in cli(*base, "H100").stdout
    told = " ".join(cli(*base, "mine.json").stdout.split())
    assert "Error bar: none. No measured step of dense models on H100-SXM5-80GB was compared" in told
    assert "kernels of mine.json" in told and "by the error bar" not in told


def test_models_without_attention_are_named(tmp_path, cli: Cli):
    rows = [each for each in table().splitlines(keepends=True) if not each.startswith("attention")]
    attention = [each for each in table().splitlines(keepends=True) if each.startswith("attention")]
    cli.write("own.csv", "".join(rows + attention[:99]))
    done = cli("kernels", "fit", "own.csv", "--accelerator", "Own 1", "-o", "own.json")
    assert done.returncode == 0
    assert "No model of attention forward in bf16: 99 rows, and a fit needs 100" in done.stderr
    with pytest.raises(SynclineError, match="no model of attention in bf16") as raised:
        machine(str(cli.folder / "own.json"), domain=8, nic_bytes_per_s=5e10, nccl="h100-sxm")
    assert raised.value.diagnostics[0]["key"] == "accelerator"
