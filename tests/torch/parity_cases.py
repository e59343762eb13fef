"""Programs for the ranks of tests of what other backends offer: ``python -m tests.torch.parity_cases NAME...``."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from syncline.errors import SynclineError
from syncline.torch import callbacks
from tests.torch.cases import begin, same


def coalesced():
    """Runs ``all_gather_coalesced`` with fewer tensors than ranks, as many, and more."""
    rank, world = begin()
    for count in (1, world, world + 1):
        shapes = [(number + 1, 2) for number in range(count)]
        mine = [torch.full(shape, float(10 * rank + number)) for number, shape in enumerate(shapes)]
        rooms = [[torch.empty(shape) for shape in shapes] for _ in range(world)]
        dist.all_gather_coalesced(rooms, mine)
        for other, room in enumerate(rooms):
            for number, found in enumerate(room):
                same(found, torch.full(shapes[number], float(10 * other + number)))
    try:
        dist.all_gather_coalesced([[torch.empty(2)] for _ in range(world + 1)], [torch.empty(2)])
    except SynclineError as error:
        assert f"{world} lists of 1" in str(error), error
    else:
        raise AssertionError("lists of too many ranks were taken")


def nested():
    """Waits in callbacks of futures for operations whose callbacks also wait, four deep."""
    _, world = begin()

    def down(depth):
        def callback(future):
            value = future.value()[0].clone()
            if depth:
                work = dist.all_reduce(value, async_op=True)
                return work.get_future().then(down(depth - 1)).wait()
            return value

        return callback

    for _ in range(3):
        future = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(down(4))
        same(future.wait(), torch.full((10,), float(world**5)))
    # A callback waits for an operation that begins after the callback was attached.
    later = threading.Event()
    works = []

    def first(future):
        assert later.wait(20)
        return works[0].get_future().wait()[0]

    future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(first)
    works.append(dist.all_reduce(torch.full((1,), 2.0), async_op=True))
    later.set()
    same(future.wait(), torch.full((1,), 2.0 * world))
    # Many operations use few threads, which end when idle.
    for _ in range(200):
        dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: None).wait()
    most = callbacks.POOL.threads
    assert most <= 8, most
    deadline = time.monotonic() + 3 * callbacks.IDLE_S
    while callbacks.POOL.threads:
        assert time.monotonic() < deadline
        time.sleep(0.1)

    # An exception in a callback fails its future, and nothing else.
    def bad(_):
        raise ValueError("a mistake of the user's")

    broken = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(bad)
    try:
        broken.wait()
    except Exception as error:  # noqa: BLE001 - the type of the exception is PyTorch's choice
        assert "a mistake of the user's" in str(error), error
    else:
        raise AssertionError("the error was lost")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == world


def order():
    """Attaches callbacks to one future: they run in the order in which they were attached."""
    begin()
    said = []
    future = dist.all_reduce(torch.ones(100_000), async_op=True).get_future()
    last = [future.then(lambda _, number=number: said.append(number)) for number in range(20)]
    for each in last:
        each.wait()
    assert said == list(range(20))


def power():
    """Trains with PyTorch's PowerSGD hook, which waits in callbacks: losses are the same as over Gloo."""
    found = {}
    for backend in ("gloo", "syncline"):
        dist.init_process_group(backend, timeout=timedelta(seconds=30))
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)))
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.Generator().manual_seed(dist.get_rank())
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 64, generator=data)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[backend] = losses
        dist.destroy_process_group()
    assert found["gloo"] == found["syncline"], found
    assert found["gloo"][-1] < found["gloo"][0]


def held():
    """Trains with uneven inputs, where only C++ holds some works: it still gets their results."""
    rank, world = begin()
    model = torch.nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    trained = DistributedDataParallel(model)
    with trained.join(divide_by_initial_world_size=False):
        for _ in range(1 + rank):
            trained.zero_grad()
            trained(torch.full((1, 4), 2.0)).sum().backward()
            gc.collect()
    # The last rank trains the last step alone: its gradient is divided by 1.
    if rank == world - 1:
        same(trained.module.weight.grad, torch.full((1, 4), 2.0))


def errors():
    """Checks that errors have the types that PyTorch's users catch, and that timeouts say "timeout"."""
    rank, _ = begin(seconds=3)
    for call in (
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)),
        lambda: dist.all_gather_into_tensor(torch.empty(5), torch.empty(2)),
    ):
        try:
            call()
        except dist.DistBackendError as error:
            assert isinstance(error, RuntimeError) and isinstance(error, SynclineError)
            assert "SL0102" in str(error) and error.diagnostics[0]["code"] == "SL0102"
        else:
            raise AssertionError("it was not refused")
    dist.barrier()
    if rank == 1:
        time.sleep(6)
        os._exit(0)
    began = time.monotonic()
    waits = [
        (lambda: dist.monitored_barrier(timeout=timedelta(0)), "Rank 1 failed to pass monitoredBarrier within 0.000 s"),
        (lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(timedelta(seconds=0.1)), "its timeout of 0.100 s"),
        # Whichever operation times out first, all operations under way fail with it.
        (lambda: dist.recv(torch.ones(4), 1), "rank 1 has not"),
        (lambda: dist.all_reduce(torch.ones(4)), "rank 1 has not"),
    ]
    for number, (call, words) in enumerate(waits):
        try:
            call()
        except RuntimeError as error:
            assert ("timeout" in str(error) or "timed out" in str(error)) and words in str(error), error
        else:
            raise AssertionError(f"call {number} was not late")
        if number == 0:
            assert time.monotonic() - began < 1.0
    os._exit(0)


def barrier_at_once():
    """Runs a monitored barrier with a timeout of 0 after all ranks have arrived: it passes."""
    rank, _ = begin()
    if rank:
        dist.monitored_barrier(timeout=timedelta(seconds=20))
    else:
        time.sleep(2)
        dist.monitored_barrier(timeout=timedelta(0))
    dist.barrier()


def averages():
    """Averages integers: the result is the sum, divided and rounded towards zero, as with NCCL."""
    rank, world = begin()
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.int16):
        tensor = torch.tensor([rank, 7, 2 * rank], dtype=dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        expected = [sum(range(world)) // world, 7, sum(range(world)) * 2 // world]
        same(tensor, torch.tensor(expected, dtype=dtype))
    tensor = torch.tensor([-1 - rank])
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    same(tensor, torch.tensor([-((world + 1) * world // 2 // world)]))
    block = torch.empty(1, dtype=torch.int64)
    dist.reduce_scatter_tensor(block, torch.full((world,), 2 * rank + 1), op=dist.ReduceOp.AVG)
    same(block, torch.tensor([world]))
    strided = torch.full((4, 2), rank)[:, 0]
    dist.all_reduce(strided, op=dist.ReduceOp.AVG)
    same(strided, torch.full((4,), sum(range(world)) // world))


def sparse():
    """Sums sparse tensors with different numbers of elements on each rank; one rank has none."""
    rank, world = begin()
    dense = torch.zeros(world + 2, 3)
    for other in range(world):
        dense[: other + 1] += other
    mine = torch.zeros_like(dense)
    mine[: rank + 1] = float(rank)
    for kind in (lambda tensor: tensor.to_sparse(), lambda tensor: tensor.to_sparse(1)):
        tensor = kind(mine)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert tensor.is_sparse and tensor.is_coalesced() and work.result()[0] is tensor
        same(tensor.to_dense(), dense)
    tensor = mine.to_sparse()
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    same(tensor.to_dense(), dense / world)
    try:
        dist.all_reduce(mine.to_sparse(), op=dist.ReduceOp.MAX)
    except RuntimeError as error:
        assert "all_reduce can only sum sparse tensors" in str(error), error
    else:
        raise AssertionError("a maximum of sparse tensors was taken")
    # DDP with sparse gradients.
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.EmbeddingBag(10, 4, mode="sum", sparse=True))
    model(torch.tensor([[rank, 9]])).sum().backward()
    expected = torch.zeros(10, 4)
    expected[:world] = 1 / world
    expected[9] = 1.0
    same(model.module.weight.grad.to_dense(), expected)


def split():
    """Splits a group, and splits the parts."""
    rank, world = begin()
    halves = [list(range(world // 2)), list(range(world // 2, world))]
    half = dist.split_group(split_ranks=halves)
    mine = next(each for each in halves if rank in each)
    assert dist.get_process_group_ranks(half) == mine
    tensor = torch.full((3,), float(rank))
    dist.all_reduce(tensor, group=half)
    same(tensor, torch.full((3,), float(sum(mine))))
    single = dist.split_group(half, split_ranks=[[number] for number in range(len(mine))], group_desc="single")
    assert single.size() == 1 and single.group_desc == "single"
    tensor = torch.full((3,), float(rank))
    dist.all_reduce(tensor, group=single)
    same(tensor, torch.full((3,), float(rank)))
    some = dist.split_group(split_ranks=[[0, world - 1]])
    outside = some == dist.GroupMember.NON_GROUP_MEMBER
    assert outside == (rank not in (0, world - 1)), some
    dist.barrier()


def names():
    """Checks that groups have the name of the backend."""
    begin()
    for group in (dist.group.WORLD, dist.new_group()):
        assert (group.name(), dist.get_backend(group)) == ("syncline", "syncline")
        assert group._get_backend_name() == "syncline"


def traced():
    """Records a trace: it shows operations with their shapes."""
    _, world = begin()
    with torch.profiler.profile(record_shapes=True) as profiler:
        tensor = torch.ones(3, 4)
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 0)
        work = dist.all_reduce(torch.ones(5), async_op=True)
        time.sleep(0.2)
        work.wait()
        dist.barrier()
    events = {}
    for event in profiler.events():
        events.setdefault(event.name, []).append(event)
    assert [event.input_shapes for event in events["syncline:all_reduce"]] == [[[3, 4]], [[5]]], events.keys()
    assert len(events["syncline:broadcast"]) == len(events["syncline:barrier"]) == 1
    same(tensor, torch.full((3, 4), float(world)))


def compiled():
    """Uses ``torch.compile`` on collectives, and on DDP."""
    rank, world = begin(seconds=90)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def summed(tensor):
        tensor = tensor * 2
        dist.all_reduce(tensor)
        return tensor + 1

    same(summed(torch.ones(4)), torch.full((4,), 2.0 * world + 1))

    @torch.compile(backend="aot_eager")
    def moved(tensor):
        tensor = tensor + 1
        dist.broadcast(tensor, 1)
        if dist.get_rank() == 0:
            dist.send(tensor, 1)
        if dist.get_rank() == 1:
            dist.recv(tensor, 0)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        return tensor * 2

    same(moved(torch.full((4,), float(rank))), torch.full((4,), 4.0 * world))
    torch.manual_seed(0)
    plain = torch.nn.Linear(8, 8)
    model = torch.compile(DistributedDataParallel(plain), backend="aot_eager")
    model(torch.full((2, 8), float(rank))).sum().backward()
    same(plain.weight.grad, torch.full((8, 8), 2 * (world - 1) / 2))


if __name__ == "__main__":
    # Cases in one process need not import PyTorch again. Each meets at a port of its own.
    port = int(os.environ["MASTER_PORT"])
    for number, name in enumerate(sys.argv[1:]):
        sys.stderr.write(f"case {name}\n")
        os.environ["MASTER_PORT"] = str(port + number)
        globals()[name]()
        if dist.is_initialized():
            dist.destroy_process_group()
