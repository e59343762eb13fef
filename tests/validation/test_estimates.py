"""Estimates of measured runs: constants that are found again, and figures that must not get worse."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from syncline.errors import SynclineError
from syncline.estimate.software import Software, choose, read, shipped
from syncline.validation.estimates import estimator, predictor
from tests import loaded
from tests.conftest import ROOT, Cli
from tests.validation.rows import CLUSTERS, FOLDER, GOOD, MODELS, row, write

pytest.importorskip("scipy")

from syncline.validation.calibrated import calibrated, held_out
from syncline.validation.calibration import CALIBRATIONS, EXPERTS
from syncline.validation.checks import SETS
from syncline.validation.least_squares import fit
from syncline.validation.runs import Run


def job(**changes):
    """The estimator of a run like the good row."""
    run = Run.model_validate({**GOOD, **changes})
    return estimator(run, MODELS[run.model], CLUSTERS[run.cluster])


def seconds(estimated, **constants):
    return estimated.seconds(Software(**constants).model_dump_json())


def test_a_step_is_the_sum_of_its_parts():
    parts, stages = job().step(Software().model_dump_json())
    step = parts.pop("step")
    assert step == pytest.approx(sum(parts.values()), rel=1e-12)
    assert len(stages) == 2


def test_a_dense_layer_takes_as_long_as_its_operations_at_the_rate_of_large_products():
    """Llama 3 70B on one H100, by hand: 6 operations a parameter and token, and products at 600 to 780 TFLOP/s."""
    found = job(model="llama3-70b", layers=4, gpus=1, tp=1, pp=1, cp=1, global_batch=1)
    parts, _ = found.step(Software().model_dump_json())
    layer = 8192 * 8192 * 2 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    flop = 6 * 4 * layer * 8192
    assert 600e12 < flop / parts["products"] < 780e12


def test_slower_constants_make_longer_steps():
    found = job(model="llama3-70b", gpus=64, tp=4, pp=4, cp=1, overlap_tp=True, precision="fp8")
    plain = seconds(found)
    for changed in (
        {"low_precision_products": 0.9},
        {"attention": 0.9},
        {"element_wise": 1.1},
        {"logit_bytes": 20.0},
        {"fused_accumulation": False},
        {"layer_cpu_s": 0.5},
        {"staged_layer_s": 0.01},
        {"tensor_exposed": 0.5},
    ):
        assert seconds(found, **changed) > plain, changed
    assert seconds(found, products=0.9) > plain  # the output layer has 16 bits


@pytest.mark.parametrize(
    ("library", "least", "most"), [("flash-attention-2", 280e12, 385e12), ("cudnn", 480e12, 650e12)]
)
def test_attention_runs_at_the_rate_of_its_library(library, least, most):
    """FlashAttention-3 (Shah et al. 2024), figure 5: on an H100, FlashAttention-2 reaches 370 TFLOP/s, cuDNN 600."""
    found = job(model="llama3-70b", layers=4, gpus=1, tp=1, pp=1, cp=1, global_batch=1, attention=library)
    parts, _ = found.step(Software().model_dump_json())
    # Two products forward and five backward, of the half of the scores that the mask leaves. Backward is slower.
    flop = 4 * (2 + 5) * 2 * 8192 * 8192 * 8192 / 2
    assert least < flop / parts["attention"] < most


def test_a_row_may_name_another_library_than_the_software_takes():
    plain, triton = job(), job(attention="triton")
    for software in ("measured", "cudnn", "flash-attention-2"):
        assert seconds(plain, attention_library=software) < seconds(triton, attention_library=software)
        assert seconds(triton, attention_library=software) == seconds(triton)


def test_sustained_load_slows_products_of_16_bits_alone():
    machine = CLUSTERS["dgx-h100"]
    slow = machine.model_copy(update={"sustained": 0.46})
    run = Run.model_validate({**GOOD, "model": "llama3-8b", "tp": 1, "pp": 1, "cp": 1, "gpus": 8, "global_batch": 8})
    for precision, ratio in (("bf16", 2.0), ("fp8", 1.0)):
        run = run.model_copy(update={"precision": precision})
        parts = [
            estimator(run, MODELS[run.model], each).step(Software().model_dump_json())[0] for each in (machine, slow)
        ]
        assert parts[1]["products"] == pytest.approx(ratio * parts[0]["products"])


def test_a_large_product_runs_at_the_rate_that_a_machine_was_measured_at():
    """SimuMax's B200: 4,096 tokens of Llama 3 70B's feed-forward block run at 0.487 of 2,250 TFLOP/s."""
    run = Run.model_validate(
        {**GOOD, "cluster": "b200-simumax", "model": "llama3-70b", "layers": 4, "sequence": 4096, "micro_batch": 1}
        | {"tp": 1, "pp": 1, "cp": 1, "gpus": 8, "global_batch": 8}
    )
    parts, _ = estimator(run, MODELS[run.model], CLUSTERS[run.cluster]).step(Software().model_dump_json())
    layer = 8192 * 8192 * 2 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    rate = 6 * 4 * layer * 4096 / parts["products"]
    assert rate == pytest.approx(0.487 * 2250e12, rel=0.06)


def test_modules_that_a_row_names_are_computed_again():
    """Latent attention, by hand: the products behind compressed forms once more, of three passes of all."""
    plan = {"model": "deepseek-v3", "layers": 3, "gpus": 1, "tp": 1, "pp": 1, "cp": 1, "global_batch": 1}
    kept = job(**plan, recompute="none")
    again = job(**plan, recompute="selective", recompute_modules="mla_up_proj")
    plain, more = (each.step(Software().model_dump_json())[0]["products"] for each in (kept, again))
    up = 1536 * 128 * 192 + 512 * 128 * 256
    layer = up + 7168 * 1536 + 7168 * 576 + 128 * 128 * 7168 + 3 * 7168 * 18432
    assert more / plain - 1 == pytest.approx(up / layer / 3, rel=0.1)


def test_recomputation_but_for_queries_keys_and_values():
    """MaxText's save_qkv_proj, by hand: forward products again, but the first and the last of each layer."""
    kept = job(model="llama3-70b", layers=4, gpus=1, tp=1, pp=1, cp=1, global_batch=1, recompute="none")
    policy = {"recompute": "full", "recompute_modules": "all but qkv"}
    again = job(model="llama3-70b", layers=4, gpus=1, tp=1, pp=1, cp=1, global_batch=1, **policy)
    plain, more = (each.step(Software().model_dump_json())[0]["products"] for each in (kept, again))
    widths = {"qkv": 10240, "out": 8192, "up": 2 * 28672, "down": 28672}
    part = (widths["out"] + widths["up"]) / sum(widths.values()) / 3
    assert more / plain - 1 == pytest.approx(part, rel=0.1)


def test_constants_are_found_again():
    true = {"products": 0.83, "attention": 0.7, "layer_cpu_s": 3e-3}
    jobs = [
        job(model=model, gpus=gpus, tp=tp, pp=1, cp=1, micro_batch=batch, global_batch=gpus, sequence=sequence)
        for model, gpus, tp in (("llama3-8b", 8, 1), ("llama3-70b", 8, 8), ("llama3-8b", 8, 8))
        for batch in (1,)
        for sequence in (1024, 4096, 16384)
    ]
    found = fit(Software(), tuple(true), [(each, seconds(each, **true)) for each in jobs])
    for name, value in true.items():
        assert getattr(found, name) == pytest.approx(value, rel=0.02), name


def test_sets_of_rows_have_names_that_checks_know():
    assert {each.rows for each in CALIBRATIONS.values()} - {""} | {EXPERTS} <= set(SETS)


def test_without_rows_of_other_models_the_constants_of_the_package_count(tmp_path):
    """A file of one's own often has one model, and no rows to fit constants to once this model is left out."""
    dense = row(tmp_path, framework="megatron", calibrates="h100")
    mixture = {"model": "qwen3-30b-a3b", "tp": 1, "pp": 1, "cp": 1, "global_batch": 16}
    experts = row(tmp_path, framework="megatron", calibrates="experts", **mixture)
    for rows, each in [((dense,), dense), ((experts,), experts)]:
        asked = (each.run, each.model, each.cluster)
        left_out, known = held_out(rows, shipped(), {"megatron"}, known=True), predictor(shipped())
        assert left_out(*asked).step_s == known(*asked).step_s
    # The row without experts decides the constants of all models, and none of those of experts.
    made = {}
    held_out([dense, experts], shipped(), {"megatron"}, made, known=True)(*asked)
    found, known = made["megatron", experts.run.model, True], shipped()["megatron"].constants
    of_experts = CALIBRATIONS["megatron"].experts
    assert {name: getattr(found, name) for name in of_experts} == {name: getattr(known, name) for name in of_experts}
    assert found.products != known.products


def test_a_set_like_another_one_leaves_out_the_rows_of_that_one(tmp_path):
    """Automodel has Megatron's constants: its row is predicted without Megatron's row of the same model."""
    mixture = {"tp": 1, "pp": 1, "cp": 1, "global_batch": 16, "calibrates": "experts"}
    same, other = (
        row(tmp_path, framework="megatron", model=name, **mixture) for name in ("qwen3-30b-a3b", "mixtral-8x7b")
    )
    asked = row(tmp_path, framework="automodel", model="qwen3-30b-a3b", **mixture)
    made, own = {}, {"fused_accumulation": False, "fused_yarn": True}
    found = held_out([same, other], shipped(), {"megatron"}, made)(asked.run, asked.model, asked.cluster)
    of_other = made["megatron", "qwen3-30b-a3b", False]
    assert of_other != shipped()["megatron"].constants
    alike = of_other.model_copy(update=own).model_dump_json()
    assert found.step_s == estimator(asked.run, asked.model, asked.cluster).seconds(alike)
    assert shipped()["automodel"].constants == shipped()["megatron"].constants.model_copy(update=own)


def test_a_constant_that_rows_do_not_tell_stays_near_its_first_value():
    """Traffic and rate of products, of runs whose products alone are known to be slower: rows tell their sum alone."""
    jobs = [job(model="llama3-70b", gpus=8, tp=8, pp=1, cp=1, micro_batch=1, global_batch=1, sequence=4096)]
    measured = [(each, seconds(each, products=0.8)) for each in jobs]
    found = fit(Software(), ("products", "element_wise"), measured, near=("element_wise",))
    assert found.products == pytest.approx(0.8, rel=0.02)
    assert found.element_wise == pytest.approx(1.0, rel=0.02)
    other = fit(Software(element_wise=2.0), ("products", "element_wise"), measured, near=("element_wise",))
    assert other.element_wise == pytest.approx(2.0, rel=0.1)


def test_the_package_has_the_constants_that_its_rows_give(tmp_path):
    from syncline.validation import load

    rows = load(str(FOLDER / "runs.csv")).rows
    found = calibrated(rows, only="internevo")["internevo"].constants
    kept = shipped()["internevo"].constants
    numbers, words = [], []
    for each in (found, kept):
        values = each.model_dump()
        numbers.append({name: value for name, value in values.items() if isinstance(value, float)})
        words.append({name: value for name, value in values.items() if not isinstance(value, float)})
    assert numbers[0] == pytest.approx(numbers[1], rel=0.02) and words[0] == words[1]
    assert set(shipped()) == set(CALIBRATIONS)


def test_a_set_is_chosen_by_framework_and_accelerator():
    assert choose(shipped(), "megatron", "H100-SXM5-80GB") == "megatron"
    assert choose(shipped(), "megatron", "A100-SXM4-80GB") == "megatron-a100"
    assert choose(shipped(), "nanotron", "A100-SXM4-80GB") is None


def test_what_was_not_measured_is_refused():
    plain = SimpleNamespace(**CLUSTERS["dgx-h100"].model_dump(), memory_bytes_per_s=1e12, nic_bytes_per_s=1e9)
    run = Run.model_validate(GOOD)
    with pytest.raises(SynclineError, match="no kernels of this accelerator were measured"):
        estimator(run, MODELS[run.model], SimpleNamespace(**{**vars(plain), "accelerator": "TPUv4"}))
    with pytest.raises(SynclineError, match="no constants for this framework"):
        predictor()(run.model_copy(update={"framework": "own"}), MODELS[run.model], CLUSTERS["dgx-h100"])
    with pytest.raises(SynclineError) as found:
        job(cluster="dgx-a100-selene", precision="fp8")
    assert "fp8" in str(found.value)


def test_a_mesh_that_does_not_divide_is_refused_with_what_works():
    with pytest.raises(SynclineError) as found:
        estimator(Run.model_validate({**GOOD, "tp": 5, "gpus": 20}), MODELS["llama3-8b"], CLUSTERS["dgx-h100"])
    assert found.value.diagnostics[0]["help"] == "write tensor: 4"


def test_malformed_constants_name_the_key(tmp_path):
    file = tmp_path / "software.yaml"
    file.write_text("sets: { a: { frameworks: [x], accelerators: [H], calibrated: '', constants: { product: 1 } } }")
    with pytest.raises(SynclineError, match="product"):
        read(str(file))


@pytest.mark.timeout(600)
def test_figures_have_not_become_worse(cli: Cli):
    """``make validate`` checks the same; ``--update`` writes better figures. Fits without each model take long."""
    files = [str(FOLDER / "runs.csv"), "--figures", str(FOLDER / "figures.json")]
    arguments = ["validate", "runs", *files, "--json"]
    found = loaded.run(arguments, cli.folder, cli.environment(), timeout_s=500)
    assert found.returncode == 0, json.loads(found.stdout)["worse"]


def test_constants_are_written(cli: Cli):
    cli.write("models.yaml", (FOLDER / "models.yaml").read_text("utf-8"))
    none = cli("validate", "constants", write(cli.folder, framework="megatron"), "--out", "constants.yaml")
    assert none.returncode == 2 and "calibrate" in none.stderr
    rows = write(cli.folder, framework="megatron", calibrates="h100")
    found = cli("validate", "constants", rows, "--out", "constants.yaml")
    assert found.returncode == 0, found.stderr
    assert read(str(cli.folder / "constants.yaml"))["megatron"].rows == 1
    again = cli("validate", "constants", rows, "--out", "constants.yaml")
    assert again.returncode == 2 and "--force" in again.stderr


def test_there_is_a_file_of_figures():
    figures = json.loads((ROOT / "validation" / "figures.json").read_text("utf-8"))
    assert figures["blackwell-dense"]["mean"] < 0.06
