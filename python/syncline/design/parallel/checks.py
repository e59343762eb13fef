"""Checks a request for a search against its model and its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.estimate.job import SCHEDULES
from syncline.input.problem import error, nearest, raise_errors

if TYPE_CHECKING:
    from syncline.design.parallel.search_configurations import Request


def check_request(request: Request) -> None:
    """Checks what a search assumes.

    :raises SynclineError: precision, number of accelerators, schedules, dispatcher or offload cannot be estimated.
    """
    _check_precision(request)
    request.machine.check_network(request.gpus)
    _check_schedules(request)
    _check_dispatcher(request)
    _check_host(request)


def _check_precision(request: Request) -> None:
    """Checks the data sheet, because narrow types may have the kernels of wider ones."""
    able = request.machine.precisions
    if request.precision not in able:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"{request.machine.accelerator} does not compute in {request.precision}, or it was not measured",
                key="precision",
                found=request.precision,
                allowed=", ".join(able),
            )
        )


def _check_schedules(request: Request) -> None:
    for name in request.schedules:
        if name not in SCHEDULES:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "no such schedule of a pipeline",
                    key="schedules",
                    found=name,
                    allowed=", ".join(SCHEDULES),
                    nearest=nearest(name, SCHEDULES),
                )
            )


def _check_dispatcher(request: Request) -> None:
    if request.architecture.experts is None and request.dispatcher != "all_to_all":
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the model has no experts",
                key="dispatcher",
                found=request.dispatcher,
                allowed="all_to_all",
            )
        )


_HOST = {
    "host_rate": "how fast copies between these accelerators and their hosts are",
    "host_memory_rate": "the rate of the host's memory for each accelerator",
}
"""What offload needs of a host, by option."""


def _check_host(request: Request) -> None:
    """Offload needs the rates of the host."""
    host = request.machine.host
    missing = {
        "host_rate": bool(request.offload) and host.to_host is None,
        "host_memory_rate": "optimizer" in request.offload and host.memory_bytes_per_s is None,
    }
    if not any(missing.values()):
        return
    raise_errors(
        *(
            error(
                Code.MISSING_KEY,
                f"missing: {_HOST[key]}",
                key=key,
                found=request.machine.accelerator,
                help=f"add `--{key.replace('_', '-')} {'25GB/s' if key == 'host_rate' else '50GB/s'}`, or leave out "
                "`--offload`",
            )
            for key, absent in missing.items()
            if absent
        )
    )
