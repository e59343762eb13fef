"""Gradients of PyTorch, summed by the plans of this package (extra ``torch``).

Three ways in. As a backend of ``torch.distributed``, for everything that uses it (DDP, FSDP2, your own collectives)::

    import torch.distributed as dist
    import syncline.torch

    dist.init_process_group("syncline")

Or as the communication hook of a DDP module, beside another backend::

    ranks = syncline.torch.join()
    ddp.register_comm_hook(None, syncline.torch.hook(ranks))

Or with an optimizer whose work parameter hubs do, without DDP::

    optimizer = syncline.torch.HubOptimizer(model.parameters(), Sgd(lr=0.1), "10.0.0.9")

Or, where training is to go on without ranks that are lost, :class:`Elastic`.

- :mod:`~syncline.torch.group`: the backend;
- :mod:`~syncline.torch.settings`: what it can be told;
- :mod:`~syncline.torch.ddp`: the hook;
- :mod:`~syncline.torch.elastic`: training that goes on;
- :mod:`~syncline.torch.optimizer`, ``buckets``, ``groups``: the optimizer, what it exchanges, and its settings;
- :mod:`~syncline.torch.rendezvous`: how ranks meet through a store of PyTorch;
- :mod:`~syncline.torch.work`, ``queue``, ``elements``, ``device``: operations under way, their order, types of
  elements, and memory of GPUs.
"""

from importlib.metadata import version
from importlib.util import find_spec

from syncline.extras import install

if find_spec("torch") is None:
    raise ImportError(f"syncline.torch needs PyTorch, which is not installed: {install('torch')}")
# Before 2.14, PyTorch had no backends that are written in Python.
if [int(part) for part in version("torch").split(".")[:2]] < [2, 14]:
    raise ImportError(f"syncline.torch needs PyTorch 2.14 or newer, and this is {version('torch')}: {install('torch')}")

from syncline.torch.ddp import hook, join, vectors
from syncline.torch.elastic import Elastic
from syncline.torch.group import register
from syncline.torch.optimizer import HubOptimizer
from syncline.torch.rendezvous import StoreRendezvous
from syncline.torch.settings import Options

__all__ = ["Elastic", "HubOptimizer", "Options", "StoreRendezvous", "hook", "join", "register", "vectors"]

register()
