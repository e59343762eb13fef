"""What was measured on each accelerator: kernels, NCCL, exchanges of experts' tokens, rates under sustained load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.arguments import Arguments
from syncline.input.problem import error, exception, nearest
from syncline.models import ModelError, accelerators

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Measured:
    """What was measured on an accelerator."""

    kernels: str
    """The file of kernel models: that of the accelerator whose kernels were measured, or one that follows from it."""
    nccl: str
    """The machine of NCCL."""
    cluster: str
    """The cluster, by its name in ``data/clusters.yaml``, of the commercial servers."""
    experts: str | None = None
    """Dedicated kernels that send tokens to experts: the machine with which DeepEP was measured, of
    :func:`syncline.nccl.experts.names`, or published ones, of :func:`syncline.nccl.token_kernels.published`."""
    sustained: float = 1.0
    """Rate under sustained load, at the clock that the power allows then, over that of the measured kernels, which ran
    in short bursts: for matrix products of 16 bits, and for attention by cuDNN."""
    clock: float = 1.0
    """Rate of matrix products under load over what the constants of H100 and the kernels of a relative give."""
    fp8_weight_copies: int | None = None
    """Copies of weights in FP8 that products need, if not as many as on Hopper."""


GB300_CLOCK = 1.16
"""Rate of products in jobs on GB300 over what constants of H100 and kernels of a B200 give.

Fitted to the rows of ``validation/runs.csv`` with ``gb300`` in ``calibrates``: Llama 3 70B in 8 bits, dense. On the
same mesh and release it takes 0.81 times as long as on GB200. Boards of 1,400 W need not lower their clock as those of
1,000 and 700 W do, of which the kernels and the constants are."""


MEASURED: Mapping[str, Measured] = {
    "A100-SXM4-40GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "A100-SXM4-80GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "H100-SXM5-80GB": Measured("H100-SXM5-80GB", "h100-sxm", "dgx-h100", "h100-sxm", 0.92),
    "H200-SXM-141GB": Measured("H100-SXM5-80GB", "h200-sxm", "dgx-h200", "h200-sxm", 0.964),
    "B200-SXM-180GB": Measured("B200-SXM-180GB", "b200-sxm", "dgx-b200", "hybridep", 0.92, fp8_weight_copies=1),
    "GB200-NVL72": Measured("B200-SXM-180GB", "gb200", "gb200-nvl72", "hybridep", 0.92, fp8_weight_copies=1),
    "B300-SXM-270GB": Measured("B300-SXM-270GB", "b300-sxm", "dgx-b300", "hybridep", 0.926, fp8_weight_copies=1),
    "GB300-NVL72": Measured("GB300-NVL72", "gb300", "gb300-nvl72", "hybridep", 0.92, GB300_CLOCK, fp8_weight_copies=1),
    "H800-SXM5-80GB": Measured("H800-SXM5-80GB", "h800-sxm", "hgx-h800", "deepep-h800", 0.92),
    "H20-SXM5-96GB": Measured("H20-SXM5-96GB", "h100-sxm", "hgx-h20", "h100-sxm"),
}
"""Accelerators that estimates can be made for. An H200 has the kernels of an H100 with faster memory, and a GB200 those
of a B200; those of B300, GB300, H800 and H20 follow from a B200 or an H100 (:mod:`syncline.kernels.derived`).

`fp8_weight_copies` is 1 from compute capability 10 on (``is_non_tn_fp8_gemm_supported`` of Transformer Engine).

`sustained` of H100 and H200 was measured with PyTorch 2.11 and CUDA 13.0 (SXM, 700 W), that of a B300 by NVIDIA with
Transformer Engine (``validation/kernels/transformer-engine-products.csv``). That of B200, GB200, GB300 and H800 is
assumed: as an H100. An H20 draws too little power to throttle. An A100 throttles little: its measured
kernels already hold it."""


def known(accelerator: str) -> str:
    """The name of an accelerator in :data:`MEASURED`, by any of its names, ignoring case.

    :raises SynclineError: no kernels of the accelerator were measured.
    """
    with Arguments() as check:
        check.instance("accelerator", accelerator, str, "a name such as H100")
    for name in MEASURED:
        if accelerator.lower() in (each.lower() for each in (name, *accelerators.find(name).aliases)):
            return name
    names = [*MEASURED, *(alias for name in MEASURED for alias in accelerators.find(name).aliases)]
    raise exception(
        error(
            Code.BAD_VALUE,
            "no kernels of this accelerator were measured",
            key="accelerator",
            found=accelerator,
            allowed=", ".join(MEASURED),
            nearest=nearest(accelerator, names),
            help="name one of these, or a .json file of `syncline kernels fit`",
        )
    )


def data_sheet(name: str) -> accelerators.Accelerator | None:
    """The data sheet of an accelerator; None if it is not known."""
    try:
        return accelerators.find(name)
    except ModelError:
        return None
