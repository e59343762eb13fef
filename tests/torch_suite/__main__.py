"""Runs PyTorch's tests over Gloo and over ``syncline``: ``python -m tests.torch_suite [NAME...]``.

Prints tests whose results differ, and how many pass. Exits with status 1 if a test passes over Gloo but not over
``syncline``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORLD = 4
BACKENDS = ("gloo", "syncline")


class Runner:
    """The process that runs tests over one backend."""

    def __init__(self, backend: str, log: Path, timeout_s: int) -> None:
        environment = {
            **os.environ,
            "WORLD_SIZE": str(WORLD),
            "TEMP_DIR": tempfile.mkdtemp(prefix="torch-suite-"),
            "INIT_METHOD": "file:///dev/null",  # must be set, but is not used: ranks of each test meet at another file
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(timeout_s),
        }
        command = [sys.executable, "-W", "ignore", "-m", "tests.torch_suite.runner", backend]
        with log.open("w") as err:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=-1, stdout=-1, stderr=err, text=True, start_new_session=True
            )
        self.names = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process that runs the tests has ended: see its log")
        return json.loads(line)

    def run(self, name: str) -> dict[str, object]:
        """Runs a test, and returns the answer."""
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait(60)


def main() -> int:
    """Runs the tests, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.torch_suite", description=__doc__)
    parser.add_argument("names", nargs="*", help="tests to run, by parts of their names; by default all")
    parser.add_argument("--from", dest="file", type=Path, help="a file with the name of one test in each line")
    parser.add_argument(
        "--logs", type=Path, default=Path(tempfile.gettempdir()) / "torch-suite", help="folder for logs"
    )
    parser.add_argument("--timeout", type=int, default=100, help="maximum seconds for a test")
    parser.add_argument("--all", action="store_true", help="also show tests with equal results")
    chosen = parser.parse_args()
    chosen.logs.mkdir(parents=True, exist_ok=True)
    runners = {each: Runner(each, chosen.logs / f"{each}.log", chosen.timeout) for each in BACKENDS}
    names = runners["gloo"].names
    if chosen.file:
        wanted = chosen.file.read_text().split()
        if missing := sorted(set(wanted) - set(names)):
            print("this PyTorch does not have: " + ", ".join(missing))
        names = [name for name in names if name in wanted]
    names = [name for name in names if not chosen.names or any(part in name for part in chosen.names)]
    answers = []
    with (chosen.logs / "answers.jsonl").open("w") as out:
        for name in names:
            both = {"test": name}
            both["gloo"] = runners["gloo"].run(name)
            # A test that Gloo fails or skips is no standard for another backend.
            if both["gloo"]["status"] == "passed":
                both["syncline"] = runners["syncline"].run(name)
            answers.append(both)
            print(json.dumps(both), file=out, flush=True)
            ours = both.get("syncline", {"status": "-", "seconds": 0})
            if chosen.all or ours["status"] not in ("passed", "-"):
                print(f"{name:70} gloo {both['gloo']['status']:8} syncline {ours['status']}", flush=True)
    for runner in runners.values():
        runner.close()
    good = [both for both in answers if both["gloo"]["status"] == "passed"]
    lost = [both["test"] for both in good if both["syncline"]["status"] != "passed"]
    took = {each: sum(both[each]["seconds"] for both in good) for each in BACKENDS}
    print(f"{len(answers)} tests; Gloo passes {len(good)} in {took['gloo']:.0f} s,", end=" ")
    print(f"syncline {len(good) - len(lost)} of these in {took['syncline']:.0f} s")
    return 1 if lost or not good else 0


if __name__ == "__main__":
    sys.exit(main())
