"""The backend ``syncline`` of ``torch.distributed``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.errors import SynclineError
from syncline.input.problem import bad_value
from syncline.runtime import at_exit
from syncline.runtime.communicator import Communicator
from syncline.runtime.groups import finder
from syncline.runtime.racks import of_ranks
from syncline.torch.backend import NAME, Backend
from syncline.torch.failures import backend_error
from syncline.torch.rendezvous import StoreRendezvous, interfaces
from syncline.torch.settings import Options
from syncline.torch.tracing import untraced
from syncline.tuning import Tuner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from syncline.runtime.settings import Plans

FORWARDED = [
    "_allgather_base",
    "_reduce_scatter_base",
    "abort",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "gather_into_tensor",
    "gather_single",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
    "set_timeout",
    "shutdown",
]
"""Methods that a group forwards to its backend."""


class Group(dist.ProcessGroup):  # type: ignore[misc]  # the base is not known without PyTorch
    """A process group whose collectives run by plans.

    It is a native group with the backend registered for its devices, because PyTorch's C++ code needs one. Python calls
    are forwarded directly to the backend: a native group would wrap the ``Work`` of an operation, and the wrapper
    cannot tell whether the operation is over.
    """

    def __init__(self, store: dist.Store, backend: Backend) -> None:
        super().__init__(store, backend.rank(), backend.size())
        self.backend = backend
        self._splits = 0
        custom = dist.ProcessGroup.BackendType.CUSTOM
        self._set_default_backend(custom)
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            self._register_backend(torch.device(device), custom, backend)

    def name(self) -> str:
        """Returns the backend's name."""
        return NAME

    getBackendName = _get_backend_name = name  # noqa: N815 - PyTorch's name

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> Group | None:
        """Makes a group of some of this group's ranks, which must all call this; returns ``None`` on other ranks."""
        del device_types  # A group has one backend for all its devices.
        # Every rank of this group counts splits, so that the ranks of the new group agree on its name.
        self._splits += 1
        if self.backend.rank() not in ranks:
            return None
        name = group_name or f"{self.group_name}:split:{self._splits}"
        whole = dist.get_process_group_ranks(self)
        asked = SimpleNamespace(
            store=dist.PrefixStore(f"{name}/", self.get_group_store()),
            group_rank=list(ranks).index(self.backend.rank()),
            group_size=len(ranks),
            timeout=timeout or self.backend.timeout,
            group_id=name,
            global_ranks_in_group=[whole[rank] for rank in ranks],
        )
        group = create(asked, opts)
        group._set_group_name(name)  # noqa: SLF001 - there is no public way
        group._set_group_desc(group_desc or f"{self.group_desc}:split:{self._splits}")  # noqa: SLF001
        return group


def _forward(name: str) -> Any:
    def method(self: Group, *args: Any, **more: Any) -> Any:
        try:
            return getattr(self.backend, name)(*args, **more)
        except SynclineError as error:
            raise backend_error(error) from error.__cause__

    method.__name__ = method.__qualname__ = name
    method.__doc__ = getattr(Backend, name).__doc__
    return method


for _name in FORWARDED:
    setattr(Group, _name, _forward(_name))
untraced(Group)


@dataclass(frozen=True)
class First:
    """The first group of the job: later groups take over its options."""

    options: Options
    communicator: Communicator


_first: First | None = None


def _racks(options: Options, members: Sequence[int], world: int) -> list[int] | None:
    """Returns the rack of each rank of a group, from the racks of the job's ranks."""
    if options.plans.racks is None:
        return None
    of = of_ranks(options.plans.racks, world)
    return [of[rank] for rank in members]


def _order(options: Options, members: Sequence[int]) -> list[int] | None:
    """Returns the order of a group's ranks, from the order of the job's ranks."""
    if options.plans.order is None:
        return None
    place = {rank: number for number, rank in enumerate(members)}
    order = [place[rank] for rank in options.plans.order if rank in place]
    if len(order) != len(members):
        missing = sorted(set(members) - set(options.plans.order))
        raise bad_value(
            "the order of ranks does not have each rank once", f"none of {missing}", allowed="every rank of the job"
        )
    return order


def _plans(options: Options, members: Sequence[int], world: int) -> Plans:
    """Returns the plans of a group, from those of a job with ``world`` ranks."""
    return replace(options.plans, order=_order(options, members), racks=_racks(options, members, world))


def create(opts: Any, options: Any) -> Group | Backend:
    """Makes a group, or the backend of a group that has others, too; called by PyTorch.

    Groups without options use the connections and threads of the first group; others have their own.
    """
    global _first
    if options is not None and not isinstance(options, Options):
        raise bad_value("these are not options of syncline", type(options).__name__, allowed="syncline.torch.Options")
    whole = not opts.global_ranks_in_group
    members = list(opts.global_ranks_in_group) or list(range(opts.group_size))
    seconds = opts.timeout.total_seconds()
    first = None if whole else _shared()
    find_groups = None
    if options is None and first is not None:
        # With the racks that the first group has found, if it looked for some.
        racks = first.communicator.plans.racks if first.options.groups is not None else first.options.plans.racks
        order = None if racks is not None else first.options.plans.order
        chosen = replace(first.options, plans=replace(first.options.plans, rules=(), racks=racks, order=order))
        communicator = first.communicator.group(
            members,
            f"torch.distributed group {opts.group_id}",
            plans=_plans(chosen, members, dist.get_world_size()),
            deadline_s=seconds,
        )
    else:
        chosen = options or Options()
        if chosen.in_order and (chosen.autotune == "on" or chosen.groups is not None):
            found = "in_order with autotune or groups"
            allowed = "either: plans that follow from measurements differ from run to run"
            raise bad_value("runs cannot be reproducible with plans chosen by measurements", found, allowed=allowed)
        find_groups = finder(chosen.groups) if whole and chosen.groups is not None else None
        communicator = _join(opts, chosen, members, seconds, whole=whole)
    if whole:
        _first = First(chosen, communicator)
    tuner = None
    if whole:
        if find_groups is not None:
            find_groups(communicator)
        tuner = Tuner(communicator, chosen.autotune, chosen.tuning)
    backend = Backend(communicator, opts.timeout, in_order=chosen.in_order, tuner=tuner)
    at_exit.register(backend)
    return backend if _is_one_of_several() else Group(opts.store, backend)


def _is_one_of_several() -> bool:
    """Whether the group that PyTorch makes has other backends, too, as in ``cpu:syncline,cuda:nccl``.

    PyTorch tells a backend nothing of others, so this looks at the variables of its function.
    """
    config = sys._getframe(2).f_locals.get("backend_config")  # noqa: SLF001 - see above
    return config is not None and len(set(config.get_device_backend_map().values())) > 1


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """Returns the communicator that runs a process group's collectives; by default, that of the default group.

    It can change the group's plans while training goes on: see
    :meth:`Communicator.change_plans <syncline.runtime.Communicator.change_plans>`. Do not begin operations on it: ranks
    must agree on their order, and on a process group PyTorch begins them.

    Raises ``SynclineError`` (SL0102) if the backend of the group is not ``syncline``.
    """
    return _backend(group).communicator


def _backend(group: dist.ProcessGroup | None) -> Backend:
    """Returns what runs a process group's collectives."""
    asked = dist.group.WORLD if group is None else group
    backend = _own_backend(asked)
    if backend is None:
        found = asked.name() if isinstance(asked, dist.ProcessGroup) else "no group of this rank"
        raise bad_value("this group does not run on syncline", found, allowed='init_process_group("syncline")')
    return backend


def _own_backend(group: Any) -> Backend | None:
    """Returns the backend of this package that a process group has, if it has one."""
    if isinstance(group, Group):
        return group.backend
    if not isinstance(group, dist.ProcessGroup):
        return None
    for device in group._device_types:  # noqa: SLF001 - there is no public way
        backend = group._get_backend(device)  # noqa: SLF001 - see above
        if isinstance(backend, Backend):
            return backend
    return None


def tuner(group: dist.ProcessGroup | None = None) -> Tuner | None:
    """Returns the tuner of the default group, or of ``group`` if that is the default group; ``None`` for others.

    Raises ``SynclineError`` (SL0102) if the backend of the group is not ``syncline``.
    """
    return _backend(group).tuner


def _shared() -> First | None:
    """Returns the first group, if it is still the job's default group."""
    default = _own_backend(dist.group.WORLD)
    same = default is not None and _first is not None and default.communicator is _first.communicator
    return _first if same else None


def _join(opts: Any, chosen: Options, members: list[int], seconds: float, *, whole: bool) -> Communicator:
    """Joins the ranks of a group by new connections and threads."""
    meeting = replace(
        chosen.meeting,
        interfaces=interfaces(opts.store, chosen.meeting.interfaces),
        rendezvous=StoreRendezvous(opts.store),
    )
    return Communicator.join(
        opts.group_rank,
        opts.group_size,
        job=f"torch.distributed group {opts.group_id}",
        meeting=meeting,
        security=chosen.security,
        plans=_plans(chosen, members, opts.group_size if whole else dist.get_world_size()),
        resources=chosen.resources,
        limits=replace(chosen.limits, wait_s=seconds, deadline_s=seconds),
    )


def register() -> None:
    """Registers the backend with ``torch.distributed``; importing ``syncline.torch`` calls this."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])
