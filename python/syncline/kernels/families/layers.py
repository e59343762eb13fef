"""Stacks of whole transformer layers, as an independent check of sums of kernels.

``llama`` has RMS norms, grouped queries, rotary embeddings and SwiGLU; ``gpt`` has layer norms, GELU, biases and
dropout. PyTorch chooses how to compute attention. The stack has neither embedding nor head, and its input needs a
gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.kernels.cases import Case, row
from syncline.kernels.families.memory import prepare_compiler, rotate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row

LAYERS = 4
_LLAMA = {64: (4, 2, 16, 160), 2048: (32, 8, 64, 8192), 4096: (32, 8, 128, 14336), 8192: (64, 8, 128, 28672)}
_GPT = {64: (4, 4, 16, 256), 2048: (16, 16, 128, 8192), 4096: (32, 32, 128, 16384), 8192: (64, 64, 128, 32768)}
"""Heads, heads of keys, elements of a head and width of the feed-forward part, by hidden size."""
_FIRST = (("llama", 4096, 4096, 1), ("gpt", 4096, 4096, 1), ("llama", 2048, 2048, 1), ("llama", 8192, 4096, 1))


def cases(*, quick: bool) -> list[Case]:
    """All stacks: level 2 is compiled."""
    if quick:
        return [_case(0, style, "eager", launch, 64, 32, 2) for style in ("llama", "gpt") for launch in (None, "loop")]
    found = []
    for style, hidden, sequence, batch in _FIRST:
        for launch in (None, "loop"):
            found += [_case(0, style, "eager", launch, hidden, sequence, batch)]
    for style in ("llama", "gpt"):
        for hidden in (2048, 4096, 8192):
            for sequence, batch in ((2048, 1), (2048, 2), (2048, 4), (4096, 1), (4096, 4), (8192, 1), (8192, 2)):
                if hidden < 8192 or sequence * batch <= 8192:
                    found.append(_case(1, style, "eager", None, hidden, sequence, batch))
                if sequence * batch <= 2048 or (hidden == 2048 and sequence * batch <= 4096):
                    found.append(_case(1, style, "eager", "loop", hidden, sequence, batch))
    for style, hidden, sequence, batch in (*_FIRST[:2], ("llama", 2048, 4096, 1), ("llama", 8192, 4096, 1)):
        found.append(_case(2, style, "compiled", None, hidden, sequence, batch))
    return found


def _case(level: int, style: str, variant: str, launch: str | None, hidden: int, sequence: int, batch: int) -> Case:
    heads, kv_heads, width, ffn = (_LLAMA if style == "llama" else _GPT)[hidden]
    tokens = batch * sequence
    weights = hidden * (heads + 2 * kv_heads) * width + heads * width * hidden
    weights += (3 if style == "llama" else 2) * hidden * ffn
    flop = LAYERS * (2 * tokens * weights + 2 * batch * heads * sequence * sequence * width)
    known = row(
        f"{style}_layers",
        variant=variant,
        data_type="bf16",
        n=hidden,
        k=ffn,
        batch=batch,
        sequence=sequence,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        value_head_dim=width,
        causal=True,
        layers=LAYERS,
        elements=LAYERS * weights,
        launch=launch,
    )
    return Case(level, known, {"flop": flop})


def _modules(torch: Any) -> dict[str, Any]:
    """The classes of layers, which exist only where PyTorch does."""
    nn, functional = torch.nn, torch.nn.functional

    def attend(q: Any, k: Any, v: Any, dropout: float) -> Any:
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        more = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout, **more)
        return out.transpose(1, 2).flatten(2)

    class Llama(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, hidden: int, heads: int, kv_heads: int, width: int, ffn: int) -> None:
            super().__init__()
            self.split = [heads * width, kv_heads * width, kv_heads * width]
            self.width = width
            self.qkv = nn.Linear(hidden, sum(self.split), bias=False)
            self.out = nn.Linear(heads * width, hidden, bias=False)
            self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
            self.down = nn.Linear(ffn, hidden, bias=False)
            self.first, self.second = nn.RMSNorm(hidden), nn.RMSNorm(hidden)

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            parts = self.qkv(self.first(x)).split(self.split, dim=-1)
            q, k, v = (each.unflatten(-1, (-1, self.width)) for each in parts)
            x = x + self.out(attend(rotate(torch, q, cos, sin), rotate(torch, k, cos, sin), v, 0.0))
            gate, up = self.gate_up(self.second(x)).chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)

    class Gpt(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, hidden: int, heads: int, kv_heads: int, width: int, ffn: int) -> None:
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.out = nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)
            self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            q, k, v = (each.unflatten(-1, (self.heads, -1)) for each in self.qkv(self.first(x)).chunk(3, dim=-1))
            x = x + functional.dropout(self.out(attend(q, k, v, 0.1)), 0.1)
            return x + functional.dropout(self.down(functional.gelu(self.up(self.second(x)), approximate="tanh")), 0.1)

    return {"llama": Llama, "gpt": Gpt}


def measure(case: Case, bench: Bench) -> Iterator[Row]:
    """Times the forward pass, and forward and backward together."""
    torch = bench.torch
    shape: Any = case.row
    batch, sequence, hidden, width = (shape[key] for key in ("batch", "sequence", "n", "head_dim"))
    kind = _modules(torch)[str(shape["operation"]).removesuffix("_layers")]
    with torch.device(bench.device):
        made = [kind(hidden, shape["heads"], shape["kv_heads"], width, shape["k"]) for _ in range(LAYERS)]
    stack = torch.nn.ModuleList(made).to(torch.bfloat16)
    # Rotary angles in bf16, so that all of the layer is.
    angles = torch.rand(sequence, 1, width, device=bench.device)
    cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
    x = torch.randn(batch, sequence, hidden, dtype=torch.bfloat16, device=bench.device).requires_grad_()
    gradient = torch.randn_like(x)

    def forward(x: Any) -> Any:
        for layer in stack:
            x = layer(x, cos, sin)
        return x

    function: Callable[[Any], Any] = forward
    if shape["variant"] == "compiled":
        prepare_compiler()
        function = torch.compile(forward, dynamic=False)
    wanted = [x, *stack.parameters()]

    def both() -> Any:
        return torch.autograd.grad(function(x), wanted, gradient)

    capture = shape["launch"] != "loop"
    repeats = 3 if capture else 5
    flop = case.settings["flop"]
    yield {"pass": "forward", "flop": flop, **bench.time([lambda: function(x)], capture=capture, repeats=repeats)}
    timed = bench.time([both], capture=capture, repeats=repeats)
    yield {"pass": "forward_backward", "flop": _of_both(flop, shape), **timed}


def _of_both(flop: int, shape: Any) -> int:
    """FLOP of both passes: products take twice as many backward, fused attention 2.5 times."""
    heads, width, sequence = shape["heads"], shape["head_dim"], shape["sequence"]
    attention: int = LAYERS * 2 * shape["batch"] * heads * sequence * sequence * width
    return 3 * flop + attention // 2
