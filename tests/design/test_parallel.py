"""The search for the best configuration: beside all of them by hand, estimates one by one, and a published recipe."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from syncline import _core
from syncline.design.parallel import Request, search
from syncline.design.parallel.screen import axes, near, ranked_axes, reason
from syncline.design.parallel.search_configurations import batch_of
from syncline.errors import SynclineError
from syncline.estimate import estimator, machine, model_text, shipped
from syncline.estimate.job import AXES
from syncline.estimate.measures import flop_per_token
from syncline.models.hugging_face.architecture import architecture
from tests.conftest import Cli

LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
SMALL = {**LLAMA_70B, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 4096}


def request(config=LLAMA_70B, gpus=512, **changes):
    given = {"sequence": 8192, "global_batch": 512, **changes}
    return Request(architecture(config, "a model"), machine("H100"), gpus, **given)


def test_all_configurations_are_tried():
    """Four layers, eight heads, four accelerators, eight sequences in micro-batches of one or two, counted by hand."""
    count = 0
    for tensor in (1, 2, 4):
        for pipeline in (1, 2, 4):
            for context in (1, 2, 4):
                if 4 % (tensor * pipeline * context):
                    continue
                data = 4 // (tensor * pipeline * context)
                for chunks in range(1, 3) if pipeline > 1 else [1]:
                    # Equal numbers of the 4 layers, and of the 6 blocks with embedding and output layer.
                    ways = (chunks == 1 or 4 % (pipeline * chunks) == 0) + (
                        pipeline > 1 and 6 % (pipeline * chunks) == 0
                    )
                    for batch in (1, 2):
                        steps = 8 // (data * batch)
                        if 8 % (data * batch) or (chunks > 1 and steps % pipeline):
                            continue
                        # With and without recomputation, and of these with parameters divided.
                        count += 2 * ways * (2 if pipeline == 1 and data * context > 1 else 1)
    asked = request(
        SMALL, 4, global_batch=8, micro_batch=2, virtual_stages=2, context=4, sequence=1024, keep=1000, variants=True
    )
    found = search(asked)
    assert (found.possible, found.fitting, len(found.best)) == (count, count, count)


def test_ctrl_c_ends_a_search_soon():
    deep = {**LLAMA_70B, "num_hidden_layers": 960}
    schedules = ("1f1b", "zb-h1", "zb-v", "dualpipe", "dualpipe-v")
    long = request(deep, schedules=schedules, offload=("activations", "optimizer"), variants=True)
    begun = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        search(long)
    assert time.monotonic() - begun < 2


def test_configurations_are_sorted_and_are_what_single_estimates_say():
    found = search(request(keep=30))
    steps = [each.step_s for each in found.best]
    assert steps == sorted(steps)
    software = shipped()["megatron"].constants.model_dump_json()
    asked = found.request
    for each in found.best[::7]:
        job = json.dumps(dict(each.job))
        alone = _core.Estimator.of(model_text(asked.architecture), job, asked.machine.cluster(), *asked.machine.texts())
        assert alone.seconds(software) == pytest.approx(each.step_s, rel=1e-12)
        assert alone.memory("megatron")[0]["total"] == each.memory_bytes <= found.capacity
        assert sum(each.parts.values()) == pytest.approx(each.step_s)
        assert sum(each.memory.values()) == each.memory_bytes


def test_the_recipe_that_is_published_is_among_the_best():
    """NVIDIA trains Llama 3 70B on H100 with tensor 4, pipeline 4, context 2 and 5 chunks a stage (Megatron-Bridge)."""
    found = search(request(gpus=64, global_batch=128, keep=1000, variants=True))
    recipe = {"tensor": 4, "pipeline": 4, "context": 2, "virtual_stages": 5, "recompute": "none"}
    places = [at for at, each in enumerate(found.best) if recipe.items() <= each.job.items()]
    assert places and found.best[places[0]].step_s < 1.05 * found.best[0].step_s


def test_layers_that_chunks_divide_with_the_ends_are_interleaved():
    """Llama 3.1 405B has 126 layers so that these, embedding and output layer make 128 (8 chunks on 16 stages)."""
    config = {**LLAMA_70B, "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128}
    found = search(request({**config, "intermediate_size": 53248}, 8192, global_batch=1024, keep=200, variants=True))
    assert any(each.job["virtual_stages"] == 8 and each.job["pipeline"] == 16 for each in found.best)
    assert found.best[0].job["split"] == "ends" and found.best[0].job["virtual_stages"] > 1


def test_layers_that_do_not_divide_are_interleaved_with_short_ends():
    """61 layers, as Megatron-LM's users divide them for 32 chunks: Et|(tt|)*30L."""
    found = search(request({**LLAMA_70B, "num_hidden_layers": 61}, keep=2000, variants=True))
    of_32 = [each.job["chunk_layers"] for each in found.best if each.job["pipeline"] * each.job["virtual_stages"] == 32]
    assert of_32 and all(layers == [1, *[2] * 30, 0] for layers in of_32)
    assert found.best[0].job["virtual_stages"] > 1 and sum(found.best[0].job["chunk_layers"]) == 61


def test_one_configuration_stands_for_those_with_the_same_axes():
    found = search(request(keep=50))
    names = ("tensor", "pipeline", "context", "expert", "data", "zero")
    axes_ = [tuple(each.job[name] for name in names) for each in found.best]
    assert len(set(axes_)) == len(axes_)
    every = search(request(keep=1, variants=True))
    assert every.best[0].step_s == found.best[0].step_s


def test_what_does_not_fit_says_how_much_it_needs():
    with pytest.raises(SynclineError, match=r"none of .* fits into memory") as found:
        search(request(gpus=8))
    # 70.6 billion parameters: 2 bytes, gradients of 4, and 12 of the optimizer, over 8 accelerators.
    needed = float(found.value.diagnostics[0]["notes"][0].split("needs ")[1].split(" GiB")[0])
    assert needed > 70.6e9 * 18 / 8 / 2**30


@pytest.mark.parametrize(("accelerator", "precision"), [("H100", "mxfp8"), ("H100", "nvfp4"), ("A100", "fp8")])
def test_a_precision_that_the_accelerator_lacks_is_refused(accelerator, precision):
    asked = replace(request(precision=precision), machine=machine(accelerator))
    with pytest.raises(SynclineError, match=f"does not compute in {precision}"):
        search(asked)


def test_names_of_accelerators_ignore_case():
    assert machine("h100") == machine("H100")


def test_a_network_without_a_rate_is_refused(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    found = cli("design", "parallel", "config.json", "--gpus", "512", "--nic-rate", "0Gb/s")
    assert found.returncode == 2
    assert "`--nic-rate` is 0" in found.stderr


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(SynclineError, match="cannot be divided"):
        search(request(SMALL, 7, global_batch=8, context=1))


def test_batches_have_about_four_million_tokens():
    assert batch_of(512, 8192) == 512
    assert batch_of(8, 4096) == 1024
    assert batch_of(2048, 8192) == 2048


@pytest.mark.parametrize("gpus", [1, 6, 24, 72, 720, 997, 1536, 1_000_000])
def test_every_accelerator_can_have_equal_parts_of_a_batch_by_default(gpus):
    """72 accelerators of one NVLink domain, too: a power of two would leave eight data-parallel ranks at most."""
    batch = batch_of(gpus, 8192)
    assert batch % gpus == 0 and max(512, gpus) <= batch < 2 * max(512, gpus)


def test_a_window_hides_the_scores_before_it():
    """Counted token by token: the first ones of a sequence see less than a window."""
    config = {**SMALL, "model_type": "mistral", "sliding_window": 4096}
    model = architecture(config, "a model")
    plain = flop_per_token(model, 1) - 12 * 0.5 * 4 * 1024
    for sequence in (2048, 4096, 6000, 8192, 65536):
        seen = sum(min(token, 4096) for token in range(1, sequence + 1)) / sequence
        assert flop_per_token(model, sequence) - plain == pytest.approx(12 * 4 * 1024 * seen, rel=1e-3)


def test_operations_of_a_token_are_those_of_the_formula():
    """SC21, appendix, with a causal mask: 72 l h^2 (1 + s / 12 h) + 6 h V."""
    model = architecture(
        {"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 50000}, "gpt"
    )
    expected = 72 * 24 * 1024**2 * (1 + 2048 / (12 * 1024)) + 6 * 1024 * 50000
    assert flop_per_token(model, 2048) == pytest.approx(expected)


def test_weights_that_are_not_trained_need_no_gradients():
    """4 operations a weight in place of 6; attention goes back through all scores."""
    model = architecture(LLAMA_70B, "a model")
    difference = flop_per_token(model, 8192) - flop_per_token(model, 8192, frozen=True)
    layer = 8192 * (8192 + 2 * 1024 + 8192) + 3 * 8192 * 28672
    assert difference == 2 * (80 * layer + 8192 * 128256)


def test_the_reason_names_what_the_next_plan_spends_more_on():
    found = search(request(keep=40))
    names = ("tensor", "pipeline", "context", "data")
    best, *others = found.best
    other = next(each for each in others if [each.job[name] for name in names] != [best.job[name] for name in names])
    assert reason(found).startswith(f"Compared with {axes(other)}, which takes")


def test_a_search_says_which_configurations_estimates_cannot_tell_apart():
    found = search(request())
    assert found.errors is not None
    best = found.best[0]

    def said(*longer: float) -> str | None:
        steps = [replace(best, step_s=best.step_s * (1 + part * found.errors.median)) for part in longer]
        return near(replace(found, best=[best, *steps]))

    assert said(0.5, 0.99, 1.01).startswith("Configurations 1 to 3 differ by less than the median error")
    assert said(0.5, 1.01).startswith("Configurations 1 and 2 differ")
    assert said(1.01) is None
    # Without measured errors of such jobs, nothing is known.
    assert near(replace(found, errors=None)) is None


def test_an_axis_stays_on_a_line_with_its_number():
    lines = ranked_axes("TP 4, PP 4, CP 2, DP 16, VPP 7").split("\n")
    assert lines == ["TP 4, PP 4, CP 2,", "DP 16, VPP 7"]
    assert ranked_axes("DP 8") == "DP 8"


def test_tensor_parallel_ranks_are_whole_parts_of_a_domain():
    """Of 96 accelerators in servers of 8, groups of 3 or 6 would lie across servers."""
    found = search(request({**SMALL, "num_attention_heads": 96, "hidden_size": 12288, "head_dim": 128}, 96, keep=1000))
    assert {each.job["tensor"] for each in found.best} <= {1, 2, 4, 8}


def test_the_command_answers_from_a_configuration(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    found = cli("design", "parallel", "config.json", "--gpus", "512", "--top", "3")
    assert found.returncode == 0, found.stderr
    assert "on 512 accelerators" in found.stdout and "matrix products" in found.stdout
    told = json.loads(cli("design", "parallel", "config.json", "--gpus", "512", "--json").stdout)["parallel"]
    assert len(told["configurations"]) == 10
    assert told["configurations"][0]["mfu"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ["missing key", "model_type"]),
        ('{"model_type": "bert"}', ["model_type", "bert", "llama"]),
        (json.dumps({**LLAMA_70B, "hidden_size": "x"}), ["hidden_size"]),
        (json.dumps({**LLAMA_70B, "num_key_value_heads": 7}), ["num_key_value_heads", "found `7`", "divisor"]),
        (json.dumps({**LLAMA_70B, "hidden_size": 8190}), ["hidden_size", "found `8190`", "multiple"]),
        (json.dumps({**LLAMA_70B, "num_nextn_predict_layers": "x"}), ["num_nextn_predict_layers"]),
        (json.dumps({**LLAMA_70B, "num_experts": 4, "num_experts_per_tok": 5}), ["num_experts_per_tok", "from 1 to 4"]),
        ("{", ["not well-formed JSON"]),
        ("[]", ["not a model's configuration"]),
        ("", ["the file is empty"]),
        ('{"model_type": "llama",', ["not well-formed JSON", "ends early"]),
        ("[" * 100_000, ["nested too deeply"]),
    ],
)
def test_bad_configurations_are_refused_by_name(cli: Cli, text, words):
    cli.write("config.json", text)
    found = cli("design", "parallel", "config.json", "--gpus", "8")
    assert found.returncode in (2, 3)
    assert all(word in found.stderr for word in words), found.stderr


def test_a_model_has_a_name_or_a_file_or_the_folder_of_one(cli: Cli):
    cli.write("some/config.json", json.dumps(LLAMA_70B))
    said = [
        cli("design", "parallel", model, "--gpus", "64", "--top", "1", "--json").stdout
        for model in ("some/config.json", "some", "llama3-70b")
    ]
    found = [json.loads(each)["parallel"] for each in said]
    assert [each["model"]["name"] for each in found] == ["some", "some", "llama3-70b"]
    steps = [each["configurations"][0]["step_s"] for each in found]
    assert steps[0] == steps[1] == steps[2]
    wrong = cli("design", "parallel", "llama3-70", "--gpus", "64")
    assert wrong.returncode == 2 and "did you mean `llama3-70b`?" in wrong.stderr


def test_states_of_fewer_bits_need_less_memory():
    """Adam's moments of 2 bytes in place of 4, gradients likewise; ZeRO-1 divides the moments and master weights."""
    plain, moments, gradients = (
        search(request(keep=6000, variants=True, **more)).best
        for more in ({}, {"moments": "bf16"}, {"gradients": "bf16"})
    )
    same = {name: plain[0].job[name] for name in (*AXES, "virtual_stages", "chunk_layers", "micro_batch", "recompute")}
    one, two, three = (
        next(each for each in found if same.items() <= each.job.items()) for found in (plain, moments, gradients)
    )
    # The fullest rank can be another one.
    assert two.memory["optimizer"] == pytest.approx(one.memory["optimizer"] * 8 / 12, rel=0.02)
    assert three.memory["gradients"] == pytest.approx(one.memory["gradients"] / 2, rel=0.02)


def test_settings_of_experts_are_named_with_their_step():
    """What is said of the best configuration is what its own estimate says; a dense model has no such settings."""
    config = {**SMALL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    asked = request(config, 8, sequence=1024, global_batch=8, keep=1)
    found = search(asked)
    assert found.switches
    assert [each.step_s for each in found.switches] == sorted(each.step_s for each in found.switches)
    constants = shipped()["megatron"].constants.model_dump_json()
    for each in found.switches:
        value = {"experts": True} if each.key == "overlap.experts" else each.value
        key = "overlap" if each.key == "overlap.experts" else each.key
        how = found.best[0].how
        if key == "overlap":
            value = {**how.overlap.model_dump(), **value}
        assert (
            estimator(asked.architecture, how.changed(**{key: value}), asked.machine).seconds(constants)
            == each.step_s
            < 0.99 * found.best[0].step_s
        )
    assert search(request(keep=1)).switches == ()


def test_a_dispatcher_needs_experts():
    with pytest.raises(SynclineError) as raised:
        search(request(dispatcher="fused"))
    assert raised.value.diagnostics[0]["key"] == "dispatcher"


def test_graphs_launch_short_kernels_of_experts():
    config = {**SMALL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    asked = request(config, 8, sequence=1024, global_batch=8, keep=1)
    (plain,) = search(asked).best
    (graphs,) = search(replace(asked, graphs="full")).best
    assert plain.parts["launch"] > 0 == graphs.parts["launch"]
    assert graphs.step_s < plain.step_s


def test_a_fused_dispatcher_sends_a_token_once_to_each_rank():
    config = {**SMALL, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 4}
    asked = request(config, 16, sequence=4096, global_batch=64, keep=1000, graphs="full", variants=True)
    expert = {
        dispatcher: next(
            each.parts["expert"]
            for each in search(replace(asked, dispatcher=dispatcher)).best
            if (each.plan, each.job["micro_batch"], each.job["recompute"]) == ((1, 1, 1, 4, 16), 1, "none")
        )
        for dispatcher in ("all_to_all", "fused")
    }
    # Two of eight experts on each rank: a token goes to 4 (1 - 15 / 70) ranks, and to three quarters of them over
    # NVLink. An H100 sends by 20 multiprocessors at 7/8 of 17 GB/s each, and brings back at 7/8 of 20.89 GB/s
    # (data/deepep.yaml).
    layers, hidden = SMALL["num_hidden_layers"], SMALL["hidden_size"]
    tokens, batches = 4096, 64 // 16
    sent = tokens * 4 * (1 - 15 / 70) * 3 / 4 * 2 * hidden
    each = 26.22e-6 + tokens * 0.02076e-6 + sent / (20 * 17e9 * 7 / 8)
    each += 38.54e-6 + tokens * 0.04191e-6 + sent / min(20 * 20.89e9 * 7 / 8, 455e9 * 7 / 8)
    assert expert["fused"] == pytest.approx(2 * layers * batches * each, rel=1e-6)
    assert expert["all_to_all"] > 0


def test_offload_is_searched_where_memory_is_short(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    options = ["config.json", "--gpus", "32", "--global-batch", "64", "--json"]
    plain = json.loads(cli("design", "parallel", *options).stdout)["parallel"]
    found = json.loads(
        cli("design", "parallel", *options, "--offload", "activations", "--offload", "optimizer").stdout
    )["parallel"]
    best = found["configurations"][0]
    assert plain["without_offload"] is None
    assert best["step_s"] < plain["configurations"][0]["step_s"]
    assert found["without_offload"]["step_s"] == plain["configurations"][0]["step_s"]
    assert found["possible"] > 4 * plain["possible"]
    # Half of the optimizer states or all of them, or half of the layers of a chunk or all of them.
    assert best["job"]["offload"]["optimizer"] in (0.0, 0.5, 1.0)
    assert 0 < best["host_memory_bytes"] <= 256 * 2**30
    said = " ".join(cli("design", "parallel", *options[:-1], "--offload", "activations").stdout.split())
    assert "layers offloaded" in said and "Without offload, the best configuration that fits is" in said
    said = " ".join(cli("design", "parallel", *options[:-1], "--offload", "optimizer").stdout.split())
    assert "No configuration with offload is better." in said


def test_a_host_without_rates_needs_them_for_offload(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    options = ["config.json", "--gpus", "64", "--accelerator", "A100", "--offload", "optimizer", "--top", "1"]
    found = cli("design", "parallel", *options)
    assert found.returncode == 2
    assert "--host-rate 25GB/s" in found.stderr and "--host-memory-rate 50GB/s" in found.stderr
    followed = cli("design", "parallel", *options, "--host-rate", "25GB/s", "--host-memory-rate", "50GB/s")
    assert followed.returncode == 0, followed.stderr


def test_offload_is_named_where_nothing_fits(cli: Cli):
    cli.write("config.json", json.dumps(LLAMA_70B))
    options = ["config.json", "--gpus", "8", "--global-batch", "8"]
    found = cli("design", "parallel", *options)
    said = " ".join(found.stderr.split())
    assert found.returncode == 2 and "--offload activations --offload optimizer: TP" in said
    followed = cli("design", "parallel", *options, "--offload", "activations", "--offload", "optimizer")
    assert followed.returncode == 0
    assert "Without offload, no configuration fits." in " ".join(followed.stdout.split())


def test_sequences_are_as_long_as_the_model_allows(cli: Cli):
    """8,192 tokens without ``--sequence``, or fewer; longer ones are estimated as asked, with a note."""

    def found(longest, *more):
        cli.write("config.json", json.dumps({**SMALL, "max_position_embeddings": longest}))
        done = cli("design", "parallel", "config.json", "--gpus", "4", "--json", *more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["parallel"]["configurations"][0]["job"]["sequence"], done.stderr

    assert found(131_072) == found(None) == found("many") == (8192, "")
    assert found(2048) == (2048, "")
    assert found(2048, "--sequence", "2048") == (2048, "")
    sequence, said = found(2048, "--sequence", "4096")
    assert (sequence, said) == (4096, "Note: config.json is made for sequences of at most 2,048 tokens.\n")
