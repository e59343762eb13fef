"""Files of jobs, models and measurements with lines and bytes changed are read, or refused with diagnostics.

Cases are numbered and the same on every machine; ``SYNCLINE_FUZZ=2000`` runs that many for each reader. Fabrics have
the same test in ``tests/clusters``, scenarios in ``tests/config``, and readers in Rust in
``crates/formats/tests/mutations.rs``.
"""

from __future__ import annotations

import importlib.util
import os
import random
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from syncline.design.parallel import Request, read_model, search
from syncline.errors import SynclineError
from syncline.estimate import machine
from syncline.input.dump import dump
from syncline.jobs import estimate, faster, read_job
from syncline.jobs.bridge.conversion import convert_bridge
from syncline.jobs.converted import Converted
from syncline.jobs.megatron.conversion import convert_megatron
from syncline.jobs.nemo.conversion import convert_nemo
from syncline.jobs.torchtitan.conversion import convert_torchtitan
from syncline.nccl import calibration, nccl_tests
from syncline.validation import load
from tests.config.test_mutations import changed
from tests.conftest import ROOT
from tests.jobs import nemo_file, scripts, test_bridge, test_megatron_yaml, test_torchtitan
from tests.nccl.made_up import output
from tests.validation import rows

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = int(os.environ.get("SYNCLINE_FUZZ", "60"))
MOST_S = 60.0
"""Longest time of a case."""
MOST_KIB = 400_000
"""Most memory that the cases of a reader may add."""

JOB = """\
schema: syncline-job/1
name: llama-3-70b
model:
  hidden: 8192
  layers: 80
  heads: 64
  kv_heads: 8
  ffn: 28672
  gated: true
  vocab: 128256
cluster: { accelerator: H100, gpus: 512 }
parallel: { tensor: 4, sequence_parallel: true, pipeline: 4, virtual_stages: 5, context: 2, zero: 1 }
batch: { sequence: 8192, micro_batch: 1, global_batch: 512 }
recompute: none
overlap: { tensor: true, gradients: true, parameters: true, pipeline: true }
"""
DEEPSEEK = """\
{
  "architectures": ["DeepseekV3ForCausalLM"],
  "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
  "first_k_dense_replace": 3,
  "hidden_size": 7168,
  "intermediate_size": 18432,
  "kv_lora_rank": 512,
  "max_position_embeddings": 163840,
  "model_type": "deepseek_v3",
  "moe_intermediate_size": 2048,
  "moe_layer_freq": 1,
  "n_group": 8,
  "n_routed_experts": 256,
  "n_shared_experts": 1,
  "num_attention_heads": 128,
  "num_experts_per_tok": 8,
  "num_hidden_layers": 61,
  "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1,
  "q_lora_rank": 1536,
  "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64,
  "quantization_config": {"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
  "rope_scaling": {"factor": 40, "type": "yarn"},
  "topk_group": 4,
  "topk_method": "noaux_tc",
  "v_head_dim": 128,
  "vocab_size": 129280
}
"""
GEMMA = """\
{
  "model_type": "gemma3",
  "mm_tokens_per_image": 256,
  "text_config": {
    "head_dim": 128,
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "model_type": "gemma3_text",
    "num_attention_heads": 32,
    "num_hidden_layers": 62,
    "num_key_value_heads": 16,
    "sliding_window": 1024
  },
  "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}
}
"""
NAMED = """\
schema: syncline-job/1
model: deepseek-v3
cluster: { accelerator: H100, gpus: 256 }
parallel: { pipeline: 8, expert: 32, schedule: zb-h1 }
batch: { sequence: 4096, micro_batch: 1, global_batch: 256 }
precision: fp8
recompute: full
moments: bf16
dispatcher: fused
overlap: { experts: true }
"""
CELLS = {**rows.GOOD, "memory_gib": 40.5, "recompute": "full", "sequence_parallel": "yes", "overlap_tp": "no"}


def _runs(folder: Path) -> str:
    return Path(rows.write(folder, CELLS, {**CELLS, "id": "b", "model": "llama3-70b", "gpus": 64})).read_text()


def _job(path: str) -> None:
    faster(estimate(read_job(path)))


def _model(path: str) -> None:
    search(Request(read_model(path), machine("H100"), gpus=512, sequence=4096, global_batch=512))


def _validated(path: str) -> None:
    load(path, (rows.FOLDER / "models.yaml").as_posix())


def _calibrated(path: str) -> None:
    read_rows = nccl_tests.read_all([path])
    calibration.calibrate(
        read_rows, calibration.About(name="ours", gpu="", software="", date="2026-01-01", source=["x"])
    )


def _estimated(convert: Callable[..., Converted], **given: object) -> Callable[[str], None]:
    def made(path: str) -> None:
        estimate(convert(path, **given).job)

    return made


def _megatron(path: str) -> None:
    variables = {"TP": "2", "PP": "8", "EP": "64", "DATA_PATH": "x"}
    estimate(convert_megatron([path], vocab=128256, gpus=512, environment=variables).job)


READERS: dict[str, tuple[str, str, Callable[[str], None]]] = {
    "job": ("job.yaml", JOB, _job),
    "job-experts": ("job.yaml", NAMED, _job),
    "config-llama": ("config.json", (ROOT / "examples/llama-3-70b/config.json").read_text(), _model),
    "config-deepseek": ("config.json", DEEPSEEK, _model),
    "config-gemma": ("config.json", GEMMA, _model),
    "megatron-script": ("train.sh", scripts.LLAMA_70B, _megatron),
    "megatron-mixtral": ("train.sh", scripts.MIXTRAL, _megatron),
    "megatron-yaml": ("model.yaml", test_megatron_yaml.DEEPSEEK_V3, _megatron),
    "megatron-arguments": ("arguments.txt", test_bridge.MEGATRON.replace(" --", "\n--"), _megatron),
    "nemo": ("nemo.yaml", nemo_file.LLAMA_70B, _estimated(convert_nemo, vocab=128256)),
    "bridge": ("bridge.yaml", dump(test_bridge.BASE), _estimated(convert_bridge, gpus=64)),
    "torchtitan": ("train.toml", test_torchtitan.LLAMA_8B, _estimated(convert_torchtitan, gpus=64)),
    "nccl-tests": ("tests.txt", output("all_reduce_perf", 8), _calibrated),
    "runs": ("runs.csv", "", _validated),
}


def changed_lines(good: bytes, rng: random.Random) -> bytes:
    """``good`` with a few lines left out, repeated, exchanged or broken."""
    lines = good.splitlines(keepends=True)
    for _ in range(rng.randint(1, 4)):
        if not lines:
            break
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                cut = rng.randrange(len(lines[at]) + 1)
                lines[at : at + 1] = [lines[at][:cut], b"\n", lines[at][cut:]]
    return b"".join(lines)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    if (
        name.startswith("megatron-")
        and name != "megatron-yaml"
        and importlib.util.find_spec("tree_sitter_bash") is None
    ):
        pytest.skip("tree-sitter-bash is not installed")
    file, text, use = READERS[name]
    good = (text or _runs(tmp_path)).encode()
    path = tmp_path / file
    path.write_bytes(good)
    use(path.as_posix())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted = 0
    for case in range(CASES):
        rng = random.Random(f"{name} {case}")
        data = changed_lines(good, rng) if rng.random() < 0.4 else changed(good, rng)
        path.write_bytes(data)
        started = time.monotonic()
        try:
            use(path.as_posix())
            accepted += 1
        except SynclineError as error:
            assert error.exit_status in (2, 3), (case, data)
            assert error.diagnostics, (case, data)
            assert all(each["code"] != "SL0901" for each in error.diagnostics), (case, data)
            assert str(error), (case, data)
        except BaseException as error:
            raise AssertionError((case, data)) from error
        assert time.monotonic() - started < MOST_S, (case, data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_KIB, f"{grown} KiB more for files of {len(good)} bytes"
    assert accepted or CASES < 20
