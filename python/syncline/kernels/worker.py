"""Measures case after case in a process of its own, which may fail or hang without loss.

It reads a request, one line of JSON, from standard input, and writes messages to standard output, each a line of JSON:
``facts`` of the device, the ``stage`` and the ``case`` that begins, a ``row``, a case that is ``skipped``,
``no_capture`` if another process has to measure it without a CUDA graph, an ``error`` that ends the process, and
``end``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, TextIO

from syncline.kernels import cases
from syncline.kernels.bench import Bench, CaptureError
from syncline.kernels.device import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.kernels.cases import Case, Stage

PATIENCE_S = 60.0
"""After so long without a message, a case hangs."""
COMPILER_PATIENCE_S = 120.0
"""The same, where something is compiled."""


EVERYTHING = "everything"
"""Stands for all kinds of cases in the list of those without CUDA graphs."""


class Worker:
    """Sends messages about what it measures."""

    def __init__(self, request: dict[str, Any], out: TextIO) -> None:
        self.request = request
        self._out = out
        self._done = set(request["done"])

    def send(self, **message: Any) -> None:
        """Writes a message."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def run(self) -> int:
        """Measures everything, or as much as there is time for; returns the exit status."""
        try:
            import torch
        except ImportError as problem:
            self.send(error="no_torch", why=str(problem))
            return 1
        device = self.request["device"]
        if device == "cuda" and not torch.cuda.is_available():
            self.send(error="no_cuda", why="PyTorch finds no CUDA device")
            return 1
        with contextlib.ExitStack() as stack:
            if device == "cuda":
                torch.cuda.init()
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
            quick = self.request["quick"]
            if quick and device == "cpu":
                # Threads wait for each other longer than tiny shapes take, the more so on a busy machine.
                torch.set_num_threads(1)
            self.send(facts=facts(torch, device))
            bench = Bench(torch, device, row_s=0.002 if quick else 0.02, pool_bytes=1 << 24 if quick else None)
            bench.start()
            gc.collect()
            gc.freeze()
            for case, family in self._order():
                if not self._measure(case, family, bench):
                    return 1
            bench.gauge.close()
        self.send(end=True)
        return 0

    def _order(self) -> Iterator[tuple[Case, cases.Family]]:
        """Cases, first of all stages in turn for their part of the time, then what is left of each."""
        stages = cases.plan(self.request["operations"], quick=self.request["quick"])
        left: list[tuple[Stage, list[Case]]] = [
            (stage, [case for case in reversed(each) if case.key not in self._done]) for stage, each in stages
        ]
        for limited in (True, False):
            for stage, pending in left:
                if not pending:
                    continue
                self.send(stage=f"{stage.family} {stage.level}", cases=len(pending))
                gc.collect()
                part = stage.share * self.request["seconds"] if limited else float("inf")
                ends = min(time.time() + part, self.request["deadline"])
                module = cases.family(stage.family)
                while pending and time.time() < ends:
                    yield pending.pop(), module

    def _measure(self, case: Case, family: cases.Family, bench: Bench) -> bool:
        """Measures a case and sends its rows; False if the device cannot be used any more."""
        compiled = case.row.get("variant") == "compiled"
        self.send(case=case.key, patience_s=COMPILER_PATIENCE_S if compiled else PATIENCE_S)
        out_of_memory: type[BaseException] = getattr(bench.torch, "OutOfMemoryError", MemoryError)
        why = ""
        for attempt in (1, 2):
            rows = 0
            try:
                bench.begin(capture=not {captures(case), EVERYTHING} & {*self.request["no_capture"]})
                for measured in family.measure(case, bench):
                    rows += 1
                    self.send(row={**case.row, **measured})
            except CaptureError as problem:
                self.send(no_capture=captures(case), case=case.key, why=str(problem)[:300])
                return False
            except Exception as problem:  # noqa: BLE001 - whatever one case fails of, others may work
                why = f"{type(problem).__name__}: {next(iter(str(problem).splitlines()), '')}"[:300]
                again = isinstance(problem, (out_of_memory, MemoryError)) and attempt == 1 and not rows
            else:
                return True
            try:
                bench.synchronize()
                if again:
                    gc.collect()
                    bench.recover()
            except Exception as problem:  # noqa: BLE001 - another process can go on
                self.send(skipped=case.key, why=why)
                self.send(error="device", why=f"{type(problem).__name__}: {problem}"[:300])
                return False
            if not again:
                break
        self.send(skipped=case.key, why=why)
        return True


def captures(case: Case) -> str:
    """What has to be launched one by one, where a case of it cannot be captured in a graph."""
    return f"{case.row['operation']} {case.row.get('pass')} {case.row.get('variant')}"


def main() -> int:
    """Runs a worker on this process's streams."""
    request = json.loads(sys.stdin.readline())
    # What libraries print goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    try:
        return Worker(request, out).run()
    except BrokenPipeError:
        # The supervisor is gone.
        os._exit(1)


if __name__ == "__main__":
    status = main()
    # PyTorch's threads and compilers take long to end, and have nothing left to do.
    sys.stdout.flush()
    os._exit(status)
