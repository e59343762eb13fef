"""Matrix products of transformer layers, and of a grid of other shapes.

A result of ``m`` rows and ``n`` columns is a sum over ``k``. The three layouts are those of a linear layer
``y = x w^T`` whose weights have a row for each output:

========  =======================  ======================  ====================================
layout    left operand             right operand           pass of the layer
========  =======================  ======================  ====================================
``nt``    ``[m, k]``               ``[n, k]``, transposed  forward; m tokens, n outputs
``nn``    ``[m, k]``               ``[k, n]``              gradient of the input; n inputs
``tn``    ``[k, m]``, transposed   ``[k, n]``              gradient of the weights; k tokens
========  =======================  ======================  ====================================
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from syncline.kernels.cases import Case, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

MAX_FLOP = 1.2e13
"""Larger products are not measured: the rate of the largest no longer depends on their size."""


@dataclass(frozen=True)
class Width:
    """The sizes of a transformer layer that matter for matrix products."""

    hidden: int
    ffn: int
    kv: int
    """Outputs of the projection of keys, and of that of values."""
    gated: bool
    """The feed-forward part has two projections up."""
    vocabulary: int

    def linears(self, split: int) -> Iterator[tuple[int, int]]:
        """Outputs and inputs of each linear layer, divided among ``split`` tensor-parallel ranks."""
        yield (self.hidden + 2 * self.kv) // split, self.hidden
        yield self.hidden, self.hidden // split
        yield (2 if self.gated else 1) * self.ffn // split, self.hidden
        yield self.hidden, self.ffn // split
        yield self.vocabulary // split, self.hidden


WIDTHS = (
    # GPT-2 medium and XL (its vocabulary as it is, not padded).
    Width(1024, 4096, 1024, gated=False, vocabulary=50304),
    Width(1600, 6400, 1600, gated=False, vocabulary=50257),
    # Llama 3.2 1B, Llama 3 8B, Llama 2 13B, Llama 3 70B and 405B.
    Width(2048, 8192, 512, gated=True, vocabulary=128256),
    Width(4096, 14336, 1024, gated=True, vocabulary=128256),
    Width(5120, 13824, 5120, gated=True, vocabulary=32000),
    Width(8192, 28672, 1024, gated=True, vocabulary=128256),
    Width(16384, 53248, 1024, gated=True, vocabulary=128256),
    # Qwen2 7B, GPT-NeoX 20B, GPT-3 175B, Nemotron-4 340B.
    Width(3584, 18944, 512, gated=True, vocabulary=152064),
    Width(6144, 24576, 6144, gated=False, vocabulary=50432),
    Width(12288, 49152, 12288, gated=False, vocabulary=51200),
    Width(18432, 73728, 1536, gated=False, vocabulary=256000),
)
LATENT = ((1536, 7168), (24576, 1536), (576, 7168), (32768, 512), (7168, 16384), (36864, 7168), (7168, 18432))
"""Outputs and inputs of DeepSeek-V3's latent attention and dense feed-forward part."""

_COARSE_WIDTHS = (2048, 4096, 8192)
_MIDDLE_WIDTHS = (1024, 4096, 5120, 8192, 12288)


def cases(*, quick: bool) -> list[Case]:
    """All matrix products."""
    if quick:
        few = [_case(0, layout, 32, 48, 64, "bf16") for layout in ("nt", "nn", "tn")]
        return [*few, _case(0, "nt", 32, 48, 64, "fp32"), _case(1, "nt", 32, 48, 64, "fp8_e4m3", "tensor_scaled")]
    return [case for case in [*_layers(), *_grid(), *_random(), *_other_types()] if _allowed(case)]


def _case(level: int, layout: str, m: int, n: int, k: int, kind: str, variant: str | None = None) -> Case:
    size, out = {"fp8_e4m3": (1, 2), "fp32": (4, 4), "tf32": (4, 4)}.get(kind, (2, 2))
    known = row(
        "gemm",
        pass_="forward" if layout == "nt" else "backward",
        variant=variant,
        data_type=kind,
        layout=layout,
        m=m,
        n=n,
        k=k,
        bytes=size * (m * k + k * n) + out * m * n,
        flop=2 * m * n * k,
    )
    return Case(level, known)


def _allowed(case: Case) -> bool:
    flop, size = case.row["flop"], case.row["bytes"]
    limit = MAX_FLOP / (8 if case.row["data_type"] in ("fp32", "tf32") else 1)
    return isinstance(flop, int) and isinstance(size, int) and flop <= limit and size <= 8e9


def _of_linear(level: int, tokens: int, out: int, into: int) -> Iterator[Case]:
    yield _case(level, "nt", tokens, out, into, "bf16")
    yield _case(level, "nn", tokens, into, out, "bf16")
    yield _case(level, "tn", out, into, tokens, "bf16")


def _layers() -> Iterator[Case]:
    for width, split, tokens in product(WIDTHS, (1, 2, 4, 8), (512, 1024, 2048, 4096, 8192, 16384, 32768)):
        if width.hidden in _COARSE_WIDTHS and split in (1, 8) and tokens in (2048, 8192):
            level = 0
        elif width.hidden in _MIDDLE_WIDTHS and split in (1, 4) and tokens in (1024, 4096, 16384):
            level = 1
        else:
            level = 2
        for out, into in width.linears(split):
            yield from _of_linear(level, tokens, out, into)
    for (out, into), tokens in product(LATENT, (1024, 4096, 16384)):
        yield from _of_linear(1 if tokens == 4096 else 2, tokens, out, into)


def _grid() -> Iterator[Case]:
    layouts = ("nt", "nn", "tn")
    sizes: tuple[int, ...] = (512, 2048, 8192)
    for layout, m, n, k in product(layouts, sizes, sizes, sizes):
        yield _case(0, layout, m, n, k, "bf16")
    sizes = (64, 256, 1024, 4096, 16384)
    for m, n, k in product(sizes, sizes, sizes):
        yield _case(1, "nt", m, n, k, "bf16")
        for layout in layouts[1:]:
            yield _case(2, layout, m, n, k, "bf16")
    # Where the last tile or the last wave of tiles is partly empty.
    for m in (*range(128, 2049, 128), *range(2304, 8193, 256), 2047, 2049, 2056, 2112, 3000, 4095, 4097, 4104, 5000):
        yield _case(1, "nt", m, 4096, 4096, "bf16")
    for n in (1000, 2047, 2049, 2056, 3000, 4095, 4097, 4104, 5000, 50257):
        yield _case(1, "nt", 4096, n, 4096, "bf16")
    for k in (1000, 2047, 2049, 2056, 3000, 4095, 4097, 4104, 5000):
        yield _case(1, "nt", 4096, 4096, k, "bf16")
        yield _case(1, "tn", 4096, 4096, k, "bf16")


def _random() -> Iterator[Case]:
    """Shapes that are even on a logarithmic scale, from 64 to 32768; one in five is a multiple of 8 only."""
    chance = random.Random(1)  # noqa: S311 - no secret
    for index in range(1, 1601):
        step = chance.choice((8, 64, 64, 64, 64))
        m, n, k = (max(step, round(64 * 512 ** _halton(index, base) / step) * step) for base in (2, 3, 5))
        yield _case(2, chance.choice(("nt", "nn", "tn")), m, n, k, "bf16")


def _halton(index: int, base: int) -> float:
    result, part = 0.0, 1.0
    while index:
        part /= base
        index, digit = divmod(index, base)
        result += part * digit
    return result


def _other_types() -> Iterator[Case]:
    variants = ("tensor_scaled", "row_scaled", "tensor_scaled_precise")
    for width, tokens in product(WIDTHS, (1024, 4096, 16384)):
        if width.hidden not in (*_COARSE_WIDTHS, 12288):
            continue
        for (out, into), variant in product(width.linears(1), variants):
            level = 0 if tokens == 4096 and variant == "tensor_scaled" else 1 if variant != "row_scaled" else 2
            yield _case(level, "nt", tokens, out, into, "fp8_e4m3", variant)
    sizes: tuple[int, ...] = (512, 2048, 8192)
    for variant, m, n, k in product(variants, sizes, sizes, sizes):
        yield _case(1 if variant == "tensor_scaled" else 2, "nt", m, n, k, "fp8_e4m3", variant)
    sizes = (256, 1024, 4096, 16384)
    for m, n, k in product(sizes, sizes, sizes):
        yield _case(2, "nt", m, n, k, "fp8_e4m3", "tensor_scaled")
    for kind, m, n, k in product(("fp16", "tf32", "fp32"), (1024, 4096, 8192), (1024, 4096), (1024, 4096)):
        yield _case(1, "nt", m, n, k, kind)


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times the product on operands in rotation."""
    shape: Any = case.row
    if shape["data_type"] == "tf32":
        bench.torch.set_float32_matmul_precision("high")
    make = _scaled if shape["data_type"] == "fp8_e4m3" else _plain
    yield bench.time([make(shape, bench) for _ in range(bench.copies(shape["bytes"]))])


def _plain(shape: Any, bench: Bench) -> Callable[[], Any]:
    m, n, k, kind = shape["m"], shape["n"], shape["k"], shape["data_type"]
    out = bench.scratch(m, n, data_type=kind)
    left = bench.random(k, m, data_type=kind).t() if shape["layout"] == "tn" else bench.random(m, k, data_type=kind)
    right = bench.random(n, k, data_type=kind).t() if shape["layout"] == "nt" else bench.random(k, n, data_type=kind)
    mm = bench.torch.mm
    return lambda: mm(left, right, out=out)


def _scaled(shape: Any, bench: Bench) -> Callable[[], Any]:
    torch = bench.torch
    m, n, k = shape["m"], shape["n"], shape["k"]
    left = bench.random(m, k, data_type="fp8_e4m3")
    right = bench.random(n, k, data_type="fp8_e4m3").t()
    rows = shape["variant"] == "row_scaled"
    scales = [torch.ones(size, device=bench.device) for size in (((m, 1), (1, n)) if rows else ((), ()))]
    fast = not shape["variant"].endswith("precise")
    return lambda: torch._scaled_mm(  # noqa: SLF001 - the only way to fp8
        left, right, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16, use_fast_accum=fast
    )
