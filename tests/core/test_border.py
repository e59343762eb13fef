"""The boundary between Rust and Python: quantities, errors, panics."""

from __future__ import annotations

import json
import threading
import time

import pytest

import syncline
from syncline import _core
from syncline.errors import ExitStatus


@pytest.mark.parametrize(
    ("kind", "text", "value", "shown"),
    [
        ("time", "0.5us", 500_000, "500ns"),
        ("bytes", "64MiB", 64 << 20, "64MiB"),
        ("rate", "25GB/s", 200 * 10**9, "25GB/s"),
        ("flops", "4.1GFLOP", 4_100_000_000, "4.1GFLOP"),
        ("flop_rate", "312TFLOP/s", 312 * 10**12, "312TFLOP/s"),
        ("frequency", "1GHz", 10**9, "1GHz"),
    ],
)
def test_quantities_are_parsed_and_formatted(kind: str, text: str, value: int, shown: str) -> None:
    assert _core.parse_quantity(kind, text) == value
    assert _core.format_quantity(kind, value) == shown
    assert _core.parse_quantity(kind, _core.exact_quantity(kind, value)) == value


def test_an_invalid_quantity_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError) as caught:
        _core.parse_quantity("rate", "50")
    assert caught.value.args == ("a number without a unit", 'add a unit, such as "50Gb/s"')


def test_a_panic_becomes_a_diagnostic() -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        _core._panic("what should be impossible")
    (found,) = caught.value.diagnostics
    assert caught.value.exit_status == 70
    assert found["code"] == "SL0901"
    assert found["found"].startswith("what should be impossible at crates/python/src/errors.rs:")
    assert "please report it" in found["help"].lower()


def test_a_panic_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(syncline.SynclineError):
        _core._panic("quiet")
    assert capfd.readouterr() == ("", "")


def test_every_code_has_a_page() -> None:
    pages = _core.codes()
    assert [each[0] for each in pages] == sorted({each[0] for each in pages})
    for code, name, title, text, status in pages:
        assert code.startswith("SL")
        assert name
        assert title
        assert text.endswith(".")
        assert status in list(ExitStatus)


def test_diagnostics_are_rendered_with_and_without_colour() -> None:
    found = json.dumps([{"code": "SL0101", "severity": "error", "message": "unknown key"}])
    assert _core.render(found) == "error[SL0101]: unknown key"
    assert "\x1b[" in _core.render(found, colour=True)


def test_other_threads_run_while_it_simulates() -> None:
    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    syncline.simulate(
        symmetry=False,
        workload={"collective": "all_to_all", "bytes": "4MiB", "iterations": 100},
        fabric={"shape": "Ring(8)_Ring(8)", "rate": "25GB/s"},
        network="queued",
        limits={"wall": "500ms"},
    )
    stop = time.monotonic()
    done.set()
    ticker.join()
    during = [each for each in ticks if start < each < stop]
    assert len(during) > (stop - start) / 0.005 / 4


def test_a_failing_callback_stops_the_run() -> None:
    class Enough(Exception):
        pass

    def stop(*_: object) -> None:
        raise Enough

    with pytest.raises(Enough):
        syncline.simulate(
            symmetry=False,
            workload={"collective": "all_to_all", "bytes": "64MiB", "iterations": 100_000},
            fabric={"shape": "Ring(8)_Ring(8)", "rate": "25GB/s"},
            network="queued",
            progress=stop,
        )
