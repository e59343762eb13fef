"""Scripts that start a training, as people write them."""

from __future__ import annotations

LLAMA_70B = r"""#!/bin/bash
#SBATCH --nodes=64
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8

export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-"1"}
TP=${TP:-4}
PP=4
SEQ_LENGTH=8192
CHECKPOINT_PATH=$1
DTYPE="bf16"

MODEL_ARGS=(
    --use-mcore-models
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention
    --num-query-groups 8
    --seq-length $SEQ_LENGTH
    --max-position-embeddings $SEQ_LENGTH
    --position-embedding-type rope
    --rotary-base 500000
    --swiglu
    --normalization RMSNorm
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --tokenizer-type HuggingFaceTokenizer
    --tokenizer-model meta-llama/Meta-Llama-3-70B
)
PARALLEL_ARGS="--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size $PP \
    --num-layers-per-virtual-pipeline-stage $((80 / PP / 5)) \
    --context-parallel-size 2 --sequence-parallel"
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $(( NNODES * GPUS_PER_NODE ))
    --bf16
    --lr 1.5e-4
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
    --tp-comm-overlap
)
if [[ "$DTYPE" == "fp8" ]]; then
    TRAINING_ARGS+=("--fp8-format hybrid")
fi
if [ -n "${WANDB_API_KEY}" ]; then
    LOGGING_ARGS+=(--wandb-project llama)
fi
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} $PARALLEL_ARGS "${TRAINING_ARGS[@]}" ${LOGGING_ARGS[@]} --save "$CHECKPOINT_PATH"
"""
"""Llama 3 70B on 64 servers of Slurm."""

MIXTRAL = r"""
options=" \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm --disable-bias-linear \
    --position-embedding-type rope --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 \
    --num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 \
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall \
    --tokenizer-type Llama2Tokenizer --tokenizer-model /models/tokenizer.model \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 \
    --expert-tensor-parallel-size 1 --sequence-parallel --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather --seq-length 4096 --max-position-embeddings 4096 \
    --micro-batch-size 1 --global-batch-size 256 --bf16 --grad-reduce-in-bf16 --recompute-activations"
run_cmd="python -u /opt/megatron/pretrain_gpt.py ${options}"
srun --nodes=16 --ntasks-per-node=8 sh -c "${run_cmd}"
"""
"""Mixtral 8x7B with experts, in the style of Slurm scripts that give a line to a shell."""
