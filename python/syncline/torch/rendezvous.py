"""Ranks that meet through a store of ``torch.distributed``."""

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
    """Ranks meet through a store, such as the ``TCPStore`` that ``init_process_group`` makes or a ``FileStore``.

    It is a :class:`~syncline.runtime.rendezvous.Rendezvous`. ``name`` keeps groups on one store apart.
    """

    def __init__(self, store: dist.Store, name: str = "job") -> None:
        self._store = dist.PrefixStore(f"syncline/{name}", store)

    def publish(self, key: str, value: bytes) -> None:
        """Puts a value under a key."""
        self._store.set(key, value.hex())

    def fetch(self, key: str, timeout: float) -> bytes:
        """The value under a key, as soon as there is one. Raises ``TimeoutError`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        # A store that waits lets no other thread in: it is asked again and again.
        while not self._store.check([key]):
            if time.monotonic() >= deadline:
                raise TimeoutError(key)
            time.sleep(PAUSE_S)
        return bytes.fromhex(self._store.get(key).decode())


def _host(store: dist.Store | None) -> str | None:
    """Where the store is served, if somewhere."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store.host if isinstance(store, dist.TCPStore) else os.environ.get("MASTER_ADDR")


def interfaces(store: dist.Store | None, given: Sequence[str] | None) -> list[str]:
    """At which addresses others find this host.

    They are those that are given, or ``SYNCLINE_ADDRESSES``; else the address from which this host reaches the store or
    ``MASTER_ADDR``, or this machine alone where there is neither.
    """
    if given is not None:
        return list(given)
    own = os.environ.get("SYNCLINE_ADDRESSES")
    if own is not None:
        return [each for each in own.split(",") if each]
    host = _host(store)
    return [(None if host is None else toward(host)) or "127.0.0.1"]
