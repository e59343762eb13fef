"""A YAML file of NeMo, as people write them."""

from __future__ import annotations

LLAMA_70B = """\
defaults:
  - _self_
hydra:
  searchpath: ["file:///opt/NeMo/conf"]
run:
  name: llama3_70b
  results_dir: ${base_results_dir}/${.name}
trainer:
  num_nodes: 64
  devices: 8
  accelerator: gpu
  precision: bf16
  max_steps: 300000
  gradient_clip_val: 1.0
exp_manager:
  name: megatron_llama
model:
  mcore_gpt: true
  micro_batch_size: 1
  global_batch_size: 512
  rampup_batch_size: null
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 5
  context_parallel_size: 2
  encoder_seq_length: 8192
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 80
  hidden_size: 8192
  ffn_hidden_size: 28672
  num_attention_heads: 64
  num_query_groups: 8
  hidden_dropout: 0.0
  attention_dropout: 0.0
  normalization: rmsnorm
  make_vocab_size_divisible_by: 128
  bias: false
  activation: fast-swiglu
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  tokenizer:
    library: huggingface
    type: meta-llama/Meta-Llama-3-70B
  megatron_amp_O2: true
  cross_entropy_loss_fusion: true
  activations_checkpoint_granularity: null
  sequence_parallel: true
  transformer_engine: true
  fp8: false
  fp8_hybrid: false
  ub_tp_comm_overlap: true
  use_flash_attention: true
  overlap_p2p_comm: true
  batch_p2p_comm: false
  optim:
    name: mcore_distributed_optim
    lr: 0.00015
    grad_sync_dtype: bf16
    overlap_grad_sync: true
    overlap_param_sync: true
    sched: {name: CosineAnnealing, warmup_steps: 2000}
  data:
    seq_length: ${model.encoder_seq_length}
    data_prefix: [1.0, "${data_dir}/text_document"]
"""
