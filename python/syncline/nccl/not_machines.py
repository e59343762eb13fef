"""Names of algorithms and libraries that are no machines, and where their times are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHOSEN = "name a machine: NCCL chooses algorithm and protocol itself, and results show what it chooses"
_IN_SHOTS = (
    "name a machine, and add `custom_all_reduce: vLLM` for all-reduces by kernels of that framework, in one shot or two"
)
_IN_EXPERTS = (
    "name a machine, and add `deepep: { tokens: 4096, experts: 8 }` for DeepEP's dispatches and combines in place of "
    "all-to-alls"
)
_IN_SWITCHES = "name a machine, and add `sharp: true` for switches that sum, which NCCL's CollNet uses"

_HELP: Mapping[str, str] = {
    **dict.fromkeys(("ring", "tree", "nvls", "nvlstree", "pat", "ll", "ll128", "simple", "auto", "nccl"), _CHOSEN),
    **dict.fromkeys(("collnet", "collnetdirect", "collnetchain", "sharp"), _IN_SWITCHES),
    **dict.fromkeys(("oneshot", "twoshot", "shots", "vllm", "sglang", "tensorrtllm", "trtllm"), _IN_SHOTS),
    **dict.fromkeys(("deepep", "hybridep", "deepseek"), _IN_EXPERTS),
}


def remedy(name: str) -> str | None:
    """What to do instead of naming an algorithm or a library as a machine; None if ``name`` is neither."""
    return _HELP.get(re.sub(r"[^a-z0-9]", "", name.lower()))
