"""Keys of a ``config.json`` that architectures do not use: those without effect, and notes about all others.

A key is used if a reader asks for it (:class:`Used` records that), has no effect on work, sizes or exchanges
(:data:`NO_EFFECT`), or is named in a note. So none is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from syncline.input.problem import nearest

_SHOWN = 8
"""Most unknown keys that a note names."""
_LONGEST = 60
"""Letters of a key that are shown."""

_WITHOUT_EFFECT = {
    "Names, versions, types of the checkpoint, tokens": (
        "architectures auto_map dtype torch_dtype transformers_version tokenizer_class name_or_path vocab_file "
        "bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id bos_token "
        "image_token_id image_token_index boi_token_index eoi_token_index mm_tokens_per_image "
    ),
    "Values: initial weights, constants of norms, angles of rotation, scales, limits": (
        "initializer_range initializer_factor layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon "
        "rms_norm_eps max_position_embeddings original_max_position_embeddings initial_context_length n_ctx "
        "n_positions rope_theta rope_scaling rope_parameters rope_type rope_interleave rope_local_base_freq "
        "rotary_pct partial_rotary_factor rotary_dim attn_temperature_tuning floor_scale attn_scale "
        "query_pre_attn_scalar attention_multiplier scale_attn_weights scale_attn_by_inverse_layer_idx "
        "reorder_and_upcast_attn final_logit_softcapping clip_qkv swiglu_limit hidden_act "
        "hidden_activation activation_function no_rope_layers no_rope_layer_interval layernorm_full_attention_beta "
        "layernorm_linear_attention_beta layernorm_mlp_beta "
    ),
    "Vectors beside the matrices: biases and norms of queries and keys are less than a thousandth of the parameters": (
        "attention_bias attention_out_bias mlp_bias qkv_bias use_bias use_qk_norm qk_norm qk_norm_type qk_layernorm "
        "norm_type "
    ),
    "How experts are chosen, which moves as many tokens as any other choice": (
        "norm_topk_prob routed_scaling_factor scoring_func topk_method aux_loss_alpha seq_aux "
        "router_aux_loss_coef output_router_logits router_jitter_noise router_bias use_expert_bias "
        "moe_router_topk use_routing_bias shared_moe_mode "
    ),
    "What another program, inference, or how the model was made needs": (
        "pretraining_tp ep_size use_cache cache_implementation use_flash_attn attn_implementation "
        "gradient_checkpointing is_decoder is_encoder_decoder add_cross_attention tie_encoder_decoder "
        "cross_attention_hidden_size return_dict output_hidden_states output_attentions output_past torchscript "
        "use_bfloat16 tf_legacy_loss chunk_size_feed_forward finetuning_task id2label label2id num_labels "
        "problem_type task_specific_params prefix pruned_heads max_length min_length do_sample early_stopping "
        "num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
        "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
        "output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values "
        "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens summary_type summary_use_proj "
        "summary_activation summary_proj_to_labels summary_first_dropout "
    ),
    "Other names of `num_experts_per_tok` in files of GPT-OSS, and of `sliding_window` in files of Gemma 2": (
        "experts_per_token sliding_window_size "
    ),
    "What `num_mtp_modules` and `shared_intermediate_size` of MiniMax decide": "use_mtp mlp_intermediate_size",
}
"""Keys whose values change no estimate, by the reason."""
NO_EFFECT = frozenset(name for names in _WITHOUT_EFFECT.values() for name in names.split())
"""All of them."""

_DROPOUT = (
    *("attention_dropout", "attn_dropout", "hidden_dropout", "residual_dropout", "resid_pdrop", "embd_pdrop"),
    *("attn_pdrop", "dropout", "embedding_dropout"),
)


_PREDICTION = ("num_mtp_modules", "mtp_transformer_layers")
"""Layers for multi-token prediction of MiniMax, which its checkpoints lack."""


class Used(Mapping[str, Any]):
    """The keys and values of a file, which records the keys that were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.asked: set[str] = set()
        """The keys that were asked for, in the file or not."""

    def __getitem__(self, key: str) -> Any:
        """The value of a key."""
        self.asked.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        """The keys of the file; these do not count as asked for."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many keys the file has."""
        return len(self._values)


def notes(used: Used, whole: Mapping[str, Any], *, dropout: bool) -> Iterator[str]:
    """What a file says that an architecture leaves out, one sentence each.

    :param used: the keys of the language model.
    :param whole: the keys of the file, of which ``used`` may be a part.
    :param dropout: whether the architecture counts dropout.
    """
    parts = [name for name, value in whole.items() if name.endswith("_config") and isinstance(value, dict)]
    if left := [name for name in parts if name not in ("text_config", "quantization_config")]:
        yield f"Only the language model counts, without {', '.join(f'`{_cut(name)}`' for name in left)}"
    if "quantization_config" in (*used, *whole):
        yield "`quantization_config` describes the checkpoint: training computes in the precision that is asked for"
    if _positive(used.get("attn_logit_softcapping")):
        yield "Kernels that cap scores (`attn_logit_softcapping`) were not measured: attention counts without"
    used.asked |= set(_PREDICTION)
    if any(_positive(used.get(name)) for name in _PREDICTION):
        yield "Layers for multi-token prediction do not count"
    if dropout is not any(_positive(used.get(name)) for name in _DROPOUT):
        yield "Dropout counts, although its rates are 0" if dropout else "Dropout does not count"
    used.asked |= {"n_group", "topk_group"}
    unknown = [
        name
        for name in used
        if name not in used.asked
        and name not in NO_EFFECT
        and not name.startswith("_")
        and not name.endswith("_config")
        and used[name] not in (None, False, 0, [], {})
    ]
    if unknown:
        # `used[name]` above has recorded these, too.
        known = used.asked - set(unknown)
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        yield f"Unknown keys do not count: {', '.join(_named(name, known) for name in unknown[:_SHOWN])}{more}"


def _named(name: str, known: set[str]) -> str:
    near = nearest(name, sorted(known))
    return f"`{_cut(name)}`" + (f" (nearest: `{near}`)" if near is not None else "")


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
