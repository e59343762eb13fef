"""Operations that memory limits: norms, activations, dropout, losses and the like, forward and backward.

``m`` rows of ``n`` elements each. Level 2 repeats some of them with ``torch.compile``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from syncline.kernels.bench import backward
from syncline.kernels.cases import Case, is_backward, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

HEAD_DIM = 128
"""Elements of a head, of ``rope``."""


@dataclass(frozen=True)
class Operation:
    """An operation, and the bytes that it moves for each of its ``m * n`` elements."""

    make: Callable[[Any, Bench, int, int], tuple[Callable[..., Any], list[Any]]]
    """The function, and its operands; all of them have gradients, if there is a backward pass."""
    forward_bytes: float
    backward_bytes: float | None
    """None if it has no backward pass, or one that moves nothing."""
    fuses: bool = True
    """``torch.compile`` makes fewer kernels of it."""
    data_type: str = "bf16"


def _rms_norm(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    function = torch.nn.functional.rms_norm
    return lambda x, w: function(x, (n,), w, 1e-5), [bench.random(m, n), bench.random(n)]


def _layer_norm(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    function = torch.nn.functional.layer_norm
    return lambda x, w, b: function(x, (n,), w, b, 1e-5), [bench.random(m, n), bench.random(n), bench.random(n)]


def _residual_add(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    return torch.add, [bench.random(m, n), bench.random(m, n)]


def _swiglu(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    silu = torch.nn.functional.silu
    return lambda gate, up: silu(gate) * up, [bench.random(m, n), bench.random(m, n)]


def _gelu(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    gelu = torch.nn.functional.gelu
    return lambda x: gelu(x, approximate="tanh"), [bench.random(m, n)]


def rotate(torch: Any, x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding of the last dimension, in halves, as Hugging Face's Llama writes it."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _rope(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    angles = bench.random(m, 1, HEAD_DIM, data_type="fp32")
    cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
    return lambda x: rotate(torch, x, cos, sin), [bench.random(m, n // HEAD_DIM, HEAD_DIM)]


def _dropout(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    dropout = torch.nn.functional.dropout
    return lambda x: dropout(x, 0.1, training=True), [bench.random(m, n)]


def _softmax(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    return lambda x: torch.softmax(x, -1), [bench.random(m, n)]


def _cross_entropy(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    targets = torch.randint(n, (m,), device=bench.device)
    loss = torch.nn.functional.cross_entropy
    return lambda logits: loss(logits.float(), targets), [bench.random(m, n)]


def _embedding(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    words = 128256 if bench.cuda else 256
    tokens = torch.randint(words, (m,), device=bench.device)
    embedding = torch.nn.functional.embedding
    return lambda table: embedding(tokens, table), [bench.random(words, n)]


def _cast_down(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    return lambda x: x.to(torch.bfloat16), [bench.random(m, n, data_type="fp32")]


def _cast_up(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    return lambda x: x.float(), [bench.random(m, n)]


def _accumulate(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    return lambda total, gradient: total.add_(gradient), [bench.scratch(m, n, data_type="fp32"), bench.random(m, n)]


def _quantise(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    """To fp8 with one scale for the tensor, from its largest element."""

    def function(x: Any) -> Any:
        scale = 448.0 / x.abs().amax().float().clamp(min=1e-12)
        return (x.float() * scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale

    return function, [bench.random(m, n)]


def _quantise_scaled(torch: Any, bench: Bench, m: int, n: int) -> tuple[Callable[..., Any], list[Any]]:
    """To fp8 with a scale that is known before, as delayed scaling has it."""
    scale = torch.ones((), device=bench.device)
    return lambda x: (x * scale).to(torch.float8_e4m3fn), [bench.random(m, n)]


OPERATIONS = {
    "rms_norm": Operation(_rms_norm, 4, 6),
    "layer_norm": Operation(_layer_norm, 4, 6, fuses=False),
    "residual_add": Operation(_residual_add, 6, None, fuses=False),
    "swiglu": Operation(_swiglu, 6, 10),
    "gelu": Operation(_gelu, 4, 6, fuses=False),
    "rope": Operation(_rope, 4, 4),
    "dropout": Operation(_dropout, 5, 5, fuses=False),
    "softmax": Operation(_softmax, 4, 6, fuses=False),
    "cross_entropy": Operation(_cross_entropy, 2, 4),
    "embedding": Operation(_embedding, 4, None, fuses=False),
    "cast_fp32_bf16": Operation(_cast_down, 6, None, fuses=False, data_type="fp32"),
    "cast_bf16_fp32": Operation(_cast_up, 6, None, fuses=False),
    "accumulate_fp32": Operation(_accumulate, 10, None, fuses=False),
    "quantise_fp8": Operation(_quantise, 3, None),
    "quantise_fp8_scaled": Operation(_quantise_scaled, 3, None),
}
"""The operations, by the name in the column ``operation``."""

_VOCABULARIES = ((0, 128256), (1, 32000), (1, 50257), (1, 152064))


def cases(*, quick: bool) -> list[Case]:
    """All operations at all shapes; those of level 2 are compiled."""
    if quick:
        # None is compiled: that takes half a minute on a processor.
        return [case for name in OPERATIONS for case in _both(0, name, "eager", 8, 256)]
    found: list[Case] = []
    for name in OPERATIONS:
        if name == "cross_entropy":
            for (level, words), tokens in product(_VOCABULARIES, (1024, 4096, 16384)):
                found += _both(max(level, int(tokens == 1024)), name, "eager", tokens, words)
            continue
        # Scores of attention are as many as all heads have.
        rows = (4096, 16384, 65536, 262144) if name == "softmax" else (512, 1024, 2048, 4096, 8192, 16384, 32768)
        for n, m in product((1024, 2048, 4096, 5120, 8192, 14336, 28672), rows):
            if 2e5 <= m * n <= 1.1e9 and (name != "embedding" or n <= 8192):
                found += _both(0 if n == 4096 and m in (1024, 4096, 16384, 65536) else 1, name, "eager", m, n)
    for name, operation in OPERATIONS.items():
        if operation.fuses:
            n = 128256 if name == "cross_entropy" else 4096
            found += [case for m in (2048, 8192) for case in _both(2, name, "compiled", m, n)]
    return found


def _both(level: int, name: str, variant: str, m: int, n: int) -> list[Case]:
    """A case for each pass."""
    operation = OPERATIONS[name]
    passes = (("forward", operation.forward_bytes), ("backward", operation.backward_bytes))
    # The gradient of an embedding has the size of its table, so its bytes are not those of its tokens.
    zeros = 2 * 128256 * n if name == "embedding" else 0
    if name == "embedding":
        passes = (("forward", 4), ("backward", 4))
    return [
        Case(
            level,
            row(
                name,
                pass_=which,
                variant=variant,
                data_type=operation.data_type,
                m=m,
                n=n,
                elements=m * n,
                bytes=int(size * m * n) + (zeros if which == "backward" else 0),
            ),
        )
        for which, size in passes
        if size is not None
    ]


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times the operation on operands in rotation."""
    torch, shape = bench.torch, case.row
    operation = OPERATIONS[str(shape["operation"])]
    m, n = shape["m"], shape["n"]
    if not isinstance(m, int) or not isinstance(n, int):
        raise TypeError("a case without a shape")
    compiled = shape["variant"] == "compiled"
    if compiled:
        prepare_compiler()
    # Outputs that an operation allocates rotate too, but little: count the operands alone.
    copies = 1 if shape["operation"] == "embedding" else bench.copies(2 * m * n)
    function, operands = operation.make(torch, bench, m, n)
    sets = [operands, *(operation.make(torch, bench, m, n)[1] for _ in range(copies - 1))]
    if compiled:
        function = torch.compile(function, dynamic=False)
    calls = [_call(bench, function, each, backwards=is_backward(case)) for each in sets]
    # The gradient of an embedding sorts tokens, for which some versions wait on the host.
    yield bench.time(calls, capture=shape["operation"] != "embedding" or not is_backward(case))


def _call(bench: Bench, function: Callable[..., Any], operands: list[Any], *, backwards: bool) -> Callable[[], Any]:
    torch = bench.torch
    if not backwards:

        def forward() -> Any:
            with torch.no_grad():
                return function(*operands)

        return forward
    for each in operands:
        each.requires_grad_()
    out = function(*operands)
    gradient = torch.ones_like(out) if not out.dim() else bench.random(*out.shape)
    return backward(torch, out, operands, gradient)


def prepare_compiler() -> None:
    """Forgets what was compiled, and lets the backward pass of compiled functions run several times."""
    try:
        import torch._dynamo as dynamo

        dynamo.reset()
        import torch._functorch.config as settings

        settings.donated_buffer = False
    except (ImportError, AttributeError):
        # Older versions have neither.
        return
