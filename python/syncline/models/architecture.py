"""Architectures of decoders: sizes, kinds of attention, experts. Estimates take them.

Descriptions of keys are shown in the schema and the reference of job files.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from syncline.input.base import Strict, validation_error
from syncline.input.problem import nearest_divisor

LAYERS, WIDEST, LONGEST, EXPERTS = 1_000, 1 << 20, 1 << 24, 1 << 16
"""Most layers, elements of a token or heads, elements of an MLP or tokens of a vocabulary, and experts of a layer."""
PARAMETERS = 10**15
"""Most parameters of a model."""
Size = Annotated[int, Field(ge=1, le=WIDEST)]
Length = Annotated[int, Field(ge=1, le=LONGEST)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Latent(Strict):
    """Multi-head latent attention: ranks of its compressions, and dimensions of a head."""

    query_rank: Annotated[int, Field(ge=0, le=WIDEST)]
    """Rank to which queries are compressed; 0: they are not."""
    kv_rank: Size
    """Rank to which keys and values are compressed."""
    nope_dim: Size
    """Elements of a head of queries and keys without position."""
    rope_dim: Size
    """Elements of a head with position, which all heads of keys share."""
    value_dim: Size
    """Elements of a head of values."""


class Window(Strict):
    """Attention within a window of tokens."""

    tokens: Annotated[int, Field(ge=1, le=1 << 30)]
    """Earlier tokens that a token attends to at most."""
    full_every: Annotated[int, Field(ge=0, le=WIDEST)]
    """Every layer whose number is a multiple of this attends to all tokens; 0: none does."""


class ExpertSizes(Strict):
    """A mixture of experts."""

    count: Annotated[int, Field(ge=1, le=EXPERTS)]
    """Routed experts of a layer."""
    top_k: Annotated[int, Field(ge=1, le=EXPERTS)]
    """Routed experts that a token goes to."""
    ffn: Length
    """Width of a routed expert."""
    shared_ffn: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    """Width of all shared experts together, which every token uses; 0: none."""
    dense_layers: Annotated[int, Field(ge=0, le=LAYERS)] = 0
    """First layers, which have a dense MLP instead."""
    every: Size = 1
    """After those, each layer whose number from 1 is a multiple of this has experts; the others have a dense MLP."""
    groups: Annotated[int, Field(ge=1, le=EXPERTS)] = 1
    """Groups into which routed experts are divided, of which a token chooses `top_groups` before it chooses experts in
    these (Hugging Face's `n_group`)."""
    top_groups: Annotated[int, Field(ge=1, le=EXPERTS)] = 1
    """Groups that a token chooses (`topk_group`)."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.count % self.groups:
            raise validation_error(
                "the experts do not divide into groups",
                found=str(self.groups),
                allowed=f"a divisor of {self.count}",
                nearest=str(nearest_divisor(self.groups, self.count)),
                at=("groups",),
            )
        least = -(-self.top_k * self.groups // self.count)
        if not min(least, self.groups) <= self.top_groups <= self.groups:
            raise validation_error(
                f"{self.top_groups} of {self.groups} groups do not have the {self.top_k} experts of a token"
                if self.top_groups < least
                else "a token chooses more groups than there are",
                found=str(self.top_groups),
                allowed=f"{least} to {self.groups}",
                nearest=str(least if self.top_groups < least else self.groups),
                at=("top_groups",),
            )
        if self.top_k > self.count:
            raise validation_error(
                "a token goes to more experts than there are",
                found=str(self.top_k),
                allowed=f"at most {self.count}",
                nearest=str(self.count),
                at=("top_k",),
            )
        return self


class Experts(ExpertSizes):
    """A mixture of experts, as its source describes it."""

    shared: Annotated[int, Field(ge=0, le=EXPERTS)]
    """Experts that every token uses."""
    shared_ffn: Annotated[int, Field(ge=0, le=1 << 40)]
    dense_layers: Annotated[int, Field(ge=0, le=LAYERS)]
    every: Size


class Decoder(Strict):
    """The sizes of a decoder: what its time and memory depend on."""

    hidden: Size
    """Elements of a token between layers."""
    layers: Annotated[int, Field(ge=1, le=LAYERS)]
    """Layers, without those for multi-token prediction."""
    heads: Size
    """Heads of queries."""
    kv_heads: Size | None = None
    """Heads of keys and values. Without it, as many as `heads`."""
    head_dim: Size | None = None
    """Dimension of a head of queries and keys. Without it, `hidden` divided by `heads`."""
    ffn: Length
    """Width of the dense MLP."""
    gated: bool = False
    """Whether the MLP multiplies by a gate, as SwiGLU does: three matrices in place of two."""
    vocab: Length
    """Size of the vocabulary, in tokens."""
    tied: bool = False
    """Whether the output layer uses the table of the embedding."""
    positions: Literal["learned", "rope", "alibi"] = "rope"
    """How a token knows its position: a learned table, rotations of queries and keys, or a bias of scores."""
    rope_scaling: Literal["none", "yarn"] = "none"
    """How rotations stretch to longer sequences, where `positions` is `rope`: by YaRN, which also scales queries and
    keys (`rope_scaling` of Hugging Face, `--position-embedding-type yarn` of Megatron-LM). All other kinds change
    angles alone, which takes no time: `none`."""
    dropout: bool | None = None
    """Whether dropout follows attention and MLP. Without it, no dropout."""
    latent: Latent | None = None
    """Multi-head latent attention, if the model has it."""
    window: Window | None = None
    """The window of attention, if it has one."""
    experts: ExpertSizes | None = None
    """Experts in place of the dense MLP, if it has them."""
    prediction_layers: Annotated[int, Field(ge=0, le=LAYERS)] = 0
    """Layers for multi-token prediction, beside `layers`."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.head_dim is None and self.latent is None and self.hidden % self.heads:
            raise validation_error(
                "hidden is not divisible by heads, and head_dim is not given",
                found=str(self.heads),
                allowed=f"a divisor of {self.hidden}",
                nearest=str(nearest_divisor(self.heads, self.hidden)),
                at=("heads",),
            )
        if self.heads % self.keys_and_values:
            raise validation_error(
                "heads is not divisible by kv_heads",
                found=str(self.keys_and_values),
                allowed=f"a divisor of {self.heads}",
                nearest=str(nearest_divisor(self.keys_and_values, self.heads)),
                at=("kv_heads",),
            )
        if self.rope_scaling != "none" and self.positions != "rope":
            raise validation_error(
                "only rotations stretch to longer sequences",
                found=self.rope_scaling,
                allowed="none",
                help=f"leave out `rope_scaling`, or `positions: {self.positions}`",
                at=("rope_scaling",),
            )
        if self.latent is not None and self.window is not None:
            raise validation_error("latent attention has no window here", help="leave out `window`", at=("window",))
        if (parameters := self.weights()) > PARAMETERS:
            raise validation_error(
                "too many parameters", found=f"{parameters:.3g}", allowed=f"at most {PARAMETERS:.0e}"
            )
        return self

    @property
    def drops(self) -> bool:
        """Whether dropout follows attention and MLP."""
        return bool(self.dropout)

    @property
    def biased_experts(self) -> bool:
        """Whether experts have biases, and limits to the inputs of their activations, as those of GPT-OSS."""
        return False

    @property
    def keys_and_values(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def dimension(self) -> int:
        """Dimension of a head of queries and keys."""
        return self.head_dim or self.hidden // self.heads

    def with_experts(self, layers: int | None = None) -> int:
        """How many of the first ``layers`` layers have experts; by default, of all."""
        if self.experts is None:
            return 0
        every = self.experts.every
        return max(0, (layers or self.layers) // every - self.experts.dense_layers // every)

    def weights(self, layers: int | None = None) -> int:
        """Parameters of ``layers`` layers, embedding and head, without layers for multi-token prediction.

        Learned positions are counted for 2,048 tokens. Biases and norms are left out.
        """
        return self._weights(layers, active=False) + self._vocabulary(2 - self.tied) + self._positions()

    def multiplied(self, layers: int | None = None) -> int:
        """Weights with which each token is multiplied: those of its experts, and the head, but no embedding."""
        return self._weights(layers, active=True) + self._vocabulary(1)

    def _vocabulary(self, times: int) -> int:
        return times * self.vocab * self.hidden

    def _positions(self) -> int:
        return 2048 * self.hidden if self.positions == "learned" else 0

    def _weights(self, layers: int | None, *, active: bool) -> int:
        layers = layers or self.layers
        matrices = 3 if self.gated else 2
        dense = matrices * self.hidden * self.ffn
        found = layers * self._attention()
        if self.experts is None:
            return found + layers * dense
        mixed = self.with_experts(layers)
        routed = self.experts.top_k if active else self.experts.count
        expert = matrices * self.hidden * (routed * self.experts.ffn + self.experts.shared_ffn)
        return found + mixed * (expert + self.hidden * self.experts.count) + (layers - mixed) * dense

    def _attention(self) -> int:
        if self.latent is None:
            return self.hidden * self.dimension * (2 * self.heads + 2 * self.keys_and_values)
        at = self.latent
        head = at.nope_dim + at.rope_dim
        queries = (
            (self.hidden + self.heads * head) * at.query_rank if at.query_rank else self.hidden * self.heads * head
        )
        compressed = self.hidden * (at.kv_rank + at.rope_dim)
        expanded = at.kv_rank * self.heads * (at.nope_dim + at.value_dim)
        return queries + compressed + expanded + self.heads * at.value_dim * self.hidden


class Architecture(Decoder):
    """The architecture of a decoder, as its source describes it."""

    family: Text
    norm: Literal["layernorm", "rmsnorm"]
    positions: Literal["learned", "rope", "alibi"]
    biases: Literal["none", "all", "attention", "attention_input"] = "none"
    attention: Literal["full", "sliding", "chunked", "latent"] = "full"
    experts: Experts | None = None
    parameters: Annotated[float, Field(gt=0)] | None = None
    """Number of parameters that the source publishes."""
    longest: Annotated[int, Field(ge=1, le=1 << 30)] | None = None
    """Tokens of the longest sequence that the source names."""
    source: Text
    """Where these numbers come from; the name of a model that a search was given."""
    note: Text | None = None

    @model_validator(mode="after")
    def _latent(self) -> Self:
        if (self.attention == "latent") != (self.latent is not None):
            raise validation_error("latent attention needs `latent`, and nothing else has it", at=("attention",))
        return self

    @property
    def biased_experts(self) -> bool:
        """Whether experts have biases, and limits to the inputs of their activations, as those of GPT-OSS."""
        return self.experts is not None and self.biases == "all"

    @property
    def drops(self) -> bool:
        """Whether dropout follows attention and MLP: by default, in the family ``gpt``."""
        return self.family == "gpt" if self.dropout is None else self.dropout
