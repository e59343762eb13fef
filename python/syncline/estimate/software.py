"""Constants of the software that trains: a file of sets, each for some frameworks on some accelerators."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from syncline.codes import Code
from syncline.estimate.job import AttentionLibrary
from syncline.files import write_whole
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.dump import dump
from syncline.input.node import from_python
from syncline.input.problem import error, exception
from syncline.input.source import Source, from_file
from syncline.nccl.machine import Errors

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "training-software.yaml"
VOCAB_MULTIPLES: Mapping[str, int] = {"megatron": 128, "megatron-deepspeed": 128}
"""Frameworks that pad vocabularies: to a multiple of this for each tensor-parallel rank, by default.

Others divide a vocabulary among tensor-parallel ranks as it is: nanotron pads it to a multiple of these
(``make_vocab_size_divisible_by: 1``), and PyTorch's ``DTensor`` gives the first ranks one row more.
Source: ``--make-vocab-size-divisible-by`` of Megatron-LM and Megatron-DeepSpeed."""
_Rate = Annotated[float, Field(gt=0, le=10)]
_Part = Annotated[float, Field(ge=0, le=20)]


class _Checked(type(Strict)):  # type: ignore[misc]
    """Makes a class whose calls raise :class:`SynclineError` for wrong values, as files do."""

    def __call__(cls, **values: Any) -> Any:
        """A checked value."""
        return check(Source(from_python(values)), cls, Whole("the constants"))


class Software(Strict, metaclass=_Checked):
    """Constants of software, and of an accelerator under its load. Defaults are those of kernels that run alone.

    :raises SynclineError: there is no such constant, or its value is not allowed.
    """

    products: _Rate = 1.0
    """Rate of matrix products in 16 bits in training, over that of the measured kernels under sustained load."""
    low_precision_products: _Rate = 1.0
    """Rate of matrix products in 8 and 4 bits in training, over that of the measured kernels, which ran in short
    bursts."""
    attention: _Rate = 1.0
    """Rate of attention in training, over that of the library's kernels. No time is shorter than the operations take at
    the accelerator's peak."""
    attention_library: AttentionLibrary = "measured"
    """Library whose kernels compute attention in jobs that name none; ``measured``: that of the measured kernels."""
    element_wise: _Part = 1.0
    """Bytes that element-wise operations and norms move, over those of kernels that fuse all that can be fused."""
    logit_bytes: Annotated[float, Field(ge=0, le=1000)] = 14.0
    """Bytes that output layer and loss move for each logit, forward and backward."""
    fused_accumulation: bool = True
    """Whether matrix products of weight gradients add to the sum of gradients themselves."""
    layer_cpu_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Time in which the CPU launches the kernels of a layer, forward and backward, in seconds."""
    launch_power: Annotated[float, Field(ge=1, le=100)] | None = None
    """Exponent of the power mean of the time of a layer on the accelerator and that of its launches; without it, the
    longer of both counts."""
    staged_layer_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What each tensor-parallel rank adds to ``layer_cpu_s`` if pipeline stages are in several NVLink domains, in
    seconds."""
    tensor_exposed: _Part = 0.3
    """Part of tensor-parallel collectives that stays exposed where they overlap."""
    dispatch: _Part = 1.0
    """Time of dispatch and combine by NCCL, over that of its all-to-alls alone."""
    expert_exposed: _Part = 0.3
    """Part of dispatch and combine by NCCL that stays exposed where they overlap. Of dedicated kernels, that is the
    share of multiprocessors that they take."""
    expert_cpu_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What routing and dispatch add to ``layer_cpu_s``, in seconds."""
    each_expert_cpu_s: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What each expert of a rank adds to ``layer_cpu_s``, in seconds."""
    partial_graphs: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Part of the CPU's time for a layer that is left with partial CUDA graphs, which leave out experts and
    dispatch."""
    expert_element_wise: _Part = 1.0
    """Bytes that routing, sorting and activations of experts move, over those of kernels that fuse all that can be
    fused."""
    fused_biases: bool = True
    """Whether kernels of matrix products and activations add biases of experts and clamp activations themselves."""
    fused_yarn: bool = True
    """Whether the kernel that rotates positions into queries and keys also scales them, for models with YaRN."""
    data_exposed: _Part = 0.3
    """Part of data-parallel collectives, of gradients and parameters, that stays exposed where they overlap."""
    sharded_exposed: _Part | None = None
    """The same with ZeRO-3, where the collectives of a layer overlap with other layers; without it,
    ``data_exposed``."""
    pipeline_exposed: _Part = 0.3
    """Part of messages between stages that stays exposed where they overlap."""


class ConstantSet(Strict):
    """The constants of some frameworks on some accelerators."""

    frameworks: list[str]
    accelerators: list[str]
    """How the names of its accelerators begin."""
    constants: Software
    calibrated: str
    """What they were fitted to."""
    rows: Annotated[int, Field(ge=0)] = 0
    """How many rows."""
    errors: Errors | None = None
    """Errors with a model left out of the fit at a time; absent where there is only one model."""
    expert_rows: Annotated[int, Field(ge=0)] = 0
    """How many rows with experts the constants of experts were fitted to, after the others."""
    expert_errors: Errors | None = None
    """The same errors for these rows."""


class SoftwareFile(Strict):
    """A file of constants."""

    sets: dict[str, ConstantSet]


def read(path: str) -> Mapping[str, ConstantSet]:
    """Reads the sets of a file.

    :raises SynclineError: the file cannot be read or is malformed.
    """
    return check(from_file(path), SoftwareFile, Whole("the file of constants")).sets


def save(sets: Mapping[str, ConstantSet], path: str) -> None:
    """Writes sets to a file."""
    write_whole(path, dump(SoftwareFile(sets=dict(sets)).model_dump(exclude_defaults=True)))


@cache
def shipped() -> Mapping[str, ConstantSet]:
    """The sets of the package."""
    return read(str(files("syncline") / "data" / FILE))


def vocab_multiple(framework: str) -> int:
    """The multiple to which a framework pads the vocabulary for each tensor-parallel rank; 1 without padding."""
    return VOCAB_MULTIPLES.get(framework, 1)


def check_own(sets: Mapping[str, ConstantSet], chosen: str | None, file: str, wanted: str) -> None:
    """Checks that a user's file has the constants that a job needs, and that rows were fitted to them.

    :param chosen: the name of the set; None: the file has none for the job.
    :param wanted: the framework and the accelerator of the job, for the error.
    :raises SynclineError: it has not; a set without rows is no more the user's than that of the package.
    """
    used = sets.get(chosen or "")
    if used is not None and used.rows + used.expert_rows:
        return
    fitted = [name for name, each in sets.items() if each.rows + each.expert_rows]
    raise exception(
        error(
            Code.BAD_VALUE,
            f"no row calibrated constants of {wanted} in this file",
            key="constants",
            found=file,
            allowed=f"a file with rows of it; this one has {', '.join(fitted)}" if fitted else None,
            help="leave out `constants`, or measure runs of this framework on this accelerator",
        )
    )


def choose(sets: Mapping[str, ConstantSet], framework: str, accelerator: str) -> str | None:
    """The name of the set for a framework on an accelerator; None if there is none."""
    for name, each in sets.items():
        if framework in each.frameworks and accelerator.startswith(tuple(each.accelerators)):
            return name
    return None
