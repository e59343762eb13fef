"""Jobs of Megatron-LM: each argument becomes a key, is listed, or is an error; published runs become their rows."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.estimate import Job, Overlap, model_text
from syncline.input.node import Mark, Text
from syncline.jobs import estimate, read_job
from syncline.jobs.converted import AS_ASKED, NOT_MODELLED, REPEATED
from syncline.jobs.launch.words import Word
from syncline.jobs.megatron.arguments import arguments, parse
from syncline.jobs.megatron.conversion import convert_megatron
from syncline.jobs.megatron.pipeline_layout import chunks, split_of
from syncline.validation import estimates, load
from syncline.validation.folder import RUNS
from tests.conftest import Cli
from tests.jobs.scripts import LLAMA_70B, MIXTRAL
from tests.validation.rows import FOLDER

BASE = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 "
    "--global-batch-size 64 --bf16 --vocab-size 128256 --swiglu --ffn-hidden-size 14336 --position-embedding-type rope "
    "--untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0"
)
EXPERTS = f"{BASE} --num-experts 8 --pipeline-model-parallel-size 2"
PADDED = "--num-experts 8 --moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity"


def converted(line, **more):
    return convert_megatron([line], **{"gpus": 64, **more})


def job(line, **more):
    return converted(line, **more).job.job


# Scripts


def test_a_script_of_llama_3_70b_becomes_its_job(cli: Cli):
    pytest.importorskip("tree_sitter_bash")
    cli.write("train.sh", LLAMA_70B)
    found = cli("convert", "megatron", "train.sh", "-o", "job.yaml", "--vocab", "128256")
    assert found.returncode == 0, found.stderr
    made = read_job(str(cli.folder / "job.yaml"))
    assert made.job == Job(
        tensor=4,
        sequence_parallel=True,
        pipeline=4,
        virtual_stages=5,
        context=2,
        data=16,
        zero=1,
        shard_group=32,
        micro_batch=1,
        micro_batches=32,
        sequence=8192,
        overlap=Overlap(tensor=True, gradients=True, parameters=True, pipeline=True),
        vocab_multiple=128,
    )
    assert made.architecture.weights() == pytest.approx(70.55e9, rel=1e-3)
    text = (cli.folder / "job.yaml").read_text()
    assert re.search(r"gpus: 512 +# --nproc_per_node 8, --nnodes 64", text)
    assert re.search(r"tensor: 4 +# --tensor-model-parallel-size 4", text)
    assert re.search(r"accelerator: H100 +# assumed", text)
    assert "#   --lr 1.5e-4" in text
    assert json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]["job"]["tensor"] == 4
    again = cli("convert", "megatron", "train.sh", "-o", "job.yaml", "--vocab", "128256")
    assert again.returncode == 2 and "--force" in again.stderr
    changed = cli("convert", "megatron", "train.sh", "-o", "b.yaml", "--vocab", "128256", "--env", "TP=8")
    assert changed.returncode == 0
    assert read_job(str(cli.folder / "b.yaml")).job.tensor == 8


def test_a_line_for_a_shell_becomes_the_job_of_mixtral(tmp_path):
    pytest.importorskip("tree_sitter_bash")
    file = tmp_path / "mixtral.sh"
    file.write_text(MIXTRAL)
    found = convert_megatron([str(file)])
    made = found.job
    assert made.architecture.experts is not None
    assert (made.architecture.experts.count, made.architecture.experts.top_k) == (8, 2)
    assert made.architecture.weights() == pytest.approx(46.7e9, rel=2e-3)
    assert (made.job.expert, made.job.expert_tensor, made.job.data) == (8, 1, 16)
    assert made.job.recompute == "selective"
    assert made.job.gradient_bytes == 2
    assert made.architecture.vocab == 32000
    assert found.left_out[NOT_MODELLED] == ()
    assert made.job.dispatcher == "all_to_all"


def test_a_file_of_arguments_becomes_a_job(tmp_path):
    file = tmp_path / "arguments.txt"
    file.write_text("# Llama\n" + BASE.replace(" --", "\n--"))
    assert convert_megatron([str(file)], gpus=64).job.job == job(BASE)


def test_arguments_on_the_command_line_become_a_job(cli: Cli):
    found = cli("convert", "megatron", "--gpus", "64", "-a", "H200", "-o", "job.yaml", "--", *BASE.split())
    assert found.returncode == 0, found.stderr
    made = read_job(str(cli.folder / "job.yaml"))
    assert made.job == job(BASE)
    assert made.machine.accelerator == "H200-SXM-141GB"


def test_the_file_that_is_written_is_the_job_that_was_checked(tmp_path):
    found = converted(f"{EXPERTS} --expert-model-parallel-size 4")
    file = tmp_path / "job.yaml"
    file.write_text(found.text)
    made = read_job(str(file))
    assert made.job == found.job.job
    assert model_text(made.architecture) == model_text(found.job.architecture)
    assert estimate(made).step_s == estimate(found.job).step_s
    assert converted(f"{EXPERTS} --expert-model-parallel-size 4").text == found.text


# Every argument


def test_every_argument_is_in_one_class():
    known = arguments()
    names = [*known.known.flags, *known.known.several, *known.known.one]
    assert len(names) == len(set(names)) == len(known.values)
    classes = [known.without_effect, known.not_modelled, frozenset(known.refused), known.mapped]
    assert sum(map(len, classes)) == len(names)
    assert frozenset().union(*classes) == frozenset(names)
    assert set(known.known.legacy) <= set(names)


PP, OLD = "--pipeline-model-parallel-size 4", "--activations-checkpoint-method uniform"
FLEX = "--num-experts 8 --moe-token-dispatcher-type flex"
EIGHT = "--use-distributed-optimizer --fp8-format hybrid"
TENSORS = "--fp8-format hybrid --fp8-recipe tensorwise"
CHANGED = {
    "num-layers": "--num-layers 16",
    "hidden-size": "--hidden-size 2048",
    "ffn-hidden-size": "--ffn-hidden-size 8192",
    "num-attention-heads": "--num-attention-heads 16",
    "kv-channels": "--kv-channels 64",
    "group-query-attention": "--group-query-attention",
    "num-query-groups": "--group-query-attention --num-query-groups 8",
    "gated-linear-unit": ("--swiglu", "--gated-linear-unit"),
    "quick-geglu": ("--swiglu", "--quick-geglu"),
    "use-rotary-position-embeddings": ("--position-embedding-type rope", "--use-rotary-position-embeddings"),
    "position-embedding-type": "",
    "apply-rope-fusion": "--apply-rope-fusion",
    "no-rope-fusion": "--no-rope-fusion",
    "hidden-dropout": "",
    "attention-dropout": "",
    "vocab-size": "--vocab-size 32000",
    "cp-comm-type": "--context-parallel-size 2 --cp-comm-type a2a",
    "moe-expert-capacity-factor": PADDED,
    "moe-pad-expert-input-to-capacity": PADDED,
    "padded-vocab-size": "--padded-vocab-size 50304",
    "make-vocab-size-divisible-by": "--make-vocab-size-divisible-by 8192",
    "no-pad-vocab-size": "--vocab-size 128257 --no-pad-vocab-size",
    "tokenizer-type": "--tokenizer-type NullTokenizer",
    "window-size": "--window-size 1023,0",
    "window-attn-skip-freq": "--window-size 1023,0 --window-attn-skip-freq 2",
    "num-experts": "--num-experts 8",
    "num-moe-experts": "--num-moe-experts 8",
    "moe-router-topk": "--num-experts 8 --moe-router-topk 4",
    "moe-ffn-hidden-size": "--num-experts 8 --moe-ffn-hidden-size 1024",
    "moe-shared-expert-intermediate-size": "--num-experts 8 --moe-shared-expert-intermediate-size 1024",
    "moe-layer-freq": "--num-experts 8 --moe-layer-freq ([0]*3+[1]*29)",
    "mtp-num-layers": "--mtp-num-layers 1",
    "tensor-model-parallel-size": "--tensor-model-parallel-size 2",
    "model-parallel-size": "--model-parallel-size 2",
    "pipeline-model-parallel-size": "--pipeline-model-parallel-size 2",
    "context-parallel-size": "--context-parallel-size 2",
    "sequence-parallel": "--tensor-model-parallel-size 2 --sequence-parallel",
    "expert-model-parallel-size": "--num-experts 8 --expert-model-parallel-size 4",
    "expert-tensor-parallel-size": "--num-experts 8 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1",
    "num-layers-per-virtual-pipeline-stage": f"{PP} --num-layers-per-virtual-pipeline-stage 4",
    "num-virtual-stages-per-pipeline-rank": "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2",
    "virtual-pipeline-model-parallel-size": "--pipeline-model-parallel-size 4 --virtual-pipeline-model-parallel-size 2",
    "pipeline-model-parallel-layout": "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout E(t|)*31tL",
    "use-distributed-optimizer": "--use-distributed-optimizer",
    "num-distributed-optimizer-instances": "--use-distributed-optimizer --num-distributed-optimizer-instances 4",
    "use-torch-fsdp2": "--use-torch-fsdp2",
    "use-megatron-fsdp": "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads",
    "use-custom-fsdp": "--use-custom-fsdp --data-parallel-sharding-strategy optim_grads",
    "data-parallel-sharding-strategy": "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
    "micro-batch-size": "--micro-batch-size 1 --global-batch-size 128 --micro-batch-size 2",
    "batch-size": ("--micro-batch-size 1", "--batch-size 1"),
    "global-batch-size": "--global-batch-size 128",
    "seq-length": "--seq-length 8192",
    "encoder-seq-length": ("--seq-length 4096", "--encoder-seq-length 8192"),
    "fp16": "--fp16",
    "fp8-format": "--fp8-format hybrid",
    "fp8-recipe": "--fp8-format hybrid --fp8-recipe mxfp8",
    "fp4-format": "--fp4-format e2m1",
    "accumulate-allreduce-grads-in-fp32": ("--bf16", "--fp16 --accumulate-allreduce-grads-in-fp32"),
    "grad-reduce-in-bf16": "--grad-reduce-in-bf16",
    "recompute-activations": "--recompute-activations",
    "recompute-granularity": "--recompute-granularity selective",
    "recompute-method": "--recompute-granularity full --recompute-method block --recompute-num-layers 4",
    "recompute-num-layers": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
    "recompute-modules": "--recompute-granularity selective --recompute-modules mlp",
    "checkpoint-activations": "--checkpoint-activations",
    "checkpoint-num-layers": "--checkpoint-activations --checkpoint-num-layers 2",
    "activations-checkpoint-method": "--activations-checkpoint-method uniform",
    "activations-checkpoint-num-layers": f"{OLD} --activations-checkpoint-num-layers 2",
    "use-flash-attn": "--transformer-impl local --use-flash-attn",
    "attention-backend": "--attention-backend unfused",
    "transformer-impl": "--transformer-impl local",
    "tp-comm-overlap": "--tp-comm-overlap",
    "overlap-grad-reduce": "--overlap-grad-reduce",
    "overlap-param-gather": "--overlap-param-gather",
    "no-overlap-p2p-communication": (
        "",
        "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
    ),
    "multi-latent-attention": "--multi-latent-attention",
    "q-lora-rank": "--multi-latent-attention --q-lora-rank 1536",
    "kv-lora-rank": "--multi-latent-attention --kv-lora-rank 512",
    "qk-head-dim": "--multi-latent-attention --qk-head-dim 64",
    "qk-pos-emb-head-dim": "--multi-latent-attention --qk-pos-emb-head-dim 32",
    "v-head-dim": "--multi-latent-attention --v-head-dim 64",
    "moe-token-dispatcher-type": "--num-experts 8 --moe-token-dispatcher-type flex",
    "moe-enable-deepep": "--num-experts 8 --moe-enable-deepep",
    "moe-flex-dispatcher-backend": "--num-experts 8 --moe-flex-dispatcher-backend deepep",
    "moe-router-num-groups": "--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 2",
    "moe-router-group-topk": ("--num-experts 8 --moe-router-num-groups 4 --moe-router-group-topk 2"),
    "moe-flex-dispatcher-num-sms": f"{FLEX} --moe-flex-dispatcher-num-sms 32",
    "moe-deepep-num-sms": f"{FLEX} --moe-deepep-num-sms 24",
    "moe-hybridep-num-sms": f"{FLEX} --moe-flex-dispatcher-backend hybridep --moe-hybridep-num-sms 16",
    "enable-cuda-graph": "--enable-cuda-graph",
    "external-cuda-graph": "--external-cuda-graph",
    "cuda-graph-impl": "--cuda-graph-impl local",
    "cuda-graph-scope": "--num-experts 8 --cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router",
    "cuda-graph-modules": "--num-experts 8 --cuda-graph-impl local --cuda-graph-modules attn moe_router",
    "main-grads-dtype": "--use-precision-aware-optimizer --main-grads-dtype bf16",
    "megatron-fsdp-main-grads-dtype": "--use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32",
    "megatron-fsdp-grad-comm-dtype": "--use-megatron-fsdp --megatron-fsdp-grad-comm-dtype fp32",
    "torch-fsdp2-no-reshard-after-forward": "--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward",
    "use-precision-aware-optimizer": "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
    "exp-avg-dtype": "--use-precision-aware-optimizer --exp-avg-dtype fp8",
    "exp-avg-sq-dtype": "--use-precision-aware-optimizer --exp-avg-sq-dtype fp8",
    "overlap-moe-expert-parallel-comm": "--num-experts 8 --overlap-moe-expert-parallel-comm",
    "cpu-offloading-num-layers": "--cpu-offloading-num-layers 8",
    "no-cpu-offloading-activations": "--cpu-offloading-num-layers 8 --no-cpu-offloading-activations",
    "fine-grained-activation-offloading": "--fine-grained-activation-offloading --offload-modules core_attn",
    "offload-modules": "--fine-grained-activation-offloading --offload-modules core_attn attn_proj",
    "optimizer-cpu-offload": "--optimizer-cpu-offload",
    "optimizer-offload-fraction": "--optimizer-cpu-offload --optimizer-offload-fraction 0.5",
    "overlap-cpu-optimizer-d2h-h2d": "--optimizer-cpu-offload --overlap-cpu-optimizer-d2h-h2d",
    "fp8-output-proj": "--fp8-format hybrid --fp8-output-proj",
    "fp8-dot-product-attention": "--fp8-format hybrid --fp8-dot-product-attention",
    "first-last-layers-bf16": f"{TENSORS} --first-last-layers-bf16",
    "num-layers-at-start-in-bf16": f"{TENSORS} --first-last-layers-bf16 --num-layers-at-start-in-bf16 2",
    "num-layers-at-end-in-bf16": f"{TENSORS} --first-last-layers-bf16 --num-layers-at-end-in-bf16 0",
    "fp8-param-gather": f"{EIGHT} --fp8-param-gather",
    "fp8-param": f"{EIGHT} --fp8-param",
    "fp4-param-gather": "--use-distributed-optimizer --fp4-format e2m1 --fp4-param-gather",
    "fp8-multi-head-attention": "--fp8-format hybrid --fp8-multi-head-attention",
    "swiglu": "",
    "bf16": "",
    "untie-embeddings-and-output-weights": "",
    "optimizer": "--optimizer sgd",
    "account-for-embedding-in-pipeline-split": (
        "",
        f"{PP} --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
    ),
    "account-for-loss-in-pipeline-split": "--pipeline-model-parallel-size 2 --account-for-loss-in-pipeline-split",
    "decoder-first-pipeline-num-layers": "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 10",
    "decoder-last-pipeline-num-layers": "--pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 10",
    "num-layers-in-first-pipeline-stage": "--pipeline-model-parallel-size 2 --num-layers-in-first-pipeline-stage 10",
    "num-layers-in-last-pipeline-stage": "--pipeline-model-parallel-size 2 --num-layers-in-last-pipeline-stage 10",
}
"""For each mapped argument, what is added to the base; a pair also takes something away."""


def keys(line):
    """The keys of the job file, without comments, and what is said besides; or the errors."""
    try:
        found = converted(line)
    except SynclineError as problem:
        return str(problem)
    return re.sub(r" *#.*", "", found.text), found.warnings


def test_rotations_are_fused_and_scaled_as_megatron_says():
    assert job(BASE).rope_fusion and job(f"{BASE} --apply-rope-fusion").rope_fusion
    assert not job(f"{BASE} --no-rope-fusion").rope_fusion
    yarn = BASE.replace("--position-embedding-type rope", "--position-embedding-type yarn")
    scaled, plain = (converted(line).job.architecture for line in (yarn, BASE))
    assert (scaled.positions, scaled.rope_scaling, plain.rope_scaling) == ("rope", "yarn", "none")
    # Nothing is rotated.
    assert job(f"{BASE.replace('--position-embedding-type rope', '')} --no-rope-fusion").rope_fusion


def test_every_mapped_argument_has_a_case():
    assert set(CHANGED) == arguments().mapped


@pytest.mark.parametrize("name", CHANGED)
def test_every_mapped_argument_changes_the_job(name):
    change = CHANGED[name]
    without, added = change if isinstance(change, tuple) else ("", change)
    base = BASE.replace(without, "") if without else BASE
    whole = f"{base} {added}"
    # The same line without this argument is another job.
    bare = re.sub(rf"--{name}( [^-\s]\S*)*(?= |$)", "", whole)
    assert f"--{name}" in whole and f"--{name} " not in f"{bare} "
    assert keys(whole) != keys(bare)


VALUES = st.one_of(st.integers(1, 64).map(str), st.sampled_from(["x", "1e-4", "a/b", "full", "rope"]))


@st.composite
def lines(draw):
    """Arguments of all classes, mapped ones as in the base, in any order."""
    known = arguments()
    free = sorted(known.without_effect | known.not_modelled)
    names = draw(st.lists(st.sampled_from(free), max_size=12, unique=True))
    made = re.findall(r"--\S+(?: [^-]\S*)*", BASE)
    for name in names:
        count = known.values[name]
        given_values = draw(st.lists(VALUES, min_size=count or 0, max_size=count if count is not None else 3))
        made.append(" ".join([f"--{name}", *given_values]))
    return draw(st.permutations(made))


@settings(max_examples=60)
@given(lines())
def test_no_argument_is_dropped(given_arguments):
    found = converted(" ".join(given_arguments))
    listed = [each for some in found.left_out.values() for each in some]
    assert sorted([*found.mapped, *listed]) == sorted(given_arguments)
    assert all(f"#   {each}" in found.text for each in listed)


@settings(max_examples=60)
@given(st.lists(st.one_of(st.text(max_size=12), VALUES, st.sampled_from(sorted(arguments().values))), max_size=20))
def test_any_words_become_settings_or_problems(texts):
    mark = Mark(Text("the arguments", ()), 1, 0, 0)
    given_words = [Word(f"--{each}" if each in arguments().values else each, mark) for each in texts]
    made = parse(given_words)
    said = " ".join(each.said for each in (*made.found.values(), *made.repeated))
    wrong = json.dumps([dict(each) for each in made.problems], ensure_ascii=False)
    for each in given_words:
        assert each.text.partition("=")[0] in said or json.dumps(each.text, ensure_ascii=False)[1:-1] in wrong
    assert not made.ignored


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(arguments().mapped)), VALUES), max_size=8))
def test_any_values_of_mapped_arguments_make_a_job_or_errors(pairs):
    line = " ".join([BASE, *(f"--{name} {value}" for name, value in pairs)])
    try:
        found = converted(line)
    except SynclineError as problem:
        assert problem.exit_status == 2
        assert all(each["message"] for each in problem.diagnostics)
    else:
        assert estimate(found.job).step_s > 0


# What cannot be used


@pytest.mark.parametrize(
    ("added", "key", "said"),
    [
        ("--tensor-model-paralel-size 8", "--tensor-model-paralel-size", "--tensor-model-parallel-size"),
        ("--my-own-flag", "--my-own-flag", "--ignore my-own-flag"),
        ("--is-hybrid-model", "--is-hybrid-model", "state-space layers"),
        ("--tensor-model-parallel-size eight", "--tensor-model-parallel-size", "a whole number from 1"),
        ("--tensor-model-parallel-size", "--tensor-model-parallel-size", "has no value"),
        (f"--num-layers {10**15 + 5} --pipeline-model-parallel-size 3", "--num-layers", "from 1 to 1000"),
        (f"--pipeline-model-parallel-size {10**15}", "--pipeline-model-parallel-size", "from 1 to 1002"),
        (f"--seq-length {10**17}", "--seq-length", "from 1 to 1099511627776"),
        ("--num-experts 8 --moe-layer-freq ([1]*9999)*9999*9999", "--moe-layer-freq", "some dense layers"),
        (
            f"--pipeline-model-parallel-layout ({'t' * 90_000})*99999L",
            "--pipeline-model-parallel-layout",
            "Et|tt|tt|tL",
        ),
        (f"--pipeline-model-parallel-layout {'t*99999' * 10_000}", "--pipeline-model-parallel-layout", "Et|tt|tt|tL"),
        ("--tensor-model-parallel-size 3", "parallel.tensor", "divisors of 32"),
        ("--recompute-granularity ful", "--recompute-granularity", "full"),
        ("--optimizer sgd", "--optimizer", "adam"),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 40",
            "recompute_layers",
            "1 to 32",
        ),
        ("--pipeline-model-parallel-size 3 --num-layers-per-virtual-pipeline-stage 4", "--num-layers", "divide"),
        ("--moe-layer-freq [0,1]*7 --num-experts 8", "--moe-layer-freq", "[0]*3+[1]*58"),
        ("--pipeline-model-parallel-layout Ett|x", "--pipeline-model-parallel-layout", "Et|tt|tt|tL"),
        ("--position-embedding-type relative", "--position-embedding-type", "rope"),
        ("stray", None, "neither an argument"),
        ("--global-batch-size 65", "batch.global_batch", "64"),
    ],
)
def test_what_cannot_be_used_is_named(added, key, said):
    with pytest.raises(SynclineError) as found:
        converted(f"{BASE} {added}")
    first = found.value.diagnostics[0]
    assert key is None or any(each in first["key"] for each in key.split("|"))
    assert any(each in json.dumps(first) for each in said.split("|")), first
    assert found.value.exit_status == 2


def test_ignored_arguments_are_listed():
    found = converted(f"{BASE} --my-own-flag 1 2 --lr 1", ignored=["my-own-flag"])
    assert found.left_out[AS_ASKED] == ("--my-own-flag 1 2",)
    assert "# Left out as asked:\n#   --my-own-flag 1 2" in found.text


def test_the_last_one_of_repeated_arguments_counts():
    found = converted(f"{BASE} --global-batch-size 128")
    assert found.job.job.global_batch == 128
    assert found.left_out[REPEATED] == ("--global-batch-size 64",)


def test_missing_arguments_are_named_all_at_once():
    with pytest.raises(SynclineError) as found:
        convert_megatron(["--num-layers 2 --bf16"])
    said = str(found.value)
    for each in ("--hidden-size", "--num-attention-heads", "--seq-length", "--micro-batch-size", "--vocab", "--gpus N"):
        assert each in said, each


def test_what_is_missing_because_it_is_misspelt_is_one_error():
    with pytest.raises(SynclineError) as found:
        converted(BASE.replace("--hidden-size", "--hiden-size"))
    assert [each["key"] for each in found.value.diagnostics] == ["--hiden-size"]
    assert found.value.diagnostics[0]["nearest"] == "--hidden-size"


def test_a_problem_of_the_job_has_the_place_of_its_argument(tmp_path):
    pytest.importorskip("tree_sitter_bash")
    file = tmp_path / "train.sh"
    file.write_text(LLAMA_70B.replace("TP=${TP:-4}", "TP=${TP:-3}"))
    with pytest.raises(SynclineError) as found:
        convert_megatron([str(file)], vocab=128256)
    assert all(each["place"]["file"] == str(file) for each in found.value.diagnostics)


def test_an_unknown_value_says_why(tmp_path):
    pytest.importorskip("tree_sitter_bash")
    file = tmp_path / "train.sh"
    file.write_text(f"torchrun train.py {BASE} --tensor-model-parallel-size $TP")
    with pytest.raises(SynclineError, match="the script does not set `TP`"):
        convert_megatron([str(file)], gpus=64)
    assert convert_megatron([str(file)], gpus=64, environment={"TP": "2"}).job.job.tensor == 2


# Defaults and rules of Megatron-LM, by hand


def test_recomputation_of_blocks_groups_and_modules_is_mapped():
    full = f"{BASE} --recompute-granularity full --recompute-num-layers 4 --recompute-method"
    assert (job(f"{full} block").recompute_method, job(f"{full} block").recompute_layers) == ("block", 4)
    assert (job(f"{full} uniform").recompute_method, job(f"{full} uniform").recompute_layers) == ("uniform", 4)
    selective = job(f"{BASE} --recompute-granularity selective --recompute-modules core_attn mlp layernorm")
    assert selective.recompute_modules == ["core_attention", "mlp", "layernorm"]


def test_vocabularies_are_padded():
    """A multiple of 128 for each tensor-parallel rank: 51,200 of 50,257 for eight, as in the SC21 paper."""
    line = BASE.replace("--vocab-size 128256", "--vocab-file v.json --merge-file m.txt")
    made = converted(line).job
    assert (made.architecture.vocab, made.job.vocab_multiple) == (50257, 128)
    assert converted(f"{line} --make-vocab-size-divisible-by 64").job.job.vocab_multiple == 64
    assert converted(f"{line} --make-vocab-size-divisible-by 64 --padded-vocab-size 51200").job.job.vocab_multiple == 1
    assert converted(f"{BASE} --tokenizer-type NullTokenizer").job.architecture.vocab == 128257


def test_the_width_of_an_mlp_has_the_default_of_megatron():
    """Four times the hidden size; with a gate two thirds of it, a multiple of 64: 11,008 for 4,096 would be 10,880."""
    line = BASE.replace("--ffn-hidden-size 14336", "")
    assert converted(line).job.architecture.ffn == 10880
    assert converted(line.replace("--swiglu", "")).job.architecture.ffn == 16384


def test_gradients_have_the_type_that_megatron_gives_them():
    """``validate_args``, and the help of ``--megatron-fsdp-main-grads-dtype``."""

    def size(added):
        return job(f"{BASE} {added}").gradient_bytes

    assert size("") == 4
    assert size("--main-grads-dtype bf16") == 2
    assert size("--use-megatron-fsdp") == 2
    assert size("--use-megatron-fsdp --megatron-fsdp-main-grads-dtype auto") == 2
    assert size("--use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32") == 4
    assert size("--use-custom-fsdp") == 4
    aloud = converted(
        f"{BASE} --use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp32 --megatron-fsdp-grad-comm-dtype bf16"
    )
    assert any("exchanged" in each for each in aloud.warnings)
    assert any("0.17" in each for each in converted(f"{BASE} --use-megatron-fsdp").warnings)


def test_a_dispatcher_that_gathers_is_said():
    """``moe_token_dispatcher_type`` of ``TransformerConfig`` is ``allgather`` by default."""
    assert not converted(EXPERTS).warnings
    divided = f"{EXPERTS} --expert-model-parallel-size 4"
    assert "which is the default" in converted(divided).warnings[0]
    assert "allgather" in converted(f"{divided} --moe-token-dispatcher-type allgather").warnings[0]
    assert not converted(f"{divided} --moe-token-dispatcher-type alltoall").warnings
    both = converted(f"{divided} --moe-flex-dispatcher-backend deepep").warnings
    assert len(both) == 2 and "needs the dispatcher flex" in both[1]


def test_layers_divide_into_stages_and_chunks():
    """As ``validate_args`` demands: 32 layers make no stages of 3, and no 3 chunks on each of 4 stages."""
    for added, allowed in (
        ("--pipeline-model-parallel-size 5", "1, 2, 4, 8, 16, 32"),
        ("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 3", "none"),
    ):
        with pytest.raises(SynclineError, match="do not divide") as found:
            converted(f"{BASE} {added}", gpus=320)
        assert found.value.diagnostics[0]["allowed"] == allowed


def test_layouts_of_pipelines_become_splits():
    assert chunks("Et*3|(tt|)*2m|L") == ["Ettt", "tt", "tt", "m", "L"]
    assert split_of(["Et", "tt", "tL"]) == "ends"
    assert split_of(["Ett", "tt", "ttL"]) == "even"
    assert split_of(["Ettt", "tt", "tttL"]) == [3, 2, 3]
    assert split_of(["Ett", "tt", "tL"]) == "rest"
    assert split_of(["Ettttt", "tL"]) == [5, 1]
    assert split_of(["ttE", "tL"]) is None
    deepseek = chunks("Et*3|(tt|)*29m|L")
    assert deepseek is not None and (len(deepseek), split_of(deepseek)) == (32, [3, *[2] * 29, 1, 0])
    assert chunks("x") is None
    assert chunks("(t)*99999|(t)*99999") is None


def test_first_and_last_stages_have_their_layers():
    ends = "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 10"
    four = "--pipeline-model-parallel-size 4"
    assert job(f"{BASE} {four} {ends}").chunk_layers == [6, 8, 8, 10]
    assert job(f"{BASE} {four} --decoder-last-pipeline-num-layers 2").chunk_layers == [10, 10, 10, 2]
    virtual = "--num-virtual-stages-per-pipeline-rank 2"
    assert job(f"{BASE} {four} {ends} {virtual}").chunk_layers == [3, 4, 4, 5, 3, 4, 4, 5]
    with pytest.raises(SynclineError, match="do not divide among 3 other stages"):
        converted(f"{BASE} {four} --decoder-last-pipeline-num-layers 3")
    layout = "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*10|t*22L"
    assert job(f"{BASE} {layout}").chunk_layers == [10, 22]


def test_kinds_of_context_parallelism_are_mapped():
    two = "--context-parallel-size 2 --cp-comm-type"
    assert job(f"{BASE} {two} p2p").context_method == "ring"
    assert job(f"{BASE} {two} all_gather").context_method == "all_gather"
    assert job(f"{BASE} {two} a2a").context_method == "ulysses"
    with pytest.raises(SynclineError, match="a2a"):
        converted(f"{BASE} {two} a2b")


def test_layers_behind_dense_ones_have_experts():
    found = converted(f"{EXPERTS} --moe-layer-freq ([0]*3+[1]*29)").job.architecture
    assert found.experts is not None
    assert (found.experts.dense_layers, found.with_experts()) == (3, 29)
    every = converted(f"{EXPERTS} --moe-layer-freq 2").job.architecture
    assert every.with_experts() == 16


# Published runs become the jobs of their rows

SC21 = (
    "--activations-checkpoint-method uniform --DDP-impl local --vocab-file vocab.json --merge-file merges.txt "
    "--log-interval 5 --seq-length 2048 --max-position-embeddings 2048 --train-iters 500 --lr-decay-iters 320 "
    "--lr 0.0001 --min-lr 0.00001 --lr-decay-style cosine --lr-warmup-fraction 0.01 --split 969,30,1 --eval-iters 100 "
    "--eval-interval 1000 --clip-grad 1.0 --fp16 --loss-scale 8192 --tensor-model-parallel-size 8 "
)
"""Arguments of NVIDIA/Megatron-LM: examples/academic_paper_scripts/sc21/CONFIG.sh."""
PUBLISHED = {
    # run_table_1.sh there: 530B and 1T.
    "sc21-4": SC21 + "--pipeline-model-parallel-size 35 --micro-batch-size 1 --global-batch-size 2520 --num-layers 105 "
    "--hidden-size 20480 --num-attention-heads 128 --num-layers-per-virtual-pipeline-stage 1",
    "sc21-5": SC21 + "--pipeline-model-parallel-size 64 --micro-batch-size 1 --global-batch-size 3072 --num-layers 128 "
    "--hidden-size 25600 --num-attention-heads 160",
    # Korthikanti et al. (2022), Table 3 and section 6: 22B and 530B, with the arguments of that version.
    "korthikanti-6": "--fp16 --accumulate-allreduce-grads-in-fp32 --seq-length 2048 --vocab-file v --merge-file m "
    "--tensor-model-parallel-size 8 --sequence-parallel --recompute-activations --transformer-impl local "
    "--num-layers 48 --hidden-size 6144 --num-attention-heads 64 --micro-batch-size 4 --global-batch-size 4",
    "korthikanti-7": "--fp16 --accumulate-allreduce-grads-in-fp32 --seq-length 2048 --vocab-file v --merge-file m "
    "--tensor-model-parallel-size 8 --sequence-parallel --recompute-activations --transformer-impl local "
    "--num-layers 105 --hidden-size 20480 --num-attention-heads 128 --micro-batch-size 1 --global-batch-size 280 "
    "--pipeline-model-parallel-size 35 --num-layers-per-virtual-pipeline-stage 1 --no-overlap-p2p-communication",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_arguments_become_the_job_of_their_row(name):
    (row,) = [each for each in load((FOLDER / RUNS).as_posix()).rows if each.run.id == name]
    made = converted(PUBLISHED[name], gpus=row.run.gpus, accelerator=row.cluster.accelerator).job
    wanted = estimates.job(row.run)
    if wanted.recompute_modules == ["core_attention"] and not wanted.fused_attention:
        # What selective recomputation computes again if nothing is named.
        wanted = wanted.changed(recompute_modules=[])
    assert made.job == wanted
    model = json.loads(model_text(made.architecture))
    # The row has the vocabulary as it was padded.
    multiple = made.job.vocab_multiple * made.job.tensor
    model["vocab"] = -(-model["vocab"] // multiple) * multiple
    assert model == json.loads(model_text(row.model, row.run.layers))
    assert made.framework == row.run.framework
