"""What frameworks have no way to do is refused, with a remedy that works; what ran is not."""

from __future__ import annotations

import pytest

from syncline.estimate import Job, Offload, Overlap
from syncline.estimate.frameworks import FEATURES, NAMES, PYTORCH, interleaves, unsupported
from syncline.estimate.software import shipped
from syncline.validation.estimates import job
from syncline.validation.runs import read_runs
from tests.conftest import ROOT

ASKING = {
    "parallel.schedule": lambda value: {"pipeline": 4, "schedule": value, "micro_batches": 8},
    "parallel.virtual_stages": lambda _: {"pipeline": 4, "virtual_stages": 2, "micro_batches": 8},
    "parallel.context_method": lambda value: {"context": 2, "context_method": value},
    "parallel.zero": lambda value: {"zero": int(value)},
    "precision": lambda value: {"precision": value},
    "fp8_attention": lambda _: {"precision": "fp8", "fp8_attention": True},
    "low_precision_parameters": lambda _: {"precision": "fp8", "low_precision_parameters": True},
    "first_layers_bf16": lambda _: {"precision": "fp8", "first_layers_bf16": 1},
    "last_layers_bf16": lambda _: {"precision": "fp8", "last_layers_bf16": 1},
    "recompute": lambda value: {"recompute": value},
    "recompute_method": lambda value: {"recompute": "full", "recompute_method": value},
    "recompute_modules": lambda _: {"recompute": "selective", "recompute_modules": ["layernorm"]},
    "graphs": lambda value: {"graphs": value},
    "dispatcher": lambda value: {"dispatcher": value},
    "fused_experts": lambda _: {"fused_experts": True},
    "overlap.experts": lambda _: {"overlap": Overlap(experts=True)},
    "moments": lambda value: {"moment_bytes": {"bf16": 2, "8bit": 1}[value]},
    "attention": lambda value: {"attention_library": value},
    "lora": lambda _: {"adapters": 16},
    "offload.layers": lambda _: {"offload": Offload(layers=1, modules=[])},
    "offload.modules": lambda _: {"offload": Offload(modules=["moe_act"])},
    "offload.optimizer": lambda _: {"offload": Offload(modules=[], optimizer=0.5)},
}
"""Values of a job that ask for a feature, by key and value of its job file."""


def keys(framework, **values):
    return {each["key"] for each in unsupported(framework, Job(sequence=4096, **values))}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: f"{each.key}-{each.values}")
def test_a_feature_is_refused_where_it_is_lacking_and_nowhere_else(feature):
    for value in feature.values.split(", "):
        values = ASKING[feature.key](value)
        others = {
            framework
            for each in FEATURES
            if each is not feature and each.key == feature.key and each.asked(Job(sequence=4096, **values))
            for framework in each.lacking
        }
        refused = {framework for framework in NAMES if feature.key in keys(framework, **values)}
        assert refused - others == feature.lacking - others, value


def test_frameworks_are_those_with_constants():
    assert set(NAMES) == {each for found in shipped().values() for each in found.frameworks}


def test_a_plain_job_is_refused_nowhere():
    for framework in NAMES:
        assert not keys(framework)


def test_rows_that_ran_are_not_refused():
    runs = list(read_runs(str(ROOT / "validation" / "runs.csv")))
    assert len(runs) > 1000
    refused = {
        run.id: found for run in runs if (found := [each["key"] for each in unsupported(run.framework, job(run))])
    }
    assert refused == {}


def megatron(stages, batches):
    """The check of Megatron's schedule, with groups of as many micro-batches as there are stages, as by default."""
    group = stages
    if group > batches:
        return False
    return not 0 < batches % group < stages


def pytorch(stages, batches):
    """The check of PyTorch's interleaved schedule."""
    rounds = max(1, batches // stages)
    return batches % rounds == 0


def test_interleaving_takes_the_micro_batches_that_its_framework_takes():
    for stages in range(2, 9):
        for batches in range(1, 40):
            for framework in NAMES:
                able = (pytorch if framework in PYTORCH else megatron)(stages, batches)
                assert interleaves(framework, stages, batches) == able, (framework, stages, batches)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_the_numbers_of_sequences_that_are_named_work(framework):
    for stages in range(2, 9):
        for batches in range(1, 40):
            how = {"pipeline": stages, "virtual_stages": 2, "data": 3, "micro_batch": 2}
            found = list(unsupported(framework, Job(sequence=4096, micro_batches=batches, **how)))
            if interleaves(framework, stages, batches):
                assert not found
                continue
            (one,) = found
            sequences = one["allowed"].partition(" sequences")[0].split(" or ")
            assert any(f"write global_batch: {each}," in one["help"] for each in sequences)
            for each in sequences:
                assert not list(unsupported(framework, Job(sequence=4096, micro_batches=int(each) // 6, **how)))
