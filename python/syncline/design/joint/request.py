"""Reads a spec, and makes the core's request of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.config.expand_prices import expand, price_list
from syncline.config.model_file import names_file
from syncline.config.origin import Origins
from syncline.design.joint.model import read as read_model
from syncline.design.joint.spec import Joint, Priced
from syncline.input.check import Whole, check
from syncline.input.node import Node, from_python
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import Override, Source, from_argument
from syncline.input.units import decimal
from syncline.models.accelerators import find
from syncline.models.errors import ModelError, ModelErrorKind
from syncline.models.operators import Cluster, resolve
from syncline.models.operators.measured import MeasuredTable
from syncline.models.operators.measured import read as read_measured
from syncline.models.registry import countable
from syncline.models.types import types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.design.joint.answer import Placement
    from syncline.input.node import Path
    from syncline.models.accelerators import Accelerator
    from syncline.models.operators import OperatorModel


PRICES = "topoopt2022"
"""The price list of a spec that names none."""
DIRECT = "look_ahead"
"""How servers are joined then: by patch panels, with a second set of ports for the next job (topoopt2022 4)."""


@dataclass(frozen=True)
class JointRequest:
    """A spec, with its source."""

    spec: Joint
    source: Source

    @property
    def name(self) -> str:
        """Name of the search, and of its results."""
        by_name = self.spec.model is not None and not names_file(self.spec.model)
        return self.spec.name or (str(self.spec.model) if by_name else self.model.name)

    @cached_property
    def model(self) -> OperatorModel:
        """The model. Raises ``SynclineError`` for an unknown one, and for parameters that it does not take."""
        try:
            return read_model(self.spec, self.source)
        except ModelError as problem:
            self._refuse(problem, _path(problem))

    @cached_property
    def accelerator(self) -> Accelerator:
        """The accelerator. Raises ``SynclineError`` for an unknown one."""
        try:
            return find(self.spec.server.accelerator)
        except ModelError as problem:
            self._refuse(problem, ("server", "accelerator"))

    @cached_property
    def measured(self) -> MeasuredTable | None:
        """The table of measured times, if the spec names one."""
        if self.spec.measured is None:
            return None
        return read_measured(self.source.relative(self.spec.measured), interpolate=self.spec.interpolate)

    @cached_property
    def compute(self) -> dict[str, Any]:
        """The compute model in the core's form."""
        try:
            model = self.accelerator.roofline(types(self.spec.precision))
        except ModelError as problem:
            self._refuse(problem, ("precision",))
        return {**model, "efficiency": self.spec.server.efficiency}

    @cached_property
    def graph(self) -> dict[str, Any]:
        """The operators and the ways to split each, in the core's form."""
        try:
            self._check_size()
            return self._resolved()
        except ModelError as problem:
            self._refuse(problem, _path(problem))

    def _resolved(self) -> dict[str, Any]:
        spec = self.spec
        own = f"{self.accelerator.scale_up.bytes_per_s}B/s"
        cluster = Cluster(
            servers=spec.servers,
            accelerators=spec.server.accelerators,
            rate=spec.server.rate or own,
            memory=decimal(self.accelerator.memory_bytes, "B") if spec.server.limit_memory else None,
        )
        return resolve(
            self.model,
            cluster,
            types(spec.precision),
            optimizer=spec.optimizer,
            split_parameters=spec.split_parameters,
            measured=self.measured,
        )

    @cached_property
    def prices(self) -> dict[str, Any]:
        """The price list in the core's form."""
        if self.spec.prices is None:
            return {**price_list(PRICES), "direct": DIRECT}
        given = self.source.root.at(("prices",))
        source = Source(Node({} if given is None else {"prices": given}), self.source.file)
        return expand(check(source, Priced, Whole("the design")).prices, Origins(self.source))

    def method(self) -> Any:
        """How to search, in the core's form."""
        search = self.spec.search
        return search.method if search.method != "chains" else {"chains": self._chains()}

    def improve(self, strategies: list[Any]) -> Any:
        """How to search from strategies that were found on other networks, in the core's form."""
        return {"improve": {"chains": self._chains(), "from": strategies}}

    def _chains(self) -> dict[str, Any]:
        keys = ("proposals", "chains", "seed", "temperature", "patience", "rounds")
        return {key: getattr(self.spec.search, key) for key in keys}

    def text(self, cluster: dict[str, Any], method: Any) -> str:
        """The core's request as JSON."""
        return json.dumps({"graph": self.graph, "compute": self.compute, "cluster": cluster, "method": method})

    def on_circuits(self, circuits: dict[str, Any], strategy: tuple[Placement, ...]) -> str:
        """The core's request for a strategy on circuits that change, as JSON."""
        placed = [each._asdict() for each in strategy]
        servers = self.spec.servers
        request = {"graph": self.graph, "compute": self.compute, "servers": servers, "strategy": placed}
        return json.dumps({**request, "circuits": circuits})

    def direct(self) -> dict[str, Any]:
        """Direct links between servers, in the core's form."""
        spec = self.spec
        links = {"servers": spec.servers, "degree": spec.degree, "rate": spec.link, "latency": spec.latency}
        return {"direct": {**links, "rings": spec.search.rings, "all_reduce": spec.search.all_reduce}}

    def _check_size(self) -> None:
        """Refuses a model whose work does not fit the core's whole numbers."""
        on_each = self.model.batch * self.spec.servers
        for operator in self.model.operators:
            samples = on_each * self.spec.server.accelerators if operator.whole_batch else on_each
            if not countable([operator.part(samples, 1)]):
                raise_errors(
                    error(
                        Code.BAD_VALUE,
                        f"operator `{operator.name}` does more work than can be counted",
                        mark=self.source.mark(("parameters",), key=True),
                        key="parameters",
                        allowed="less than 2^63 FLOP and bytes",
                        help="give the model smaller sizes or a smaller batch",
                    )
                )

    def _refuse(self, problem: ModelError, path: Path) -> NoReturn:
        given = self.source.root.at(path) is not None
        raise_errors(
            error(
                Code.BAD_VALUE,
                problem.problem or "value not allowed",
                mark=self.source.mark(path if given else path[:1]),
                key=".".join(map(str, path)),
                found=shown(problem.found),
                allowed=problem.allowed,
                nearest=problem.nearest,
            )
        )


def _path(problem: ModelError) -> Path:
    """Where a spec gives what is wrong."""
    return ("model",) if problem.kind is ModelErrorKind.MODEL else ("parameters", *problem.path)


def read(spec: str | Mapping[str, Any], overrides: Iterable[Override] = ()) -> JointRequest:
    """Reads a spec: the file of this path, or a mapping with its keys.

    Raises ``SynclineError`` with all errors in it.
    """
    source = from_argument(spec) if isinstance(spec, str) else Source(from_python(dict(spec)))
    if not isinstance(source.root.value, dict):
        raise_errors(error(Code.BAD_VALUE, "not a design", mark=source.root.mark, allowed="a mapping"))
    source.override(overrides)
    return JointRequest(check(source, Joint, Whole("the design")), source)
