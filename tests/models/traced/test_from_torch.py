"""PyTorch modules as models, compared with the built-in ones and published counts."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from torch import nn  # noqa: E402

import syncline  # noqa: E402
from syncline.errors import SynclineError  # noqa: E402
from syncline.models import from_torch, layers  # noqa: E402
from syncline.models.types import PRECISIONS  # noqa: E402
from tests.conftest import ROOT  # noqa: E402
from tests.models.traced.modules import VGG16, Llama, ResNet50  # noqa: E402

PASSES = ("forward", "input_grad", "weight_grad")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def on_meta(make):
    with torch.device("meta"):
        return make()


@pytest.mark.parametrize(("make", "name"), [(ResNet50, "resnet50"), (VGG16, "vgg16")])
def test_a_traced_network_equals_the_built_in_one(make, name):
    traced, built = from_torch(on_meta(make), meta(32, 3, 224, 224)), layers(name, batch_per_npu=32)
    assert traced.parameters == sum(layer.parameters for layer in built) == {"r": 25_557_032, "v": 138_357_544}[name[0]]
    assert traced.multiply_adds == sum(layer.multiply_adds for layer in built)
    assert len(traced.layers) == len(built)
    assert (traced.batch_per_npu, traced.precision) == (32, "fp32")
    for key in PASSES:
        one, other = ([getattr(layer, key) for layer in each] for each in (traced.layers, built))
        assert sum(work.flop for work in one) == sum(work.flop for work in other), key
        assert sum(work.moved for work in one) == sum(work.moved for work in other), key
        shapes = [sorted((p.m, p.k, p.n, p.count, p.moved) for w in each for p in w.products) for each in (one, other)]
        assert shapes[0] == shapes[1], key
    updates = [
        [sum(parts) for parts in zip(*(layer.update(PRECISIONS["fp32"]) for layer in each), strict=True)]
        for each in (traced.layers, built)
    ]
    assert updates[0] == updates[1]
    if name == "vgg16":
        assert [layer.scenario(PRECISIONS["fp32"]) | {"name": ""} for layer in traced.layers] == [
            layer.scenario(PRECISIONS["fp32"]) | {"name": ""} for layer in built
        ]


def test_tensors_with_values_give_the_same_layers():
    make = lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))  # noqa: E731
    module = make()
    before = [each.clone() for each in module.parameters()]
    real = from_torch(module, torch.ones(3, 8))
    assert real == from_torch(on_meta(make), meta(3, 8))
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
    assert [layer.name for layer in real.layers] == ["0", "2"]
    assert real.gradient_bytes == 4 * (8 * 4 + 4 + 4 * 2 + 2)
    assert real.activation_bytes == 4 * 3 * (4 + 2)


def test_tracing_does_not_change_the_module():
    module = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).eval()
    from_torch(module, torch.ones(3, 8))
    assert not module.training
    assert not module[1].training
    assert int(module[1].num_batches_tracked) == 0
    assert not module._forward_hooks
    assert not module._forward_pre_hooks


def test_seventy_billion_parameters_need_no_memory():
    script = (
        "import resource, torch\n"
        "from syncline.models import from_torch\n"
        "from tests.models.traced.modules import Llama\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with torch.device('meta'):\n"
        "    module = Llama().to(torch.bfloat16)\n"
        "traced = from_torch(module, torch.empty(1, 4096, dtype=torch.long, device='meta'))\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "print(traced.parameters, traced.precision, len(traced.layers), grown)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    parameters, precision, count, grown = done.stdout.split()
    # Touvron et al. 2023 say 70 B; the published weights are 68,976,648,192.
    assert int(parameters) == 68_976_648_192
    assert (precision, int(count)) == ("bf16", 2 + 7 * 80)
    # The unit is KiB. The weights alone would be 138 GB.
    assert int(grown) < 600_000, grown


def test_a_llama_has_the_numbers_calculated_by_hand():
    hidden, heads, pairs, inner, words, sequence, batch = 64, 8, 2, 96, 100, 16, 3
    traced = from_torch(
        on_meta(lambda: Llama(2, hidden, heads, pairs, inner, words)), meta(batch, sequence, dtype=torch.long)
    )
    width, tokens = hidden // heads, batch * sequence
    block = hidden * (2 * hidden + 2 * pairs * width + 3 * inner)
    assert traced.parameters == 2 * words * hidden + 2 * (block + 2 * hidden) + hidden
    attention = 2 * batch * heads * sequence * sequence * width
    assert traced.multiply_adds == tokens * (2 * block + words * hidden) + 2 * attention
    by_name = {layer.name: layer for layer in traced.layers}
    assert by_name["blocks.0.down_proj"].inputs == tokens * inner
    assert by_name["embed"].reads_data
    scores, context = by_name["blocks.1.v_proj"].forward.products[1:]
    assert (scores.m, scores.k, scores.n, scores.count) == (sequence, width, sequence, batch * heads)
    assert (context.m, context.k, context.n, context.count) == (sequence, sequence, width, batch * heads)


def test_tied_weights_are_reduced_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    traced = from_torch(Tied(), torch.zeros(2, 5, dtype=torch.long))
    assert [layer.parameters for layer in traced.layers] == [400, 0]
    assert traced.layers[1].borrowed
    assert traced.layers[1].weight_grad.flop == 2 * 10 * 8 * 50


def test_frozen_weights_need_no_gradient():
    module = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    first, second = from_torch(module, torch.ones(3, 8)).layers
    assert (first.parameters, second.parameters) == (0, 10)
    assert first.weight_grad.flop == first.input_grad.flop == 0
    assert second.weight_grad.flop == 2 * 3 * 4 * 2
    # No layer before it is trained.
    assert second.input_grad.flop == 0


def test_recurrent_networks_are_products():
    traced = from_torch(nn.LSTM(6, 5), torch.zeros(7, 2, 6))
    assert traced.parameters == 4 * 5 * (6 + 5 + 2)
    assert traced.multiply_adds == 7 * 2 * 4 * 5 * (6 + 5)
    assert len(traced.layers) == 2


def test_attention_of_pytorch_is_traced():
    traced = from_torch(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), torch.zeros(2, 5, 16))
    names = [layer.name for layer in traced.layers]
    assert names == ["self_attn.in_proj_weight", "self_attn.out_proj", "linear1", "linear2"]
    assert traced.parameters == sum(each.numel() for each in nn.TransformerEncoderLayer(16, 4, 32).parameters())
    assert traced.multiply_adds == 10 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 2 * 5 * 5 * 16


@pytest.mark.parametrize(
    ("module", "inputs", "multiply_adds"),
    [
        (nn.Conv2d(8, 12, 3, groups=4), (2, 8, 9, 9), 2 * 12 * 49 * 2 * 9),
        (nn.Conv1d(3, 5, 4, stride=2), (2, 3, 10), 2 * 5 * 4 * 3 * 4),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4), 3 * 27 * 2 * 8),
        (nn.ConvTranspose2d(3, 5, 4, stride=2), (2, 3, 6, 6), 2 * 3 * 36 * 5 * 16),
    ],
)
def test_convolutions_of_all_kinds_have_their_multiply_adds(module, inputs, multiply_adds):
    traced = from_torch(module, torch.zeros(inputs))
    assert traced.parameters == sum(each.numel() for each in module.parameters())
    assert traced.multiply_adds == multiply_adds
    (layer,) = traced.layers
    for work in (layer.forward, layer.weight_grad):
        assert sum(p.m * p.k * p.n * p.count for p in work.products) == multiply_adds


def test_a_traced_network_runs_with_any_parallelisation_and_compute_model():
    traced = from_torch(
        on_meta(lambda: Llama(2, 64, 8, 2, 96, 100)),
        meta(4, 16, dtype=torch.long),
        sharding={"*.o_proj": "row", "*.down_proj": "row", "blocks.*": "column", "head": "column"},
    )
    assert {layer.sharding for layer in traced.layers} == {"gather", "row", "column"}
    for parallel in ({"data": "all"}, {"tensor": ["dim1"], "data": ["dim2"]}):
        for compute in ({"model": "systolic", "memory": "900GB/s"}, {"model": "roofline", "accelerator": "A100"}):
            result = syncline.simulate(
                workload=traced.workload(parallel=parallel, iterations=2),
                fabric={"shape": "Ring(2)_Ring(2)", "rate": "25GB/s"},
                compute=compute,
            )
            assert result.summary.compute_s > 0
            if parallel == {"data": "all"}:
                assert sum(result.table("layers")["collective_bytes"]) == traced.gradient_bytes


def step_time(workload, parallel, compute):
    summary = syncline.simulate(
        workload={**workload, "parallel": parallel, "iterations": 2},
        fabric={"shape": "Ring(2)_Switch(4)", "rate": ["100GB/s", "25GB/s"], "latency": "1us"},
        compute=compute,
    ).summary
    return summary.step_time_s, summary.compute_s


@pytest.mark.parametrize("parallel", [{"data": "all"}, {"tensor": "all"}, {"tensor": ["dim1"], "data": ["dim2"]}])
@pytest.mark.parametrize(("make", "name"), [(ResNet50, "resnet50"), (VGG16, "vgg16")])
def test_a_traced_network_takes_the_time_of_the_built_in_one(make, name, parallel):
    traced = from_torch(on_meta(make), meta(32, 3, 224, 224)).workload()
    for compute in ({"model": "systolic", "memory": "900GB/s"}, {"model": "roofline", "accelerator": "A100"}):
        built = step_time({"model": name, "batch_per_npu": 32}, parallel, compute)
        assert step_time(traced, parallel, compute) == built, compute


@pytest.mark.parametrize("parallel", [{"data": "all"}, {"tensor": "all"}, {"tensor": ["dim1"], "data": ["dim2"]}])
def test_a_traced_layer_takes_the_time_of_a_custom_one(parallel):
    def layer(name, rows, inputs, outputs, *, first):
        weights = inputs * outputs + outputs
        memory = f"{4 * (rows * inputs + weights + rows * outputs)}B"

        def work(m, k, n):
            return {"memory": memory, "products": [{"m": m, "k": k, "n": n, "memory": memory}]}

        return {
            "name": name,
            "forward": work(rows, inputs, outputs),
            **({} if first else {"input_grad": work(rows, outputs, inputs)}),
            "weight_grad": work(inputs, rows, outputs),
            "update": {"flop": f"{2 * weights}FLOP", "memory": f"{12 * weights}B"},
            "parameters": weights,
            "inputs": rows * inputs,
            "outputs": rows * outputs,
        }

    native = {"layers": [layer("0", 8, 64, 32, first=True), layer("1", 8, 32, 16, first=False)]}
    traced = from_torch(nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16)), meta(8, 64)).workload()
    compute = {"model": "systolic", "memory": "1GB/s"}
    assert step_time(traced, parallel, compute) == step_time(native, parallel, compute)


def test_a_linear_layer_on_a_systolic_array_takes_the_time_by_hand():
    traced = from_torch(nn.Linear(1000, 600, bias=False), meta(32, 1000))
    _, compute = step_time(traced.workload(), {"data": "all"}, {"model": "systolic", "memory": "300GB/s"})
    # Nanoseconds at 1 GHz. Forward: 4 x 3 tiles of weights, longer than its 2,604,800 bytes take (8682.667).
    forward = 2 * 1000 * 3 + 600 * 4 + 12 * (32 - 2)
    # Weight gradient: 1 x 3 tiles in 3786 cycles, so the array waits for the same bytes.
    stalled = 2_604_800 / 300
    # Update: 12 bytes for each parameter.
    update = 12 * 600_000 / 300
    assert compute == pytest.approx(2e-9 * (forward + stalled + update), rel=1e-9)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class LooksAtWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0])


class Masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 4)

    def forward(self, tokens):
        x = self.embed(tokens)
        mask = torch.ones(20, 20).tril() * 1.0
        y = self.head(x)
        return (mask @ y,)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return {"scores": self.second(self.first(x))}


@pytest.mark.parametrize(
    ("module", "inputs", "expected"),
    [
        # Transposed and cast weights are inputs of the product, but not activations.
        (Mixed(), torch.zeros(5, 4), [(20, 30), (30, 15)]),
        # Not the last hidden state, which is computed last.
        (Recurrent(), torch.zeros(2, 7, 4), [(56, 210), (10, 70), (70, 42)]),
        # Not the weights of attention, which no layer uses.
        (LooksAtWeights(), torch.zeros(2, 50, 16), [(1600, 1600), (1600, 1600), (1600, 1600)]),
        # Not the mask.
        (Masks(), torch.zeros(1, 20, dtype=torch.long), [(20, 80), (80, 80)]),
    ],
)
def test_activations_are_the_values_passed_to_the_next_layer(module, inputs, expected):
    assert [(layer.inputs, layer.outputs) for layer in from_torch(module, inputs).layers] == expected


def test_layers_of_recurrent_networks_are_named_after_their_weights():
    names = [layer.name for layer in from_torch(Recurrent(), torch.zeros(2, 7, 4)).layers]
    assert names == ["rnn.weight_ih_l0", "rnn.weight_hh_l0", "head"]


def test_a_module_that_is_called_twice_is_reduced_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    found = [(layer.name, layer.parameters, layer.multiply_adds) for layer in from_torch(Twice(), meta(3, 4)).layers]
    assert found == [("a", 20, 48), ("b", 20, 48), ("a#2", 0, 48)]


class Chooses(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Transforms(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x).real


def test_operators_that_cannot_be_traced_are_named():
    inside = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Chooses()))
    with pytest.raises(SynclineError) as caught:
        from_torch(inside, torch.zeros(2, 4))
    text = " ".join(str(caught.value).split())
    assert "SL0306" in text
    assert "operator aten::index in submodule Sequential.1.1 cannot be traced" in text
    assert "depends on values" in text


def test_operators_of_unknown_cost_are_named_and_may_be_given():
    module = nn.Sequential(nn.Linear(4, 4), Transforms())
    with pytest.raises(SynclineError) as caught:
        from_torch(module, torch.zeros(2, 4))
    text = " ".join(str(caught.value).split())
    assert "operator aten::_fft_r2c in submodule Sequential.1 cannot be traced: syncline does not know the cost" in text
    assert "give it under `costs`, in FLOP per element of the result, such as `_fft_r2c: 2`" in text
    plain = from_torch(nn.Linear(4, 4), torch.zeros(2, 4)).layers[0].forward.flop
    assert from_torch(module, torch.zeros(2, 4), costs={"aten::_fft_r2c": 10}).layers[0].forward.flop == plain + 60


class Decides(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Flexible(nn.Module):
    def forward(self, x):
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention(x, x, x)


class Own(nn.Module):
    def forward(self, x):
        @torch.library.custom_op("syncline_test::own", mutates_args=())
        def own(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        return own(x)


@pytest.mark.filterwarnings("ignore:flex_attention")
@pytest.mark.parametrize(
    ("inner", "inputs", "operator", "remedy"),
    [
        (Decides(), (2, 4), "aten::_local_scalar_dense", "`torch.where` in place of `if`"),
        (Own(), (2, 4), "syncline_test::own", 'torch.library.register_fake("syncline_test::own")'),
        (Flexible(), (1, 2, 16, 16), "flex_attention", "plain operators"),
    ],
)
def test_an_operator_is_named_with_its_place_and_a_remedy(inner, inputs, operator, remedy):
    with pytest.raises(SynclineError) as caught:
        from_torch(nn.Sequential(nn.ReLU(), nn.Sequential(inner)), torch.zeros(inputs))
    (problem,) = caught.value.diagnostics
    assert problem["code"] == "SL0306"
    assert f"operator {operator} in submodule Sequential.1.0 cannot be traced" in problem["message"]
    assert problem["found"] == operator
    assert remedy in problem["help"]
    (note,) = problem["notes"]
    assert "test_from_torch.py, line " in note


class Leaves(nn.Module):
    def forward(self, x):
        raise SystemExit(3)


class InPlace(nn.Module):
    def forward(self, x):
        return torch.nn.functional.relu_(x * 2)


def test_in_place_operators_may_be_given_by_either_name():
    flop = [
        from_torch(InPlace(), torch.zeros(3, 4), costs={key: 5}).layers[0].forward.flop for key in ("relu_", "relu")
    ]
    assert flop == [12 + 60, 12 + 60]


@pytest.mark.parametrize(
    ("module", "inputs", "options", "expected"),
    [
        (Leaves(), (2, 4), {}, "the forward pass of Leaves fails on the example inputs: SystemExit: 3"),
        (nn.Sequential(nn.LazyLinear(3)), (2, 4), {}, "the parameters of Sequential.0 have no shape yet (LazyLinear)"),
        (nn.DataParallel(nn.Linear(4, 2)), (2, 4), {}, "give the wrapped module"),
        (
            nn.Linear(4, 2).bfloat16(),
            (2, 4),
            {},
            "the operands of aten::addmm are of different types: bfloat16, float32",
        ),
        (nn.Linear(4, 2), (2, 4), {"costs": {"gelu": float("nan")}}, "found `nan`"),
        (nn.Linear(4, 2), (2, 4), {"costs": {"gelu": -1}}, "a number from 0 to 1000000000"),
        (nn.GELU(), (2, 4), {"costs": {"gleu": 8}}, "the module calls no operator `gleu`"),
        (nn.GELU(), (2, 4), {"costs": {"aten::gelus": 8}}, "did you mean `gelu`?"),
        (nn.Linear, (2, 4), {}, "call the class"),
        (nn.Linear(4, 2), (2, 5), {}, "the forward pass of Linear fails"),
        (nn.Sequential(nn.Linear(4, 2), nn.Linear(3, 2)), (2, 4), {}, "Sequential.1"),
        (nn.Linear(4, 2), (2, 4), {"precision": "fp31"}, "did you mean `fp32`?"),
        (nn.Linear(4, 2), (2, 4), {"sharding": {"*": "colum"}}, "did you mean `column`?"),
        (nn.Linear(4, 2), (2, 4), {"sharding": {"block.*": "row"}}, "no layer matches `block.*`"),
        (nn.Identity(), (2, 4), {}, "computes nothing"),
    ],
)
def test_invalid_arguments_are_refused(module, inputs, options, expected):
    with pytest.raises(SynclineError) as caught:
        from_torch(module, torch.zeros(inputs), **options)
    assert expected in " ".join(str(caught.value).split())
