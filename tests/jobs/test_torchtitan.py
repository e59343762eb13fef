"""Jobs of torchtitan: each key becomes a key, is listed, or is an error; published runs become their rows."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.estimate import model_text
from syncline.jobs import estimate, read_job
from syncline.jobs.converted import AS_ASKED, NOT_MODELLED, REPEATED, WITHOUT_EFFECT
from syncline.jobs.keys import read_keys
from syncline.jobs.torchtitan.conversion import FILE, convert_torchtitan
from syncline.jobs.torchtitan.mapping.model import MODELS
from syncline.jobs.torchtitan.mapping.stages import SCHEDULES
from syncline.models.architectures import named
from syncline.validation import estimates, load
from syncline.validation.folder import RUNS
from tests.conftest import Cli
from tests.jobs.settings import flat, named_in, names_of
from tests.validation.rows import FOLDER

LLAMA_8B = """
[job]
dump_folder = "./outputs"

[profiling]
enable_profiling = true

[model]
name = "llama3"
flavor = "8B"
converters = []

[optimizer]
name = "AdamW"
lr = 3e-4

[training]
local_batch_size = 2
seq_len = 8192
steps = 1000

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"

[compile]
enable = true

[quantize.linear.float8]
filter_fqns = ["output"]
"""
"""Llama 3 8B, in the style of torchtitan's files."""
KEYS = read_keys(FILE)


def toml(values):
    """A TOML file of dotted keys."""
    sections = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        sections.setdefault(section, {})[key] = value
    lines = []
    for section, inside in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in inside.items())]
    return "\n".join(lines) + "\n"


BASE = dict(flat(tomllib.loads(LLAMA_8B)))


@pytest.fixture
def convert(tmp_path):
    def made(text, **more):
        file = tmp_path / "train.toml"
        file.write_text(text if isinstance(text, str) else toml(text))
        return convert_torchtitan(str(file), **{"gpus": 64, **more})

    return made


def test_the_command_converts_llama_3_8b(cli: Cli):
    cli.write("train.toml", LLAMA_8B)
    found = cli("convert", "torchtitan", "train.toml", "--gpus", "64", "-o", "job.yaml")
    assert found.returncode == 0, found.stderr
    assert "compile" not in found.stderr
    assert "# compile.enable = true" in (cli.folder / "job.yaml").read_text()
    made = read_job(str(cli.folder / "job.yaml"))
    assert (made.job.zero, made.job.data, made.job.micro_batch, made.job.global_batch) == (3, 64, 2, 128)
    assert (made.job.recompute, made.framework) == ("operators", "torchtitan")
    assert model_text(made.architecture) == model_text(named("llama3-8b"))
    assert '# activation_checkpoint.mode = "selective"' in (cli.folder / "job.yaml").read_text()
    assert json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]["fits"]


def test_every_key_is_in_one_class():
    names = [*KEYS.mapped, *KEYS.renamed, *KEYS.without_effect, *KEYS.not_modelled, *KEYS.refused]
    assert len(names) == len(set(names))
    assert set(KEYS.renamed.values()) <= set(names)


PIPELINE = {"parallelism.pipeline_parallel_degree": 4, "training.local_batch_size": 8}
EXPERTS = {"model.name": "qwen3", "model.flavor": "30B-A3B"}
CHANGED = {
    "model.name": {"model.name": "qwen3"},
    "model.flavor": {"model.flavor": "70B"},
    "model.converters": {"model.converters": ["float8"]},
    "float8.enable_float8_linear": {"float8.enable_float8_linear": True},
    "optimizer.name": {"optimizer.name": "SGD"},
    "training.local_batch_size": {"training.local_batch_size": 4},
    "training.batch_size": {"training.local_batch_size": None, "training.batch_size": 4},
    "training.global_batch_size": {"training.global_batch_size": 256},
    "training.seq_len": {"training.seq_len": 4096},
    "training.enable_cpu_offload": {"training.enable_cpu_offload": True},
    "training.mixed_precision_param": {"training.mixed_precision_param": "float32"},
    "parallelism.data_parallel_replicate_degree": {"parallelism.data_parallel_replicate_degree": 8},
    "parallelism.data_parallel_shard_degree": {"parallelism.data_parallel_shard_degree": 32},
    "parallelism.fsdp_reshard_after_forward": {"parallelism.fsdp_reshard_after_forward": "never"},
    "parallelism.tensor_parallel_degree": {"parallelism.tensor_parallel_degree": 8},
    "parallelism.enable_async_tensor_parallel": {"parallelism.enable_async_tensor_parallel": True},
    "parallelism.pipeline_parallel_degree": {"parallelism.pipeline_parallel_degree": 2},
    "parallelism.pipeline_parallel_schedule": {
        **PIPELINE,
        "parallelism.pipeline_parallel_schedule": "Interleaved1F1B",
    },
    "parallelism.pipeline_parallel_first_stage_less_layers": {
        **PIPELINE,
        "parallelism.pipeline_parallel_first_stage_less_layers": 0,
    },
    "parallelism.pipeline_parallel_last_stage_less_layers": {
        **PIPELINE,
        "parallelism.pipeline_parallel_last_stage_less_layers": 0,
    },
    "parallelism.pipeline_parallel_layers_per_stage": {
        **PIPELINE,
        "parallelism.pipeline_parallel_schedule": "Interleaved1F1B",
        "parallelism.pipeline_parallel_layers_per_stage": 3,
    },
    "parallelism.pipeline_parallel_microbatch_size": {
        **PIPELINE,
        "parallelism.pipeline_parallel_microbatch_size": 2,
    },
    "parallelism.context_parallel_degree": {"parallelism.context_parallel_degree": 2},
    "parallelism.context_parallel_rotate_method": {
        "parallelism.context_parallel_degree": 2,
        "parallelism.context_parallel_rotate_method": "alltoall",
    },
    "parallelism.expert_parallel_degree": {**EXPERTS, "parallelism.expert_parallel_degree": 8},
    "parallelism.expert_tensor_parallel_degree": {
        **EXPERTS,
        "parallelism.tensor_parallel_degree": 2,
        "parallelism.expert_parallel_degree": 8,
        "parallelism.expert_tensor_parallel_degree": 2,
    },
    "parallelism.expert_parallel_comm_backend": {
        **EXPERTS,
        "parallelism.expert_parallel_degree": 8,
        "parallelism.expert_parallel_comm_backend": "deepep",
    },
    "parallelism.pipeline_parallel_microbatches": {**PIPELINE, "parallelism.pipeline_parallel_microbatches": 4},
    "quantize.linear.float8.enable_fsdp_float8_all_gather": {
        "model.converters": ["quantize.linear.float8"],
        "quantize.linear.float8.enable_fsdp_float8_all_gather": True,
    },
    "quantize.linear.float8.filter_fqns": {
        "model.converters": ["float8"],
        "quantize.linear.float8.filter_fqns": [],
    },
    "quantize.linear.mx.filter_fqns": {
        "model.converters": ["quantize.linear.mx"],
        "quantize.linear.mx.filter_fqns": ["router.gate"],
    },
    "activation_checkpoint.mode": {"activation_checkpoint.mode": "full"},
    "activation_checkpoint.selective_ac_option": {"activation_checkpoint.selective_ac_option": "2"},
}


def outcome(convert, values):
    try:
        found = convert({key: value for key, value in values.items() if value is not None}, accelerator="B200")
    except SynclineError as problem:
        return str(problem)
    return found.job.job, model_text(found.job.architecture)


@pytest.mark.parametrize("name", KEYS.mapped)
def test_every_mapped_key_changes_the_job(convert, name):
    whole = {**BASE, **CHANGED[name]}
    bare = {**whole, name: BASE.get(name)}
    assert outcome(convert, whole) != outcome(convert, bare)


@pytest.mark.parametrize("old", KEYS.renamed)
def test_older_names_mean_the_same(convert, old):
    today = KEYS.renamed[old]
    value = {"parallelism.data_parallel_shard_degree": 64, "parallelism.enable_async_tensor_parallel": True}.get(today)
    if value is None:
        value = CHANGED.get(today, {today: [1]})[today]
    others = {**BASE, **{key: each for key, each in CHANGED.get(today, {}).items() if key != today}}
    base = {key: each for key, each in others.items() if key != today}
    assert outcome(convert, {**base, old: value}).__class__ == outcome(convert, {**base, today: value}).__class__
    if not isinstance(outcome(convert, {**base, old: value}), str):
        assert outcome(convert, {**base, old: value}) == outcome(convert, {**base, today: value})
    both = {**base, today: value, old: value}
    if today in KEYS.mapped and not isinstance(outcome(convert, both), str):
        assert convert(both, accelerator="B200").left_out[REPEATED]


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(sorted([*KEYS.without_effect, *KEYS.not_modelled])),
        st.one_of(st.booleans(), st.integers(1, 9), st.sampled_from(["a", "bfloat16"])),
        max_size=12,
    )
)
def test_no_key_is_dropped(tmp_path_factory, more):
    file = tmp_path_factory.mktemp("toml") / "train.toml"
    values = {**BASE, **more}
    file.write_text(toml(values))
    found = convert_torchtitan(str(file), gpus=64)
    assert named_in(found, " = ") == sorted(values)
    # A switch that is off changes nothing.
    off = {name for name, value in more.items() if value is False}
    assert off <= set(names_of(found.left_out[WITHOUT_EFFECT], " = "))
    loud = {name for name in more if name in KEYS.not_modelled} - off
    assert loud <= {each.partition(" = ")[0] for each in found.left_out[NOT_MODELLED]}


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"parallelism.tensor_parallel_degre": 8}, "parallelism.tensor_parallel_degre", "tensor_parallel_degree"),
        ({"own.key": 8}, "own.key", "--ignore own.key"),
        ({"model.flavor": "9B"}, "model.flavor", "--model"),
        (
            {**PIPELINE, "parallelism.pipeline_parallel_schedule": "InterleavedZeroBubble"},
            "parallelism.pipeline_parallel_schedule",
            "Interleaved1F1B",
        ),
        ({"parallelism.module_fqns_per_model_part": [["a"]]}, "parallelism.module_fqns_per_model_part", "by hand"),
        ({"activation_checkpoint.selective_ac_option": "2"}, "activation_checkpoint.selective_ac_option", "op"),
        ({"training.seq_len": "long"}, "training.seq_len", "whole number"),
        ({"training.seq_len": 1e30}, "training.seq_len", "from 1 to 1099511627776"),
        ({"parallelism.tensor_parallel_degree": 3}, "parallel.tensor", "divisors of 32"),
        ({"training.global_batch_size": 100}, "batch.global_batch", "128"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(convert, changes, key, said):
    with pytest.raises(SynclineError) as found:
        convert({**BASE, **changes})
    first = found.value.diagnostics[0]
    assert first["key"] == key and said in json.dumps(first)
    if key != "cluster.gpus":
        assert list(changes)[-1].rpartition(".")[2] in first["place"]["text"]
    assert found.value.exit_status == 2


def test_ignored_keys_are_listed(convert):
    assert convert({**BASE, "own.key": 8}, ignored=["own.key"]).left_out[AS_ASKED] == ("own.key = 8",)


def test_the_number_of_accelerators_is_the_product_of_degrees(convert):
    degrees = {"parallelism.data_parallel_shard_degree": 4, "parallelism.tensor_parallel_degree": 8}
    assert convert({**BASE, **degrees}, gpus=None).job.job.ranks == 32
    with pytest.raises(SynclineError, match="add --gpus N"):
        convert(BASE, gpus=None)
    with pytest.raises(SynclineError, match="not 64 accelerators"):
        convert({**BASE, **degrees})


def test_malformed_files_name_the_line(convert):
    with pytest.raises(SynclineError, match=r"train\.toml:2:"):
        convert("[model]\nname = \n")


def test_models_of_flavors_have_their_numbers_of_parameters():
    """The number that a flavor is named after, in billions."""
    for (_, flavor), name in MODELS.items():
        size = float(flavor.upper().partition("B")[0]) * 1e9
        assert named(name).weights() == pytest.approx(size, rel=0.1), name


def test_deepseek_has_no_multi_token_prediction(convert):
    changes = {"model.name": "deepseek_v3", "model.flavor": "671B", "parallelism.expert_parallel_degree": 8}
    found = convert({**BASE, **changes}).job.architecture
    assert found.prediction_layers == 0
    assert found.weights() == named("deepseek-v3").weights()


def test_another_model_is_given_by_its_name(convert):
    assert convert({**BASE, "model.flavor": "9B"}, model="llama2-7b").job.architecture == named("llama2-7b")


def test_schedules_are_those_of_the_job_file(convert):
    for name, (schedule, chunks) in SCHEDULES.items():
        changes = {"parallelism.pipeline_parallel_schedule": name}
        made = convert({**BASE, **PIPELINE, **changes}).job.job
        assert (made.schedule, made.virtual_stages) == (schedule, chunks)


def test_an_hsdp_job_has_groups(convert):
    found = convert({**BASE, "parallelism.data_parallel_replicate_degree": 8}).job.job
    assert (found.zero, found.shard_group, found.data) == (3, 8, 64)


def test_experts_are_divided_as_torchtitan_divides_them(convert):
    """``apply_moe_ep_tp``: by tensor parallelism alone; by expert parallelism; or by both."""
    degrees = ("parallelism.tensor_parallel_degree", "parallelism.expert_parallel_degree")
    inside = "parallelism.expert_tensor_parallel_degree"
    for tensor, expert, given_inside, wanted in (
        (8, 1, 1, (1, 8)),
        (8, 8, 1, (8, 1)),
        (2, 8, 2, (8, 2)),
        (1, 4, 1, (4, 1)),
    ):
        values = {**BASE, **EXPERTS, degrees[0]: tensor, degrees[1]: expert, inside: given_inside}
        found = convert(values).job.job
        assert (found.expert, found.expert_tensor) == wanted
    alone = convert({**BASE, **EXPERTS, degrees[1]: 8}).job.job
    fused = convert({**BASE, **EXPERTS, degrees[1]: 8, "parallelism.expert_parallel_comm_backend": "deepep"}).job.job
    assert (alone.dispatcher, fused.dispatcher) == ("all_to_all", "fused")
    other = {**BASE, "model.flavor": "own", degrees[0]: 8}
    assert convert(other, model="qwen3-30b-a3b").job.job.expert_tensor == 8


def test_filters_name_the_layers_that_keep_16_bits(convert):
    """``Float8LinearConverter`` converts all linear layers but those; the filter of MX has the output layer."""

    def low_precision(changes):
        values = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
        found = convert(values, accelerator="B200")
        return found.job.job.low_precision_output_layer, [each for each in found.warnings if "experts" in each]

    name = "quantize.linear.float8.filter_fqns"
    assert low_precision({"model.converters": []})[0] is False
    assert low_precision({"model.converters": ["float8"]})[0] is False
    assert low_precision({"model.converters": ["quantize.linear.float8"], name: None})[0] is True
    assert low_precision({"model.converters": ["quantize.linear.mx"], name: None})[0] is False
    linear, both = ["quantize.linear.float8"], ["quantize.linear.float8", "quantize.grouped_mm.float8"]
    assert low_precision({**EXPERTS, "model.converters": linear})[1]
    assert not low_precision({**EXPERTS, "model.converters": both})[1]


def test_fsdp_gathers_8_bits_where_float8_has_no_recipe(convert):
    """``Float8LinearConverter``: with scales of tensors, if parameters are divided; with a recipe, torchtitan stops."""
    gathers = "quantize.linear.float8.enable_fsdp_float8_all_gather"
    eight = {**BASE, "model.converters": ["quantize.linear.float8"]}
    assert not convert(eight).job.job.low_precision_parameters
    assert convert({**eight, gathers: True}).job.job.low_precision_parameters
    assert convert({**eight, "float8.enable_fsdp_float8_all_gather": True}).job.job.low_precision_parameters
    assert not convert({**BASE, gathers: True}).job.job.low_precision_parameters
    with pytest.raises(SynclineError, match="only where float8 has no recipe"):
        convert({**eight, gathers: True, "quantize.linear.float8.recipe_name": "rowwise"})


def test_micro_batches_of_older_versions_are_a_number(convert):
    """Four of them, of a batch of eight sequences."""
    older = "experimental.pipeline_parallel_microbatches"
    found = convert({**BASE, **PIPELINE, older: 4}).job.job
    assert (found.micro_batch, found.micro_batches) == (2, 4)
    with pytest.raises(SynclineError, match="does not divide"):
        convert({**BASE, **PIPELINE, older: 3})


def test_a_model_that_is_not_compiled_is_said(convert):
    assert not convert(BASE).warnings
    assert "compile" in convert({**BASE, "compile.enable": False}).warnings[0]
    assert "compile" in convert({**BASE, "compile.components": ["loss"]}).warnings[0]
    assert not convert({**BASE, "compile.enable": False, "training.compile": True}).warnings


FP8 = {"model.converters": ["float8"]}
FULL = {"activation_checkpoint.mode": "full", "activation_checkpoint.selective_ac_option": None}
PUBLISHED = {
    # Figures of pytorch/torchtitan, benchmarks/*.md.
    "torchtitan-5": {"training.local_batch_size": 2},
    "torchtitan-6": {
        "model.flavor": "70B",
        "training.local_batch_size": 16,
        "parallelism.tensor_parallel_degree": 8,
        "parallelism.enable_async_tensor_parallel": True,
        **FP8,
        **FULL,
    },
    "torchtitan-3": {
        "training.local_batch_size": 1,
        "training.seq_len": 131072,
        "parallelism.context_parallel_degree": 4,
        **FP8,
        **FULL,
    },
    "torchtitan-11": {"training.local_batch_size": 12, "parallelism.tensor_parallel_degree": 8},
    # Stages of equal numbers of layers, as that version divides them.
    "torchtitan-8": {
        "model.flavor": "405B",
        "training.local_batch_size": 8,
        "training.seq_len": 65536,
        "parallelism.tensor_parallel_degree": 8,
        "parallelism.pipeline_parallel_degree": 8,
        "parallelism.pipeline_parallel_first_stage_less_layers": 0,
        "parallelism.pipeline_parallel_last_stage_less_layers": 0,
        "parallelism.context_parallel_degree": 2,
        "parallelism.enable_async_tensor_parallel": True,
        **FP8,
        **FULL,
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_become_the_job_of_their_row(convert, name):
    (row,) = [each for each in load((FOLDER / RUNS).as_posix()).rows if each.run.id == name]
    values = {key: value for key, value in {**BASE, **PUBLISHED[name]}.items() if value is not None}
    made = convert(values, gpus=row.run.gpus).job
    assert made.job == estimates.job(row.run)
    assert json.loads(model_text(made.architecture)) == json.loads(model_text(row.model, row.run.layers))
    assert made.framework == row.run.framework
    assert estimate(made).step_s > 0


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "8192.5"])
def test_numbers_that_are_not_whole_are_refused(tmp_path, value):
    (tmp_path / "train.toml").write_text(LLAMA_8B.replace("seq_len = 8192", f"seq_len = {value}"))
    with pytest.raises(SynclineError, match="a whole number from 1"):
        convert_torchtitan(str(tmp_path / "train.toml"), gpus=64)
