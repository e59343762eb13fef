"""Decoder-only transformers (GPT: Radford et al. 2018), divided as in Megatron-LM.

Tokens become vectors (``embedding``, and ``positions`` if these are trained). ``layers`` blocks follow, then a last
norm, the projection to the vocabulary, and the loss's softmax. A block is attention and an MLP, each of which
normalises its input and adds its result to the input (norm first: Radford et al. 2019, 2.3). Parameters with hidden
size *d*, feed-forward size *f*, *n* blocks, vocabulary *V*, *P* trained positions, layer norms and all biases::

    V d + P d + n (4 d^2 + 4 d + 2 d f + f + d + 4 d) + 2 d        12 n d^2 and little more, for f = 4 d

Variants, each with its own parameter: fewer heads of keys and values than of queries (Ainslie et al. 2023), heads of
another size than hidden / heads, a gated MLP with three matrices (Shazeer 2020), RMS norms (Zhang and Sennrich
2019), rotary position embeddings (RoPE, Su et al. 2021), attention and MLP in parallel (Wang and Komatsuzaki 2021,
GPT-J), norms after both instead of before (OLMo 2) or in addition (four in a block), norms of embeddings (BLOOM),
norms of queries and keys, no biases, an output projection that does not share the embedding's table.

**Division** (Shoeybi et al. 2019, section 3) is as for the encoder in :mod:`~.transformer`: queries, keys and values by
heads (*column*), the projection after them by *row*; the MLP likewise. A block has two all-reduces forward and
two backward. If attention and MLP are in parallel, their sums are exchanged together: one all-reduce each way.
Every rank computes norms, sums and trained positions whole. The bias of a row layer, which Megatron-LM keeps whole, is
divided with its matrix.

**Attention** is fused by default (Dao et al. 2022, FlashAttention), and skips the scores that the causal mask hides.
The backward pass recomputes scores, so that their two products cost 2.5 times the forward pass. Unfused attention
computes and keeps all scores. A window of attention is ignored.

**Memory.** A layer keeps what its backward pass reads, as Korthikanti et al. 2022, 4.1 count: inputs of norms, products
and activations, queries, keys and values, a byte for each element that may be dropped; logits in fp32. With layer
norms, dropout, 16-bit elements, hidden size *h* and *a* heads, a block keeps ``s b h (34 + 4 a / h)`` bytes of *b*
samples of *s* tokens; unfused attention also the softmax's results before and after dropout: ``s b h (34 + 5 a s /
h)`` in all.

**Counts.** ``multiply_adds`` counts the scores that the mask does not hide; together with ``masked`` it counts all
scores, as in Narayanan et al. 2021, section 3. Nothing but attention is fused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from syncline.models import calculus
from syncline.models.errors import ModelError
from syncline.models.info import model
from syncline.models.layer import Kept, Layer
from syncline.models.optimizer import OPTIMIZERS
from syncline.models.parameters import COMMON, Parameter, boolean, choice, integer
from syncline.models.types import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.models.calculus import Op
    from syncline.models.info import ModelInfo
    from syncline.models.layer import Sharding

_ATTENTION = ("fused", "fused_full", "unfused")
"""Ways to compute attention."""

_ACTIVATIONS = {
    "gelu": calculus.gelu,
    "silu": calculus.silu,
    "relu": calculus.relu,
    "squared_relu": calculus.squared_relu,
}


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A decoder; each field is the parameter with the same name (:func:`parameters`)."""

    batch_per_npu: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    gated: bool
    activation: str
    block: str
    norm: str
    norms: int
    norm_at: str
    norm_parameters: bool
    norm_bias: bool
    qk_norm: str
    embedding_norm: bool
    positions: int
    rotary: bool
    sequence: int
    attention: str
    vocabulary: int
    attention_bias: bool
    output_bias: bool
    mlp_bias: bool
    projection_bias: bool
    tied_embeddings: bool
    dropout: bool

    def check(self) -> None:
        """Raises :class:`~.errors.ModelError` for the first parameters that contradict each other."""
        if not self.head_size and self.hidden % self.heads:
            raise ModelError("heads", self.heads, f"a divisor of hidden, which is {self.hidden}, or give head_size")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ModelError("kv_heads", self.kv_heads, f"a divisor of heads, which is {self.heads}")
        if self.positions and self.sequence > self.positions:
            allowed = f"at most positions, which is {self.positions}: later ones have no trained vector"
            raise ModelError("sequence", self.sequence, allowed)
        side_by_side = self.block == "parallel"
        few, many = (1, 2) if side_by_side else (2, 4)
        if self.norms not in (few, many):
            raise ModelError("norms", self.norms, f"{few} or {many} if block is {self.block}")
        if self.norm_at == "after" and (side_by_side or self.norms == many):
            allowed = "before, if a block is parallel or has norms on both sides"
            raise ModelError("norm_at", self.norm_at, allowed)

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch_per_npu * self.sequence

    @property
    def width(self) -> int:
        """Elements of the queries of a token: those of all heads."""
        return self.heads * (self.head_size or self.hidden // self.heads)

    @property
    def kv_width(self) -> int:
        """Elements of the keys of a token, and of its values."""
        return self.width // self.heads * (self.kv_heads or self.heads)

    def built(self) -> list[Layer]:
        """Builds the layers ``embedding``, ``block1.norm1`` to ``block1.sum``, ..., ``norm``, ``projection``, ``loss``.

        ``projection_bias`` follows a projection that has a bias and shares the table of the embedding.
        """
        self.check()
        values = self.tokens * self.hidden
        embedding = calculus.embedding(self.tokens, self.vocabulary, self.hidden)
        tokens, entries = self.sequence, self.vocabulary
        first = [
            Layer("embedding", (embedding,), "row", reads_data=True, vocabulary=entries, tokens=tokens, kept=Kept())
        ]
        if self.embedding_norm:
            first.append(Layer("embedding_norm", (self._norm(),), "replicated", kept=Kept(values)))
        if self.positions:
            add = calculus.positions(self.batch_per_npu, self.sequence, self.hidden, self.positions)
            first.append(Layer("positions", (add,), "replicated", kept=Kept()))
        if self.dropout:
            first.append(Layer("dropout", (calculus.dropout(values),), "replicated", kept=Kept(masks=values)))
        shares = first[0].name if self.tied_embeddings else None
        project = calculus.linear(self.tokens, self.hidden, self.vocabulary, bias=self.projection_bias)
        last = []
        if self.tied_embeddings and self.projection_bias:
            # The two share only their table: the projection has its own bias.
            bias = calculus.bias(self.tokens, self.vocabulary)
            last.append(Layer("projection_bias", (bias,), "divided", vocabulary=entries, kept=Kept()))
        loss = calculus.softmax(self.tokens, self.vocabulary)
        # Blocks differ only in their names, so their operations are made once.
        block = self._block()
        return [
            *first,
            *(
                Layer(
                    f"block{index}.{part.name}",
                    part.ops,
                    part.sharding,
                    block=index,
                    heads=part.heads,
                    selective=part.selective,
                    kept=part.kept,
                    kept_selective=part.kept_selective,
                )
                for index in range(1, self.layers + 1)
                for part in block
            ),
            Layer("norm", (self._norm(),), "replicated", kept=Kept(values)),
            Layer(
                "projection",
                (project,),
                "column",
                precise=True,
                borrowed=self.tied_embeddings,
                shares=shares,
                vocabulary=entries,
                kept=Kept(values),
            ),
            *last,
            Layer("loss", (loss,), "divided", vocabulary=entries, kept=Kept(wide=self.tokens * entries)),
        ]

    def _norm(self) -> Op:
        return self._normalise(self.tokens, self.hidden)

    def _normalise(self, rows: int, width: int) -> Op:
        """Norms of ``rows`` vectors of ``width`` elements."""
        if self.norm == "rms":
            return calculus.rms_norm(rows, width, affine=self.norm_parameters)
        return calculus.layer_norm(rows, width, affine=self.norm_parameters, bias=self.norm_bias)

    def _sum(self) -> tuple[Op, ...]:
        """Operations after a result: norm and dropout if there are any, then the residual sum."""
        values = self.tokens * self.hidden
        dropped = (calculus.dropout(values),) if self.dropout else ()
        after = (self._norm(),) if self._normalises_results else ()
        return (*after, *dropped, calculus.residual(values))

    @property
    def _normalises_results(self) -> bool:
        """Whether the results of attention and MLP are normalised."""
        return self.norms == 4 or self.norm_at == "after"

    def _block(self) -> list[_Part]:
        """Builds the layers of a block."""
        tokens, inner = self.tokens, self.feed_forward or 4 * self.hidden
        parallel = self.block == "parallel"
        activate = _ACTIVATIONS[self.activation](tokens * inner)
        up = calculus.linear(tokens, self.hidden, inner * (1 + self.gated), bias=self.mlp_bias)
        down = calculus.linear(tokens, inner, self.hidden, bias=self.mlp_bias)
        output = calculus.linear(tokens, self.width, self.hidden, bias=self.output_bias)
        norm, last = self._norm(), self._sum()
        values = tokens * self.hidden
        beside = (*last, calculus.residual(values))
        # The input of a norm after a result, and the mask of dropped elements.
        left = Kept(values if self._normalises_results else 0, masks=values if self.dropout else 0)
        norms = self.norms if parallel else 1
        before = self.norm_at == "before"
        between = _Part("norm2", (*last, norm), "replicated", kept=_with(left, values))
        return [
            # Two norms in parallel share their input.
            *([_Part("norm1", (norm,) * norms, "replicated", kept=Kept(values))] if before else []),
            *self._attention(norms),
            # In parallel, the results of both are summed before they are exchanged, and so are the gradients.
            _Part("output", (output,), "divided" if parallel else "row", kept=Kept(tokens * self.width)),
            *([] if parallel else [between if before else _Part("sum1", last, "replicated", kept=left)]),
            _Part(
                "mlp1",
                (up,),
                "divided" if parallel else "column",
                # In parallel, its input is kept with that of attention, which every rank has whole.
                kept=Kept() if parallel else Kept(values),
            ),
            _Part(
                "activation",
                (calculus.gated(activate) if self.gated else activate,),
                "divided",
                kept=Kept(tokens * inner * (1 + self.gated)),
            ),
            _Part("mlp2", (down,), "row", kept=Kept(tokens * inner)),
            _Part("sum", beside if parallel else last, "replicated", kept=left),
        ]

    def _attention(self, inputs: int) -> list[_Part]:
        """Layers from a block's normalised values to the results of its heads; ``inputs`` such values are kept."""
        batch, sequence, tokens, heads = self.batch_per_npu, self.sequence, self.tokens, self.heads
        width, kv_heads = self.width, self.kv_heads or self.heads
        before: list[Op] = []
        if self.qk_norm == "head":
            before += [self._normalise(tokens * each, width // heads) for each in (heads, kv_heads)]
        elif self.qk_norm == "all":
            before += [self._normalise(tokens, each) for each in (width, self.kv_width)]
        if self.rotary:
            before.append(calculus.rotary(tokens, width + self.kv_width))
        project = calculus.linear(tokens, self.hidden, width + 2 * self.kv_width, bias=self.attention_bias)
        first = _Part("qkv", (project,), "column", kv_heads, kept=Kept(tokens * self.hidden * inputs))
        # Queries and keys, before their norms too.
        turned = tokens * (width + self.kv_width) * (2 if self.qk_norm != "none" else 1)
        if self.attention != "unfused":
            of = calculus.Heads(batch=batch, sequence=sequence, width=width, heads=heads, kv_heads=kv_heads)
            fused = calculus.attention(of, causal=True, skips=self.attention == "fused")
            # Queries, keys and values, and the sums of the rows of scores. The result is kept as the input of the next
            # layer.
            kept = Kept(turned + tokens * self.kv_width, wide=tokens * heads)
            return [first, _Part("attention", (*before, fused), "divided", kv_heads, kept=kept)]
        scores, context = (
            calculus.causal(product(batch, sequence, width, heads, kv_heads=kv_heads), sequence)
            for product in (calculus.scores, calculus.context)
        )
        weights = (calculus.softmax(tokens * heads, sequence),)
        dropped = (calculus.dropout(tokens * heads * sequence),) if self.dropout else ()
        # The softmax's results, the mask of dropped elements, and the results after dropout.
        each = tokens * heads * sequence
        return [
            first,
            _Part(
                "scores",
                (*before, scores),
                "divided",
                kv_heads,
                selective=True,
                kept=Kept(turned),
                kept_selective=Kept(turned),
            ),
            _Part(
                "softmax",
                (*weights, *dropped),
                "divided",
                heads,
                selective=True,
                kept=Kept(2 * each, masks=each) if self.dropout else Kept(each),
                kept_selective=Kept(),
            ),
            _Part(
                "context",
                (context,),
                "divided",
                kv_heads,
                selective=True,
                kept=Kept(tokens * self.kv_width),
                kept_selective=Kept(tokens * self.kv_width),
            ),
        ]


class _Part(NamedTuple):
    """A layer of a block."""

    name: str
    ops: tuple[Op, ...]
    sharding: Sharding
    heads: int | None = None
    selective: bool = False
    kept: Kept = Kept()
    kept_selective: Kept | None = None


def _with(kept: Kept, values: int) -> Kept:
    """``kept`` with ``values`` more elements."""
    return replace(kept, elements=kept.elements + values)


def layers(**sizes: Any) -> list[Layer]:
    """Builds the layers of a decoder with these parameters."""
    return Decoder(**sizes).built()


def parameters(**defaults: Any) -> Mapping[str, Parameter]:
    """The parameters of a decoder; ``defaults`` replace GPT-2's defaults."""
    widest, longest = 1 << 20, 1 << 24
    known = {
        "batch_per_npu": integer(
            1, "samples that a copy of the model works on in one iteration, or in one of its micro-batches", 1, 1 << 20
        ),
        "precision": choice("bf16", COMMON["precision"].meaning, *PRECISIONS),
        "optimizer": choice("adam", COMMON["optimizer"].meaning, *OPTIMIZERS),
        "layers": integer(12, "blocks", 1, 10_000),
        "hidden": integer(768, "hidden size: elements of a token's vector", 1, widest),
        "heads": integer(12, "attention heads; a divisor of hidden if head_size is 0", 1, widest),
        "kv_heads": integer(
            0, "key-value heads (grouped-query attention), a divisor of heads; 0: equal to heads", 0, widest
        ),
        "head_size": integer(0, "elements of a head; 0: hidden / heads", 0, widest),
        "feed_forward": integer(0, "width of the hidden layer of a block's MLP; 0: 4 hidden", 0, longest),
        "gated": boolean("whether the MLP is gated (GLU), with three matrices", default=False),
        "activation": choice("gelu", "activation function of the MLP", *_ACTIVATIONS),
        "block": choice("sequential", "MLP after attention, or in parallel to it", "sequential", "parallel"),
        "norm": choice("layer", "layer norms, or RMS norms", "layer", "rms"),
        "norms": integer(2, "norms of a block: 2 or 4 in a sequential one, 1 or 2 in a parallel one", 1, 4),
        "norm_at": choice(
            "before",
            "where a sequential block's two norms are: before attention and MLP, or after",
            "before",
            "after",
        ),
        "norm_parameters": boolean("whether norms are trained", default=True),
        "norm_bias": boolean("whether layer norms have a bias; RMS norms have none", default=True),
        "qk_norm": choice(
            "none",
            "norms of queries and keys: one for each head, with shared weights, or one over all heads",
            "none",
            "head",
            "all",
        ),
        "embedding_norm": boolean("whether embeddings are normalised", default=False),
        "positions": integer(1024, "learned position embeddings; 0: none", 0, longest),
        "rotary": boolean("whether queries and keys have rotary position embeddings (RoPE)", default=False),
        "sequence": integer(1024, "tokens of a sample", 1, widest),
        "attention": choice(
            "fused",
            "`fused`: like FlashAttention, without scores that the causal mask hides; `fused_full`: the same with all "
            "scores; `unfused`: scores, softmax and context as separate layers, with all scores computed and kept",
            *_ATTENTION,
        ),
        "vocabulary": integer(50_257, "tokens in the vocabulary", 1, longest),
        "attention_bias": boolean("whether the projections to queries, keys and values have a bias", default=True),
        "output_bias": boolean("whether the projection after the heads has a bias", default=True),
        "mlp_bias": boolean("whether the MLP has biases", default=True),
        "projection_bias": boolean("whether the projection to the vocabulary has a bias", default=False),
        "tied_embeddings": boolean("whether input embedding and output projection share their weights", default=True),
        "dropout": boolean("whether there is dropout", default=True),
    }
    return {key: parameter._replace(default=defaults.get(key, parameter.default)) for key, parameter in known.items()}


def preset(description: str, source: str, *, notes: tuple[str, ...] = (), **defaults: Any) -> ModelInfo:
    """Describes a decoder with certain default sizes."""
    return replace(model(description, source, layers, parameters(**defaults)), notes=notes)


INFO = preset("Decoder of any size; by default, GPT-2 with 124.4 M parameters", "Radford et al. 2019, 2.3 and Table 2")
TURING = preset(
    "Transformer-17B of hier2021: Turing-NLG, 17.2 G parameters",
    "Rosset 2020 (Turing-NLG): 78 layers, hidden 4256, 28 heads, 1024 tokens; hier2021 Table IV",
    layers=78,
    hidden=4256,
    heads=28,
)
GPT3 = preset(
    "GPT-3, 174.6 G parameters",
    "Brown et al. 2020, Table 2.1; hier2021 Table IV",
    layers=96,
    hidden=12_288,
    heads=96,
    positions=2048,
    sequence=2048,
)
TRILLION = preset(
    "Transformer-1T of hier2021, 1.016 T parameters",
    "hier2021 Table IV, which gives 1,024 G parameters and 128 tensor-parallel ranks; hidden size of the layer file "
    "published with LIBRA; layers and heads that fit both",
    layers=140,
    hidden=24_576,
    heads=128,
    positions=2048,
    sequence=2048,
)
