"""Arguments of Megatron-LM in YAML, as its functional tests and collections of models have them."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.jobs.converted import WITHOUT_EFFECT
from syncline.jobs.megatron.conversion import convert_megatron

DEEPSEEK_V3 = """\
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --tensor-model-parallel-size: ${TP}
  --pipeline-model-parallel-size: ${PP}
  --expert-model-parallel-size: ${EP}
  --expert-tensor-parallel-size: 1
  --pipeline-model-parallel-layout: Et|(tt|)*30mL
  --use-distributed-optimizer: true
  --overlap-grad-reduce: true
  --overlap-param-gather: true
  --sequence-parallel: true
  --micro-batch-size: 1
  --global-batch-size: 8192
  --seq-length: 4096
  --max-position-embeddings: 4096
  --data-path: ${DATA_PATH}
  --finetune: false
  --num-layers: 61
  --hidden-size: 7168
  --ffn-hidden-size: 18432
  --num-attention-heads: 128
  --kv-channels: 128
  --position-embedding-type: rope
  --make-vocab-size-divisible-by: 3232
  --swiglu: true
  --untie-embeddings-and-output-weights: true
  --attention-dropout: 0.0
  --hidden-dropout: 0.0
  --multi-latent-attention: true
  --q-lora-rank: 1536
  --kv-lora-rank: 512
  --num-experts: 256
  --moe-layer-freq: ([0]*3+[1]*58)
  --moe-ffn-hidden-size: 2048
  --moe-shared-expert-intermediate-size: 2048
  --moe-router-topk: 8
  --moe-token-dispatcher-type: flex
  --moe-flex-dispatcher-backend: deepep
  --recompute-granularity: selective
  --recompute-modules: [mla_up_proj, mlp]
  --mtp-num-layers: 1
  --overlap-moe-expert-parallel-comm: true
  --bf16: true
  --fp8-recipe: blockwise
  --fp8-format: e4m3
  --use-precision-aware-optimizer: true
  --main-grads-dtype: fp32
  --exp-avg-dtype: bf16
  --exp-avg-sq-dtype: bf16
"""
"""DeepSeek-V3 on 1,024 H100.

Facts: yanring/Megatron-MoE-ModelZoo, best_practice/deepseek-v3/run_deepseek_v3_h100.sh and its model's file.
"""


@pytest.fixture
def convert(tmp_path):
    def made(text, **environment):
        file = tmp_path / "deepseek.yaml"
        file.write_text(text)
        return convert_megatron([str(file)], gpus=1024, vocab=129280, environment=environment)

    return made


def test_deepseek_v3_of_a_collection_becomes_its_job(convert):
    """Each key as the collection's script and the defaults of Megatron-LM make it, by hand."""
    found = convert(DEEPSEEK_V3, TP="2", PP="8", EP="64")
    job, model = found.job.job, found.job.architecture
    assert (job.tensor, job.sequence_parallel, job.pipeline, job.context, job.data) == (2, True, 8, 1, 64)
    # 32 chunks: one layer behind the embedding, 30 pairs, and the prediction before the loss.
    assert (job.virtual_stages, job.split, job.schedule) == (4, "ends", "1f1b")
    assert (job.expert, job.expert_tensor, job.dispatcher) == (64, 1, "fused")
    assert (job.zero, job.micro_batch, job.micro_batches) == (1, 1, 128)
    assert (job.precision, job.gradient_bytes, job.moment_bytes) == ("fp8", 4, 2)
    assert (job.recompute, job.recompute_modules) == ("selective", ["mla_up_proj", "mlp"])
    overlap = job.overlap
    assert (overlap.gradients, overlap.parameters, overlap.experts, overlap.pipeline) == (True, True, True, True)
    assert not overlap.tensor
    assert (model.vocab, model.prediction_layers, model.tied) == (129280, 1, False)
    assert model.experts is not None and (model.experts.dense_layers, model.experts.top_k) == (3, 8)
    # 671 billion parameters without multi-token prediction.
    assert model.weights() == pytest.approx(671e9, rel=0.001)
    assert any("--finetune" in each for each in found.left_out[WITHOUT_EFFECT])
    assert any("--data-path" in each for each in found.left_out[WITHOUT_EFFECT])


def test_several_values_are_a_list_or_words(convert):
    given = {"TP": "2", "PP": "8", "EP": "64"}
    words = DEEPSEEK_V3.replace("[mla_up_proj, mlp]", "mla_up_proj mlp")
    assert convert(words, **given).job.job == convert(DEEPSEEK_V3, **given).job.job


@pytest.mark.parametrize("layers", ["\"'([0]*3+[1]*58)'\"", "'\"([0]*3+[1]*58)\"'"])
def test_quotes_for_the_shell_do_not_count(convert, layers):
    """As Kimi K2 of the collection has them."""
    given = {"TP": "2", "PP": "8", "EP": "64"}
    (line,) = (line for line in DEEPSEEK_V3.splitlines() if "--moe-layer-freq" in line)
    quoted = DEEPSEEK_V3.replace(line, f"{line.split(':')[0]}: {layers}")
    assert convert(quoted, **given).job == convert(DEEPSEEK_V3, **given).job


def test_a_variable_without_a_value_is_an_error_with_its_place(convert):
    with pytest.raises(SynclineError, match="the file does not set `TP`") as found:
        convert(DEEPSEEK_V3, PP="8", EP="64")
    first = found.value.diagnostics[0]
    assert first["key"] == "--tensor-model-parallel-size" and first["place"]["line"] == 4


def test_a_file_without_arguments_is_an_error_that_names_other_commands(convert):
    with pytest.raises(SynclineError, match="MODEL_ARGS") as found:
        convert("model:\n  hidden_size: 4096\n")
    assert "convert nemo" in str(found.value)
