"""Finds the dimensions that a group of ranks spans, and makes a fabric on which all other dimensions look the same.

An exchange sends nothing through a dimension in which all ranks of a group have the same coordinate. So it takes the
same time on every shape that differs only in such dimensions, and is simulated once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STANDARD = {"shape": "switch", "rate": None, "rate_per_npu": "100GB/s", "efficiency": 1.0}


def standardised(dims: Sequence[dict[str, Any]], role: str, inner: int | None, latency: str) -> list[dict[str, Any]]:
    """Returns ``dims``, with standard ones in place of those that groups of ``role`` do not span.

    Standard dimensions have ``latency``, and neighbouring ones are merged. Tensor-parallel groups are ``inner``
    consecutive ranks; data-parallel groups have the stride ``inner``. If ``inner`` is ``None``, the groups are unknown,
    and the dimensions stay as they are.
    """
    if inner is None or role not in ("tensor", "data"):
        return [dict(dim) for dim in dims]
    made: list[dict[str, Any]] = []
    others, stride, beside = 0, 1, False
    for dim in dims:
        above = stride * dim["size"]
        spans = stride < inner if role == "tensor" else above > inner
        if spans:
            made.append(dict(dim))
        elif beside:
            made[-1]["size"] *= dim["size"]
        else:
            others += 1
            made.append({**_STANDARD, "name": f"other dimensions {others}", "size": dim["size"], "latency": latency})
        stride, beside = above, not spans
    return made


def inner(parallel: Mapping[str, Any], collectives: Mapping[str, Any], npus: int) -> int | None:
    """Ranks of a tensor-parallel group, if these are consecutive; ``None`` if that is unknown.

    Also ``None`` if the settings of collectives refer to dimensions by name or number.
    """
    by_name = any(collectives.get(key) for key in ("algorithms", "plans", "logical"))
    if by_name or "order" in parallel or parallel.get("pipeline", "none") != "none":
        return None
    tensor = parallel.get("tensor")
    degree = tensor.get("degree") if isinstance(tensor, dict) else None
    return int(degree) if degree and npus % degree == 0 else None
