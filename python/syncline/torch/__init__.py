"""Sums gradients of PyTorch by the plans of this package (extra ``torch``).

There are several ways to use it. As a backend of ``torch.distributed``, for everything that is built on it (DDP, FSDP2,
your own collectives)::

    import torch.distributed as dist
    import syncline.torch

    dist.init_process_group("syncline")

As the communication hook of a DDP module, beside another backend::

    ranks = syncline.torch.join()
    ddp.register_comm_hook(None, syncline.torch.hook(ranks))

As an optimizer that runs on parameter hubs, without DDP::

    optimizer = syncline.torch.HubOptimizer(model.parameters(), Sgd(lr=0.1), "10.0.0.9")

And with :class:`Elastic`, for training that goes on after ranks are lost.

- :mod:`~syncline.torch.process_group`: makes process groups of the backend ``syncline``;
- :mod:`~syncline.torch.backend`, ``sparse``: their operations, also on sparse tensors;
- :mod:`~syncline.torch.settings`: options of the backend;
- :mod:`~syncline.torch.ddp`: the hook;
- :mod:`~syncline.torch.elastic`: training that goes on after ranks are lost;
- :mod:`~syncline.torch.optimizer`, ``buckets``, ``parameter_groups``: the optimizer on hubs, the vectors that it
  exchanges, and its settings;
- :mod:`~syncline.torch.rendezvous`: lets ranks meet through a store of PyTorch;
- :mod:`~syncline.torch.work`, ``queue``, ``callbacks``: operations under way, their order, and what follows them;
- :mod:`~syncline.torch.elements`, ``device``: element types, and memory of GPUs;
- :mod:`~syncline.torch.failures`, ``profiling``, ``tracing``: errors, the profiler and ``torch.compile``.
"""

from importlib.metadata import version
from importlib.util import find_spec

from syncline.extras import install

if find_spec("torch") is None:
    raise ImportError(f"syncline.torch needs PyTorch, which is not installed: {install('torch')}")
# PyTorch supports backends written in Python from 2.14 on.
if [int(part) for part in version("torch").split(".")[:2]] < [2, 14]:
    raise ImportError(f"syncline.torch needs PyTorch 2.14 or newer, and this is {version('torch')}: {install('torch')}")

from syncline.torch.ddp import hook, join, vectors
from syncline.torch.elastic import Elastic
from syncline.torch.optimizer import HubOptimizer
from syncline.torch.process_group import communicator, register, tuner
from syncline.torch.rendezvous import StoreRendezvous
from syncline.torch.settings import Options

__all__ = [
    "Elastic",
    "HubOptimizer",
    "Options",
    "StoreRendezvous",
    "communicator",
    "hook",
    "join",
    "register",
    "tuner",
    "vectors",
]

register()
