"""The exact error texts of invalid scenarios. They are part of the product."""

from __future__ import annotations

from collections.abc import Callable

import pytest

HEAD = "schema: syncline/1\n"
WORKLOAD = "workload: { collective: all_reduce, bytes: 1MiB }\n"
FABRIC = "fabric: { shape: Ring(4), rate: 25GB/s }\n"

CASES = {
    "an unknown key": (
        HEAD + WORKLOAD + "fabric:\n  dims:\n    - { name: a, shape: ring, size: 4, rtae: 25GB/s, rate: 1GB/s }\n",
        """\
error[SL0101]: unknown key `rtae`
 --> s.yaml:5:40
  |
5 |     - { name: a, shape: ring, size: 4, rtae: 25GB/s, rate: 1GB/s }
  |                                        ^^^^ found `rtae`
  |
  = note: allowed: name, shape, size, rings, links, switches, direction,
          spread, rate, rate_per_npu, latency, efficiency, tier
  = note: key `fabric.dims.0.rtae`
  = help: did you mean `rate`?""",
    ),
    "a fault that is none": (
        HEAD + WORKLOAD + FABRIC + "faults: [{ rnk: 3, factor: 2 }]\n",
        """\
error[SL0103]: `faults.0` has none of the keys that select its form
 --> s.yaml:4:10
  |
4 | faults: [{ rnk: 3, factor: 2 }]
  |          ^^^^^^^^^^^^^^^^^^^^^ allowed: one of the keys rank, link, random_ranks, random_links
  |
  = note: key `faults.0`
  = help: did you mean `rank`?""",
    ),
    "a bare number": (
        HEAD + WORKLOAD + "fabric: { shape: Ring(4), rate: 50 }\n",
        """\
error[SL0104]: a number without a unit
 --> s.yaml:3:33
  |
3 | fabric: { shape: Ring(4), rate: 50 }
  |                                 ^^ found `50`
  |
  = note: key `fabric.rate`
  = help: add a unit, such as "50Gb/s\"""",
    ),
    "a unit in the wrong case": (
        HEAD + WORKLOAD + "fabric: { shape: Ring(4), rate: 50gb/s }\n",
        """\
error[SL0104]: `gb/s` is not a unit of rate
 --> s.yaml:3:33
  |
3 | fabric: { shape: Ring(4), rate: 50gb/s }
  |                                 ^^^^^^ found `50gb/s`
  |
  = note: key `fabric.rate`
  = help: write "50Gb/s" for bits, or "50GB/s" for bytes: case matters""",
    ),
    "a word that is not allowed": (
        HEAD + WORKLOAD + FABRIC + "network: queud\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:10
  |
4 | network: queud
  |          ^^^^^ found `queud`, allowed: analytical, queued, flow, packet
  |
  = note: key `network`
  = help: did you mean `queued`?""",
    ),
    "nothing where a word or a mapping may be": (
        HEAD + WORKLOAD + FABRIC + "network: [queued]\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:10
  |
4 | network: [queued]
  |          ^^^^^^^^ found `a list`
  |
  = note: allowed: analytical, queued, flow, packet, or a mapping with the key
          model
  = note: key `network`""",
    ),
    "a key that belongs one level down": (
        HEAD + WORKLOAD + FABRIC + "chunks: 4\n",
        """\
error[SL0101]: unknown key `chunks`
 --> s.yaml:4:1
  |
4 | chunks: 4
  | ^^^^^^ found `chunks`
  |
  = note: allowed: schema, name, seed, workload, jobs, compute, fabric,
          placement, collectives, network, faults, jitter, prices, limits,
          trace, symmetry, report
  = note: key `chunks`
  = help: did you mean `collectives.chunks`?""",
    ),
    "a key that belongs to several": (
        HEAD + WORKLOAD + FABRIC + "model: queued\n",
        """\
error[SL0101]: unknown key `model`
 --> s.yaml:4:1
  |
4 | model: queued
  | ^^^^^ found `model`
  |
  = note: allowed: schema, name, seed, workload, jobs, compute, fabric,
          placement, collectives, network, faults, jitter, prices, limits,
          trace, symmetry, report
  = note: key `model`
  = help: did you mean one of `workload.model`, `compute.model`, `network.model`?""",
    ),
    "a missing key": (
        HEAD + "workload: { collective: all_reduce }\n" + FABRIC,
        """\
error[SL0103]: missing key `bytes`
 --> s.yaml:2:1
  |
2 | workload: { collective: all_reduce }
  | ^^^^^^^^
  |
  = note: key `workload.bytes`
  = help: add `bytes` to `workload`""",
    ),
    "a missing section": (
        HEAD + WORKLOAD,
        """\
error[SL0103]: missing key `fabric`
 --> s.yaml:1:1
  |
1 | schema: syncline/1
  | ^^^^^^^^^^^^^^^^^^
  |
  = note: key `fabric`
  = help: add `fabric` to the scenario""",
    ),
    "a section of no known form": (
        HEAD + "workload: { modle: resnet50 }\n" + FABRIC,
        """\
error[SL0103]: `workload` has none of the keys that select its form
 --> s.yaml:2:1
  |
2 | workload: { modle: resnet50 }
  | ^^^^^^^^
  |
  = note: allowed: one of the keys model, module, layers, collective,
          collectives, chakra, operators, flexnet, astra_text
  = note: key `workload`
  = help: did you mean `model`?""",
    ),
    "a number out of range": (
        HEAD + WORKLOAD + FABRIC + "collectives: { chunks: 0 }\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:24
  |
4 | collectives: { chunks: 0 }
  |                        ^ found `0`, allowed: at least 1
  |
  = note: key `collectives.chunks`""",
    ),
    "text for a number": (
        HEAD + WORKLOAD + FABRIC + 'collectives: { chunks: "64" }\n',
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:24
  |
4 | collectives: { chunks: "64" }
  |                        ^^^^ found `"64"`, allowed: a whole number
  |
  = note: key `collectives.chunks`""",
    ),
    "a fraction for a count": (
        HEAD + WORKLOAD + FABRIC + "collectives: { chunks: 6.5 }\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:24
  |
4 | collectives: { chunks: 6.5 }
  |                        ^^^ found `6.5`, allowed: a whole number
  |
  = note: key `collectives.chunks`""",
    ),
    "a list for a mapping": (
        HEAD + WORKLOAD + "fabric: [1, 2]\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:3:9
  |
3 | fabric: [1, 2]
  |         ^^^^^^ found `a list`
  |
  = note: allowed: a mapping with one of the keys dims, shape, torus,
          alltoall, file, measured, cluster, links, fat_tree, leaf_spine,
          dragonfly, expander, mesh, hypercube, switch
  = note: key `fabric`""",
    ),
    "both rates": (
        HEAD + WORKLOAD + "fabric: { shape: Ring(4), rate: 1GB/s, rate_per_npu: 2GB/s }\n",
        """\
error[SL0102]: both `rate` and `rate_per_npu` are given
 --> s.yaml:3:9
  |
3 | fabric: { shape: Ring(4), rate: 1GB/s, rate_per_npu: 2GB/s }
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = note: key `fabric`
  = help: keep one: the rate of a link, or an NPU's total""",
    ),
    "a key of another shape": (
        HEAD + WORKLOAD + "fabric:\n  dims: [{ name: a, shape: switch, size: 4, rings: 2, rate: 1GB/s }]\n",
        """\
error[SL0102]: a dimension of shape switch has no `rings`
 --> s.yaml:4:10
  |
4 |   dims: [{ name: a, shape: switch, size: 4, rings: 2, rate: 1GB/s }]
  |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ allowed: switches
  |
  = note: key `fabric.dims.0`""",
    ),
    "a rule for switches on a ring": (
        HEAD + WORKLOAD + "fabric:\n  dims: [{ name: a, shape: ring, size: 4, spread: pair, rate: 1GB/s }]\n",
        """\
error[SL0102]: a dimension of shape ring has no `spread`
 --> s.yaml:4:10
  |
4 |   dims: [{ name: a, shape: ring, size: 4, spread: pair, rate: 1GB/s }]
  |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = note: key `fabric.dims.0`
  = help: leave it out: it chooses among several switches""",
    ),
    "a rule that is none": (
        HEAD + WORKLOAD + "fabric:\n  dims: [{ name: a, shape: switch, size: 4, spread: pairs, rate: 1GB/s }]\n",
        """\
error[SL0102]: value not allowed
 --> s.yaml:4:53
  |
4 |   dims: [{ name: a, shape: switch, size: 4, spread: pairs, rate: 1GB/s }]
  |                                                     ^^^^^ found `pairs`, allowed: lane, pair
  |
  = note: key `fabric.dims.0.spread`
  = help: did you mean `pair`?""",
    ),
    "a shape that is none": (
        HEAD + WORKLOAD + "fabric: { shape: Mesh(4), rate: 1GB/s }\n",
        """\
error[SL0102]: `Mesh` is not one of Ring, FC, Switch
 --> s.yaml:3:18
  |
3 | fabric: { shape: Mesh(4), rate: 1GB/s }
  |                  ^^^^ found `Mesh`
  |
  = note: key `fabric.shape`
  = help: write it like "Ring(4)_FC(2)_Switch(8)\"""",
    ),
    "a misspelt dimension of a shape": (
        HEAD + WORKLOAD + 'fabric: { shape: "Ring(4)_Swtch(8)", rate: 1GB/s }\n',
        """\
error[SL0102]: `Swtch` is not one of Ring, FC, Switch
 --> s.yaml:3:27
  |
3 | fabric: { shape: "Ring(4)_Swtch(8)", rate: 1GB/s }
  |                           ^^^^^ found `Swtch`
  |
  = note: key `fabric.shape`
  = help: did you mean `Switch`? write it like "Ring(4)_FC(2)_Switch(8)\"""",
    ),
    "a size of a shape that is none": (
        HEAD + WORKLOAD + "fabric: { shape: Ring(4)_FC(0), rate: 1GB/s }\n",
        """\
error[SL0102]: a dimension needs at least 1 NPU
 --> s.yaml:3:29
  |
3 | fabric: { shape: Ring(4)_FC(0), rate: 1GB/s }
  |                             ^ found `0`
  |
  = note: key `fabric.shape`
  = help: write it like "Ring(4)_FC(2)_Switch(8)\"""",
    ),
    "too few rates": (
        HEAD + WORKLOAD + "fabric: { shape: Ring(4)_FC(2), rate: [1GB/s] }\n",
        """\
error[SL0201]: `rate` has 1 entries for 2 dimensions
 --> s.yaml:3:9
  |
3 | fabric: { shape: Ring(4)_FC(2), rate: [1GB/s] }
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = note: key `fabric`
  = help: give one for each""",
    ),
    "a torus without its links": (
        HEAD + WORKLOAD + "fabric:\n  torus: 2x4x4\n  package: { rate: 1GB/s }\n",
        """\
error[SL0103]: missing key `local`
 --> s.yaml:3:1
  |
3 | fabric:
  | ^^^^^^
  |
  = note: key `fabric.local`
  = help: the local dimension has 2 NPUs; give the links that join them""",
    ),
    "an unknown model": (
        HEAD + "workload: { model: resnet5 }\n" + FABRIC,
        """\
error[SL0102]: value not allowed
 --> s.yaml:2:20
  |
2 | workload: { model: resnet5 }
  |                    ^^^^^^^ found `resnet5`
  |
  = note: allowed: one of resnet50, vgg16, transformer, transformer_big,
          decoder, transformer_17b, gpt3_175b, transformer_1t, dlrm, mlp
  = note: key `workload.model`
  = help: did you mean `resnet50`?""",
    ),
    "a model that is not built in": (
        HEAD + "workload: { model: llama3_8b }\n" + FABRIC,
        """\
error[SL0102]: value not allowed
 --> s.yaml:2:20
  |
2 | workload: { model: llama3_8b }
  |                    ^^^^^^^^^ found `llama3_8b`
  |
  = note: allowed: one of resnet50, vgg16, transformer, transformer_big,
          decoder, transformer_17b, gpt3_175b, transformer_1t, dlrm, mlp
  = note: key `workload.model`
  = help: for any other model, give the path of its `config.json` from Hugging Face""",
    ),
    "a parameter of another model": (
        HEAD + "workload: { model: mlp, sequence: 128 }\n" + FABRIC,
        """\
error[SL0101]: unknown key `sequence`
 --> s.yaml:2:25
  |
2 | workload: { model: mlp, sequence: 128 }
  |                         ^^^^^^^^ found `sequence`
  |
  = note: allowed: model, parallel, iterations, micro_batches, global_batch,
          types, batch_per_npu, precision, optimizer, sizes, bias
  = note: key `workload.sequence`""",
    ),
    "a kind of parallelism by its name elsewhere": (
        HEAD + "workload: { model: decoder, parallel: { tp: 8 } }\n" + FABRIC,
        """\
error[SL0101]: unknown key `tp`
 --> s.yaml:2:41
  |
2 | workload: { model: decoder, parallel: { tp: 8 } }
  |                                         ^^ found `tp`
  |
  = note: allowed: tensor, data, pipeline, axes, order, meshes, backward,
          schedule, virtual_stages, zero, recompute, divided_checkpoints,
          sequence, overlap, combined, updates, messages
  = note: key `workload.parallel.tp`
  = help: tensor parallelism is `parallel.tensor`, such as `parallel: { tensor: 8 }`""",
    ),
    "a kind of parallelism that there is not": (
        HEAD + "workload: { model: mlp, parallel: { context: 2 } }\n" + FABRIC,
        """\
error[SL0101]: unknown key `context`
 --> s.yaml:2:37
  |
2 | workload: { model: mlp, parallel: { context: 2 } }
  |                                     ^^^^^^^ found `context`
  |
  = note: allowed: tensor, data, pipeline, axes, order, meshes, backward,
          schedule, virtual_stages, zero, recompute, divided_checkpoints,
          sequence, overlap, combined, updates, messages
  = note: key `workload.parallel.context`
  = help: context parallelism is not derived yet: `parallel.axes` and `exchanges` of layers can describe it; `parallel.sequence: true` is Megatron-LM's sequence parallelism, which divides tokens among tensor-parallel ranks""",  # noqa: E501 - as long as the message
    ),
    "micro-batches of what is no training": (
        HEAD + "workload: { chakra: job, micro_batches: 2 }\n" + FABRIC,
        """\
error[SL0101]: unknown key `micro_batches`
 --> s.yaml:2:26
  |
2 | workload: { chakra: job, micro_batches: 2 }
  |                          ^^^^^^^^^^^^^ found `micro_batches`, allowed: chakra, groups
  |
  = note: key `workload.micro_batches`""",
    ),
    "no micro-batch": (
        HEAD + "workload: { model: mlp, micro_batches: 0 }\n" + FABRIC,
        "error[SL0102]: value not allowed\n --> s.yaml:2:40\n",
    ),
    "too many micro-batches": (
        HEAD + "workload: { model: mlp, micro_batches: 1048577 }\n" + FABRIC,
        "error[SL0102]: value not allowed\n --> s.yaml:2:40\n",
    ),
    "an unknown accelerator": (
        HEAD + WORKLOAD + FABRIC + "compute: { model: roofline, accelerator: A1000 }\n",
        "error[SL0102]: no such accelerator\n --> s.yaml:4:42\n",
    ),
    "an unknown vertex": (
        HEAD + WORKLOAD + "fabric:\n  npus: 2\n  links: [{ from: npu0, to: npu2, rate: 1GB/s }]\n",
        """\
error[SL0201]: no such vertex
 --> s.yaml:5:29
  |
5 |   links: [{ from: npu0, to: npu2, rate: 1GB/s }]
  |                             ^^^^ found `npu2`, allowed: npu0, npu1, or a number below 2
  |
  = note: key `fabric.links.0.to`
  = help: did you mean `npu0`?""",
    ),
    "a key given twice": (
        HEAD + WORKLOAD + FABRIC + "seed: 1\nseed: 2\n",
        """\
error[SL0102]: key `seed` is given twice
 --> s.yaml:5:1
  |
5 | seed: 2
  | ^^^^
  |
  = help: keep one of the two; the first is in line 4""",
    ),
    "a merge key": (
        HEAD + WORKLOAD + FABRIC + "collectives: { <<: { chunks: 1 } }\n",
        """\
error[SL0106]: merge keys are not supported
 --> s.yaml:4:16
  |
4 | collectives: { <<: { chunks: 1 } }
  |                ^^
  |
  = help: write the keys out, or repeat a value with an alias""",
    ),
    "a tab": (
        HEAD + "workload:\n\tcollective: all_reduce\n",
        """\
error[SL0106]: a tab in the indentation
 --> s.yaml:3:1
  |
3 |     collective: all_reduce
  | ^^^^
  |
  = help: indent with spaces""",
    ),
    "broken YAML": (
        "a: [1, 2\nb: 3\n",
        "error[SL0106]: not well-formed YAML: illegal placement of ':' indicator\n --> s.yaml:2:2\n",
    ),
    "a list at the top": (
        "- 1\n",
        """\
error[SL0102]: not a scenario
 --> s.yaml:1:1
  |
1 | - 1
  | ^^^ found `a list`, allowed: a mapping""",
    ),
    "an empty mapping": (
        HEAD + "workload: { collective: all_reduce, bytes: 1MB }\nfabric: { dims: [{}] }\n",
        "error[SL0103]: `fabric.dims.0` is empty\n",
    ),
    "an empty scenario": ("{}\n", "error[SL0103]: the scenario is empty\n"),
    "nothing": ("", "error[SL0106]: the file is empty\n--> s.yaml"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_error_has_its_exact_text(case: str, refused: Callable[..., str]) -> None:
    content, expected = CASES[case]
    found = refused(content)
    if expected.endswith("\n"):
        assert found.startswith(expected)
    else:
        assert found == expected


def test_several_errors_are_reported_in_the_order_of_the_file(refused: Callable[..., str]) -> None:
    found = refused(
        HEAD + "workload: { model: resnet50, batch: 3, iterations: 0 }\n"
        "fabric: { shape: Ring(4), rate: 50, latncy: 1us }\nnetwork: packets\n"
    )
    heads = [line for line in found.splitlines() if line.startswith(("error", " -->"))]
    assert heads == [
        "error[SL0101]: unknown key `batch`",
        " --> s.yaml:2:30",
        "error[SL0102]: value not allowed",
        " --> s.yaml:2:52",
        "error[SL0104]: a number without a unit",
        " --> s.yaml:3:33",
        "error[SL0101]: unknown key `latncy`",
        " --> s.yaml:3:37",
        "error[SL0102]: value not allowed",
        " --> s.yaml:4:10",
    ]


def test_errors_of_the_core_have_a_place_in_the_file(scenario: Callable[..., object]) -> None:
    loaded = scenario(HEAD + WORKLOAD + "fabric: { shape: Ring(4)_FC(2), rate: [25GB/s, 0GB/s] }\n")
    (found,) = loaded.check()  # type: ignore[attr-defined]
    assert found["code"] == "SL0201"
    assert found["key"] == "fabric.rate.1"
    assert found["place"]["line"] == 3
    assert found["place"]["column"] == 48


def test_micro_batches_of_all_iterations_are_counted(scenario: Callable[..., object]) -> None:
    loaded = scenario(
        HEAD
        + "workload: { model: mlp, iterations: 4096, micro_batches: 1048576 }\n"
        + FABRIC
        + "compute: { model: roofline, accelerator: A100 }\n"
    )
    (found,) = loaded.check()  # type: ignore[attr-defined]
    assert (found["code"], found["key"], found["place"]["line"]) == ("SL0102", "workload.micro_batches", 2)


EXCHANGED = """\
workload:
  layers:
    - { name: tables, outputs: 100, sharding: exchange, needed_by: tpo }
    - { name: bottom, forward: 4us }
    - { name: top, forward: 4us }
"""


EXCHANGED_LAST = EXCHANGED.replace("tpo", "top").replace("top, forward: 4us", "top, sharding: exchange")
DIVIDED = """\
workload: { model: dlrm, parallel: { tensor: 2 } }
compute: { model: roofline, accelerator: A100 }
"""


@pytest.mark.parametrize(
    ("text", "key", "line", "nearest"),
    [
        (EXCHANGED, "workload.layers.0.needed_by", 4, "top"),
        (EXCHANGED_LAST, "workload.layers.2.sharding", 6, None),
        (DIVIDED, "workload.parallel", 2, None),
    ],
)
def test_invalid_exchanges_are_reported_with_their_place(
    scenario: Callable[..., object], text: str, key: str, line: int, nearest: str | None
) -> None:
    loaded = scenario(HEAD + text + FABRIC)
    (found,) = loaded.check()  # type: ignore[attr-defined]
    assert (found["code"], found["key"], found["place"]["line"]) == ("SL0301", key, line)
    assert found.get("nearest") == nearest
    assert found["help"]
