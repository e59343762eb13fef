"""Estimates of jobs across the space against closed forms of papers, which share no code with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from syncline.input.node import from_python
from syncline.input.source import Source
from syncline.jobs import estimate
from syncline.jobs.detail import detail
from syncline.jobs.training_job import resolve
from tests.estimate.closed_forms import Mesh, Sizes

if TYPE_CHECKING:
    from syncline.jobs.detail import Communication, Detail
    from syncline.jobs.training_job import TrainingJob

LLAMA_8B = Sizes(4096, 32, 32, 8, 14336, 128256)
LLAMA_70B = Sizes(8192, 80, 64, 8, 28672, 128256)
LLAMA_405B = Sizes(16384, 126, 128, 8, 53248, 128256)
MIXTRAL = Sizes(4096, 32, 32, 8, 14336, 32000, experts=8, k=2, fe=14336)
MIXTRAL_22B = Sizes(6144, 56, 48, 8, 16384, 32768, experts=8, k=2, fe=16384)
LATENT = (1536, 512, 128, 64, 128)
DEEPSEEK_V3 = Sizes(7168, 61, 128, 128, 18432, 129280, latent=LATENT, experts=256, k=8, fe=2048, fs=2048, dense=3)
QWEN3_8B = Sizes(4096, 36, 32, 8, 12288, 151936)
QWEN3_30B = Sizes(2048, 48, 32, 4, 6144, 151936, experts=128, k=8, fe=768)
QWEN3_235B = Sizes(4096, 94, 64, 4, 12288, 151936, experts=128, k=8, fe=1536)
GPT_OSS_120B = Sizes(2880, 36, 64, 8, 2880, 201088, d=64, experts=128, k=4, fe=2880, window=(128, 2))
GPT_3 = Sizes(12288, 96, 96, 96, 49152, 51200, gated=False, tied=True, dropout=True)
GEMMA_3_1B = Sizes(1152, 26, 4, 1, 6912, 262144, d=256, tied=True)

PUBLISHED = [
    # Counts of the weights that the models' makers published.
    (LLAMA_8B, 8.030e9),
    (LLAMA_70B, 70.554e9),
    (LLAMA_405B, 405.854e9),
    (MIXTRAL, 46.703e9),
    (MIXTRAL_22B, 140.63e9),
    (DEEPSEEK_V3, 671.03e9),
    (QWEN3_8B, 8.191e9),
    (QWEN3_30B, 30.532e9),
    (QWEN3_235B, 235.09e9),
    (GPT_OSS_120B, 116.83e9),
    (GPT_3, 174.6e9),
    (GEMMA_3_1B, 0.9999e9),
]

SMALL_DEEPSEEK = Sizes(7168, 60, 128, 128, 18432, 129280, latent=LATENT, experts=256, k=8, fe=2048, fs=2048)
FEW_KEYS = Sizes(8192, 80, 64, 2, 28672, 128256)
ODD_TOKENS = Sizes(8192, 80, 64, 8, 28672, 50257)
TIED = Sizes(8192, 80, 64, 8, 28672, 128256, tied=True)
WINDOW = Sizes(4096, 32, 32, 8, 14336, 128256, window=(1024, 4))

MESHES = {
    "70b": Mesh(LLAMA_70B, 512, 8192, 1, 512, t=4, p=4, v=5, c=2),
    "70b, tokens not divided": Mesh(LLAMA_70B, 512, 8192, 1, 512, t=4, sp=False, p=4, v=5, c=2),
    "70b, all recomputed": Mesh(LLAMA_70B, 256, 8192, 2, 128, t=4, p=4, recompute="full"),
    "70b, fewer micro-batches than stages": Mesh(LLAMA_70B, 256, 8192, 1, 12, t=8, p=8, zero=0),
    "70b, one micro-batch": Mesh(LLAMA_70B, 64, 8192, 1, 1, t=8, p=8, zero=0),
    "70b, ZeRO 1 over one rank": Mesh(LLAMA_70B, 32, 8192, 1, 8, t=8, p=4),
    "70b, ZeRO 2": Mesh(LLAMA_70B, 64, 8192, 1, 64, t=8, zero=2),
    "70b, ZeRO 3": Mesh(LLAMA_70B, 64, 8192, 1, 128, zero=3),
    "70b, ZeRO 3 and tensor parallelism": Mesh(LLAMA_70B, 64, 8192, 1, 64, t=4, zero=3),
    "70b, 16-bit gradients": Mesh(LLAMA_70B, 128, 8192, 1, 128, t=8, p=2, gradient=2),
    "70b, long sequence": Mesh(LLAMA_70B, 512, 131072, 1, 32, t=8, p=4, c=8),
    "tied tables in a pipeline": Mesh(TIED, 256, 8192, 1, 128, t=8, p=4),
    "tied tables on one stage": Mesh(TIED, 256, 8192, 1, 128, t=8, zero=2),
    "two heads of keys on eight ranks": Mesh(FEW_KEYS, 256, 8192, 1, 128, t=8, p=4),
    "two heads of keys, recomputed": Mesh(FEW_KEYS, 256, 8192, 1, 128, t=4, p=4, recompute="full"),
    "two heads of keys, long sequence": Mesh(FEW_KEYS, 256, 32768, 1, 128, t=8, p=4, v=2, c=4),
    "tokens that do not divide": Mesh(ODD_TOKENS, 256, 8192, 1, 128, t=8, p=4),
    "tokens that do not divide, not padded": Mesh(ODD_TOKENS, 256, 8192, 1, 128, t=8, p=4, pad=1),
    "tokens in large multiples": Mesh(ODD_TOKENS, 256, 8192, 1, 128, t=8, zero=2, pad=4096),
    "70b, gathered keys": Mesh(LLAMA_70B, 512, 32768, 1, 128, t=4, p=4, c=4, method="all_gather"),
    "70b, gathered keys, recomputed": Mesh(
        LLAMA_70B, 64, 32768, 1, 16, t=8, c=4, recompute="full", method="all_gather"
    ),
    "8b, heads for a time": Mesh(LLAMA_8B, 64, 32768, 1, 64, t=2, c=4, method="ulysses"),
    "deepseek-v3, heads for a time": Mesh(SMALL_DEEPSEEK, 1024, 4096, 1, 512, t=2, p=4, c=2, e=64, method="ulysses"),
    "70b, fewer layers at both ends": Mesh(LLAMA_70B, 128, 8192, 1, 128, t=8, p=4, counts=(18, 22, 22, 18)),
    "mixtral, a full rank": Mesh(MIXTRAL, 64, 4096, 1, 256, p=4, e=8, load=1.5),
    "qwen3 235b, a full rank": Mesh(QWEN3_235B, 512, 4096, 1, 1024, t=2, p=2, e=32, load=1.25),
    "405b": Mesh(LLAMA_405B, 8064, 8192, 1, 2016, t=8, p=9, v=7, c=2),
    "gpt-3": Mesh(GPT_3, 1024, 2048, 1, 512, t=8, p=8, zero=0),
    "gpt-3, one chunk of 12 layers": Mesh(GPT_3, 512, 2048, 2, 512, t=8, p=8),
    "gpt-3, scores kept": Mesh(GPT_3, 1024, 2048, 1, 512, t=8, p=8, fused=False),
    "gpt-3, scores kept, tokens not divided": Mesh(GPT_3, 1024, 2048, 1, 512, t=8, sp=False, p=8, fused=False),
    "8b, windows": Mesh(WINDOW, 64, 8192, 2, 256, t=2, c=2, gradient=2),
    "8b, two in a domain": Mesh(LLAMA_8B, 16, 4096, 1, 32, t=2, p=4, v=2),
    "qwen3 8b": Mesh(QWEN3_8B, 64, 8192, 2, 256, t=4, p=2, c=2),
    "gemma, one head of keys": Mesh(GEMMA_3_1B, 64, 8192, 2, 256, t=4, c=2),
    "gemma, one head of keys, two stages": Mesh(GEMMA_3_1B, 64, 8192, 2, 256, t=4, p=2, c=2),
    "mixtral, experts as ranks": Mesh(MIXTRAL, 64, 4096, 1, 256, p=4, e=8),
    "mixtral, experts across tensor parallelism": Mesh(MIXTRAL, 64, 4096, 1, 256, t=2, p=2, e=8),
    "mixtral, divided experts": Mesh(MIXTRAL, 64, 4096, 1, 256, t=4, p=2, v=2, e=4, te=2),
    "mixtral, divided experts, ZeRO 2": Mesh(MIXTRAL, 64, 4096, 1, 256, t=4, p=2, v=2, e=4, te=4, zero=2),
    "mixtral, divided experts alone": Mesh(MIXTRAL, 64, 4096, 1, 128, t=8, p=2, te=8),
    "mixtral, more experts' ranks than data-parallel ones": Mesh(MIXTRAL, 16, 4096, 1, 32, t=4, p=2, e=8),
    "deepseek-v3": Mesh(DEEPSEEK_V3, 2048, 4096, 1, 4096, e=64),
    "deepseek-v3, tensor parallelism": Mesh(SMALL_DEEPSEEK, 1920, 4096, 1, 960, t=4, p=15, v=2, e=32),
    "deepseek-v3, recomputed": Mesh(SMALL_DEEPSEEK, 1024, 4096, 1, 1024, t=2, p=4, e=64, recompute="full"),
    "qwen3 235b": Mesh(QWEN3_235B, 512, 4096, 1, 1024, t=2, p=2, e=32),
    "qwen3 235b, more ranks than heads of keys": Mesh(QWEN3_235B, 512, 4096, 1, 1024, t=8, p=2, e=32),
    "gpt-oss": Mesh(GPT_OSS_120B, 64, 4096, 1, 256, p=2, e=32),
}


@pytest.fixture(scope="module", params=list(MESHES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def job(mesh: Mesh) -> TrainingJob:
    return resolve(Source(from_python(mesh.keys)))


@pytest.fixture(scope="module")
def inside(name: str) -> Detail:
    return detail(job(MESHES[name]))


@pytest.mark.parametrize(("model", "published"), PUBLISHED)
def test_models_have_the_published_number_of_parameters(model: Sizes, published: float):
    """Up to norms, biases and learned positions."""
    assert model.parameters == pytest.approx(published, rel=5e-4)
    weights = job(Mesh(model, 1, 2048, 1, 1, zero=0)).estimator.memory("megatron", 0)[0]["weights"]
    assert weights == 2 * model.parameters


def test_stages_hold_weights_gradients_and_states(name: str):
    mesh, found = MESHES[name], job(MESHES[name])
    for stage in range(mesh.p):
        memory, _ = found.estimator.memory("megatron", stage)
        held = [memory[each] for each in ("weights", "gradients", "optimizer")]
        assert held == pytest.approx(mesh.states(stage), rel=1e-9), stage


def test_stages_keep_activations(name: str):
    mesh, found = MESHES[name], job(MESHES[name])
    for stage in range(mesh.p):
        memory, _ = found.estimator.memory("megatron", stage)
        # Heads that do not divide by the ranks of a sequence round to whole bytes.
        assert memory["activations"] == pytest.approx(mesh.activations(stage), rel=1e-6), stage


def test_mfu_is_that_of_the_operations_of_the_model(name: str):
    mesh, found = MESHES[name], estimate(job(MESHES[name]))
    peak = 989.4e12
    expected = mesh.model.flop(mesh.s) * mesh.batch * mesh.s / (found.step_s * mesh.gpus * peak)
    assert found.mfu == pytest.approx(expected, rel=1e-3)


def test_ranks_multiply_what_the_model_needs(name: str, inside: Detail):
    mesh = MESHES[name]
    found = sum(each.times * each.flop for each in inside.kernels if not each.name.startswith("attention"))
    assert found == pytest.approx(mesh.multiplied(inside.slowest), rel=1e-6)


def test_collectives_have_the_bytes_of_their_axes(name: str, inside: Detail):
    found: dict[tuple[str, str], float] = {}
    for each in inside.communication:
        key = (each.part, each.collective)
        found[key] = found.get(key, 0) + each.times * each.bytes
    assert found == pytest.approx(MESHES[name].collectives(inside.slowest), rel=1e-6)


NVLINK = 450e9
"""Bytes a second and direction of an H100."""
NETWORK = 50e9
"""Of its interface."""


def least_s(call: Communication) -> float:
    """No collective is faster than what must enter or leave a rank, over NVLink or the network."""
    inside, domains = call.in_domain, call.domains
    ranks = inside * domains
    volume = call.bytes
    if call.collective == "send":
        return volume / (NETWORK if domains > 1 else NVLINK)
    if call.collective == "all-to-all":
        return max(
            volume * (ranks - inside) / ranks / NETWORK if domains > 1 else 0,
            volume * (inside - 1) / ranks / NVLINK,
        )
    # Each domain receives what others have; of an all-reduce in the switch, what enters a rank is the vector once.
    entering = volume * (domains - 1) / domains / inside / NETWORK
    return max(entering, volume * (ranks - 1) / ranks / NVLINK if domains == 1 else 0)


def test_no_collective_is_faster_than_its_links(inside: Detail):
    for each in inside.communication:
        assert each.each_s >= 0.999 * least_s(each), each


def test_no_kernel_is_faster_than_the_peak(inside: Detail):
    for each in inside.kernels:
        assert each.each_s >= each.flop / 989.4e12, each
