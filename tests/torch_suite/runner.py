"""Runs tests over one backend: ``python -m tests.torch_suite.runner BACKEND``.

It reads names of tests from stdin and prints an answer for each: a line of JSON with the test, whether it passed,
failed or was skipped, the seconds that it took, and the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import unittest

from tests.torch_suite.suite import names, widened


def run(tests: type[unittest.TestCase], name: str) -> dict[str, object]:
    """Runs a test, and returns the answer."""
    began = time.monotonic()
    result = unittest.TestResult()
    tests(name).run(result)
    status, why = "passed", ""
    if result.skipped:
        status, why = "skipped", result.skipped[0][1]
    elif failures := [*result.failures, *result.errors]:
        status, why = "failed", failures[0][1]
    return {"test": name, "status": status, "seconds": round(time.monotonic() - began, 2), "why": why}


def main(backend: str) -> None:
    """Answers until stdin ends; the first answer is the list of all tests."""
    # Redirect the output of tests to stderr, so that stdout has only answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tests = widened(backend)
    print(json.dumps(names(tests)), file=answers, flush=True)
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            answer = run(tests, line.strip())
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
