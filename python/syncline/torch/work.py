"""An operation under way, as PyTorch sees it."""

from __future__ import annotations

import collections
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.errors import Diagnostic, SynclineError
from syncline.torch.callbacks import POOL
from syncline.torch.failures import BackendError, failure, late
from syncline.torch.tracing import untraced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from syncline.runtime.communicator import Pending
    from syncline.torch.device import Local
    from syncline.torch.profiling import Span
    from syncline.torch.queue import Queue


DIFFER = "asks for"
"""What an error says where ranks ask for different things."""

SMALL = 1024
"""Most bytes of results that :data:`_HANDED_OUT` keeps for a work."""

_HANDED_OUT: collections.deque[Work] = collections.deque(maxlen=256)
"""The latest asynchronous works that no Python code holds any more.

PyTorch's C++ may still hold such a work (DDP's uneven inputs, for one): it asks the Python object for everything, but
does not keep it alive, and does not tell that it holds one. So the latest are kept, without large results.
"""


@untraced
class Work(dist.Work):  # type: ignore[misc]  # the base is not known without PyTorch
    """An operation under way. Its tensors may not be touched until it has been waited for."""

    def __init__(
        self,
        what: str,
        queue: Queue,
        places: Sequence[Local],
        begin: Callable[[], Sequence[Pending]],
        results: Sequence[torch.Tensor],
        *,
        after: float | int | None = None,
        limit: timedelta | None = None,
        last: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.what = what
        self.places = list(places)
        self._queue = queue
        self._begin = begin
        self._results = list(results)
        self._after = after
        self._limit = limit
        self._last = last
        self._lock = threading.Lock()
        self._over: threading.Event | None = None
        self._ended = False
        self._error: Exception | None = None
        self._future: Any = None
        self._told: Any = None
        self._parts: Sequence[Pending] = ()
        self._left = 0
        self._watched = False
        self._ending = False
        self.handed_out = False
        """Whether Python code got it, to wait for it later."""
        self.span: Span | None = None
        """Its place in a profiler's trace, if there is one."""
        self._telling = False
        # There is nothing to copy or to multiply.
        self._plain = after is None and last is None and all(place.direct for place in self.places)

    def _inference(self) -> bool:
        """Whether there are tensors of inference mode, which can only be written in it."""
        return any(tensor.is_inference() for place in self.places for tensor in place.tensors)

    def _mode(self) -> Any:
        """No gradients, and inference mode where that has to be."""
        return torch.inference_mode() if self._inference() else torch.no_grad()

    # What the queue calls.

    def prepare(self) -> None:
        """Sees to it that what it works on is, or will be, on the CPU."""
        if self._plain:
            return
        with self._mode():
            for place in self.places:
                place.prepare()

    def ready(self) -> bool:
        """Whether it can begin."""
        return all(place.ready() for place in self.places)

    def hold(self) -> None:
        """Waits until it can begin."""
        for place in self.places:
            place.wait()

    def start(self) -> None:
        """Begins; from now on it ends by itself."""
        try:
            # There is no graph of what is detached.
            with nullcontext() if self._plain and not self._inference() else self._mode():
                parts = self._begin()
        except Exception as error:  # noqa: BLE001 - it is told to whoever waits
            self.end(error)
            return
        if not parts:
            self.end(None)
        with self._lock:
            self._left, self._parts = len(parts), parts
            watched = self._watched = self._watched or self._future is not None or not self._plain
        if watched:
            for part in parts:
                part.then(self._part_over)

    def watch(self) -> None:
        """Has it end by itself. Whoever waits ends it sooner, so that this is left until somebody needs it."""
        with self._lock:
            known, self._watched = self._watched, True
            parts = () if known else self._parts
        for part in parts:
            part.then(self._part_over)

    def look(self) -> None:
        """Ends it, if it is over and nobody has noticed."""
        if not self._watched and self._parts and all(part.done() for part in self._parts):
            self._help(here=False)

    def _part_over(self, error: SynclineError | None) -> None:
        with self._lock:
            self._error = self._error or error
            self._left -= 1
            if self._left:
                return
        self.end(self._error)

    def end(self, error: Exception | None, *, here: bool = False) -> None:
        """It is over. Only the first end counts. With ``here`` the caller completes the future itself."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        if error is None and not self._plain:
            try:
                with self._mode():
                    for place in self.places:
                        place.finish(self._after if place.writes else None)
                    if self._last is not None:
                        self._last()
            except Exception as raised:  # noqa: BLE001 - it is told to whoever waits
                error = raised
        with self._lock:
            self._error = self._shaped(error)
            future = self._future
            self._ended = True
            if self._over is not None:
                self._over.set()
        if self.span is not None:
            self.span.end()
        self._queue.over(self)
        if future is not None and not here:
            POOL.put(self._tell)

    def _shaped(self, error: Exception | None) -> Exception | None:
        """The error as PyTorch gets it.

        Where ranks ask for different things it has this rank's shapes, of which plans know nothing.
        """
        if not isinstance(error, SynclineError):
            return error
        error = failure(error)
        if not any(DIFFER in each["message"] for each in error.diagnostics):
            return error
        shapes = ", ".join(str(tuple(tensor.shape)) for place in self.places for tensor in place.tensors)
        own = f"{self.what} of this rank: {shapes}"
        told: list[Diagnostic] = [{**each, "notes": [*each.get("notes", []), own]} for each in error.diagnostics]
        return BackendError(told, error.exit_status)

    def _tell(self) -> None:
        """Completes the future, and runs what was attached to it, unless another thread does."""
        with self._lock:
            known, self._telling = self._telling, True
        if known:
            return
        if self._error is None:
            for place in self.places:
                place.join()
        self._future.set_result(None if self._error is not None else self.value())

    def value(self) -> Any:
        """What the future is of."""
        return self._results

    # What PyTorch calls.

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is over, for ``timeout`` at most; raises what went wrong, or that it is late."""
        seconds = None
        for limit in (timeout, self._limit):
            # PyTorch says with no time at all, or less, that none was given.
            if limit is not None and limit.total_seconds() > 0:
                seconds = limit.total_seconds()
                break
        if seconds is None:
            self._help(here=True)
        if not self._await(seconds):
            raise late(f"{self.what} was not complete within its timeout of {seconds:.3f} s")
        if self.span is not None:
            self.span.wait()
        if self._future is not None:
            self._tell()
            # Another thread may be about to complete it: whoever has waited finds it complete.
            if not self._told.done():
                with suppress(RuntimeError):
                    self._told.wait()
        if self._error is not None:
            raise self._error
        for place in self.places:
            place.join()
        return True

    def __del__(self) -> None:
        if not getattr(self, "_ended", False) or not self.handed_out:
            return
        # What was worked on is released.
        self.places, self._parts, self._begin, self._last = [], (), tuple, None
        self._future = self._told = None
        self._telling = False
        if sum(tensor.numel() * tensor.element_size() for tensor in self._results) > SMALL:
            self._results = []
        _HANDED_OUT.append(self)

    def _await(self, seconds: float | None) -> bool:
        """Waits until it has ended, and says whether it has."""
        with self._lock:
            if self._ended:
                return True
            self._over = self._over or threading.Event()
            over = self._over
        self.watch()
        return over.wait(seconds)

    def _help(self, *, here: bool) -> None:
        """Ends it here, if it has begun: that is sooner than on the thread of callbacks."""
        error: Exception | None = None
        for part in self._parts:
            try:
                part.wait()
            except SynclineError as raised:
                error = error or raised
        if self._parts:
            self.end(error, here=here)

    def synchronize(self) -> None:
        """Waits until it is over."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        self.look()
        return self._ended

    def is_success(self) -> bool:
        """Whether it is over and went well."""
        self.look()
        return self._ended and self._error is None

    def exception(self) -> Exception | None:
        """What went wrong, if it is over and something did."""
        self.look()
        return self._error if self._ended else None

    def result(self) -> list[torch.Tensor]:
        """The tensors with the results, once they are there."""
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """A future of the tensors with the results."""
        with self._lock:
            known = self._future is not None
            if not known:
                devices = {tensor.device for tensor in self._results if tensor.device.type == "cuda"}
                self._future = torch.futures.Future(devices=sorted(devices, key=str) or None)
                # An error that a future of Python's is given is a value to C++, which takes it for tensors.
                self._told = self._future.then(self._value)
            over = self._ended
        self.watch()
        if over and not known:
            self._tell()
        return self._told

    def _value(self, future: Any) -> Any:
        if self._error is not None:
            raise self._error
        return future.value()

    def source_rank(self) -> int:
        """Which rank a message came from."""
        self.look()
        peers = [peer for part in self._parts if (peer := part.source) is not None]
        if not self._ended or len(peers) != 1:
            raise RuntimeError(f"{self.what} has received no message")
        return int(peers[0])

    _source_rank = source_rank
