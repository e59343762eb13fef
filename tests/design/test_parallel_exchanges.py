"""Experts and ZeRO-3 in simulated configurations, beside estimates, closed forms, and a schedule made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import syncline
from syncline.design.parallel.exchanges import Axes, gradients
from syncline.design.parallel.scenario import loaded, scenario
from syncline.estimate import Job, machine
from syncline.estimate.software import shipped
from syncline.jobs import TrainingJob, estimate
from syncline.jobs.blocks import blocks
from syncline.models.hugging_face.architecture import architecture

DENSE = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
}
SPARSE = {**DENSE, "model_type": "mixtral", "num_local_experts": 16, "num_experts_per_tok": 2}
OVERLAP = {"gradients": True, "parameters": True}


def of(config, **how):
    given = {"sequence": 4096, "micro_batches": 4, **how}
    return TrainingJob("a job", architecture(config, "a model"), machine("H100"), Job.model_validate(given), "megatron")


def simulated(job):
    return syncline.simulate(loaded(job)).summary


def seconds(job, operation, size, ranks):
    """NCCL's time of a collective among consecutive ranks, from the model of NCCL."""
    found = job.machine.nccl_machine.time(operation, round(size), gpus_per_node=min(ranks, 8), nodes=max(ranks // 8, 1))
    assert found is not None
    return found.seconds


@pytest.mark.parametrize(
    "how",
    [
        {"data": 8, "expert": 8},
        {"data": 16, "expert": 16},
        {"data": 16, "expert": 8},
        {"data": 16, "expert": 4},
        {"data": 64, "expert": 16},
        {"tensor": 2, "data": 8, "expert": 16, "sequence_parallel": True},
        {"data": 8, "expert": 8, "recompute": "full"},
        {"data": 8, "expert": 8, "recompute": "selective", "recompute_modules": ["moe"]},
        {"data": 8, "expert": 8, "overlap": {"experts": True}},
        {"data": 8, "expert": 8, "micro_batches": 1, "overlap": {"experts": True}},
        {"data": 8, "expert": 8, "dispatcher": "fused"},
        {"data": 16, "expert": 16, "dispatcher": "fused", "dispatch_multiprocessors": 4},
        {"data": 8, "expert": 8, "dispatcher": "fused", "overlap": {"experts": True}},
        {"data": 8, "expert": 4, "expert_tensor": 2},
    ],
    ids=str,
)
def test_tokens_to_experts_and_back_take_the_time_of_the_estimate(how):
    """Little else communicates in jobs that train adapters, and nothing else is hidden: both times are sums.

    Where exchanges overlap, both expose those of the first micro-batch forward and of the last one backward, and what
    kernels take of the multiprocessors in all others.
    """
    job = of(SPARSE, adapters=16, zero=0, **how)
    assert simulated(job).total_time_s == pytest.approx(estimate(job).step_s, rel=1e-3)


def test_tokens_are_sent_four_times_in_each_layer_and_micro_batch():
    """Mixtral's 4,096 tokens of 4,096 elements in 2 bytes to 2 experts each: 64 MiB from each rank, each time.

    The software's factor, by which exchanges take longer than NCCL's all-to-all, multiplies them.
    """
    job = of(SPARSE, adapters=16, zero=0, data=8, expert=8)
    found = syncline.simulate(loaded(job)).table("collectives")
    sizes = [size for size, kind in zip(found["size_bytes"], found["kind"], strict=True) if kind == "all_to_all"]
    assert len(sizes) == 4 * 4 * 4 * 1
    factor = shipped()["megatron"].constants.dispatch
    (size,) = set(sizes)
    # The factor multiplies NCCL's time, of which latency is a small part.
    assert size == pytest.approx(factor * 4096 * 2 * 4096 * 2, rel=0.06)
    whole = factor * seconds(job, "all_to_all", 4096 * 2 * 4096 * 2, 8)
    assert seconds(job, "all_to_all", size, 8) == pytest.approx(whole, rel=1e-6)


def test_gradients_of_experts_have_groups_of_their_own():
    """With 16 ranks and experts on 8, two ranks have the same experts, and 16 all else."""
    job = of(SPARSE, data=16, expert=8, zero=0, overlap={"gradients": True})
    found = syncline.simulate(loaded(job)).table("collectives")
    reduced = {
        (size, ranks)
        for kind, size, ranks in zip(found["kind"], found["size_bytes"], found["group_ranks"], strict=True)
        if kind == "all_reduce"
    }
    # Two of 16 experts, each with three matrices of 4,096 x 14,336, and gradients of 4 bytes.
    assert (4 * 2 * 3 * 4096 * 14336, 2) in reduced
    assert {ranks for size, ranks in reduced if size != 4 * 2 * 3 * 4096 * 14336} == {16}


@dataclass
class Rank:
    """One rank of an FSDP job, by hand: one unit after the other, and one collective of a queue after the other."""

    now: float = 0.0
    """When its last compute ended."""
    free: dict[str, float] = field(default_factory=dict)
    """When the last collective of each queue ended."""
    reduced: float = 0.0
    """When the last gradients are reduced."""

    def collective(self, queue: str, takes: float) -> float:
        self.free[queue] = max(self.free.get(queue, 0.0), self.now) + takes
        return self.free[queue]

    def compute(self, takes: float, after: float = 0.0) -> None:
        self.now = max(self.now, after) + takes


def by_hand(job, gathers, reductions):
    """The step of an FSDP job by a schedule made by hand, with the queues of gathers and of reductions.

    The gather of a unit begins with the unit before; that of the first unit of a pass, which has just been released,
    with the pass. Gradients of a unit are reduced once it has computed. All units are updated once all are reduced.
    """
    units, ranks = [each.dense for each in blocks(job).chunks[0]], job.job.data
    gather = [seconds(job, "all_gather", 2 * each.parameters, ranks) for each in units]
    reduce = [seconds(job, "reduce_scatter", 4 * each.parameters, ranks) for each in units]
    forward = list(range(len(units)))
    rank = Rank()
    for _ in range(job.job.micro_batches):
        for order in (forward, forward[::-1]):
            here = rank.collective(gathers, gather[order[0]])
            for at, following in zip(order, [*order[1:], None], strict=True):
                gathered = here if following is None else rank.collective(gathers, gather[following])
                if order is forward:
                    rank.compute(units[at].forward_s, here)
                else:
                    rank.compute(units[at].input_s + units[at].weight_s, here)
                    rank.reduced = rank.collective(reductions, reduce[at])
                here = gathered
    rank.compute(sum(each.update_s for each in units), rank.reduced)
    return rank.now


def test_units_of_zero_3_are_gathered_while_the_unit_before_computes():
    job = of(DENSE, data=8, shard_group=8, zero=3, micro_batches=1, overlap=OVERLAP)
    assert simulated(job).total_time_s == pytest.approx(by_hand(job, "one", "one"), rel=1e-4)


@pytest.mark.parametrize("ranks", [8, 16])
def test_gathers_and_reductions_share_links_between_micro_batches(ranks):
    """The next micro-batch gathers while the last unit's gradients are reduced: not as fast as on links of their own,
    and not as slow as one after the other."""
    job = of(DENSE, data=ranks, shard_group=ranks, zero=3, micro_batches=3, overlap=OVERLAP)
    apart, together = by_hand(job, "gathers", "reductions"), by_hand(job, "one", "one")
    assert apart * 0.999 <= simulated(job).total_time_s <= together * 1.001
    assert together / apart < 1.05


@pytest.mark.parametrize(
    ("layers", "ranks", "batches", "sequence"),
    [(32, 8, 1, 4096), (32, 8, 4, 4096), (32, 16, 4, 4096), (32, 64, 2, 8192), (80, 64, 4, 4096)],
)
def test_an_overlapped_fsdp_job_takes_the_same_in_all_three(layers, ranks, batches, sequence):
    """Units that compute for longer than they are gathered: a simulation, a schedule made by hand, and the estimate.

    Simulated steps were 11 to 24 % shorter as long as they left out the multiprocessors that collectives take: 15 % of
    the time of all gathers and reductions, by which computing is slower. Estimates were up to 2 % shorter as long as
    they left out that the first units of each pass have nothing to hide behind.
    """
    given = {"data": ranks, "shard_group": ranks, "zero": 3, "micro_batches": batches, "sequence": sequence}
    job = of({**DENSE, "num_hidden_layers": layers}, overlap=OVERLAP, **given)
    found, hand = simulated(job).total_time_s, by_hand(job, "one", "one")
    assert found == pytest.approx(hand, rel=2e-3)
    assert estimate(job).step_s == pytest.approx(hand, rel=4e-3)
    # By hand, without overlap of anything: these multiprocessors, and the first gathers and the last reductions.
    chunk = [each.dense for each in blocks(job).chunks[0]]
    gathers = [seconds(job, "all_gather", 2 * each.parameters, ranks) for each in chunk]
    reductions = [seconds(job, "reduce_scatter", 4 * each.parameters, ranks) for each in chunk]
    slower = 0.15 * batches * (2 * sum(gathers) + sum(reductions))
    # The embedding, which computes for no time, with the first layer forward and backward; the output layer backward.
    ends = batches * (sum(gathers[:2]) + sum(reductions[:2]) + gathers[-1])
    # The estimate has all units as one, so fewer latencies.
    assert estimate(job).parts["exchange"] == pytest.approx(slower + ends, rel=0.15)


@pytest.mark.parametrize("ranks", [64, 128, 256])
@pytest.mark.parametrize("batches", [1, 3])
def test_links_that_are_slower_than_computing_set_the_pace_of_all_three(ranks, batches):
    """Short sequences leave units less to compute than their gathers and reductions take, each with its latency."""
    given = {"data": ranks, "shard_group": ranks, "zero": 3, "micro_batches": batches, "sequence": 512}
    wide = {"hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 28672, "num_hidden_layers": 16}
    job = of({**DENSE, **wide}, overlap=OVERLAP, **given)
    hand = by_hand(job, "one", "one")
    assert estimate(job).parts["exchange"] > 0.3 * hand
    # The estimate has all units as one, so fewer latencies; with more ranks, each unit has longer ones.
    assert 0.92 * hand < estimate(job).step_s < 1.01 * hand
    # In a simulation, a gather and a reduction at the same time fill links, and wait, together.
    assert 0.88 * hand < simulated(job).total_time_s < 1.01 * hand


def test_zero_3_without_overlap_takes_the_sum_of_all():
    job = of(DENSE, data=16, shard_group=16, zero=3, overlap={})
    units = [each.dense for each in blocks(job).chunks[0]]
    whole = sum(each.update_s for each in units)
    for each in units:
        computing = each.forward_s + each.input_s + each.weight_s
        gather = seconds(job, "all_gather", 2 * each.parameters, 16)
        reduce = seconds(job, "reduce_scatter", 4 * each.parameters, 16)
        whole += 4 * (computing + 2 * gather + reduce)
    found = simulated(job).total_time_s
    assert found == pytest.approx(whole, rel=1e-4)
    # The estimate has all units as one, so fewer latencies.
    assert found == pytest.approx(estimate(job).step_s, rel=0.01)


def test_ranks_that_hold_the_same_part_sum_its_gradients_once():
    """HSDP: reduce-scatters in each micro-batch, all-reduces of an eighth among two copies in the last one."""
    job = of(DENSE, data=16, shard_group=8, zero=3, overlap=OVERLAP)
    found = syncline.simulate(loaded(job)).table("collectives")
    rows = list(zip(found["kind"], found["size_bytes"], found["group_ranks"], strict=True))
    by_hand = 4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336
    layer = [each for each in rows if each[1] in (2 * by_hand, 4 * by_hand, by_hand // 2)]
    assert len(layer) == len([each for each in layer if each[2] in (2, 8)]) > 0
    count = {kind: len([each for each in layer if each[0] == kind]) for kind, _, _ in layer}
    # Four layers, four micro-batches, two groups of shards: two gathers and a reduction each. Eight groups of two
    # copies sum each layer once.
    assert count == {"all_gather": 2 * 32, "reduce_scatter": 2 * 16, "all_reduce": 8 * 4}


def test_in_a_pipeline_zero_3_gathers_once():
    job = of(DENSE, pipeline=2, data=8, shard_group=8, zero=3, overlap=OVERLAP)
    when = [each["when"] for layer in scenario(job)["workload"]["layers"] for each in layer["exchanges"]]
    assert sorted(set(when)) == ["after_weight_grad", "before_step"]


@pytest.mark.parametrize(
    ("zero", "exchanged"),
    [
        (0, [("after_weight_grad", "all_reduce", "4000B")]),
        (1, [("after_weight_grad", "reduce_scatter", "4000B"), ("before_step", "all_gather", "2000B")]),
        (3, [("before_use", "all_gather", "2000B"), ("after_weight_grad", "reduce_scatter", "4000B")]),
    ],
)
def test_each_stage_of_zero_has_its_exchanges(zero, exchanged):
    how = Job.model_validate({"data": 4, "shard_group": 4, "zero": zero, "sequence": 1024, "overlap": OVERLAP})
    found = gradients(how, 1000, 2000, Axes.of(how))
    assert [(each["when"], each["collective"], each["bytes"]) for each in found] == exchanged


def test_parameters_of_8_bits_are_gathered_in_them():
    how = Job.model_validate({"data": 4, "shard_group": 4, "zero": 1, "sequence": 1024})
    found = list(gradients(how, 1000, 1000, Axes.of(how)))
    assert [each["bytes"] for each in found] == ["4000B", "1000B"]


@pytest.mark.parametrize(
    ("accelerator", "framework"), [("H100", "megatron"), ("B200", "megatron"), ("H100", "torchtitan")]
)
def test_blocks_update_parameters_in_the_time_of_the_estimate(accelerator, framework):
    how = Job.model_validate({"data": 8, "zero": 1, "sequence": 4096, "micro_batches": 4, "precision": "fp8"})
    job = TrainingJob("a job", architecture(DENSE, "a model"), machine(accelerator), how, framework)
    updates = [block.dense.update_s for chunk in blocks(job).chunks for block in chunk]
    # Which weights are converted for products once a step depends on the accelerator and on the framework.
    assert sum(updates) == pytest.approx(estimate(job).parts["update"], rel=1e-9)


@pytest.mark.parametrize(
    ("zero", "gathered", "exchanged"),
    [
        (0, 24, [("all_reduce", "48B")]),
        (1, 24, [("reduce_scatter", "48B"), ("all_gather", "24B")]),
        (3, 2000, [("all_gather", "2000B"), ("reduce_scatter", "48B")]),
    ],
)
def test_only_adapters_have_gradients_to_reduce(zero, gathered, exchanged):
    """12 trained parameters beside 1,000 that are frozen: the latter travel only where they are divided (ZeRO-3)."""
    given = {"data": 4, "shard_group": 4, "zero": zero, "adapters": 16, "sequence": 1024, "overlap": OVERLAP}
    how = Job.model_validate(given)
    found = gradients(how, 12, gathered, Axes.of(how))
    assert [(each["collective"], each["bytes"]) for each in found] == exchanged


@pytest.mark.parametrize("zero", [1, 2])
def test_groups_that_divide_optimizer_states_sum_parts_among_them(zero):
    """By hand: reduce-scatter and all-gather within 4 ranks, and a sum of a quarter among 2 groups."""
    how = Job.model_validate({"data": 8, "shard_group": 4, "zero": zero, "sequence": 1024, "overlap": OVERLAP})
    found = list(gradients(how, 1000, 2000, Axes.of(how)))
    assert [(each["when"], each["collective"], each["bytes"], each["axis"]) for each in found] == [
        ("after_weight_grad", "reduce_scatter", "4000B", "shard"),
        ("after_weight_grad", "all_reduce", "1000B", "data"),
        ("before_step", "all_gather", "2000B", "shard"),
    ]
    assert all(each.get("each_micro_batch", False) is (zero == 2) for each in found[:2])
