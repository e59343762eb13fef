"""Measuring the times of layers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

from torch import nn  # noqa: E402

from syncline.input.words import PASSES  # noqa: E402
from syncline.models import from_torch  # noqa: E402
from syncline.models.traced.measure import Repeats, _clock, _exact, _quartiles, measure  # noqa: E402
from syncline.models.traced.record import Recorder  # noqa: E402
from syncline.models.traced.replay import passes  # noqa: E402
from tests.models.traced.modules import Bottleneck, Llama  # noqa: E402

ONCE = Repeats(repeats=1, warm_up=0)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: nn.Sequential(Bottleneck(16, 8, 1), Bottleneck(32, 16, 2)), torch.zeros(2, 16, 8, 8)),
        (lambda: Llama(2, 32, 4, 2, 48, 50), torch.zeros(2, 6, dtype=torch.long)),
        (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), torch.zeros(2, 5, 16)),
        (
            lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.Dropout(0.5)),
            torch.zeros(3, 4),
        ),
    ],
)
def test_measured_layers_match_traced_ones(make, inputs):
    table = measure(make(), inputs, ONCE).by_layer()
    traced = from_torch(make(), inputs)
    assert list(table) == [layer.name for layer in traced.layers]
    for layer in traced.scenario():
        assert {key for key in PASSES if layer[key] != "none"} <= set(table[layer["name"]]), layer["name"]


def test_a_replayed_layer_gives_the_gradients_of_its_weights():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 3))
    inputs = torch.randn(2, 5)
    recorder = Recorder(torch, {}, keep=True)
    with recorder.watching(module, dict(module.named_parameters())):
        outputs = module(inputs)
    first, second = (passes(torch, recorder, each, dict(module.named_parameters())) for each in recorder.recorded())
    assert first.input_grad is None
    head, tail = first.weight_grad
    assert sorted(tuple(each.shape) for each in head()) == [(4,), (4, 5)]
    # The gradient with respect to the product's result.
    assert [tuple(each.shape) for each in tail()] == [(2, 4)]
    (inner,) = second.input_grad()
    assert tuple(inner.shape) == (2, 4)
    assert len(second.weight_grad) == 1
    before = [each.clone() for each in module.parameters()]
    first.forward()
    second.update()
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
    assert torch.equal(module(inputs), outputs)


def test_more_work_takes_longer():
    module = nn.Sequential(nn.Linear(8, 1500), nn.Linear(1500, 1500), nn.Linear(1500, 8))
    table = {(each.layer, each.pass_): each for each in measure(module, torch.zeros(400, 8), Repeats(repeats=5)).times}

    def nanoseconds(layer, key):
        from syncline import _core

        return _core.parse_quantity("time", table[layer, key].q1) / 1000

    for key in ("forward", "input_grad", "weight_grad"):
        assert nanoseconds("1", key) > nanoseconds("2", key) > 0, key


def test_a_gpu_is_idle_when_the_clock_starts_and_stops():
    calls = []

    class Event:
        def __init__(self, *, enable_timing):
            assert enable_timing

        def record(self):
            calls.append("record")

        def elapsed_time(self, _end):
            return 1.25  # milliseconds

    class Cuda:
        class cuda:  # noqa: N801
            @staticmethod
            def synchronize(_device):
                calls.append("synchronize")

        cuda.Event = Event

    class Device:
        type = "cuda"

    assert _clock(Cuda, Device)(lambda: calls.append("run")) == 1_250_000_000
    assert calls == ["synchronize", "record", "run", "record", "synchronize"]


def test_times_are_written_in_suitable_units():
    picoseconds = (0, 1_499, 999_000, 1_000_000, 1_500_000, 12_345_678_000, 10**12, 1_000_001 * 10**6)
    assert [_exact(each) for each in picoseconds] == [
        "0ns",
        "1ns",
        "999ns",
        "1us",
        "1.5us",
        "12.345678ms",
        "1s",
        "1.000001s",
    ]


def test_quartiles_are_values_of_the_sample():
    assert _quartiles([7]) == (7, 7)
    assert _quartiles([1, 2, 3, 4, 5]) == (2, 4)
