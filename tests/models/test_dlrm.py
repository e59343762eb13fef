"""The recommendation model, compared with dlrm2020 and published sizes."""

import pytest

import syncline
from syncline.models import ModelError, build, layers
from syncline.models.types import PRECISIONS, Types

MIB = 1 << 20


def by_name(**params):
    return {layer.name: layer for layer in layers("dlrm", **params)}


def test_layers_match_table_v_of_dlrm2020():
    """dlrm2020, Table V: 5+2 bottom layers of 1024, 10+2 top layers of 2048, 16 bits; IV.A: 16.2 MB, then 8 MB."""
    built = layers("dlrm")
    assert [layer.name for layer in built] == [
        "embedding",
        *(f"bottom{index}" for index in range(7)),
        *(f"top{index}" for index in range(12)),
    ]
    sizes = {layer.name: layer.parameters for layer in built[1:]}
    assert sizes["bottom0"] == 1600 * 1024
    assert all(sizes[f"bottom{index}"] == 1024 * 1024 for index in range(1, 6))
    assert sizes["bottom6"] == 1024 * 64
    assert 2 * sizes["top0"] == 2 * 4160 * 2048 == 16.25 * MIB
    assert all(2 * sizes[f"top{index}"] == 8 * MIB for index in range(1, 11))
    assert sizes["top11"] == 2048
    assert 2 * sum(sizes.values()) == 114_823_168


def test_operations_and_bytes_match_table_v_of_dlrm2020():
    built = by_name()
    # A matrix product on 512 samples; input and weight gradient cost the same.
    flop = {"bottom0": 1_677_721_600, "bottom1": 1_073_741_824, "bottom6": 67_108_864, "top0": 8_724_152_320}
    flop |= {"top1": 4_294_967_296, "top11": 2_097_152}
    for name, count in flop.items():
        for work in ("forward", "input_grad", "weight_grad"):
            if (name, work) != ("bottom0", "input_grad"):
                (product,) = getattr(built[name], work).products
                assert 2 * product.m * product.k * product.n == count, (name, work)
    assert built["bottom0"].input_grad.flop == 0, "dense features need no gradient"
    assert 2 * sum(layer.multiply_adds for layer in built.values()) == 2 * 512 * 57_411_584
    embedding = built["embedding"]
    assert embedding.forward.memory("fp16") == 60 * 64 * 64 * 2 * 512 == 251_658_240
    assert embedding.forward.flop == 59 * 64 * 64 * 512
    assert 2 * embedding.outputs == 4 * MIB
    # An update reads a looked-up vector, changes it by its gradient, and writes it.
    assert embedding.update(PRECISIONS["fp16"])[1] == 3 * 251_658_240
    assert built["top3"].update(Types.uniform("int8")) == (2 * 2048 * 2048, 3 * 2048 * 2048)


def test_times_match_table_iv_of_dlrm2020():
    """dlrm2020, Table IV: 60 TFLOPS; lookups at 600 GB/s, as in the layer file of this model that LIBRA published."""
    result = syncline.simulate(
        workload={"model": "dlrm", "optimizer": "none"},
        compute={"model": "throughput", "rate": "60TFLOP/s", "memory": "600GB/s"},
        fabric={"shape": "FC(2)", "rate": "100GB/s"},
    )
    layers = result.table("layers")
    forward = {
        name: round(1e9 * seconds) for name, seconds in zip(layers["layer"], layers["forward_compute_s"], strict=True)
    }
    assert forward == {
        "embedding": 419_430,
        "bottom0": 27_962,
        **{f"bottom{index}": 17_896 for index in range(1, 6)},
        "bottom6": 1_118,
        "top0": 145_403,
        **{f"top{index}": 71_583 for index in range(1, 11)},
        "top11": 35,
    }
    for name, seconds in zip(layers["layer"][2:], layers["input_grad_compute_s"][2:], strict=True):
        assert round(1e9 * seconds) == forward[name]
    assert sum(layers["update_compute_s"]) == 0


def test_tables_are_exchanged_before_the_top_layers():
    form = {layer["name"]: layer for layer in build("dlrm")}
    assert (form["embedding"]["sharding"], form["embedding"]["needed_by"]) == ("exchange", "top0")
    assert all(layer["sharding"] == "gather" and "needed_by" not in layer for layer in list(form.values())[1:])
    assert form["embedding"]["input_grad"] == "none"


def test_dot_products_match_those_of_mlperf():
    """MLPerf's DLRM on Criteo: 13-512-256-128, 26 tables of 128, 479-1024-1024-512-256-1 (Naumov et al. 2019, code)."""
    sizes = {"bottom_mlp": [512, 256], "top_mlp": [1024, 1024, 512, 256]}
    built = by_name(dense_features=13, sparse_features=26, embedding_dim=128, interaction="dot", bias=True, **sizes)
    top = built["top0"]
    assert top.parameters == 479 * 1024 + 1024
    bottom = 13 * 512 + 512 * 256 + 256 * 128 + 512 + 256 + 128
    assert sum(layer.parameters for name, layer in built.items() if name.startswith("bottom")) == bottom
    # The products of 27 vectors with each other, then the layer itself.
    pairs, linear = top.forward.products
    assert (pairs.m, pairs.k, pairs.n, pairs.count) == (27, 128, 27, 512)
    assert (linear.m, linear.k, linear.n) == (512, 479, 1024)
    assert len(top.input_grad.products) == 3
    concatenated = by_name(sparse_features=26, embedding_dim=128, top_mlp=[1024])["top0"]
    assert concatenated.parameters == 27 * 128 * 1024


def test_without_an_optimizer_updates_take_no_time():
    for name in ("dlrm", "mlp"):
        with_it, without = build(name), build(name, optimizer="none")
        assert all(layer["update"] == "none" for layer in without)
        assert [{**layer, "update": "none"} for layer in with_it] == without


@pytest.mark.parametrize(
    ("params", "key", "nearest"),
    [
        ({"interaction": "dots"}, "interaction", "dot"),
        ({"interaction": "sum"}, "interaction", None),
        ({"tables": 64}, "tables", "table_entries"),
        ({"bottom_mlp": []}, "bottom_mlp", None),
        ({"top_mlp": [2048, 0]}, "top_mlp", None),
        ({"top_mlp": 2048}, "top_mlp", None),
        ({"sparse_features": 0}, "sparse_features", None),
        ({"pooling": 0.5}, "pooling", None),
        ({"optimizer": "adamw"}, "optimizer", "adam"),
        ({"batch_per_npu": 1 << 20, "pooling": 1 << 20, "sparse_features": 1 << 20}, "model", None),
    ],
)
def test_a_wrong_request_is_refused_by_name(params, key, nearest):
    with pytest.raises(ModelError) as caught:
        build("dlrm", **params)
    assert (caught.value.key, caught.value.nearest) == (key, nearest)
    if key == "bottom_mlp":
        assert caught.value.allowed == "a list of 1 to 10000 whole numbers from 1 to 16777216"
