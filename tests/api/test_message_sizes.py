"""Message sizes M(k) of hier2021 (IV-B): bytes that each NPU sends in dimension k for a layer, on three networks."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

import syncline

NETWORKS = {
    # hier2021 Table III, 1,024 NPUs: shape and sizes.
    "2D": ("Ring(8)_Switch(128)", (8, 128)),
    "3D": ("Ring(8)_FC(8)_Switch(16)", (8, 8, 16)),
    "4D": ("Ring(2)_FC(8)_Ring(8)_Switch(8)", (2, 8, 8, 8)),
}
GROUPS = {
    # Tensor-parallel ranks (hier2021 Table IV): for each dimension, the ranks of model- and data-parallel groups. A
    # dimension that neither group fills is shared.
    ("transformer_17b", "2D"): ((1, 1), (8, 128)),
    ("transformer_17b", "3D"): ((1, 1, 1), (8, 8, 16)),
    ("transformer_17b", "4D"): ((1, 1, 1, 1), (2, 8, 8, 8)),
    ("gpt3_175b", "2D"): ((8, 2), (1, 64)),
    ("gpt3_175b", "3D"): ((8, 2, 1), (1, 4, 16)),
    ("gpt3_175b", "4D"): ((2, 8, 1, 1), (1, 1, 8, 8)),
    ("transformer_1t", "2D"): ((8, 16), (1, 8)),
    ("transformer_1t", "3D"): ((8, 8, 2), (1, 1, 8)),
    ("transformer_1t", "4D"): ((2, 8, 8, 1), (1, 1, 1, 8)),
}
MODELS = {
    # Tensor-parallel ranks, samples, tokens of a sample, bytes of activations and of a layer's gradients, from the
    # layer files of the paper's successor, whose two layers have 869449728, 452984832 and 226492416 bytes of gradients.
    "transformer_17b": (1, 16, 512, 69_730_304, 434_724_864),
    "gpt3_175b": (16, 16, 2048, 805_306_368, 226_492_416),
    "transformer_1t": (128, 8, 2048, 805_306_368, 113_246_208),
}
BARE = {"attention_bias": False, "output_bias": False, "mlp_bias": False, "norm_parameters": False}
"""hier2021 counts 12 d^2 parameters per layer."""


def sent(size: int, groups: tuple[int, ...], factor: int) -> list[Fraction]:
    """hier2021 Eq. 2: bytes in each dimension for ``size``: ``factor`` 2 for an all-reduce, 1 for half of one."""
    found, left = [], Fraction(size)
    for ranks in groups:
        found.append(factor * left * (ranks - 1) / ranks)
        left /= ranks
    return found


@pytest.mark.parametrize(("model", "network"), GROUPS)
def test_message_sizes_of_a_layer_match_hier2021(model: str, network: str) -> None:
    shape, sizes = NETWORKS[network]
    degree, batch, sequence, activations, gradients = MODELS[model]
    result = syncline.simulate(
        workload={
            "model": model,
            "types": {"gradients": "bf16"},
            "layers": 1,
            "batch_per_npu": batch,
            "sequence": sequence,
            **BARE,
            "parallel": {
                "tensor": degree,
                "recompute": "full",
                "divided_checkpoints": True,
                "backward": "input_first",
            },
        },
        compute={"model": "roofline", "peak": "234TFLOP/s", "memory": "2TB/s"},
        fabric={"shape": shape, "rate": "100GB/s", "latency": "0s"},
        collectives={"chunks": 1},
    )
    table = result.frame("collectives")
    collectives = list(
        zip(table["layer"], table["part"], table["kind"], table["group_ranks"], table["size_bytes"], strict=True)
    )
    in_block = {index for index, row in enumerate(collectives) if str(row[0]).startswith("block1.")}
    role = {index: "model" if collectives[index][1] != "weight grad" else "data" for index in in_block}

    bytes_of: defaultdict[tuple[str, str], int] = defaultdict(int)
    phases = result.frame("phases")
    for index, dim, received in zip(phases["collective"], phases["dimension"], phases["message_bytes"], strict=True):
        if int(index) in in_block:
            bytes_of[role[int(index)], str(dim)] += int(received)

    of_model, of_data = GROUPS[model, network]
    # Two all-reduces forward, two when the block is recomputed, two backward, and an all-gather of its input.
    expected_model = [
        6 * both + half
        for both, half in zip(sent(activations, of_model, 2), sent(activations, of_model, 1), strict=True)
    ]
    expected_data = sent(gradients, of_data, 2)
    names = [f"dim{index}" for index in range(1, len(sizes) + 1)]
    for role_name, expected in (("model", expected_model), ("data", expected_data)):
        found = [Fraction(bytes_of[role_name, name], 1024) for name in names]
        assert found == expected, (role_name, found, expected)


def test_sizes_of_a_layers_collectives_are_those_of_hier2021() -> None:
    assert MODELS["gpt3_175b"][3] == 16 * 2048 * 12_288 * 2
    assert 2 * MODELS["gpt3_175b"][4] == 452_984_832
    assert 2 * MODELS["transformer_1t"][4] == 226_492_416
    assert 2 * MODELS["transformer_17b"][4] == 869_449_728
