"""Closed forms of papers for a training job, written out here anew: nothing of what estimates are made of is used.

Sources: Korthikanti et al. 2022 (activations, tensor and sequence parallelism), Narayanan et al. 2021 (pipelines),
Rajbhandari et al. 2020 (ZeRO), the DeepSeek-V2 and V3 reports (latent attention, experts), and Megatron Core for what a
rank holds and sends. Norms, biases and learned positions are left out, as estimates leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Sizes:
    """A model, by the letters of the papers."""

    h: int
    layers: int
    a: int
    kv: int
    f: int
    vocab: int
    gated: bool = True
    tied: bool = False
    dropout: bool = False
    d: int = 128
    """Elements of a head."""
    latent: tuple[int, int, int, int, int] | None = None
    """Ranks of queries and of keys; elements of a head without position, with it, and of values."""
    experts: int = 0
    k: int = 0
    fe: int = 0
    fs: int = 0
    """Width of shared experts."""
    dense: int = 0
    """First layers without experts."""
    window: tuple[int, int] | None = None
    predicted: int = 0
    """Layers for multi-token prediction."""

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of a job file."""
        made: dict[str, Any] = {
            "hidden": self.h,
            "layers": self.layers,
            "heads": self.a,
            "kv_heads": self.kv,
            "head_dim": self.d,
            "ffn": self.f,
            "vocab": self.vocab,
            "gated": self.gated,
            "tied": self.tied,
            "dropout": self.dropout,
            "prediction_layers": self.predicted,
        }
        if self.latent:
            names = ("query_rank", "kv_rank", "nope_dim", "rope_dim", "value_dim")
            made["latent"] = dict(zip(names, self.latent, strict=True))
        if self.experts:
            made["experts"] = {
                "count": self.experts,
                "top_k": self.k,
                "ffn": self.fe,
                "shared_ffn": self.fs,
                "dense_layers": self.dense,
            }
        if self.window:
            made["window"] = dict(zip(("tokens", "full_every"), self.window, strict=True))
        return made

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, from 0, has experts."""
        return self.experts > 0 and layer >= self.dense

    def attention(self, t: int = 1) -> float:
        """Parameters of attention on each of ``t`` ranks: the compressing matrices are on all of them."""
        if self.latent is None:
            return self.h * self.d * (2 * self.a + 2 * self.kv) / t
        q, r, nope, rope, value = self.latent
        up = q * self.a * (nope + rope) + r * self.a * (nope + value) + self.a * value * self.h
        return self.h * (q + r + rope) + up / t

    def block(self, f: int) -> int:
        """Parameters of a feed-forward block."""
        return (3 if self.gated else 2) * self.h * f

    def layer(self, layer: int, t: int = 1, e: int = 1, te: int = 1) -> tuple[float, float]:
        """Parameters of a layer on a rank, without those of experts, and those of experts."""
        if not self.has_experts(layer):
            return self.attention(t) + self.block(self.f) / t, 0.0
        shared = self.block(self.fs) / t
        return self.attention(t) + self.h * self.experts + shared, self.experts * self.block(self.fe) / (e * te)

    @property
    def parameters(self) -> float:
        """All of them, as models' cards count them."""
        layers = sum(sum(self.layer(each)) for each in range(self.layers))
        return layers + self.vocab * self.h * (1 if self.tied else 2)

    def flop(self, s: int) -> float:
        """Operations of a token: six for each weight that it meets, and for each element of the heads of each pair of a
        query and a key (Narayanan et al. 2021, appendix; there all pairs count, here those that the mask leaves).
        """
        total = 6.0 * self.vocab * self.h
        for layer in range(self.layers):
            weights, experts = self.layer(layer)
            seen = s / 2
            if self.window and (self.window[1] == 0 or (layer + 1) % self.window[1]) and self.window[0] < s:
                seen = self.window[0] * (1 - self.window[0] / (2 * s))
            heads = (self.latent[2] + self.latent[3] + self.latent[4]) if self.latent else 2 * self.d
            met = weights + (experts * self.k / self.experts if experts else 0)
            total += 6 * met + 6 * heads * self.a * seen
        return total


@dataclass(frozen=True)
class Mesh:
    """A job of a model, by the letters of Megatron's papers."""

    model: Sizes
    gpus: int
    s: int
    b: int
    batch: int
    t: int = 1
    sp: bool = True
    p: int = 1
    v: int = 1
    c: int = 1
    e: int = 1
    te: int = 1
    zero: int = 1
    recompute: Literal["none", "full"] = "none"
    fused: bool = True
    gradient: int = 4
    pad: int = 128
    method: Literal["ring", "all_gather", "ulysses"] = "ring"
    """How ranks of a sequence have each other's keys."""
    counts: tuple[int, ...] = ()
    """Layers of each stage, if they are not equal."""
    load: float = 1.0
    """Tokens of the fullest rank of experts over the mean."""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def d(self) -> int:
        """Data parallelism."""
        return self.gpus // (self.t * self.p * self.c)

    @property
    def m(self) -> int:
        """Micro-batches of a step."""
        return self.batch // (self.d * self.b)

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on a rank."""
        return self.s * self.b // self.c

    @property
    def divided(self) -> int:
        """Ranks that divide what is between products."""
        return self.t if self.sp else 1

    @property
    def rows(self) -> int:
        """Rows of a table of tokens on a rank, as Megatron pads them: a multiple of 128 (``pad``) on each."""
        rows = self.model.vocab
        while rows % (self.pad * self.t):
            rows += 1
        return rows // self.t

    @property
    def keys(self) -> dict[str, Any]:
        """The job file."""
        return {
            "model": self.model.keys,
            "cluster": {"accelerator": "H100", "gpus": self.gpus},
            "parallel": {
                "tensor": self.t,
                "sequence_parallel": self.sp and self.t > 1,
                "pipeline": self.p,
                "virtual_stages": self.v,
                "context": self.c,
                "expert": self.e,
                "expert_tensor": self.te,
                "zero": self.zero,
                "context_method": self.method,
                **({"chunk_layers": list(self.counts)} if self.counts else {}),
            },
            **({"expert_load": self.load} if self.load != 1 else {}),
            "batch": {"sequence": self.s, "micro_batch": self.b, "global_batch": self.batch},
            "gradients": "fp32" if self.gradient == 4 else "bf16",
            "attention": "fused" if self.fused else "unfused",
            "recompute": self.recompute,
            **({} if self.pad == 128 else {"vocab_multiple": self.pad}),
            "overlap": {},
            **self.more,
        }

    def layers(self, stage: int) -> list[int]:
        """The layers of a stage: of equal chunks, every ``p``-th is its own."""
        if self.counts:
            before = sum(self.counts[:stage])
            return list(range(before, before + self.counts[stage]))
        each = self.model.layers // (self.p * self.v)
        return [
            layer
            for chunk in range(self.v)
            for layer in range((chunk * self.p + stage) * each, (chunk * self.p + stage + 1) * each)
        ]

    def held(self, stage: int) -> tuple[float, float]:
        """Parameters of a rank, without those of experts, and those of experts."""
        model = self.model
        layers = [model.layer(each, self.t, self.e, self.te) for each in self.layers(stage)]
        dense, experts = sum(each[0] for each in layers), sum(each[1] for each in layers)
        table = self.rows * model.h
        dense += table if stage == 0 else 0
        dense += table if stage == self.p - 1 and not (model.tied and self.p == 1) else 0
        return dense, experts

    def states(self, stage: int) -> tuple[float, float, float]:
        """Bytes of weights, gradients and states: 2, 4 and 12 a parameter. ZeRO divides the last, the last two, or all
        among the ranks that have the same parameters.
        """
        dense, experts = self.held(stage)
        whole = dense + experts
        part = dense / (self.d * self.c) + experts / (self.d * self.c * self.t / (self.e * self.te))
        held = [part if self.zero >= stage else whole for stage in (1, 2, 3)]
        return 2 * held[2], self.gradient * held[1], 12 * held[0]

    def in_flight(self, stage: int) -> float:
        """Micro-batches that a stage keeps: one for each stage from it on, and with chunks
        ``(2 (p - 1 - stage) + (v - 1) p + 1) / v``."""
        if self.v == 1:
            return min(self.p - stage, self.m)
        return min(2 * (self.p - stage - 1) + (self.v - 1) * self.p + 1, self.m * self.v) / self.v

    def kept(self, layer: int) -> float:
        """Bytes of a micro-batch in a layer: Korthikanti et al., section 4.1, tensor by tensor."""
        model, n, t, s = self.model, self.tokens, self.t, self.divided
        if self.recompute == "full":
            return n * 2 * model.h / s
        # Inputs of both norms and of the products behind them; masks of dropout.
        token = 8 * model.h / s + (2 * model.h / s if model.dropout else 0)
        # Queries, keys and values; the output; logarithms of the sums, or scores, their mask, and what is left of them.
        if model.latent is None:
            token += 2 * model.d * (model.a / t + 2 * max(model.kv / t, 1)) + 2 * model.d * model.a / t
        else:
            q, r, nope, rope, value = model.latent
            token += 2 * (2 * q + 2 * r + rope) / s
            token += 2 * model.a * (2 * (nope + rope) + nope + value) / t + 2 * model.a * value / t
        token += model.a / t * (4 if self.fused else self.s * (5 if model.dropout else 2))
        if not model.has_experts(layer):
            return n * (token + (6 if model.gated else 4) * model.f / t)
        # Inputs in the order of experts, and what is between their products; the router's scores and weights. Megatron
        # Core multiplies activations by the router's weights, so that it keeps no outputs of experts.
        routed = self.load * model.k * self.te / t * (2 * model.h + 6 * model.fe / self.te)
        return n * (token + 6 * model.fs / t + routed + 8 * model.experts / t)

    def activations(self, stage: int) -> float:
        """Bytes that a stage keeps; the last one also input and output of the norm before the output layer."""
        layers = sum(self.kept(each) for each in self.layers(stage)) * self.in_flight(stage)
        ends = 4 * self.tokens * self.model.h / self.divided if stage == self.p - 1 else 0
        mask = self.tokens * self.model.h / self.divided * self.in_flight(stage)
        return layers + ends + (mask if stage == 0 and self.model.dropout else 0)

    def collectives(self, stage: int) -> dict[tuple[str, str], float]:
        """Bytes of a step by axis and collective, counted as NCCL counts them: the whole vector."""
        model, m, n = self.model, self.m, self.tokens
        found: dict[tuple[str, str], float] = {}

        def add(part: str, name: str, volume: float) -> None:
            if volume:
                found[part, name] = found.get((part, name), 0) + volume

        layers = self.layers(stage)
        again = 1 if self.recompute == "full" else 0
        passes = 2 + again
        if self.t > 1:
            # Around attention and around a block that all ranks divide; forward and backward.
            blocks = [1 if model.has_experts(each) and not model.fs else 2 for each in layers]
            pairs = sum(blocks) * passes
            ends = (stage == 0) + (stage == self.p - 1)
            if self.sp:
                for name in ("all-gather", "reduce-scatter"):
                    add("tensor", name, m * (pairs + ends) * 2 * n * model.h)
            else:
                add("tensor", "all-reduce", m * (pairs + ends) * 2 * n * model.h)
            if model.latent is None and model.kv < self.t:
                # Queries, keys and values of all ranks, and their gradients.
                heads = m * len(layers) * 2 * n * (model.a + 2 * model.kv) * model.d
                add("tensor", "all-gather", heads * (1 + again))
                add("tensor", "reduce-scatter", heads)
        if self.c > 1:
            heads = max(model.kv / self.t, 1) * 2 * model.d
            if model.latent:
                heads = model.a / self.t * (model.latent[2] + model.latent[3] + model.latent[4])
            every = m * len(layers)
            if self.method == "ring":
                # Keys and values of the whole sequence; backward, again, and their gradients.
                add("context", "ring exchange", every * 2 * n * self.c * heads * (1 + again + 2))
            elif self.method == "all_gather":
                # Before the forward and before the backward pass, and the sums of gradients after it (Llama 3, 3.3.2).
                add("context", "all-gather", every * 2 * n * self.c * heads * (1 + again + 1))
                add("context", "reduce-scatter", every * 2 * n * self.c * heads)
            else:
                # Queries, keys, values and outputs, 4 s h / N without groups (Jacobs et al. 2023, 3.2); gradients.
                queries = model.a / self.t * (sum(model.latent[2:]) if model.latent else 2 * model.d)
                add("context", "all-to-all", every * 2 * n * (queries + heads) * (1 + again + 1))
        routed = sum(model.has_experts(each) for each in layers)
        sent = self.load * 2 * n / self.t * model.k * model.h
        if self.e > 1:
            add("expert", "all-to-all", m * routed * 2 * passes * sent)
        if self.te > 1:
            for name in ("all-gather", "reduce-scatter"):
                add("expert", name, m * routed * passes * sent * self.te)
        if self.p > 1:
            # Each tensor-parallel rank sends its part; whole activations are gathered from the parts (SC21, 4.1).
            add("messages", "send", m * self.v * 2 * 2 * n * model.h / self.t)
            if self.t > 1 and not self.sp:
                add("messages", "all-gather", m * self.v * 2 * 2 * n * model.h)
        dense, experts = max((self.held(each) for each in range(self.p)), key=sum)
        copies, expert_copies = self.d * self.c, self.d * self.c * self.t // (self.e * self.te)
        volume = (dense if copies > 1 else 0) + (experts if expert_copies > 1 else 0)
        if self.zero == 0:
            add("exchange", "all-reduce", self.gradient * volume)
        elif self.zero < 3:
            add("exchange", "reduce-scatter", self.gradient * volume * (m if self.zero == 2 else 1))
            add("exchange", "all-gather", 2 * volume)
        else:
            add("exchange", "reduce-scatter", self.gradient * volume * m)
            add("exchange", "all-gather", 2 * 2 * volume * m)
        if model.tied and self.p > 1:
            add("exchange", "all-reduce", self.gradient * self.rows * model.h)
        return found

    def multiplied(self, stage: int) -> float:
        """Operations of products and attention of a rank in a step."""
        model, total = self.model, 0.0
        for layer in self.layers(stage):
            dense, experts = model.layer(layer, self.t, self.e, self.te)
            if model.latent:
                # With sequence parallelism, ranks divide the tokens that the compressing matrices take.
                q, r, _, rope, _ = model.latent
                dense -= model.h * (q + r + rope) * (1 - 1 / self.divided)
            if experts:
                dense -= model.h * model.experts
                experts = self.load * model.block(model.fe) * model.k / self.t
            total += (6 + (2 if self.recompute == "full" else 0)) * (dense + experts) * self.tokens
        if stage == self.p - 1:
            total += 6 * self.rows * model.h * self.tokens
        return total * self.m
