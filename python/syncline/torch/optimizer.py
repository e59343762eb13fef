"""An optimizer for PyTorch that runs on parameter hubs.

Each bucket of gradients is pushed to the hubs while ``backward()`` still runs. The hubs average the gradients, update
the parameters, and send them back.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syncline.errors import SynclineError
from syncline.hub import Hub, Terms
from syncline.input.problem import bad_value
from syncline.torch import parameter_groups
from syncline.torch.buckets import Bucket, make_buckets
from syncline.torch.elements import memory
from syncline.torch.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from syncline.hub import Adam, Racks, Sgd
    from syncline.runtime.security import Security
    from syncline.runtime.settings import TimeLimits

    Params: TypeAlias = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]


class HubOptimizer(torch.optim.Optimizer):  # type: ignore[misc]  # the base is not known without PyTorch
    """Trains parameters on hubs.

    In a training loop it replaces both an optimizer of PyTorch and DDP::

        optimizer = HubOptimizer(model.parameters(), Sgd(lr=0.1, momentum=0.9), "10.0.0.9")

    Settings in ``param_groups`` have the names of ``torch.optim.SGD`` or ``Adam``, and each group may have its own
    values. Only ``lr`` may change later (schedulers do so), on all ranks before the same step. Once ``step()`` has
    returned, the rank has the parameters of the hubs.

    It trains every parameter that ``requires_grad`` when the optimizer is made. The hubs keep ``float32`` and
    ``float64`` parameters as they are, and a ``float32`` copy of ``float16`` and ``bfloat16`` parameters. A parameter
    that has no gradient in a step gets a gradient of zeros, so momentum and weight decay still apply. Frozen
    floating-point parameters are only made equal on all ranks at the beginning.
    """

    def __init__(
        self,
        params: Params,
        optimizer: Sgd | Adam,
        hubs: str | Sequence[str] | Racks | None = None,
        *,
        bucket_mb: float = 4.0,
        overlap: bool = True,
        rank: int | None = None,
        world: int | None = None,
        job: str = "job",
        terms: Terms | None = None,
        security: Security | None = None,
        limits: TimeLimits | None = None,
        congestion: str | None = None,
    ) -> None:
        """Joins a job on ``hubs``, and gives all ranks the same parameters.

        The parameters are those of rank 0; a rank that joins later gets those of the job. Parameters are exchanged in
        buckets of about ``bucket_mb`` MB. With ``overlap`` a bucket is pushed as soon as the gradients of its
        parameters are computed. Without it, ``step()`` pushes all buckets, so gradients can be clipped before. All
        other arguments are as for ``Hub.join``, except that the optimizer itself says which vectors ranks push
        together.

        Raises ``SynclineError`` if the ranks do not all join in time, or their parameters differ in number, shape or
        type (SL1201, exit status 6), and if an argument is invalid (SL0102).
        """
        terms = terms or Terms()
        if terms.together:
            raise bad_value("HubOptimizer sets these terms itself", "together", allowed="other terms")
        if not bucket_mb > 0:
            raise bad_value("a bucket must have some bytes", f"bucket_mb={bucket_mb}", allowed="more than 0")
        self._made = False
        super().__init__(params, parameter_groups.defaults(optimizer))
        self._chosen = [parameter_groups.chosen(optimizer, group) for group in self.param_groups]
        self._rates = [each.lr for each in self._chosen]
        trained, self._frozen = make_buckets(self.param_groups, bucket_mb * 1e6)
        if not trained:
            raise bad_value(
                "there is nothing to train", "no parameter that requires a gradient", allowed="at least one"
            )
        self._buckets = trained
        self._places = {id(param): bucket for bucket in trained for param in bucket.parameters}
        self._held = False
        self._lock = threading.Lock()
        self._queue = Queue()
        everything = [*self._buckets, *self._frozen]
        self.hub = Hub.join(
            hubs,
            {bucket.name: (bucket.element, bucket.size) for bucket in everything},
            rank=rank,
            world=world,
            job=job,
            optimizer={bucket.name: self._chosen[bucket.group] for bucket in self._buckets},
            terms=replace(terms, together=[bucket.name for bucket in self._buckets]),
            security=security,
            limits=limits,
            congestion=congestion,
        )
        self._contributors = 0
        self._steps = min(self.hub.steps[bucket.name] for bucket in trained)
        self._begin()
        self._made = True
        params = [param for bucket in trained for param in bucket.parameters] if overlap else []
        self._hooks = [param.register_post_accumulate_grad_hook(self._gradient_ready) for param in params]

    def _begin(self) -> None:
        """Gives all ranks the same parameters, including frozen ones."""
        everything = [*self._buckets, *self._frozen]
        for bucket in everything:
            bucket.gather_parameters()
        staged = {bucket.name: bucket.flat.cpu() for bucket in everything}
        self.hub.start({name: memory(flat) for name, flat in staged.items()})
        for bucket in everything:
            bucket.flat.copy_(staged[bucket.name])
            bucket.scatter()

    # Methods of PyTorch's optimizers.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises ``SynclineError``: the job's ranks agree on all parameters when they join. Give all groups then."""
        if getattr(self, "_made", False):
            remedy = "give all groups when you make the optimizer"
            raise bad_value("parameters cannot be added to a HubOptimizer", "add_param_group", help=remedy)
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Waits until the hubs have updated the parameters, and copies them to the model.

        Every rank must do every step. Raises ``SynclineError`` (SL1202, exit status 6) if an exchange failed because of
        a hub, a lost rank (depending on the job's policy) or the deadline; the parameters are then unchanged.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._check()
            for bucket in self._buckets:
                if bucket.work is None:
                    bucket.take_rest()
                    self._push(bucket)
            error: SynclineError | None = None
            for bucket in self._buckets:
                try:
                    bucket.wait()
                except SynclineError as raised:
                    # Wait for the other exchanges as well: they still write to memory.
                    error = error or raised
            if error is not None:
                raise error
            self._contributors = min(bucket.contributors for bucket in self._buckets)
            self._steps += 1
            for bucket in self._buckets:
                bucket.scatter()
                bucket.reset()
        return loss

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulates gradients without pushing them; use it for every ``backward()`` of a step but the last."""
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    def state_dict(self) -> dict[str, Any]:
        """Returns the settings of each group, such as ``lr``, but no state of parameters.

        The hubs hold momentum and the moments of Adam, for as long as the job has ranks or a hub has a save of it. A
        new job that begins from a checkpoint has the parameters of the model, but none of this state.
        """
        return dict(super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the learning rates of a checkpoint, for the next step; call it on all ranks.

        Other settings must be the same as now.
        """
        if any(state_dict["state"].values()):
            found = f"state of {len(state_dict['state'])} parameters"
            raise bad_value("hubs hold the state of a HubOptimizer", found, allowed="a state_dict of a HubOptimizer")
        super().load_state_dict(state_dict)
        parameter_groups.check(self.param_groups, self._chosen)

    # Methods that PyTorch's optimizers do not have.

    @property
    def steps(self) -> int:
        """The number of steps that the job has done, including those before this rank joined."""
        return self._steps

    @property
    def contributors(self) -> int:
        """The least number of ranks that contributed to any part of the last step.

        It is less than the job's number of ranks if some were lost (policy ``shrink``).
        """
        return self._contributors

    def set_parameters(self) -> None:
        """Sets the hubs' parameters to those of the model, for example after loading a checkpoint.

        All ranks must load the same parameters, and call this between the same two steps. Momentum and moments do not
        change.
        """
        if any(bucket.work is not None or bucket.taken for bucket in self._buckets):
            raise bad_value("parameters can be set only between steps", "gradients under way", help="call step() first")
        staged = []
        for bucket in self._buckets:
            bucket.gather_parameters()
            flat = bucket.flat.cpu()
            staged.append((flat, self.hub.set(bucket.name, memory(flat))))
        for _, exchange in staged:
            exchange.wait()

    def close(self) -> None:
        """Leaves the job. Another optimizer may use the parameters afterwards."""
        for hook in self._hooks:
            hook.remove()
        self.hub.close()

    # Exchange of gradients.

    def _gradient_ready(self, param: torch.Tensor) -> None:
        """Takes the gradient of a parameter; called by PyTorch once the gradient is computed."""
        if self._held:
            return
        bucket = self._places[id(param)]
        with self._lock, torch.no_grad():
            if bucket.take(param):
                self._push(bucket)

    def _push(self, bucket: Bucket) -> None:
        """Pushes a bucket; before the first one of a step, sends learning rates that have changed."""
        if all(each.work is None for each in self._buckets):
            self._send_rates()
        bucket.push(self.hub, self._queue)

    def _send_rates(self) -> None:
        """Sends the hubs the learning rates that have changed."""
        parameter_groups.check(self.param_groups, self._chosen)
        for number, group in enumerate(self.param_groups):
            rate = float(group["lr"])
            if rate == self._rates[number]:
                continue
            for bucket in self._buckets:
                if bucket.group == number:
                    self.hub.set_learning_rate(rate, bucket.name)
            self._rates[number] = rate

    def _check(self) -> None:
        """Checks that nothing has changed that the hubs already have."""
        for bucket in self._frozen:
            if any(param.requires_grad for param in bucket.parameters):
                found = "a parameter that was frozen when the optimizer was made"
                raise bad_value(
                    "a HubOptimizer cannot train additional parameters", found, help="make a new HubOptimizer"
                )
        gone = any(bucket.work is not None for bucket in self._buckets)
        for number, group in enumerate(self.param_groups):
            if gone and float(group["lr"]) != self._rates[number]:
                found = f"from {self._rates[number]} to {float(group['lr'])} between backward() and step()"
                raise bad_value(
                    "a learning rate changed after gradients were pushed to the hubs",
                    found,
                    help="change it before backward(), or pass overlap=False",
                )
        if any(bucket.changed() for bucket in self._buckets):
            raise bad_value(
                "gradients were changed after they were pushed to the hubs",
                "a change between backward() and step(), such as clipping",
                help="pass overlap=False",
            )
