"""Implements ``torch.distributed.Work``, PyTorch's interface to an operation under way."""

from __future__ import annotations

import collections
import threading
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.errors import Diagnostic, SynclineError
from syncline.torch.callbacks import POOL
from syncline.torch.failures import BackendError, backend_error, timeout_error
from syncline.torch.tracing import untraced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from syncline.runtime.communicator import Pending
    from syncline.torch.device import Local
    from syncline.torch.profiling import Span
    from syncline.torch.queue import Queue


SMALL = 1024
"""Maximum bytes of results that :data:`_HANDED_OUT` keeps for a work."""

_HANDED_OUT: collections.deque[Work] = collections.deque(maxlen=256)
"""The latest asynchronous works that no Python code holds any more.

PyTorch's C++ may still hold such a work, for example for DDP's uneven inputs. C++ calls the Python object, but does not
keep it alive, and Python cannot see that C++ holds it. This queue therefore keeps the latest works alive, without large
results.
"""


@dataclass(frozen=True)
class Operation:
    """What a :class:`Work` does."""

    what: str
    """Its name in messages."""
    places: Sequence[Local]
    """The memory that it reads and writes."""
    begin: Callable[[], Sequence[Pending]]
    """Begins it; called once the memory is ready."""
    results: Sequence[torch.Tensor]
    after: float | int | None = None
    """If a float, results are multiplied by it; if an integer, divided by it and rounded towards zero."""
    last: Callable[[], None] | None = None
    """Called at its end, if it has succeeded."""


@untraced
class Work(dist.Work):  # type: ignore[misc]  # the base is not known without PyTorch
    """An operation that is under way. Do not touch its tensors before you have waited for it."""

    def __init__(self, operation: Operation, queue: Queue, limit: timedelta | None = None) -> None:
        super().__init__()
        self.what = operation.what
        self.places = list(operation.places)
        self._queue = queue
        self._begin = operation.begin
        self._results = list(operation.results)
        self._after = operation.after
        self._limit = limit
        self._last = operation.last
        self._lock = threading.Lock()
        self._over: threading.Event | None = None
        self._ended = False
        self._error: Exception | None = None
        self._future: Any = None
        self._public_future: Any = None
        self._parts: Sequence[Pending] = ()
        self._left = 0
        self._watched = False
        self._ending = False
        self.handed_out = False
        """Whether the caller got this object, to wait for it later."""
        self.span: Span | None = None
        """Its span in a profiler's trace, if one is recorded."""
        self._completing = False
        # Plain: the operation needs no copies and no arithmetic after it.
        self._plain = self._after is None and self._last is None and all(place.direct for place in self.places)

    def _inference(self) -> bool:
        """Returns whether a tensor was made in inference mode: such tensors can be written only in that mode."""
        return any(tensor.is_inference() for place in self.places for tensor in place.tensors)

    def _mode(self) -> Any:
        """Returns the context in which tensors are written: inference mode if necessary, or else without gradients."""
        return torch.inference_mode() if self._inference() else torch.no_grad()

    # Called by the queue.

    def prepare(self) -> None:
        """Begins to copy the tensors to the CPU, where the operation needs copies."""
        if self._plain:
            return
        with self._mode():
            for place in self.places:
                place.prepare()

    def ready(self) -> bool:
        """Returns whether the operation can begin: its copies are complete."""
        return all(place.ready() for place in self.places)

    def hold(self) -> None:
        """Waits until the operation can begin."""
        for place in self.places:
            place.wait()

    def start(self) -> None:
        """Begins the operation."""
        try:
            # The tensors are detached, so a plain operation needs no context to avoid gradients.
            with nullcontext() if self._plain and not self._inference() else self._mode():
                parts = self._begin()
        except Exception as error:  # noqa: BLE001 - raised by `wait`
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
        """Makes the thread of callbacks end the operation, from now on.

        A waiting thread can end it sooner, so this is called only if something else depends on the end.
        """
        with self._lock:
            known, self._watched = self._watched, True
            parts = () if known else self._parts
        for part in parts:
            part.then(self._part_over)

    def look(self) -> None:
        """Ends the operation here if it is over and no thread has ended it yet."""
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
        """Ends the operation; only the first call has an effect. With ``here`` the caller completes the future."""
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
            except Exception as raised:  # noqa: BLE001 - raised by `wait`
                error = raised
        with self._lock:
            self._error = self._converted(error)
            future = self._future
            self._ended = True
            if self._over is not None:
                self._over.set()
        if self.span is not None:
            self.span.end()
        self._queue.over(self)
        if future is not None and not here:
            POOL.put(self._complete)

    def _converted(self, error: Exception | None) -> Exception | None:
        """Converts an error for PyTorch.

        If ranks ask for different things, adds a note with the shapes of this rank's tensors, which plans do not know.
        """
        if not isinstance(error, SynclineError):
            return error
        error = backend_error(error)
        if not any(each.get("kind") == "differs" for each in error.diagnostics):
            return error
        shapes = ", ".join(str(tuple(tensor.shape)) for place in self.places for tensor in place.tensors)
        own = f"{self.what} of this rank: {shapes}"
        with_notes: list[Diagnostic] = [{**each, "notes": [*each.get("notes", []), own]} for each in error.diagnostics]
        return BackendError(with_notes, error.exit_status)

    def _complete(self) -> None:
        """Completes the future and runs its callbacks, unless another thread does."""
        with self._lock:
            known, self._completing = self._completing, True
        if known:
            return
        if self._error is None:
            for place in self.places:
                place.join()
        self._future.set_result(None if self._error is not None else self.value())

    def value(self) -> Any:
        """Returns the value of the future."""
        return self._results

    # Called by PyTorch.

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until the operation is over, at most ``timeout``; raises its error, or a timeout error."""
        seconds = None
        for limit in (timeout, self._limit):
            # PyTorch passes a timeout of 0 or less if the user gave none.
            if limit is not None and limit.total_seconds() > 0:
                seconds = limit.total_seconds()
                break
        if seconds is None:
            self._help(here=True)
        if not self._await(seconds):
            raise timeout_error(f"{self.what} was not complete within its timeout of {seconds:.3f} s")
        if self.span is not None:
            self.span.wait()
        if self._future is not None:
            self._complete()
            # Another thread may be about to complete the future: return only once it is complete.
            if not self._public_future.done():
                with suppress(RuntimeError):
                    self._public_future.wait()
        if self._error is not None:
            raise self._error
        for place in self.places:
            place.join()
        return True

    def __del__(self) -> None:
        if not getattr(self, "_ended", False) or not self.handed_out:
            return
        # Release the tensors that the operation used.
        self.places, self._parts, self._begin, self._last = [], (), tuple, None
        self._future = self._public_future = None
        self._completing = False
        if sum(tensor.numel() * tensor.element_size() for tensor in self._results) > SMALL:
            self._results = []
        _HANDED_OUT.append(self)

    def _await(self, seconds: float | None) -> bool:
        """Waits until the operation has ended, at most ``seconds``, and returns whether it has."""
        with self._lock:
            if self._ended:
                return True
            self._over = self._over or threading.Event()
            over = self._over
        self.watch()
        return over.wait(seconds)

    def _help(self, *, here: bool) -> None:
        """Waits for the operation and ends it on this thread, if it has begun: faster than on the callbacks' thread."""
        error: Exception | None = None
        for part in self._parts:
            try:
                part.wait()
            except SynclineError as raised:
                error = error or raised
        if self._parts:
            self.end(error, here=here)

    def synchronize(self) -> None:
        """Waits until the operation is over."""
        self.wait()

    def is_completed(self) -> bool:
        """Returns whether the operation is over, successfully or not."""
        self.look()
        return self._ended

    def is_success(self) -> bool:
        """Returns whether the operation is over and has succeeded."""
        self.look()
        return self._ended and self._error is None

    def exception(self) -> Exception | None:
        """Returns the error of the operation if it is over and has failed."""
        self.look()
        return self._error if self._ended else None

    def result(self) -> list[torch.Tensor]:
        """Waits for the operation and returns the tensors with the results."""
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """Returns a future whose value is the list of tensors with the results."""
        with self._lock:
            known = self._future is not None
            if not known:
                devices = {tensor.device for tensor in self._results if tensor.device.type == "cuda"}
                self._future = torch.futures.Future(devices=sorted(devices, key=str) or None)
                # C++ would take an error that is set on a Python future for a value. A callback that raises it works.
                self._public_future = self._future.then(self._value)
            over = self._ended
        self.watch()
        if over and not known:
            self._complete()
        return self._public_future

    def _value(self, future: Any) -> Any:
        if self._error is not None:
            raise self._error
        return future.value()

    def source_rank(self) -> int:
        """Returns the rank at the other side of a message."""
        self.look()
        peers = [peer for part in self._parts if (peer := part.source) is not None]
        if not self._ended or len(peers) != 1:
            raise RuntimeError(f"{self.what} has received no message")
        return int(peers[0])

    _source_rank = source_rank
