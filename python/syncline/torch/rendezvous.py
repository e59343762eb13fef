"""Lets ranks meet through a store of ``torch.distributed``."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import torch.distributed as dist

from syncline.runtime.addresses import toward
from syncline.runtime.rendezvous import PAUSE_S

if TYPE_CHECKING:
    from collections.abc import Sequence


class StoreRendezvous:
    """A :class:`~syncline.runtime.rendezvous.Rendezvous` through a store of PyTorch.

    The store may be the ``TCPStore`` that ``init_process_group`` makes, or a ``FileStore``. Groups that use one store
    need different names.
    """

    def __init__(self, store: dist.Store, name: str = "job") -> None:
        self._store = dist.PrefixStore(f"syncline/{name}", store)

    def publish(self, key: str, value: bytes) -> None:
        """Stores a value under a key."""
        self._store.set(key, value.hex())

    def fetch(self, key: str, timeout: float) -> bytes:
        """Waits for a value under a key and returns it. Raises ``TimeoutError`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        # Poll: while a store waits for a key, other threads cannot use it.
        while not self._store.check([key]):
            if time.monotonic() >= deadline:
                raise TimeoutError(key)
            time.sleep(PAUSE_S)
        return bytes.fromhex(self._store.get(key).decode())


def _host(store: dist.Store | None) -> str | None:
    """Returns the host of the store's server, or ``MASTER_ADDR`` if the store has no server."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, dist.TCPStore) else os.environ.get("MASTER_ADDR")


def interfaces(store: dist.Store | None, given: Sequence[str] | None) -> list[str]:
    """Returns the addresses at which other ranks reach this host.

    These are the addresses in ``given``, or in ``SYNCLINE_ADDRESSES``. Without them, it is the address from which this
    host reaches the store or ``MASTER_ADDR``, or the loopback address if there is neither.
    """
    if given is not None:
        return list(given)
    own = os.environ.get("SYNCLINE_ADDRESSES")
    if own is not None:
        return [each for each in own.split(",") if each]
    host = _host(store)
    return [(None if host is None else toward(host)) or "127.0.0.1"]
