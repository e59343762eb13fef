"""Models of the kernels of accelerators: times of matrix products, attention, and kernels that move bytes."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from syncline import _core
from syncline.codes import Code
from syncline.input.arguments import Arguments
from syncline.input.problem import error, nearest, raise_errors
from syncline.input.source import read_file
from syncline.kernels.derived import changed
from syncline.schemas import KERNEL_MODELS_SCALED

if TYPE_CHECKING:
    from collections.abc import Mapping

Library: TypeAlias = Literal["measured", "triton", "flash-attention-2", "cudnn", "cudnn-mxfp8"]
"""Whose kernels compute attention: those that were measured and fitted, or a library for training."""
GemmLibrary: TypeAlias = Literal["measured", "cublas", "cublas-mxfp8"]
"""Whose kernels multiply: those that were measured and fitted, or cuBLAS, whose operands have the data type already."""

_LARGEST = 1 << 31
"""Largest size of a kernel."""
_FOLDER = files("syncline") / "data" / "kernels"


class Estimate(NamedTuple):
    """What a model says about one kernel."""

    seconds: float
    """Time of the kernel, in seconds."""
    bound: Literal["compute", "memory", "launch"]
    """What takes most of it."""
    extrapolates: bool
    """The shape lies outside of what was measured."""


class KernelModels:
    """Models of the kernels of one accelerator."""

    def __init__(self, core: _core.KernelModels, text: str, document: Mapping[str, Any]) -> None:
        self.core = core
        """The models as the core evaluates them, also for many kernels at once."""
        self.text = text
        """The text of the file that holds the constants."""
        self.document = document
        """The file: constants, ranges, errors on kernels that were left out."""

    @property
    def derived_from(self) -> str | None:
        """The accelerator whose measured kernels these models follow from; None if they were measured themselves."""
        found = self.document.get("from")
        return None if found is None else str(found)

    @property
    def memory_ratio(self) -> float:
        """How many times as fast the memory is as that of the accelerator whose kernels were measured."""
        return float(self.document.get("memory_ratio", 1.0))

    def peak(self, data_type: str) -> int | None:
        """Peak FLOP per second of a data type by the data sheet; None if that does not say it."""
        from syncline.models.accelerators import find

        return find(self.accelerator).peak_flop_per_s.get(data_type)

    @property
    def accelerator(self) -> str:
        """The accelerator's name."""
        return self.core.accelerator()

    @property
    def gemm_types(self) -> list[str]:
        """Data types with models of matrix products."""
        return self.core.gemm_types()

    @property
    def attention_types(self) -> list[str]:
        """Data types with models of attention."""
        return self.core.attention_types()

    def gemm(
        self,
        m: int,
        n: int,
        k: int,
        *,
        data_type: str = "bf16",
        groups: int = 1,
        layout: Literal["nt", "nn", "tn"] = "nt",
        library: GemmLibrary = "measured",
    ) -> Estimate:
        """Time of ``groups`` products of ``m`` x ``k`` times ``k`` x ``n`` in one kernel.

        :param layout: how the operands lie in memory, the left one first: ``nt`` forward, ``nn`` for the gradient of
            the input, ``tn`` for that of the weights.
        :param library: whose kernels: the measured ones, which in 8 and 4 bits cast the left operand, too, or cuBLAS,
            whose operands have the data type already. Without a rate on the accelerator, it is as fast as the measured
            kernels without their cast. ``cublas-mxfp8`` has a scale for each block of 32 elements, in data type
            ``fp8``.
        :raises SynclineError: a size is no whole number from 1, or no product of the data type was measured.
        """
        with Arguments() as check:
            for name, size in (("m", m), ("n", n), ("k", k), ("groups", groups)):
                check.whole(name, size, most=_LARGEST)
            check.word("data_type", data_type, self.gemm_types)
            check.word("layout", layout, ("nt", "nn", "tn"))
            check.word("library", library, get_args(GemmLibrary))
        return Estimate(*self.core.gemm(data_type, m, n, k, groups, layout, library))  # type: ignore[arg-type]

    def attention(
        self,
        *,
        batch: int,
        sequence: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int,
        data_type: str = "bf16",
        causal: bool = True,
        window: int = 0,
        backward: bool = False,
        prepare: bool = False,
        library: Library = "measured",
    ) -> Estimate:
        """Time of fused attention.

        :param kv_heads: heads of keys and values; as many as query heads if None.
        :param window: tokens to which each attends at most; 0 for no limit.
        :param head_dim: elements of a head; where keys and values have different sizes, their mean.
        :param prepare: counts rotary embedding and the copy into a cache, too, where these were measured.
        :param library: whose kernels: the measured ones, which the models were fitted to, or those of a library for
            training. One without rates on the accelerator is as fast as the measured one. ``cudnn-mxfp8`` has a scale
            for each block of 32 elements, in data type ``fp8``.
        :raises SynclineError: a size is no whole number from 1, ``kv_heads`` does not divide ``heads``, or no attention
            of the data type was measured.
        """
        with Arguments() as check:
            for name, size in (("batch", batch), ("sequence", sequence), ("heads", heads), ("head_dim", head_dim)):
                check.whole(name, size, most=_LARGEST)
            if kv_heads is not None:
                check.divisor("kv_heads", kv_heads, "heads", heads)
            check.whole("window", window, least=0, most=_LARGEST)
            check.word("data_type", data_type, self.attention_types)
            check.word("library", library, get_args(Library))
            for name, flag in (("causal", causal), ("backward", backward), ("prepare", prepare)):
                check.flag(name, flag)
        sizes = (batch, sequence, heads, heads if kv_heads is None else kv_heads, head_dim)
        return Estimate(*self.core.attention(data_type, *sizes, causal, window, backward, prepare, library))  # type: ignore[arg-type]

    def memory_bound(self, nbytes: int) -> Estimate:
        """Time of one kernel that reads and writes ``nbytes`` bytes, all tensors together.

        :raises SynclineError: no whole number.
        """
        with Arguments() as check:
            check.whole("nbytes", nbytes, least=0, most=1 << 62)
        return Estimate(*self.core.memory_bound(nbytes))  # type: ignore[arg-type]

    def launch(self) -> float:
        """Time of an empty kernel, in seconds."""
        return self.core.launch()


def names() -> list[str]:
    """Accelerators whose kernels have models, by their names in ``data/accelerators.yaml``."""
    return sorted(each.name.removesuffix(".json") for each in _FOLDER.iterdir() if each.name.endswith(".json"))


def load(name: str) -> KernelModels:
    """The models of an accelerator, by its name or one of its other names such as ``H100``; or those of a file.

    :raises SynclineError: no such accelerator has models, or the file is none of models.
    """
    with Arguments() as check:
        check.instance("name", name, str, "a name such as H100, or a .json file of `syncline kernels fit`")
    if name.endswith(".json"):
        return _made(read_file(name), name)
    return _shipped(_canonical(name))


@cache
def _shipped(name: str) -> KernelModels:
    return _made((_FOLDER / f"{name}.json").read_text(encoding="utf-8"), f"{name}.json")


def _canonical(name: str) -> str:
    from syncline.models import ModelError
    from syncline.models.accelerators import find

    known = names()
    try:
        found = find(name).name
    except ModelError:
        found = name
    if found not in known:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "no kernels of this accelerator were measured",
                found=name,
                allowed=", ".join(known),
                nearest=nearest(name, known),
                help="name one of these, or a .json file of `syncline kernels fit`",
            )
        )
    return found


def _made(text: str, name: str) -> KernelModels:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("schema") == KERNEL_MODELS_SCALED:
        return _derived(_shipped(str(document["from"])), document)
    # The core reports whatever is wrong with the text.
    return KernelModels(_core.KernelModels.parse(text, name), text, document or {})


def _derived(base: KernelModels, document: Mapping[str, Any]) -> KernelModels:
    """The models of an accelerator that follow from those of its relative."""
    made = changed(base.document, document)
    text = json.dumps(made)
    core = _core.KernelModels.parse(text, f"{document['accelerator']}.json")
    scaled = core.with_memory(str(document["accelerator"]), float(document["memory_ratio"]))
    return KernelModels(scaled, text, {**made, "from": document["from"], "memory_ratio": document["memory_ratio"]})
