"""Kernels that send tokens to experts, with rates that others published, for estimates of training steps.

``data/token-kernels.yaml`` holds them, with their sources; :mod:`.experts` has those that were calibrated with measured
times.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated

from pydantic import Field

from syncline.input import yaml
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.source import Source
from syncline.nccl.experts import OneWay


class TokenKernels(Strict):
    """Kernels of both directions."""

    dispatch: OneWay
    """To the experts."""
    combine: OneWay
    """Back."""
    source: str
    """Who measured them, how, and what follows from that."""


class Network(Strict):
    """What such kernels reach of the network between servers."""

    part: Annotated[float, Field(gt=0, le=1)]
    """Part of its rate."""
    source: str
    """Who measured it, and how."""


class TokenKernelsFile(Strict):
    """The file of all of them."""

    network: Network
    """Between servers."""
    kernels: dict[str, TokenKernels]
    """Within a domain of NVLink, by name."""


@cache
def published() -> TokenKernelsFile:
    """What the file says."""
    text = (files("syncline") / "data" / "token-kernels.yaml").read_text(encoding="utf-8")
    source = Source(yaml.read(text, "token-kernels.yaml"), "token-kernels.yaml")
    return check(source, TokenKernelsFile, Whole("the file of kernels for tokens"))
