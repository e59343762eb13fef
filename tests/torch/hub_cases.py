"""Programs for the ranks of tests with hubs under PyTorch: ``python -m tests.torch.hub_cases NAME``."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import syncline.torch
from syncline.errors import SynclineError
from syncline.hub import Adam, Hub, Sgd, Terms
from syncline.runtime import TimeLimits
from syncline.torch import HubOptimizer
from tests.options import of_worker
from tests.torch.cases import refused, same

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

NEAR = {torch.float32: 2e-5, torch.float64: 1e-12}
"""Tolerance of parameters against torch.optim after six steps: PyTorch rounds only once when it multiplies and adds."""

EXACT = [
    Sgd(lr=0.125),
    Sgd(lr=0.125, momentum=0.5),
    Sgd(lr=0.125, momentum=0.5, dampening=0.5),
    Sgd(lr=0.125, momentum=0.5, nesterov=True, weight_decay=0.25),
]
"""With powers of two no product is rounded, so results equal those of torch.optim bit for bit."""

CLOSE = [
    Sgd(lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    Adam(lr=0.01),
    Adam(lr=0.01, beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=0.1),
    Adam(lr=0.01, weight_decay=0.1, decoupled=True),
]


def mlp(dtype=torch.float32, seed=0):
    """Returns a small network."""
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3)]
    return torch.nn.Sequential(*layers).to(dtype)


def data(rank, step, dtype=torch.float32):
    """Returns the data of a rank in a step."""
    drawn = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(5, 6, generator=drawn, dtype=torch.float64).to(dtype)


def loss_of(network, rank, step):
    """Returns the loss on a rank's data."""
    dtype = next(network.parameters()).dtype
    return network(data(rank, step, dtype)).square().mean()


def known(optimizer, params):
    """Returns PyTorch's optimizer with the same settings."""
    if isinstance(optimizer, Sgd):
        return torch.optim.SGD(
            params,
            lr=optimizer.lr,
            momentum=optimizer.momentum,
            dampening=optimizer.dampening,
            weight_decay=optimizer.weight_decay,
            nesterov=optimizer.nesterov,
        )
    kind = torch.optim.AdamW if optimizer.decoupled else torch.optim.Adam
    betas = (optimizer.beta1, optimizer.beta2)
    return kind(params, lr=optimizer.lr, betas=betas, eps=optimizer.eps, weight_decay=optimizer.weight_decay)


def averaged(network, reference, step):
    """Does one step of PyTorch's optimizer with the mean of all ranks' gradients, combined in the order of ranks."""
    sums = None
    for rank in range(WORLD):
        network.zero_grad()
        loss_of(network, rank, step).backward()
        found = [param.grad.clone() for param in network.parameters()]
        sums = found if sums is None else [one + other for one, other in zip(sums, found, strict=True)]
    for param, total in zip(network.parameters(), sums, strict=True):
        param.grad = (total.double() * (1 / WORLD)).to(total.dtype)
    reference.step()


def near(found, expected, rel):
    """Asserts that tensors are equal up to rounding."""
    torch.testing.assert_close(found, expected, rtol=rel, atol=rel)


def steps():
    """Compares losses and parameters of every optimizer with PyTorch's on the averaged gradient."""
    for dtype in (torch.float32, torch.float64):
        for number, chosen in enumerate([*EXACT, *CLOSE]):
            ours, theirs = mlp(dtype, seed=RANK), mlp(dtype)
            reference = known(chosen, theirs.parameters())
            optimizer = HubOptimizer(
                ours.parameters(),
                chosen,
                job=f"{dtype} {number}",
                bucket_mb=0.004,
                overlap=number % 2 == 0,
                terms=Terms(in_order=True),
            )
            assert len(optimizer._buckets) > 1
            for step in range(6):
                optimizer.zero_grad()
                ours_loss, theirs_loss = loss_of(ours, RANK, step), loss_of(theirs, RANK, step).detach()
                near(ours_loss, theirs_loss, NEAR[dtype])
                ours_loss.backward()
                optimizer.step()
                averaged(theirs, reference, step)
                for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                    if chosen in EXACT:
                        same(one, other)
                    else:
                        near(one, other, NEAR[dtype])
            assert (optimizer.steps, optimizer.contributors) == (6, WORLD)
            optimizer.close()


def schedules():
    """Uses groups with different settings, and changes learning rates."""
    ours, theirs = mlp(), mlp()

    def groups(network):
        decayed = [param for param in network.parameters() if param.dim() > 1]
        rest = [param for param in network.parameters() if param.dim() == 1]
        return [{"params": decayed, "weight_decay": 0.25, "name": "decayed"}, {"params": rest, "lr": 0.25}]

    optimizer = HubOptimizer(groups(ours), Sgd(lr=0.125, momentum=0.5), terms=Terms(in_order=True))
    reference = torch.optim.SGD(groups(theirs), lr=0.125, momentum=0.5)
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 2, 0.5) for each in (optimizer, reference)]
    for step in range(7):
        optimizer.zero_grad()
        loss_of(ours, RANK, step).backward()
        optimizer.step()
        averaged(theirs, reference, step)
        for scheduler in schedulers:
            scheduler.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            same(one, other)
    assert [group["lr"] for group in optimizer.param_groups] == [0.125 / 8, 0.25 / 8]
    state = optimizer.state_dict()
    assert state["state"] == {} and state["param_groups"][0]["weight_decay"] == 0.25
    state["param_groups"][0]["lr"] = 0.5
    optimizer.load_state_dict(state)
    reference.param_groups[0]["lr"] = 0.5
    # Load the parameters of a checkpoint; momentum does not change.
    with torch.no_grad():
        for param in [*ours.parameters(), *theirs.parameters()]:
            param.mul_(0.5)
    optimizer.set_parameters()
    optimizer.zero_grad()
    loss_of(ours, RANK, 7).backward()
    optimizer.step()
    averaged(theirs, reference, 7)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(one, other)
    optimizer.close()


def accumulated():
    """Runs several backward passes in a step, clips gradients, and uses closures."""
    for overlap in (True, False):
        ours, theirs = mlp(), mlp()
        optimizer = HubOptimizer(
            ours.parameters(), Sgd(lr=0.125), job=f"{overlap}", overlap=overlap, terms=Terms(in_order=True)
        )
        reference = torch.optim.SGD(theirs.parameters(), lr=0.125)
        with optimizer.no_sync():
            loss_of(ours, RANK, 0).backward()
        loss_of(ours, RANK, 1).backward()
        optimizer.step()
        sums = [torch.zeros_like(param) for param in theirs.parameters()]
        for rank in range(WORLD):
            theirs.zero_grad()
            for step in (0, 1):
                loss_of(theirs, rank, step).backward()
            sums = [one + param.grad for one, param in zip(sums, theirs.parameters(), strict=True)]
        for param, total in zip(theirs.parameters(), sums, strict=True):
            param.grad = (total.double() * (1 / WORLD)).to(total.dtype)
        reference.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            same(one, other)

        def closure(ours=ours, optimizer=optimizer):
            optimizer.zero_grad()
            loss = loss_of(ours, RANK, 2)
            loss.backward()
            return loss

        expected = loss_of(theirs, RANK, 2)
        same(optimizer.step(closure).detach(), expected.detach())
        averaged(theirs, reference, 2)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            same(one, other)
        optimizer.zero_grad()
        loss_of(ours, RANK, 3).backward()
        torch.nn.utils.clip_grad_value_(ours.parameters(), 0.001)
        if overlap:
            refused(optimizer.step, "gradients were changed", "overlap=False")
        else:
            before = [param.detach().clone() for param in ours.parameters()]
            optimizer.step()
            moved = [(one - other).abs().max() for one, other in zip(ours.parameters(), before, strict=True)]
            assert 0 < max(moved) <= 0.125 * 0.001 * 1.001
        optimizer.close()


class Odd(torch.nn.Module):
    """Parameters of many kinds."""

    def __init__(self, rank):
        super().__init__()
        draw = torch.Generator().manual_seed(7 + rank)

        def fresh(*shape):
            return torch.randn(*shape, generator=draw)

        self.turned = torch.nn.Parameter(fresh(5, 4).t())
        self.last = torch.nn.Parameter(fresh(2, 3, 4, 4).to(memory_format=torch.channels_last))
        self.brain = torch.nn.Parameter(fresh(6).bfloat16())
        self.small = torch.nn.Parameter(fresh(3).half())
        self.wide = torch.nn.Parameter(fresh(2, 2).double())
        self.number = torch.nn.Parameter(fresh(()))
        self.none = torch.nn.Parameter(torch.empty(3, 0))
        self.idle = torch.nn.Parameter(fresh(3))
        self.frozen = torch.nn.Parameter(fresh(4), requires_grad=False)
        self.counts = torch.nn.Parameter(torch.ones(2, dtype=torch.int64) * rank, requires_grad=False)

    def forward(self, value):
        total = self.turned.square().sum() + self.last.square().sum() + self.wide.square().sum().float()
        total = total + self.brain.float().square().sum() + self.small.float().square().sum() + self.number.square()
        return value * (total + self.none.sum() + self.frozen.sum())


def odd():
    """Trains unusual parameters: non-contiguous, of several types, scalar, empty, without gradient, frozen."""
    ours, theirs = Odd(RANK), Odd(0)
    strides = ours.turned.stride(), ours.last.stride()
    optimizer = HubOptimizer(ours.parameters(), Sgd(lr=0.125, weight_decay=0.25), terms=Terms(in_order=True))
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if name != "counts":
            same(one, other)
    assert ours.counts.tolist() == [RANK, RANK]
    for _ in range(3):
        optimizer.zero_grad()
        ours(torch.tensor(1.0 + RANK)).backward()
        optimizer.step()
    assert (ours.turned.stride(), ours.last.stride()) == strides
    # Expected parameters, computed with copies like the hubs' float32 copies. The mean input is that of 1 to WORLD.
    masters = {name: param.detach().double() for name, param in theirs.named_parameters()}
    mean = (1.0 + WORLD) / 2
    for _ in range(3):
        for name, value in masters.items():
            gradient = 0 if name == "idle" else 2 * value.to(getattr(theirs, name).dtype).double() * mean
            if name not in ("frozen", "counts"):
                masters[name] = value - 0.125 * (gradient + 0.25 * value)
    for name, param in ours.named_parameters():
        rel = {torch.bfloat16: 2e-2, torch.float16: 4e-3}.get(param.dtype, 1e-5)
        if name != "counts":
            near(param.double(), masters[name], rel)
    ours.frozen.requires_grad_(True)
    refused(optimizer.step, "frozen when the optimizer was made", "a new HubOptimizer")
    optimizer.close()
    # A second optimizer may train the same parameters, because the first one's hooks are removed.
    again = HubOptimizer(ours.parameters(), Sgd(lr=0.125), job="again")
    ours(torch.tensor(1.0)).backward()
    again.step()
    again.close()


def refusals():
    """Makes invalid calls, which raise errors."""
    network = mlp()

    def make(params=None, chosen=None, **more):
        given = network.parameters() if params is None else params
        return lambda: HubOptimizer(given, chosen or Sgd(lr=0.1), **of_worker(**more))

    refused(
        make(chosen=torch.optim.SGD(network.parameters(), lr=0.1)),
        "not an optimizer of a hub",
        "SGD",
        "syncline.hub.Sgd",
    )
    refused(make(together=["weight"]), "`together`", "HubOptimizer sets these terms itself")
    refused(make(bucket_mb=0), "bucket_mb=0", "more than 0")
    groups = [{"params": network.parameters(), "wieght_decay": 0.1}]
    refused(make(groups), "`wieght_decay`", "did you mean `weight_decay`?")
    refused(make([{"params": network.parameters(), "maximize": True}]), "`maximize`", "dampening")
    refused(make([torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]), "complex64", "of shape (2,)", "bfloat16")
    refused(make([torch.nn.Parameter(torch.ones(2), requires_grad=False)]), "nothing to train")
    refused(make(chosen=Sgd(lr=-1.0)), "`lr` is -1")
    refused(make(policy="carry on"), "carry on", "shrink")
    optimizer = make(job="one")()
    refused(lambda: optimizer.add_param_group({"params": [torch.ones(1)]}), "cannot be added to a HubOptimizer")
    optimizer.param_groups[0]["momentum"] = 0.5
    refused(lambda: loss_of(network, RANK, 0).backward(), "group 0", "`momentum` from 0.0 to 0.5", "another `lr`")
    optimizer.close()
    optimizer = make(job="two")()
    other = torch.optim.Adam(network.parameters())
    loss_of(network, RANK, 0).backward()
    other.step()
    refused(lambda: optimizer.load_state_dict(other.state_dict()), "hubs hold the state of a HubOptimizer")
    refused(lambda: loss_of(network, RANK, 1).backward(), "second gradient before step()", "no_sync()", "(3,)")
    refused(optimizer.set_parameters, "only between steps", "step() first")
    optimizer.close()
    refused(optimizer.step, "changed")
    network.zero_grad()
    refused(make(chosen=Sgd(lr=0.1), job=""), "1 to 200 bytes")
    optimizer = make(job="three")()
    loss_of(network, RANK, 0).backward()
    optimizer.param_groups[0]["lr"] = 1.0
    refused(optimizer.step, "from 0.1 to 1.0 between backward() and step()", "overlap=False")
    optimizer.close()
    embedding = torch.nn.Embedding(4, 3, sparse=True)
    optimizer = HubOptimizer(embedding.parameters(), Sgd(lr=0.1), job="sparse")
    refused(
        lambda: embedding(torch.tensor([1])).sum().backward(),
        "gradients must be dense",
        "sparse_coo of shape (4, 3)",
    )
    optimizer.close()
    optimizer = make(job="four")()
    optimizer.close()
    refused(optimizer.step, "closed")


def shapes():
    """Uses different parameters on each rank: every rank gets both shapes in its error."""
    size = 5 + RANK
    if RANK:
        time.sleep(0.5)
    refused(
        lambda: HubOptimizer([torch.nn.Parameter(torch.ones(2, size))], Sgd(lr=0.1), limits=TimeLimits(wait_s=4)),
        "different terms",
        "2x5",
        "2x6",
    )
    refused(
        lambda: HubOptimizer(
            [torch.nn.Parameter(torch.ones(2))], Sgd(lr=0.1 * size), job="lr", limits=TimeLimits(wait_s=4)
        ),
        "different terms",
        "0.5",
        "0.6",
    )
    network = torch.nn.Linear(size, 2)
    vectors = syncline.torch.vectors(network)
    refused(
        lambda: Hub.join(None, vectors, job="hook", limits=TimeLimits(wait_s=4)),
        "different terms",
        "`weight` of 10 f32",
        "of 12 f32",
    )


def two():
    """Uses two optimizers at once, one of them with a parameter that two layers share."""
    one, other = mlp(), mlp(seed=3)
    one[0].bias = one[2].bias
    optimizers = [HubOptimizer(each.parameters(), Adam(lr=0.01), job=f"{n}") for n, each in enumerate((one, other))]
    before = [loss_of(each, RANK, 0).item() for each in (one, other)]
    for step in range(20):
        for optimizer in optimizers:
            optimizer.zero_grad()
        (loss_of(one, RANK, step) + loss_of(other, RANK, step)).backward()
        for optimizer in reversed(optimizers):
            optimizer.step()
    after = [loss_of(each, RANK, 0).item() for each in (one, other)]
    assert all(late < early for late, early in zip(after, before, strict=True)), (before, after)
    for optimizer in optimizers:
        optimizer.close()


def large():
    """Trains a parameter of 1 GB."""
    param = torch.nn.Parameter(torch.full((1 << 28,), 1.0))
    optimizer = HubOptimizer([param], Sgd(lr=0.5), terms=Terms(chunk=1 << 20), limits=TimeLimits(deadline_s=100))
    param.grad = torch.full((1 << 28,), float(RANK))
    optimizer.step()
    expected = 1.0 - 0.5 * (WORLD - 1) / 2
    assert param.min().item() == param.max().item() == expected


class Grads(torch.nn.Module):
    """Parameters with unusual gradients: none, not contiguous, of several types, and a bucket without elements."""

    def __init__(self):
        super().__init__()
        self.turned = torch.nn.Parameter(torch.arange(20.0).view(5, 4).t())
        self.last = torch.nn.Parameter(torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last))
        self.small = torch.nn.Parameter(torch.ones(6).bfloat16())
        self.none = torch.nn.Parameter(torch.empty(0, 3))
        self.nothing = torch.nn.Parameter(torch.empty(0, dtype=torch.float64))
        self.idle = torch.nn.Parameter(torch.ones(3))
        self.wave = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))

    def forward(self, value):
        total = self.turned.square().sum() + self.last.sum() + self.small.float().sum() + self.none.sum()
        return value * (total + self.nothing.sum().float() + self.wave.real.sum() + 2 * self.wave.imag.sum())


def two_hooks(way):
    """Averages unusual gradients of two modules at once, by hooks with plans or hubs."""
    dist.init_process_group("gloo")
    wrapped = []
    for number in range(2):
        ddp = DistributedDataParallel(Grads(), find_unused_parameters=True)
        if way == "hub":
            hub = Hub.join(None, syncline.torch.vectors(ddp), job=f"{number}")
            ddp.register_comm_hook(None, syncline.torch.hook(hub, ddp))
        else:
            ddp.register_comm_hook(None, syncline.torch.hook(syncline.torch.join(name=f"{number}")))
        wrapped.append(ddp)
    # DDP changes its buckets after the first step.
    for step in range(3):
        for ddp in wrapped:
            ddp.zero_grad()
        value = 1.0 + RANK + step
        (wrapped[0](torch.tensor(value)) + wrapped[1](torch.tensor(2 * value))).backward()
        for number, ddp in enumerate(wrapped):
            mean = (number + 1) * ((WORLD + 1) / 2 + step)
            same(ddp.module.turned.grad, 2 * mean * ddp.module.turned.detach())
            same(ddp.module.last.grad, torch.full((2, 3, 4, 4), mean))
            same(ddp.module.small.grad, torch.full((6,), mean).bfloat16())
            same(ddp.module.wave.grad, torch.full((2,), complex(mean, 2 * mean), dtype=torch.complex64))
            assert ddp.module.none.grad is None or ddp.module.none.grad.numel() == 0
    dist.barrier()
    dist.destroy_process_group()


class Gradients:
    """A bucket with the methods that DDP's buckets have for hooks."""

    def __init__(self, module, buffer):
        self._params, self._buffer = list(module.parameters()), buffer

    def buffer(self):
        return self._buffer

    def parameters(self):
        return self._params

    def index(self):
        return 0


def hook_shapes():
    """Uses buckets of different sizes on each rank: every rank gets both sizes in its error."""
    dist.init_process_group("gloo")
    ranks = syncline.torch.join()
    future = syncline.torch.hook(ranks)(None, Gradients(mlp(), torch.ones(10 + RANK)))
    try:
        future.wait()
    except (RuntimeError, SynclineError) as error:
        assert all(word in str(error) for word in ("10 f32", "11 f32", "bucket 0")), error
    else:
        raise AssertionError("it was not refused")
    network = mlp()
    tiny = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2).to(torch.float8_e4m3fn))])
    refused(lambda: syncline.torch.vectors(tiny), "`0` of float8_e4m3fn", "bfloat16")
    hub = Hub.join(None, syncline.torch.vectors(network))
    refused(lambda: syncline.torch.hook(hub), "needs the module", "hook(hub, module)")
    refused(lambda: syncline.torch.hook(hub, network, in_order=True), "only when a job is joined")
    refused(lambda: syncline.torch.hook(hub, torch.nn.Linear(3, 3)), "`weight` is not there", "vectors(module)")
    dist.barrier()


def hook_large(way):
    """Averages a bucket of 1 GB."""
    dist.init_process_group("gloo")
    module = torch.nn.ParameterList([torch.nn.Parameter(torch.empty(1 << 28, device="meta"))])
    buffer = torch.full((1 << 28,), float(RANK))
    if way == "hub":
        hub = Hub.join(
            None, syncline.torch.vectors(module), terms=Terms(chunk=1 << 20), limits=TimeLimits(deadline_s=200)
        )
        averages = syncline.torch.hook(hub, module)
    else:
        averages = syncline.torch.hook(syncline.torch.join())
    averages(None, Gradients(module, buffer)).wait()
    assert buffer.min().item() == buffer.max().item() == (WORLD - 1) / 2
    dist.barrier()


def cuda():
    """Trains parameters on a GPU."""
    ours, theirs = mlp().cuda(), mlp()
    optimizer = HubOptimizer(ours.parameters(), Sgd(lr=0.125), terms=Terms(in_order=True))
    reference = torch.optim.SGD(theirs.parameters(), lr=0.125)
    for step in range(4):
        optimizer.zero_grad()
        ours(data(RANK, step).cuda()).square().mean().backward()
        optimizer.step()
        averaged(theirs, reference, step)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        near(one.cpu(), other, 1e-4)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
