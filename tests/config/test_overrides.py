"""``--set`` and the options that change a scenario."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from syncline.config.load import Loaded

TEXT = """\
workload: { collective: all_reduce, bytes: 1MiB }
fabric:
  dims:
    - { name: inner, shape: ring, size: 4, rate: 100GB/s }
    - { name: outer, shape: switch, size: 8, rate: 25GB/s }
"""


def test_an_override_finds_an_entry_by_position_or_by_name(scenario: Callable[..., Loaded]) -> None:
    dims = scenario(TEXT, "fabric.dims.1.rate=50GB/s", "fabric.dims.inner.size=2").resolved["fabric"]["dims"]
    assert (dims[0]["size"], dims[1]["rate"]) == (2, "50GB/s")


def test_an_override_may_add_a_section(scenario: Callable[..., Loaded]) -> None:
    resolved = scenario(TEXT, "collectives.chunks=64", "network={model: queued}").resolved
    assert resolved["collectives"]["chunks"] == 64
    assert resolved["network"] == {"model": "queued"}


def test_the_last_override_wins(scenario: Callable[..., Loaded]) -> None:
    assert scenario(TEXT, "seed=1", "seed=2").resolved["seed"] == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "fabric.dims.1.rate=50",
            """\
error[SL0104]: a number without a unit
 --> --set:1:20
  |
1 | fabric.dims.1.rate=50
  |                    ^^ found `50`
  |
  = note: key `fabric.dims.1.rate`
  = help: add a unit, such as "50Gb/s\"""",
        ),
        (
            "fabric.dims.0.name.x=2",
            """\
error[SL0102]: `fabric.dims.0.name` is neither a mapping nor a list
 --> --set:1:1
  |
1 | fabric.dims.0.name.x=2
  | ^^^^^^^^^^^^^^^^^^^^ found `inner`
  |
  = note: key `fabric.dims.0.name.x`
  = help: replace the whole value: --set 'fabric.dims.0.name={x: 2}'""",
        ),
        (
            "fabric.dims.1.rtae=50GB/s",
            """\
error[SL0101]: unknown key `rtae`
 --> --set:1:1
  |
1 | fabric.dims.1.rtae=50GB/s
  | ^^^^^^^^^^^^^^^^^^ found `rtae`
  |
  = note: allowed: name, shape, size, rings, links, switches, direction,
          spread, rate, rate_per_npu, latency, efficiency, tier
  = note: key `fabric.dims.1.rtae`
  = help: did you mean `rate`?""",
        ),
        (
            "fabric.dims.2.rate=50GB/s",
            """\
error[SL0102]: `fabric.dims` has 2 entries, and none is `2`
 --> --set:1:1
  |
1 | fabric.dims.2.rate=50GB/s
  | ^^^^^^^^^^^^^^^^^^
  |
  = note: key `fabric.dims.2.rate`""",
        ),
        (
            "chunks",
            """\
error[SL0102]: not of the form KEY=VALUE
 --> --set:1:1
  |
1 | chunks
  | ^^^^^^
  |
  = help: write it like fabric.dims.2.rate=50GB/s""",
        ),
    ],
)
def test_an_error_names_the_override(change: str, expected: str, refused: Callable[..., str]) -> None:
    assert refused(TEXT, change) == expected
