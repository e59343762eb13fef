"""Scaled dot-product attention, by each of PyTorch's fused backends."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from typing import TYPE_CHECKING, Any

from syncline.kernels.bench import backward
from syncline.kernels.cases import Case, is_backward, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

MAX_FLOP = 4e12
"""Forward passes of more work are not measured."""

_Heads = tuple[int, int, int, int]
"""Query heads, heads of keys and values, elements of a head of keys, and of values."""
_COARSE: tuple[_Heads, ...] = ((32, 32, 128, 128), (32, 8, 128, 128))
_MIDDLE: tuple[_Heads, ...] = ((16, 16, 64, 64), (8, 1, 128, 128), (64, 8, 128, 128), (16, 16, 192, 128))
_FINE: tuple[_Heads, ...] = (
    (4, 4, 64, 64),
    (4, 4, 128, 128),
    (8, 8, 128, 128),
    (16, 2, 128, 128),
    (16, 16, 128, 128),
    (32, 8, 64, 64),
    (32, 32, 64, 64),
    (40, 40, 128, 128),
    (64, 64, 64, 64),
    (64, 64, 128, 128),
    (128, 128, 192, 128),
    (25, 25, 64, 64),
    (32, 32, 80, 80),
    (32, 32, 96, 96),
    (16, 16, 256, 256),
)


def cases(*, quick: bool) -> list[Case]:
    """All shapes of attention, forward and backward."""
    if quick:
        few = product(("forward", "backward"), ("default",), (True, False))
        return [_case(0, which, backend, 1, 32, (4, 2, 16, 16), causal) for which, backend, causal in few]
    found = []
    every = product(("flash", "cudnn"), (True, False), ("forward", "backward"))
    for backend, causal, which in every:
        for batch, sequence, heads in product((1, 2, 4, 8, 16), (512, 1024, 2048, 4096, 8192, 16384, 32768), _COARSE):
            level = 0 if batch == 1 and 1024 <= sequence <= 8192 else 1 if batch in (2, 8) or sequence > 8192 else 2
            found.append(_case(level, which, backend, batch, sequence, heads, causal))
        for batch, sequence, heads in product((1, 4), (512, 1024, 2048, 4096, 8192, 16384), (*_MIDDLE, *_FINE)):
            level = 1 if heads in _MIDDLE and sequence in (1024, 4096, 8192) else 2
            found.append(_case(level, which, backend, batch, sequence, heads, causal))
        odd = (1000, 1023, 1536, 2049, 3000, 3072, 6144)
        found += [_case(2, which, backend, 1, sequence, _COARSE[0], causal) for sequence in odd]
    return [case for case in found if 5e8 <= case.settings["work"] <= MAX_FLOP]


def _case(level: int, which: str, backend: str, batch: int, sequence: int, shape: _Heads, causal: bool) -> Case:  # noqa: FBT001
    heads, kv_heads, width, value_width = shape
    work = 2 * batch * heads * sequence * sequence * (width + value_width) // (2 if causal else 1)
    queries, values = batch * sequence * heads * width, batch * sequence * heads * value_width
    keys = batch * sequence * kv_heads * (width + value_width)
    # Backward reads queries, keys, values, output and its gradient, and writes three gradients.
    size = 2 * (queries + keys + values) if which == "forward" else 2 * (2 * queries + 2 * keys + 2 * values)
    known = row(
        "attention",
        pass_=which,
        backend=backend,
        data_type="bf16",
        batch=batch,
        sequence=sequence,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        value_head_dim=value_width,
        causal=causal,
        bytes=size,
        flop=work if which == "forward" else work * 5 // 2,
    )
    return Case(level, known, {"work": work})


def chosen(torch: Any, backend: str | None) -> Any:
    """A context in which attention uses one backend: ``flash``, ``cudnn``, or the one that PyTorch chooses."""
    if backend in (None, "default"):
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.FLASH_ATTENTION if backend == "flash" else SDPBackend.CUDNN_ATTENTION)


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times attention on operands in rotation, as layers hold them: tokens before heads."""
    shape: Any = case.row
    with chosen(bench.torch, shape["backend"]):
        yield bench.time([_call(case, bench) for _ in range(bench.copies(shape["bytes"]))])


def _call(case: Case, bench: Bench) -> Callable[[], Any]:
    torch = bench.torch
    shape: Any = case.row
    batch, sequence, heads, kv_heads = (shape[key] for key in ("batch", "sequence", "heads", "kv_heads"))
    sizes = ((heads, shape["head_dim"]), (kv_heads, shape["head_dim"]), (kv_heads, shape["value_head_dim"]))
    q, k, v = (bench.random(batch, sequence, many, width).transpose(1, 2) for many, width in sizes)
    more = {"enable_gqa": True} if kv_heads != heads else {}
    attend = torch.nn.functional.scaled_dot_product_attention
    causal = shape["causal"]
    if not is_backward(case):
        return lambda: attend(q, k, v, is_causal=causal, **more)
    for each in (q, k, v):
        each.requires_grad_()
    out = attend(q, k, v, is_causal=causal, **more)
    gradient = bench.random(batch, sequence, heads, shape["value_head_dim"]).transpose(1, 2)
    return backward(torch, out, (q, k, v), gradient)
