"""Programs for the ranks of a test, each in its own process: ``python -m tests.torch.cases NAME``."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import weakref
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

import syncline.hub
import syncline.torch
from syncline.errors import SynclineError

SUMMED = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32]
SUMMED += [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.complex128]
MOVED = [*SUMMED, torch.float8_e4m3fn, torch.uint16]


def begin(seconds=30, **more):
    """Makes the default group; returns the number of this rank, and the number of ranks."""
    dist.init_process_group("syncline", timeout=timedelta(seconds=seconds), **more)
    return dist.get_rank(), dist.get_world_size()


def same(found, expected):
    """Asserts that tensors are equal, bit for bit."""
    if found.dtype in (torch.float8_e4m3fn, torch.uint16):
        found, expected = found.view(torch.int8), expected.view(torch.int8)
    assert torch.equal(found, expected), (found, expected)


def refused(call, *words):
    """Asserts that a call raises a ``SynclineError`` with these words."""
    try:
        call()
    except SynclineError as error:
        assert all(word in str(error) for word in words), (str(error), words)
    else:
        raise AssertionError("it was not refused")


def numbers(rank, dtype, size=6):
    """Returns small numbers of a rank that are exact in every type."""
    values = (torch.arange(size) + rank) % 3
    if dtype.is_complex:
        return torch.complex(values.double(), (values + 1).double()).to(dtype)
    if dtype == torch.uint16:
        return values.to(torch.int16).view(torch.uint16)
    return values.float().to(dtype)


def reductions():
    """Compares every reduction of every type with the result of one process."""
    rank, world = begin()
    fold = {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }
    for dtype in SUMMED:
        for op, combine in fold.items():
            tensor = numbers(rank, dtype)
            bits = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
            if (bits and dtype.is_floating_point) or (dtype.is_complex and op != dist.ReduceOp.SUM):
                # PyTorch refuses some of these itself, by a ValueError.
                with contextlib.suppress(ValueError):
                    refused(lambda op=op, tensor=tensor: dist.all_reduce(tensor, op=op), "all_reduce")
                continue
            expected = numbers(0, dtype)
            for other in range(1, world):
                expected = combine(expected, numbers(other, dtype)).to(dtype)
            dist.all_reduce(tensor, op=op)
            same(tensor, expected)
            whole = numbers(rank, dtype)
            dist.reduce(whole, 1, op=op)
            same(whole, expected if rank == 1 else numbers(rank, dtype))
            block = torch.empty(6 // world, dtype=dtype)
            dist.reduce_scatter_tensor(block, numbers(rank, dtype), op=op)
            same(block, expected.chunk(world)[rank])
    floats = torch.full((3,), float(rank + 1))
    dist.all_reduce(floats, op=dist.ReduceOp.AVG)
    same(floats, torch.full((3,), (world + 1) / 2))
    floats = torch.full((3,), float(rank + 1))
    dist.all_reduce(floats, op=dist._make_nccl_premul_sum(0.5))
    same(floats, torch.full((3,), world * (world + 1) / 4))
    block, source = torch.empty(1), torch.full((world,), float(rank))
    dist.reduce_scatter_tensor(block, source, op=dist._make_nccl_premul_sum(torch.tensor(2.0)))
    same(block, torch.tensor([float(world * (world - 1))]))
    same(source, torch.full((world,), float(rank)))
    refused(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=dist.ReduceOp.AVG), "avg of bool")
    refused(lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)), "float8_e4m3fn", "bfloat16")
    refused(lambda: dist.broadcast(torch.ones(2, 2).to_sparse(), 0), "sparse_coo")


def movements():
    """Runs every operation that only moves elements, with every type."""
    rank, world = begin()
    for dtype in MOVED:
        tensor = numbers(rank, dtype)
        dist.broadcast(tensor, 1)
        same(tensor, numbers(1, dtype))
        everybody = [torch.empty_like(tensor) for _ in range(world)]
        dist.all_gather(everybody, numbers(rank, dtype))
        for other in range(world):
            same(everybody[other], numbers(other, dtype))
        flat = torch.empty(6 * world, dtype=dtype)
        dist.all_gather_into_tensor(flat, numbers(rank, dtype))
        for other in range(world):
            same(flat[6 * other : 6 * other + 6], numbers(other, dtype))
        size = 6 // world
        swapped = torch.empty(6, dtype=dtype)
        dist.all_to_all_single(swapped, numbers(rank, dtype))
        for other in range(world):
            block = numbers(other, dtype)[size * rank : size * rank + size]
            same(swapped[size * other : size * other + size], block)
        gathered = [torch.empty(6, dtype=dtype) for _ in range(world)] if rank == 1 else None
        dist.gather(numbers(rank, dtype), gathered, 1)
        for other in range(world if rank == 1 else 0):
            same(gathered[other], numbers(other, dtype))
        own = torch.empty(6, dtype=dtype)
        dist.scatter(own, [numbers(5 * other, dtype) for other in range(world)] if rank == 0 else None, 0)
        same(own, numbers(5 * rank, dtype))
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": other, "text": "x" * other} for other in range(world)]
    whole = torch.empty(2 * world)
    dist.gather_single(torch.full((2,), float(rank)), whole, dst=0)
    if rank == 0:
        same(whole, torch.arange(world).repeat_interleave(2).float())


def uneven():
    """Runs operations on blocks that differ in size."""
    rank, world = begin()
    # Rank r sends r + 2 * to rows of two to rank `to`.
    ins = [rank + 2 * to for to in range(world)]
    outs = [source + 2 * rank for source in range(world)]
    output = torch.empty(sum(outs), 2)
    dist.all_to_all_single(output, torch.full((sum(ins), 2), float(rank)), outs, ins)
    expected = torch.cat([torch.full((size, 2), float(source)) for source, size in enumerate(outs)])
    same(output, expected)
    targets = [torch.empty(size) for size in outs]
    dist.all_to_all(targets, [torch.full((size,), float(rank)) for size in ins])
    for source, target in enumerate(targets):
        same(target, torch.full((outs[source],), float(source)))
    everybody = [torch.empty(other + 1) for other in range(world)]
    dist.all_gather(everybody, torch.full((rank + 1,), float(rank)))
    for other in range(world):
        same(everybody[other], torch.full((other + 1,), float(other)))
    own = torch.empty(rank + 1)
    dist.reduce_scatter(own, [torch.full((other + 1,), float(rank)) for other in range(world)])
    same(own, torch.full((rank + 1,), float(sum(range(world)))))
    own = torch.empty(rank + 1)
    sources = [torch.full((other + 1,), float(other)) for other in range(world)] if rank == 1 else None
    dist.scatter(own, sources, 1)
    same(own, torch.full((rank + 1,), float(rank)))
    gathered = [torch.empty(other) for other in range(world)] if rank == 0 else None
    dist.gather(torch.full((rank,), float(rank)), gathered, 0)
    for other in range(world if rank == 0 else 0):
        same(gathered[other], torch.full((other,), float(other)))
    refused(lambda: dist.all_to_all_single(torch.empty(4), torch.empty(4), [1] * world, [4] * world), "all_to_all")


def messages():
    """Sends and receives: tags in any order, both directions at once, from any rank, and large messages."""
    rank, world = begin()
    to, source = (rank + 1) % world, (rank - 1) % world
    large = torch.full((3_000_000,), float(rank))
    room = torch.empty_like(large)
    works = [dist.isend(large, to, tag=tag) for tag in (1, 2)]
    tags = torch.empty(1, dtype=torch.int64)
    works += [dist.isend(torch.tensor([tag]), to, tag=tag) for tag in (10, 11, 12)]
    for tag in (12, 10, 11):
        dist.recv(tags, source, tag=tag)
        assert tags.item() == tag
    for tag in (2, 1):
        dist.recv(room, source, tag=tag)
        same(room, torch.full_like(room, float(source)))
    for work in works:
        work.wait()
    # Several messages under the same tag arrive in order.
    for number in range(20):
        works.append(dist.isend(torch.tensor([number]), to))
    for number in range(20):
        dist.recv(tags, source)
        assert tags.item() == number
    # Receive from any rank.
    if rank == 0:
        found = {dist.recv(tags, tag=7): tags.item() for _ in range(1, world)}
        assert found == {other: 100 * other for other in range(1, world)}, found
    else:
        dist.send(torch.tensor([100 * rank]), 0, tag=7)
    # Batches, as pipelines use them.
    one, other = torch.full((4,), float(rank)), torch.empty(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, one, to), dist.P2POp(dist.irecv, other, source)]):
        work.wait()
    same(other, torch.full((4,), float(source)))
    strided = torch.zeros(4, 4)
    work = dist.irecv(strided[:, 1], source, tag=9)
    dist.send(torch.arange(16.0).view(4, 4)[:, 2], to, tag=9)
    work.wait()
    assert work._source_rank() == source
    same(strided[:, 1], torch.tensor([2.0, 6.0, 10.0, 14.0]))
    if rank < 2:
        peer, size = 1 - rank, 100_000 + rank
        work = dist.isend(torch.empty(size), peer, tag=30)
        refused(lambda: dist.recv(torch.empty(size), peer, tag=30), "sends", "400000 bytes", "400004 bytes")
        refused(work.wait, "sends", "400000 bytes", "400004 bytes")
        # The send of a small message does not wait for its receiver: both ranks may send first.
        dist.send(torch.empty(5 + rank), peer, tag=31)
        refused(lambda: dist.recv(torch.empty(5 + rank), peer, tag=31), "sends", "20 bytes", "24 bytes")
        # Further sends wait once the receiver cannot keep more messages.
        sent = [dist.isend(torch.full((16_000,), float(number)), peer, tag=32) for number in range(40)]
        same(torch.tensor([sent[0].wait(), sent[-1].is_completed()]), torch.tensor([True, False]))
        for number in range(40):
            part = torch.empty(16_000)
            dist.recv(part, peer, tag=32)
            same(part, torch.full((16_000,), float(number)))
        for work in sent:
            work.wait()


def works():
    """Uses works and futures as PyTorch's users do."""
    rank, world = begin()
    tensor = torch.ones(1000)
    work = dist.all_reduce(tensor, async_op=True)
    assert isinstance(work, dist.Work)
    (done,) = work.get_future().wait()
    same(done, torch.full((1000,), float(world)))
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0] is tensor and work.wait()
    said = []
    work = dist.all_reduce(tensor, async_op=True)
    work.get_future().then(lambda future: said.append(future.value()[0][0].item())).wait()
    assert said == [world * world]
    # Polling.
    work = dist.barrier(async_op=True)
    deadline = time.monotonic() + 20
    while not work.is_completed():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    # Two operations on one tensor run one after the other, and later operations stay behind them.
    for _ in range(20):
        tensor, other = torch.full((100_000,), 1.0), torch.full((10,), 1.0)
        under_way = [dist.all_reduce(tensor, async_op=True), dist.all_reduce(tensor, async_op=True)]
        under_way += [dist.all_reduce(other, async_op=True), dist.all_reduce(tensor[:10], async_op=True)]
        for each in under_way:
            each.wait()
        same(tensor[10:], torch.full((99_990,), float(world**2)))
        same(tensor[:10], torch.full((10,), float(world**3)))
        same(other, torch.full((10,), float(world)))
    # A work keeps a tensor alive that the caller has released.
    tensor = torch.ones(2_000_000)
    gone = weakref.ref(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    del tensor
    gc.collect()
    assert gone() is not None
    same(work.result()[0], torch.full((2_000_000,), float(world)))
    # No caller waits for this work: a later operation releases its tensor.
    tensor = torch.ones(1000)
    gone = weakref.ref(tensor)
    dist.all_reduce(tensor, async_op=True)
    del tensor
    dist.barrier()
    time.sleep(0.5)  # a barrier may end sooner than an earlier operation
    dist.barrier()
    assert gone() is None
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    with dist._coalescing_manager():
        one, two = torch.ones(3), torch.ones(4) * rank
        dist.all_reduce(one)
        dist.all_reduce(two)
    same(one, torch.full((3,), float(world)))
    same(two, torch.full((4,), float(sum(range(world)))))
    with dist._coalescing_manager():
        first, second = torch.empty(world), torch.empty(2 * world)
        dist.all_gather_into_tensor(first, torch.full((1,), float(rank)))
        dist.all_gather_into_tensor(second, torch.full((2,), float(rank)))
    same(first, torch.arange(float(world)))
    same(second, torch.arange(float(world)).repeat_interleave(2))
    summed = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    same(summed + 0, torch.full((3,), float(world)))


def odd():
    """Uses tensors that are empty, not contiguous, or a single number."""
    rank, world = begin()
    for empty in (torch.empty(0), torch.empty(3, 0, 2)):
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
        dist.all_gather([torch.empty_like(empty) for _ in range(world)], empty)
        dist.all_gather_into_tensor(torch.empty(0), torch.empty(0))
        dist.reduce_scatter_tensor(torch.empty(0), torch.empty(0))
        dist.all_to_all_single(torch.empty(0), torch.empty(0))
        dist.all_to_all_single(torch.empty(0), torch.empty(0), [0] * world, [0] * world)
        dist.gather(empty, [torch.empty_like(empty) for _ in range(world)] if rank == 0 else None, 0)
        dist.scatter(empty, [torch.empty_like(empty) for _ in range(world)] if rank == 0 else None, 0)
    number = torch.tensor(float(rank))
    dist.all_reduce(number)
    assert number.item() == sum(range(world))
    matrix = torch.arange(24.0).view(4, 6) + rank
    expected = sum(torch.arange(24.0).view(4, 6) + other for other in range(world))
    column = matrix[:, 1]
    dist.all_reduce(column)
    same(matrix[:, 1], expected[:, 1])
    same(matrix[:, 0], torch.arange(0.0, 24.0, 6.0) + rank)
    turned = (torch.arange(24.0).view(4, 6) + rank).t()
    dist.all_reduce(turned)
    same(turned, expected.t())
    negated = torch.full((3,), complex(1, rank), dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    dist.all_reduce(negated)
    same(negated.resolve_neg(), torch.full((3,), -float(sum(range(world)))))
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    same(flags, torch.tensor([True, False, True]))
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags, op=dist.ReduceOp.PRODUCT)
    same(flags, torch.tensor([world == 1, False, True]))
    leaf = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf)
    same(leaf.detach(), torch.full((3,), float(world)))
    with torch.inference_mode():
        matrix = torch.ones(2, 2)
        dist.all_reduce(matrix[:, 0], op=dist.ReduceOp.AVG)
        dist.all_reduce(matrix)
        dist.all_to_all_single(torch.empty(world), torch.ones(world), [1] * world, [1] * world)
    same(matrix, torch.full((2, 2), float(world)))
    columns = [torch.empty(2, 4)[:, :3] for _ in range(world)]
    dist.all_gather(columns, torch.full((3, 2), float(rank)).t())
    for other in range(world):
        same(columns[other].contiguous(), torch.full((2, 3), float(other)))


def sockets():
    """Returns the sockets of this process."""
    links = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return {str(link) for link in links if "socket" in str(link)}


def held():
    """Returns the numbers of descriptors and threads of this process."""
    return [len(list(Path(f"/proc/self/{what}").iterdir())) for what in ("fd", "task")]


def beside_another_backend():
    """Serves one kind of device in groups whose other backend serves another kind."""
    dist.init_process_group("cpu:syncline,cuda:gloo", timeout=timedelta(seconds=30))
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), float(sum(range(world)))))
    before = lanes()
    group = dist.new_group(list(range(world)))
    assert syncline.torch.communicator(group).ranks == list(range(world))
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    assert objects == [{"rank": other} for other in range(world)]
    # The group of this backend shares the connections and threads of the first one; the other backend opens its own.
    assert syncline.torch.communicator(group).transports == {}
    assert before == lanes() > 0
    assert syncline.torch.tuner() is not None
    trained = DistributedDataParallel(torch.nn.Linear(10, 10))
    trained(torch.full((2, 10), float(rank))).sum().backward()
    same(trained.module.bias.grad, torch.full((10,), 2.0))
    dist.barrier()
    dist.destroy_process_group()


def beside_nccl():
    """Sends tensors on GPUs by NCCL, and those on the CPU by plans."""
    dist.init_process_group("cpu:syncline,cuda:nccl", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    for device in ("cpu", "cuda"):
        tensor = torch.full((1000,), float(rank + 1), device=device)
        dist.all_reduce(tensor)
        same(tensor.cpu(), torch.full((1000,), float(sum(range(1, dist.get_world_size() + 1)))))
    dist.destroy_process_group()


def lanes():
    """Returns the number of this process's threads that run lanes."""
    return sum(task.read_text().startswith("lane ") for task in Path("/proc/self/task").glob("*/comm"))


def secure():
    """Uses certificates in addition to the key from the store: all transports are TLS or shared memory."""
    folder = os.environ["CERTS"]
    rank, world = begin(pg_options=syncline.torch.Options(security=syncline.runtime.Security(tls=folder)))
    assert set(dist.group.WORLD.backend.communicator.transports.values()) <= {"shared memory", "TLS"}
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), float(sum(range(world)))))
    # Messages and groups use the same connections, and no others.
    opened = sockets()
    pair = dist.new_group([0, 1])
    for group in (None, pair):
        if rank == 0:
            dist.send(torch.full((300_000,), 5.0), 1, group=group)
        else:
            dist.recv(tensor.resize_(300_000), 0, group=group)
            same(tensor, torch.full((300_000,), 5.0))
    tensor = torch.full((1000,), float(sum(range(world))))
    dist.barrier(pair)
    assert sockets() <= opened
    ranks = syncline.torch.join(
        security=syncline.runtime.Security(tls=folder), resources=syncline.runtime.Resources(shared_memory=False)
    )
    assert set(ranks.transports.values()) == {"TLS"}
    ranks.all_reduce(tensor.numpy()).wait()
    same(tensor, torch.full((1000,), float(world * sum(range(world)))))
    dist.destroy_process_group()


def groups():
    """Uses several groups at once, and makes the default group again."""
    rank, world = begin(pg_options=syncline.torch.Options(in_order=True, plans=syncline.runtime.Plans(order=[2, 0, 1])))
    assert dist.get_backend() == "syncline"
    dist.barrier()
    before = held()
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 1])]
    dist.barrier()
    # Further groups use the connections and threads of the first group.
    assert held() == before
    everybody = torch.ones(200_000)
    under_way = [dist.all_reduce(everybody, async_op=True)]
    for number, (members, group) in enumerate(zip(([0, 1], [1, 2], [0, 1]), pairs, strict=True)):
        if rank in members:
            tensor = torch.full((100_000,), float(rank + number))
            under_way.append(dist.all_reduce(tensor, group=group, async_op=True))
            same(under_way[-1].result()[0], torch.full((100_000,), float(sum(members) + 2 * number)))
            word = torch.tensor([rank])
            dist.broadcast(word, members[1], group=group)
            assert word.item() == members[1]
            if rank == members[0]:
                dist.send(word + number, members[1], group=group)
            else:
                assert dist.recv(word, group=group) == members[0]
                assert word.item() == members[1] + number
    for work in under_way:
        work.wait()
    same(everybody, torch.full((200_000,), float(world)))
    dist.barrier()
    if rank in (0, 1):
        dist.destroy_process_group(pairs[0])
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=pairs[2])
        same(tensor, torch.full((3,), 2.0))
    dist.destroy_process_group()
    rank, world = begin()
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((3,), float(world)))
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    dist.destroy_process_group()


def mismatch():
    """Begins different operations on different ranks: every rank gets both in its error."""
    rank, _ = begin()
    # Two ranks have 10 elements, the third has 11: each error has both numbers, and the rank's own shape.
    mine = torch.ones(11) if rank == 2 else torch.ones(2, 5)
    refused(lambda: dist.all_reduce(mine), "10 f32", "11 f32", f"all_reduce of this rank: {tuple(mine.shape)}")
    dist.destroy_process_group()
    rank, _ = begin()
    refused(lambda: dist.all_reduce(torch.ones(10) if rank else torch.ones(10).double()), "10 f32", "10 f64")
    dist.destroy_process_group()
    rank, world = begin()
    # Rank 0 sends one row more than others expect.
    sizes = [2] * world
    ins = [3 if rank == 0 and to == 1 else 2 for to in range(world)]
    try:
        dist.all_to_all_single(torch.empty(2 * world), torch.empty(sum(ins)), sizes, ins)
    except SynclineError as error:
        assert "12 bytes" in str(error) and "8 bytes" in str(error), error
    else:
        # Rank 2 has received all that it expects, and may end before it learns of the error.
        assert rank == 2
    # The error was in messages, and not in a plan: the group goes on.
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    same(tensor, torch.full((2,), float(world)))
    refused(lambda: dist.all_gather_into_tensor(torch.empty(5), torch.empty(2)), "output (5,), input (2,)")


def late():
    """Lets timeouts expire: PyTorch's timeouts are deadlines, and errors name the missing rank."""
    rank, _ = begin(seconds=3)
    if rank == 1:
        time.sleep(9)
        os._exit(0)
    began = time.monotonic()
    refused(
        lambda: dist.monitored_barrier(timeout=timedelta(seconds=1)),
        "Rank 1 failed to pass monitoredBarrier within 1.000 s",
    )
    waiting = dist.irecv(torch.ones(4), 1)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    refused(lambda: work.wait(timedelta(seconds=0.2)), "all_reduce was not complete within its timeout of 0.200 s")
    # Whichever operation times out first, its error names rank 1, and everything fails.
    refused(work.wait, "rank 1 has not", "all_reduce of 4 f32 (sum), 16 bytes")
    refused(waiting.wait, "rank 1 has not", "recv of 16 bytes from rank 1, tag 0")
    assert 3 <= time.monotonic() - began < 20
    assert not work.is_success() and isinstance(work.exception(), SynclineError)
    os._exit(0)


def patient():
    """Uses timeouts longer than that of the group: of monitored barriers, and by ``_set_pg_timeout``."""
    rank, world = begin(seconds=2)
    if rank == 1:
        time.sleep(5)
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=30))
    if rank == 1:
        time.sleep(5)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    same(tensor, torch.full((2,), float(world)))
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2))
    if rank == 1:
        time.sleep(9)
        os._exit(0)
    refused(lambda: dist.all_reduce(torch.ones(4)), "its timeout of 2.000 s")
    os._exit(0)


def killed():
    """Kills rank 1 while the others sum, and wait for a message."""
    rank, _ = begin()
    dist.barrier()
    if rank == 1:
        time.sleep(1)
        os.kill(os.getpid(), 9)
    dist.send(torch.ones(1), (2 if rank == 0 else 0))
    dist.recv(torch.ones(1), (2 if rank == 0 else 0))
    waiting = dist.irecv(torch.empty(4), 1)
    began = time.monotonic()
    refused(lambda: dist.all_reduce(torch.ones(1000)), "rank 1 closed its connection", "all_reduce of 1000 f32")
    refused(waiting.wait, "rank 1 closed its connection", "recv of 16 bytes from rank 1, tag 0")
    refused(lambda: dist.barrier(), "rank 1")
    assert time.monotonic() - began < 15
    os._exit(0)


def large():
    """Sums a tensor of 1 GB."""
    _, world = begin(seconds=100)
    tensor = torch.ones(1 << 28)
    dist.all_reduce(tensor)
    assert tensor.min().item() == tensor.max().item() == world


def model():
    """Returns a small transformer."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.Embedding(50, 32), torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(32, 50)
    )


def losses(trained, rank, optimizer=None, steps=12):
    """Trains on generated data, which differs by rank; returns the losses of this rank."""
    optimizer = optimizer or torch.optim.SGD(trained.parameters(), lr=0.2, momentum=0.9)
    data = torch.Generator().manual_seed(rank)
    found = []
    for _ in range(steps):
        words = torch.randint(0, 25, (8, 10), generator=data)
        # The next word is twice the word.
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(trained(words).flatten(0, 1), (2 * words).flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def train(*ways):
    """Trains in several ways, one after the other, and prints the exact losses of each."""
    for way in ways:
        backend, how = way.split("+")
        if not dist.is_initialized() or dist.get_backend() != backend:
            # A second Gloo group would find old keys of the first in the store: make it only once.
            if dist.is_initialized():
                dist.destroy_process_group()
            options = syncline.torch.Options(in_order=True) if backend == "syncline" else None
            dist.init_process_group(backend, timeout=timedelta(seconds=60), pg_options=options)
        rank = dist.get_rank()
        trained = model()
        if how == "fsdp":
            from torch.distributed.fsdp import fully_shard

            for each in trained:
                fully_shard(each)
            fully_shard(trained)
        elif how != "optimizer":
            # Small enough for several buckets.
            trained = DistributedDataParallel(trained, bucket_cap_mb=0.05)
        if how == "hook":
            ranks = syncline.torch.join()
            trained.register_comm_hook(None, syncline.torch.hook(ranks, in_order=True))
        if how == "hub":
            hub = syncline.hub.Hub.join(
                None, syncline.torch.vectors(trained), job="hook", terms=syncline.hub.Terms(in_order=True)
            )
            trained.register_comm_hook(None, syncline.torch.hook(hub, trained))
        optimizer = None
        if how == "optimizer":
            chosen = syncline.hub.Sgd(lr=0.2, momentum=0.9)
            optimizer = syncline.torch.HubOptimizer(
                trained.parameters(), chosen, bucket_mb=0.05, terms=syncline.hub.Terms(in_order=True)
            )
        sys.stdout.write(" ".join(value.hex() for value in losses(trained, rank, optimizer)) + "\n")
    dist.destroy_process_group()


def hook_fails():
    """Makes a hook fail: `backward` raises an error that names the operation."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    trained = DistributedDataParallel(torch.nn.Linear(100, 100))
    ranks = syncline.torch.join(limits=syncline.runtime.TimeLimits(deadline_s=2))
    trained.register_comm_hook(None, syncline.torch.hook(ranks))
    for _ in range(3):
        trained(torch.ones(2, 100)).sum().backward()
    if rank == 1:
        time.sleep(6)
        os._exit(0)
    try:
        trained(torch.ones(2, 100)).sum().backward()
    except RuntimeError as error:
        sys.stdout.write(str(error))
    sys.stdout.flush()
    os._exit(0)


def at_exit():
    """Exits with operations under way, and without leaving the group."""
    rank, _ = begin()
    tensor = torch.ones(1_000_000)
    dist.all_reduce(tensor)
    if rank == 0:
        held = dist.all_reduce(tensor, async_op=True), dist.irecv(torch.ones(3), 1)
        assert not held[1].is_completed()


def empty_bucket():
    """Runs DDP with a parameter without elements, an unused one, and one of another type."""
    rank, world = begin()
    trained = torch.nn.ParameterDict(
        {"none": torch.empty(0), "idle": torch.ones(3), "short": torch.ones(2).bfloat16(), "long": torch.ones(2)}
    )

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.all = trained

        def forward(self, value):
            return value * (self.all["none"].sum() + self.all["short"].float().sum() + self.all["long"].sum())

    wrapped = DistributedDataParallel(Sums(), find_unused_parameters=True)
    wrapped(torch.tensor(float(rank + 1))).backward()
    mean = (world + 1) / 2
    same(trained["long"].grad, torch.full((2,), mean))
    same(trained["short"].grad, torch.full((2,), mean).bfloat16())
    assert trained["none"].grad is None or trained["none"].grad.numel() == 0


def cuda():
    """Uses tensors on a GPU, which are copied through pinned memory."""
    rank, world = begin()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    tensor = torch.ones(1_000_000, device=device)
    for _ in range(3):
        tensor.mul_(2)
        dist.all_reduce(tensor)
    same(tensor.cpu(), torch.full((1_000_000,), float((2 * world) ** 3)))
    works = [dist.all_reduce(tensor.fill_(1), async_op=True), dist.all_reduce(tensor, async_op=True)]
    for work in works:
        work.wait()
    same(tensor.cpu(), torch.full((1_000_000,), float(world**2)))
    flat = torch.empty(world, device=device)
    dist.all_gather_into_tensor(flat, torch.full((1,), float(rank), device=device))
    same(flat.cpu(), torch.arange(float(world)))
    trained = DistributedDataParallel(torch.nn.Linear(10, 10, device=device), device_ids=[device.index])
    trained(torch.full((2, 10), float(rank), device=device)).sum().backward()
    same(trained.module.bias.grad.cpu(), torch.full((10,), 2.0))
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
