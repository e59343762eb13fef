"""A rendezvous in Redis (extra ``redis``)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors
from syncline.runtime.rendezvous import PAUSE_S

if TYPE_CHECKING:
    import redis

KEPT_S = 3600
"""How long Redis keeps a value that no rank wipes because the job died while its ranks met."""


class RedisRendezvous:
    """A :class:`~syncline.runtime.rendezvous.Rendezvous` through a Redis server.

    ``server`` is a URL (``redis://host:6379/0``, ``rediss://`` for TLS) or a client of the library ``redis``. ``name``
    is the name of the job. Jobs that run at the same time need different names.
    """

    def __init__(self, server: str | redis.Redis, name: str) -> None:
        self._client: Any = server
        self._name = name
        if isinstance(server, str):
            try:
                import redis
            except ImportError:
                raise_errors(
                    error(
                        Code.MISSING_PACKAGE,
                        "a rendezvous in Redis needs the package redis, which is not installed",
                        help=install("redis"),
                    )
                )
            self._client = redis.Redis.from_url(server)

    def _key(self, key: str) -> str:
        return f"syncline/{self._name}/{key}"

    def publish(self, key: str, value: bytes) -> None:
        """Stores a value under a key for an hour."""
        self._client.set(self._key(key), value, ex=KEPT_S)

    def fetch(self, key: str, timeout: float) -> bytes:
        """Waits for a value under a key and returns it. Raises ``TimeoutError`` after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while (value := self._client.get(self._key(key))) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError(key)
            time.sleep(PAUSE_S)
        return bytes(value)
