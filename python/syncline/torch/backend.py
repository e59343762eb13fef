"""The operations of a ``torch.distributed`` backend.

Operations whose sizes all ranks know run by plans; the rest use messages. PyTorch calls ``all_gather_single``,
``reduce_scatter_single`` and ``all_to_all_single``; their older names are defined here as well.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from syncline.input.problem import bad_value
from syncline.torch.device import Local
from syncline.torch.elements import check, memory, raw, reducing
from syncline.torch.failures import closed_error, timeout_error
from syncline.torch.profiling import Span, profiling
from syncline.torch.queue import Queue
from syncline.torch.sparse import Sparse
from syncline.torch.tracing import untraced
from syncline.torch.work import Operation, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from syncline.runtime.communicator import Communicator, Pending
    from syncline.tuning import Tuner

    Tensors: TypeAlias = torch.Tensor | Sequence[torch.Tensor]

NAME = "syncline"
"""The name of the backend, for ``init_process_group``."""

KINDS = {"all_to_all": 1, "gather": 2, "scatter": 3, "all_gather": 4}
"""Collectives that use messages, and the tags of these messages."""

GRACE_S = 0.1
"""Minimum wait of a monitored barrier: noticing ranks that have arrived may take this long."""

LATER_S = 30.0
"""How much longer the deadline of a monitored barrier's messages is than the barrier's timeout."""

BARRIER = 2**62
"""The tag of a monitored barrier's messages is this plus the number of the barrier."""


def _list(tensors: Tensors) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _lists(lists: Any) -> list[torch.Tensor]:
    """Unpacks PyTorch's list of lists of tensors: one list for each GPU of the process, of which there is only one."""
    if lists and isinstance(lists[0], torch.Tensor):
        return list(lists)
    if len(lists) != 1:
        raise bad_value("a collective takes one list of tensors", f"{len(lists)} lists", allowed="one")
    return list(lists[0])


def _shapes(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors)


def _no(self: Any) -> bool:
    """Says that the backend does not support a feature."""
    return False


@untraced
class Backend(_distributed_c10d.Backend):
    """The operations of one process group."""

    def __init__(
        self, communicator: Communicator, timeout: timedelta, *, in_order: bool, tuner: Tuner | None = None
    ) -> None:
        super().__init__(communicator.rank, communicator.world)
        self.communicator = communicator
        self.tuner = tuner
        self._timeout = timeout
        self._in_order = in_order
        self._limit: timedelta | None = None
        self._queue = Queue()
        self._sends, self._receives = Queue(), Queue()
        self._space = 0
        self._barriers = 0

    # Plans.

    def _run(
        self, operation: Operation, opts: Any = None, *, queue: Queue | None = None, title: str | None = None
    ) -> Work:
        """Queues an operation, and returns it; ``title`` is its name in traces if that is another one."""
        queue = queue or self._queue
        limit = getattr(opts, "timeout", None)
        if limit is None or limit.total_seconds() <= 0:
            limit = self._limit
        work = Work(operation, queue, limit)
        # Sends and receives have no options.
        work.handed_out = opts is None or getattr(opts, "asyncOp", True)
        if profiling():
            work.span = Span(f"{NAME}:{title or operation.what}", operation.places)
        queue.put(work)
        return work

    def _check(self, what: str, *lists: Sequence[torch.Tensor]) -> None:
        tensors = [tensor for each in lists for tensor in each]
        check(what, tensors)
        if len({(tensor.dtype, tensor.device) for tensor in tensors}) > 1:
            found = ", ".join(sorted({f"{tensor.dtype} on {tensor.device}" for tensor in tensors}))
            raise bad_value(f"{what} needs tensors of one type on one device", found, allowed="the same for all")

    def _blocks(self, what: str, tensors: Sequence[torch.Tensor], name: str) -> None:
        """Checks that there is a tensor for each rank."""
        if len(tensors) != self.size():
            raise bad_value(f"{what} needs {name} for each rank", f"{len(tensors)} tensors", allowed=f"{self.size()}")

    def allreduce(self, tensors: Tensors, opts: Any = None, **more: Any) -> Work:
        """Combines the tensors of all ranks, in place."""
        tensors = _list(tensors)
        if not hasattr(opts, "reduceOp"):
            opts = _options(dist.AllreduceOptions(), reduceOp=more.get("op", opts), timeout=more.get("timeout"))
        if any(tensor.layout == torch.sparse_coo for tensor in tensors):
            return self.allreduce_sparse(tensors, opts)
        self._check("all_reduce", tensors)
        how = reducing("all_reduce", opts.reduceOp, tensors[0].dtype, self.size())
        place = Local(tensors, reads=True, writes=True, factor=how.before)

        def begin() -> list[Pending]:
            return [self.communicator.all_reduce(memory(place.host), how.reduction, in_order=self._in_order)]

        return self._run(Operation("all_reduce", [place], begin, tensors, after=how.after), opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """Combines the tensors of all ranks, several at once, in place."""
        return self.allreduce(tensors, opts)

    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Work:
        """Sums a sparse tensor over all ranks, in place.

        Ranks first exchange their numbers of elements, which this call waits for. Then every rank gets the elements of
        all ranks.
        """
        (tensor,) = _list(tensors)
        sparse = Sparse(tensor, self.size(), opts.reduceOp if hasattr(opts, "reduceOp") else dist.ReduceOp.SUM)
        self.all_gather_single(sparse.counts, sparse.count, opts).wait()
        rooms = sparse.rooms(self.rank())
        places = [
            Local([room], reads=rank == self.rank(), writes=rank != self.rank())
            for rank, pair in enumerate(rooms)
            for room in pair
        ]

        def begin() -> list[Pending]:
            broadcast = self.communicator.broadcast
            return [broadcast(memory(place.host), number // 2) for number, place in enumerate(places)]

        return self._run(Operation("all_reduce", places, begin, [tensor], last=sparse.sum), opts)

    def reduce(self, tensors: Tensors, opts: Any = None, op: Any = None, **more: Any) -> Work:
        """Combines the tensors of all ranks at the root; the tensors of the other ranks do not change."""
        tensors = _list(tensors)
        if not hasattr(opts, "rootRank"):
            root = more.get("root", opts)
            opts = _options(dist.ReduceOptions(), rootRank=root, reduceOp=op, timeout=more.get("timeout"))
        self._check("reduce", tensors)
        how = reducing("reduce", opts.reduceOp, tensors[0].dtype, self.size())
        root = opts.rootRank
        place = Local(tensors, reads=True, writes=self.rank() == root, factor=how.before)

        def begin() -> list[Pending]:
            vector = memory(place.host)
            return [self.communicator.reduce(vector, root, how.reduction, in_order=self._in_order)]

        return self._run(Operation("reduce", [place], begin, tensors, after=how.after), opts)

    def broadcast(self, tensors: Tensors, opts: Any = None, **more: Any) -> Work:
        """Gives all ranks the tensor of the root."""
        tensors = _list(tensors)
        if not hasattr(opts, "rootRank"):
            root = more.get("root", opts)
            opts = _options(dist.BroadcastOptions(), rootRank=root, timeout=more.get("timeout"))
        self._check("broadcast", tensors)
        root = opts.rootRank
        place = Local(tensors, reads=self.rank() == root, writes=self.rank() != root)

        def begin() -> list[Pending]:
            return [self.communicator.broadcast(memory(place.host), root)]

        return self._run(Operation("broadcast", [place], begin, tensors), opts)

    def allgather(self, outputs: Any, inputs: Tensors, opts: Any = None, **more: Any) -> Work:
        """Gives all ranks the tensors of all, which may differ in size."""
        targets, sources = _lists(outputs), _list(inputs)
        opts = opts or _options(dist.AllgatherOptions(), timeout=more.get("timeout"))
        self._blocks("all_gather", targets, "a tensor")
        self._check("all_gather", targets, sources)
        me = self.rank()
        if sum(tensor.numel() for tensor in sources) != targets[me].numel():
            found = f"{_shapes(sources)}, to be put into {_shapes([targets[me]])}"
            raise bad_value(
                f"all_gather has no room for the tensor of rank {me}", found, allowed="the same number of elements"
            )
        if len({tensor.numel() for tensor in targets}) == 1:
            return self._gather(targets, sources, targets, opts)
        source = Local(sources, reads=True, writes=False)
        places = [Local([target], reads=False, writes=True) for target in targets]
        messages = self._messages("all_gather")
        world = self.size()

        def begin() -> list[Pending]:
            places[me].host.copy_(source.host)
            for step in range(1, world):
                messages.receive(places[(me - step) % world].host, (me - step) % world)
                messages.send(source.host, (me + step) % world)
            return messages.begun

        return self._run(Operation("all_gather", [source, *places], begin, targets), opts)

    def _gather(self, targets: Tensors, sources: Tensors, results: Tensors, opts: Any) -> Work:
        source = Local(_list(sources), reads=True, writes=False)
        target = Local(_list(targets), reads=False, writes=True)

        def begin() -> list[Pending]:
            return [self.communicator.all_gather(memory(source.host), memory(target.host))]

        return self._run(Operation("all_gather", [source, target], begin, _list(results)), opts)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """Gives all ranks the tensors of all, concatenated."""
        self._check("all_gather", [output], [input])
        self._multiple("all_gather", "output", output, "input", input)
        return self._gather(output, input, output, opts)

    def _multiple(self, what: str, long: str, whole: torch.Tensor, short: str, block: torch.Tensor) -> None:
        """Checks that tensor ``whole`` has as many elements as the tensors ``block`` of all ranks together."""
        if whole.numel() != block.numel() * self.size():
            found = f"{long} {tuple(whole.shape)}, {short} {tuple(block.shape)}"
            allowed = f"{block.numel() * self.size()} elements in the {long}"
            raise bad_value(f"{what} on {self.size()} ranks needs that many blocks", found, allowed=allowed)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """Runs ``all_gather_single`` for several tensors at once."""
        pairs = list(zip(_list(outputs), _list(inputs), strict=True))
        for output, source in pairs:
            self._check("all_gather", [output], [source])
            self._multiple("all_gather", "output", output, "input", source)
        places = [
            (Local([source], reads=True, writes=False), Local([output], reads=False, writes=True))
            for output, source in pairs
        ]

        def begin() -> list[Pending]:
            gather = self.communicator.all_gather
            return [gather(memory(source.host), memory(target.host)) for source, target in places]

        return self._run(
            Operation("all_gather", [each for pair in places for each in pair], begin, _list(outputs)), opts
        )

    def allgather_coalesced(self, output_lists: Any, inputs: Tensors, opts: Any = None) -> Work:
        """Gives all ranks several tensors of each rank; ``output_lists`` has a list for the tensors of each rank."""
        rooms = [list(each) for each in output_lists]
        sources = _list(inputs)
        if len(rooms) != self.size() or any(len(room) != len(sources) for room in rooms):
            found = f"lists of {', '.join(str(len(room)) for room in rooms)} tensors"
            allowed = f"{self.size()} lists of {len(sources)}"
            raise bad_value(
                "all_gather_coalesced needs a list for each rank, with as many tensors as the input",
                found,
                allowed=allowed,
            )
        places = []
        for number, source in enumerate(sources):
            targets = [room[number] for room in rooms]
            self._check("all_gather_coalesced", targets, [source])
            if any(target.numel() != source.numel() for target in targets):
                found = f"tensor {number} is {_shapes([source])}, to be put into {_shapes(targets)}"
                allowed = "the same number of elements"
                raise bad_value("all_gather_coalesced has no room for the tensors", found, allowed=allowed)
            places.append((Local([source], reads=True, writes=False), Local(targets, reads=False, writes=True)))

        def begin() -> list[Pending]:
            gather = self.communicator.all_gather
            return [gather(memory(source.host), memory(target.host)) for source, target in places]

        flat = [tensor for room in rooms for tensor in room]
        return self._run(
            Operation("all_gather_coalesced", [each for pair in places for each in pair], begin, flat), opts
        )

    def reduce_scatter(self, outputs: Tensors, inputs: Any, opts: Any = None, **more: Any) -> Work:
        """Combines one tensor of all ranks for each rank, and gives it to that rank. The tensors may differ in size."""
        targets, sources = _list(outputs), _lists(inputs)
        opts = opts or _options(dist.ReduceScatterOptions(), reduceOp=more.get("op"), timeout=more.get("timeout"))
        self._blocks("reduce_scatter", sources, "a tensor")
        self._check("reduce_scatter", targets, sources)
        me = self.rank()
        if sum(tensor.numel() for tensor in targets) != sources[me].numel():
            found = f"{_shapes([sources[me]])}, to be put into {_shapes(targets)}"
            allowed = "the same number of elements"
            raise bad_value(f"reduce_scatter has no room for the block of rank {me}", found, allowed=allowed)
        if len({tensor.numel() for tensor in sources}) == 1:
            return self._scatter([(targets, sources)], targets, opts)
        how = reducing("reduce_scatter", opts.reduceOp, sources[0].dtype, self.size())
        places = [Local([source], reads=True, writes=False, factor=how.before) for source in sources]
        target = Local(targets, reads=False, writes=True)

        def begin() -> list[Pending]:
            target.host.copy_(places[me].host)
            hosts = [target.host if rank == me else place.host for rank, place in enumerate(places)]
            reduce = self.communicator.reduce
            return [
                reduce(memory(host), rank, how.reduction, in_order=self._in_order) for rank, host in enumerate(hosts)
            ]

        return self._run(Operation("reduce_scatter", [*places, target], begin, targets, after=how.after), opts)

    def _scatter(self, pairs: Sequence[tuple[Tensors, Tensors]], results: Tensors, opts: Any) -> Work:
        how = reducing("reduce_scatter", opts.reduceOp, _list(pairs[0][1])[0].dtype, self.size())
        places = [
            (Local(_list(source), reads=True, writes=False, factor=how.before), _written(_list(target)))
            for target, source in pairs
        ]

        def begin() -> list[Pending]:
            scatter = self.communicator.reduce_scatter
            return [
                scatter(memory(source.host), memory(target.host), how.reduction, in_order=self._in_order)
                for source, target in places
            ]

        flat = [each for pair in places for each in pair]
        return self._run(Operation("reduce_scatter", flat, begin, _list(results), after=how.after), opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """Combines the tensors of all ranks; each rank gets its block of the result."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        """Runs ``reduce_scatter_single`` for several tensors at once."""
        pairs = list(zip(_list(outputs), _list(inputs), strict=True))
        for output, source in pairs:
            self._check("reduce_scatter", [output], [source])
            self._multiple("reduce_scatter", "input", source, "output", output)
        return self._scatter(pairs, outputs, opts or dist.ReduceScatterOptions())

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
        **more: Any,
    ) -> Work:
        """Sends block ``i`` of each rank's tensor to rank ``i``; blocks have equal sizes, or those in the splits."""
        opts = opts or _options(dist.AllToAllOptions(), timeout=more.get("timeout"))
        self._check("all_to_all", [output], [input])
        source, target = Local([input], reads=True, writes=False), Local([output], reads=False, writes=True)
        if output_split_sizes or input_split_sizes:
            ins = _splits("input", input, input_split_sizes, self.size())
            outs = _splits("output", output, output_split_sizes, self.size())
            return self._exchange(source, ins, target, outs, [output], opts)
        if input.numel() != output.numel() or input.numel() % self.size():
            found = f"input {tuple(input.shape)}, output {tuple(output.shape)}"
            raise bad_value(
                "all_to_all without split sizes needs equal blocks", found, allowed=f"a multiple of {self.size()}"
            )

        def begin() -> list[Pending]:
            return [self.communicator.all_to_all(memory(source.host), memory(target.host))]

        return self._run(Operation("all_to_all", [source, target], begin, [output]), opts)

    # Messages.

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None, **more: Any) -> Work:
        """Sends tensor ``i`` of each rank to rank ``i``. The tensors may differ in size."""
        targets, sources = _list(outputs), _list(inputs)
        opts = opts or _options(dist.AllToAllOptions(), timeout=more.get("timeout"))
        self._blocks("all_to_all", targets, "an output")
        self._blocks("all_to_all", sources, "an input")
        self._check("all_to_all", targets, sources)
        ins, outs = ([tensor.numel() for tensor in tensors] for tensors in (sources, targets))
        source, target = Local(sources, reads=True, writes=False), Local(targets, reads=False, writes=True)
        return self._exchange(source, ins, target, outs, targets, opts)

    def _exchange(
        self, source: Local, ins: list[int], target: Local, outs: list[int], results: list[torch.Tensor], opts: Any
    ) -> Work:
        me, world = self.rank(), self.size()
        if ins[me] != outs[me]:
            found = f"{ins[me]} elements are sent, {outs[me]} are expected"
            raise bad_value(
                f"rank {me} sends itself a block of another size than it expects", found, allowed="equal sizes"
            )
        messages = self._messages("all_to_all")

        def begin() -> list[Pending]:
            blocks, rooms = source.host.split(ins), target.host.split(outs)
            rooms[me].copy_(blocks[me])
            for step in range(1, world):
                messages.receive(rooms[(me - step) % world], (me - step) % world)
                messages.send(blocks[(me + step) % world], (me + step) % world)
            return messages.begun

        return self._run(Operation("all_to_all", [source, target], begin, results), opts)

    def gather(self, outputs: Any, inputs: Tensors, opts: Any = None, **more: Any) -> Work:
        """Gives the root the tensors of all ranks."""
        opts = opts or _options(dist.GatherOptions(), rootRank=more.get("root"), timeout=more.get("timeout"))
        blocks = _lists(outputs) if self.rank() == opts.rootRank else []
        return self._star("gather", _list(inputs), blocks, opts, collects=True)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """Gives the root the tensors of all ranks, concatenated."""
        opts = opts or dist.GatherOptions()
        blocks: list[torch.Tensor] = []
        if self.rank() == opts.rootRank:
            self._check("gather", [output], [input])
            self._multiple("gather", "output", output, "input", input)
            if not output.is_contiguous():
                raise bad_value(
                    "gather_single needs a contiguous output", f"strides {output.stride()}", allowed="contiguous"
                )
            blocks = list(output.view(-1).split(max(input.numel(), 1)))
            blocks += [output.view(-1)[:0]] * (self.size() - len(blocks))
        return self.gather([blocks], [input], opts)

    def scatter(self, outputs: Tensors, inputs: Any, opts: Any = None, **more: Any) -> Work:
        """Gives each rank one of the root's tensors."""
        opts = opts or _options(dist.ScatterOptions(), rootRank=more.get("root"), timeout=more.get("timeout"))
        blocks = _lists(inputs) if self.rank() == opts.rootRank else []
        return self._star("scatter", _list(outputs), blocks, opts, collects=False)

    def _star(
        self, what: str, own: list[torch.Tensor], blocks: list[torch.Tensor], opts: Any, *, collects: bool
    ) -> Work:
        """Moves a block between the root and each rank: to the root if ``collects``, or else from it."""
        me, root = self.rank(), opts.rootRank
        if me == root:
            self._blocks(what, blocks, "a tensor")
        self._check(what, blocks, own)
        if me == root and blocks[me].numel() != sum(tensor.numel() for tensor in own):
            source, target = (own, blocks[me : me + 1]) if collects else (blocks[me : me + 1], own)
            found = f"{_shapes(source)}, to be put into {_shapes(target)}"
            raise bad_value(
                f"{what} has no room for the tensor of rank {me}", found, allowed="the same number of elements"
            )
        mine = Local(own, reads=collects, writes=not collects)
        places = [Local([block], reads=not collects, writes=collects) for block in blocks]
        messages = self._messages(what)
        move = messages.send if collects == (me != root) else messages.receive

        def begin() -> list[Pending]:
            if me != root:
                move(mine.host, root)
                return messages.begun
            source, target = (mine, places[me]) if collects else (places[me], mine)
            target.host.copy_(source.host)
            for rank in range(self.size()):
                if rank != me:
                    move(places[rank].host, rank)
            return messages.begun

        return self._run(Operation(what, [mine, *places], begin, blocks if collects and me == root else own), opts)

    def _messages(self, what: str) -> Messages:
        self._space += 1
        return Messages(self.communicator, self._space, KINDS[what])

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Work:
        """Sends a tensor to a rank, which must receive it under the same tag."""
        sources = _list(tensors)
        self._check("send", sources)
        place = Local(sources, reads=True, writes=False)

        def begin() -> list[Pending]:
            return [self.communicator.send(raw(place.host), to, tag)]

        return self._run(Operation("send", [place], begin, sources), queue=self._sends)

    def recv(self, tensors: Tensors, source: int | None, tag: int = 0) -> Work:
        """Receives a tensor with a tag from a rank."""
        targets = _list(tensors)
        self._check("recv", targets)
        place = Local(targets, reads=False, writes=True)

        def begin() -> list[Pending]:
            return [self.communicator.receive(raw(place.host), source, tag)]

        # Gloo's names in traces.
        title = "recvAnySource" if source is None else "recv"
        return self._run(Operation("recv", [place], begin, targets), queue=self._receives, title=title)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        """Receives a tensor with a tag from any rank."""
        return self.recv(tensors, None, tag)

    # Waiting for each other.

    def barrier(self, opts: Any = None, **more: Any) -> Work:
        """Begins a barrier, which is over once every rank has begun it."""
        opts = opts or _options(dist.BarrierOptions(), timeout=more.get("timeout"))
        return self._run(Operation("barrier", [], lambda: [self.communicator.barrier()], []), opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:  # noqa: FBT001, FBT002 - as PyTorch calls it
        """Returns once every rank has arrived; on a timeout, the error of rank 0 names a missing rank.

        With ``wait_all_ranks`` it names all missing ranks. If ``timeout`` is absent or negative, the group's timeout
        applies. If it is 0, all ranks must have arrived already.
        """
        if timeout is None or timeout.total_seconds() < 0:
            timeout = self._timeout
        seconds, usual = timeout.total_seconds(), self._timeout.total_seconds()
        # The barrier itself must time out and say who is missing: a message that times out would end the whole job.
        self.communicator.set_deadline(max(seconds, usual) + LATER_S)
        try:
            self.barrier_of_messages(seconds, all_missing=wait_all_ranks)
        finally:
            self.communicator.set_deadline(usual)

    def barrier_of_messages(self, seconds: float, *, all_missing: bool) -> None:
        """Runs a barrier by messages to and from rank 0, which therefore knows which ranks are missing."""
        send, receive = self.communicator.send, self.communicator.receive
        # Each barrier has its own tag, so that a late message does not count for the next barrier.
        self._barriers += 1
        tag = BARRIER + self._barriers
        word = torch.zeros(1, dtype=torch.uint8)
        if self.rank() != 0:
            send(raw(word), 0, tag)
            answer = receive(raw(word), 0, tag)
            if not answer.wait(seconds):
                answer.withdraw()
                # Gloo's wording, because people search logs for it.
                raise timeout_error(
                    f"Rank {self.rank()} successfully reached monitoredBarrier, but received errors while waiting for "
                    f"send/recv from rank 0: timed out after {seconds:.3f} s; rank 0 says which rank is missing"
                )
            return
        words = {rank: torch.zeros(1, dtype=torch.uint8) for rank in range(1, self.size())}
        heard = {rank: receive(raw(word), rank, tag) for rank, word in words.items()}
        # It takes a moment to notice messages that have arrived already.
        deadline = _deadline(max(seconds, GRACE_S))
        missing = []
        for rank, each in heard.items():
            if not each.wait(max(deadline(), 0.0)):
                missing.append(rank)
                if not all_missing:
                    break
        if missing:
            for each in heard.values():
                each.withdraw()
            names = ", ".join(str(rank) for rank in missing)
            plural = "Ranks" if len(missing) > 1 else "Rank"
            failed = f"{plural} {names} failed to pass monitoredBarrier within {seconds:.3f} s"
            raise timeout_error(f"Rank 0 timed out in monitoredBarrier: {failed}")
        for rank in heard:
            send(raw(word), rank, tag).wait(seconds)

    # Other methods that PyTorch calls.

    def getBackendName(self) -> str:  # noqa: N802 - PyTorch's name
        """Returns the backend's name."""
        return NAME

    @property
    def timeout(self) -> timedelta:
        """The time that operations may take."""
        return self._timeout

    @property
    def options(self) -> Any:
        """The backend's options, in PyTorch's form."""
        return _distributed_c10d.Backend.Options(NAME, self._timeout)

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long operations that begin from now on may take."""
        self.communicator.set_deadline(timeout.total_seconds())
        self._timeout = self._limit = timeout

    def shutdown(self) -> None:
        """Leaves the group. Operations under way fail."""
        if self.tuner is not None:
            self.tuner.close()
        self.communicator.close()
        for queue in (self._queue, self._sends, self._receives):
            queue.close(closed_error())

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Does nothing: the ranks are connected already."""

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Does nothing: a rank that is in no part of a split group need not take part in the split."""

    supports_splitting = True
    # Without these overrides, properties of the base class call themselves endlessly.
    supports_coalescing = supports_shrinking = supports_reconfigure = property(_no)
    supports_window = supports_abort_hooks = _supports_time_estimate = property(_no)
    _set_default_timeout = set_timeout
    abort = close = shutdown
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    gather_into_tensor = gather_single
    monitoredBarrier = monitored_barrier  # noqa: N815 - PyTorch's name


class Messages:
    """The messages of one collective."""

    def __init__(self, communicator: Communicator, space: int, tag: int) -> None:
        self._communicator = communicator
        self._space = space
        self._tag = tag
        self.begun: list[Pending] = []

    def send(self, block: torch.Tensor, to: int) -> None:
        """Sends a block to a rank."""
        self.begun.append(self._communicator.send(raw(block), to, self._tag, space=self._space))

    def receive(self, room: torch.Tensor, source: int) -> None:
        """Receives a block from a rank."""
        self.begun.append(self._communicator.receive(raw(room), source, self._tag, space=self._space))


def _written(tensors: list[torch.Tensor]) -> Local:
    return Local(tensors, reads=False, writes=True)


def _deadline(seconds: float) -> Callable[[], float]:
    """Returns a function that returns how many of ``seconds``, counted from now, are left."""
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


def _options(options: Any, **given: Any) -> Any:
    """Sets the given options of PyTorch, except those that are ``None``."""
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    return options


def _splits(name: str, tensor: torch.Tensor, splits: Sequence[int] | None, world: int) -> list[int]:
    """Returns the number of elements of each rank's block."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits:
        if rows % world:
            raise bad_value(
                f"all_to_all cannot split its {name} evenly", f"{rows} rows", allowed=f"a multiple of {world}"
            )
        splits = [rows // world] * world
    if len(splits) != world or sum(splits) != rows or min(splits) < 0:
        found = f"{list(splits)} of {rows} rows"
        allowed = f"{world} sizes that add up to {rows}"
        raise bad_value(f"the split sizes of all_to_all do not match its {name}", found, allowed=allowed)
    width = tensor.numel() // rows if rows else 0
    return [split * width for split in splits]
