"""Reads the file that describes a testbed."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, Field

from syncline import _core
from syncline.codes import Code
from syncline.config.load import resolve
from syncline.input.base import Strict, validation_error
from syncline.input.check import Whole, check
from syncline.input.node import Node, from_python
from syncline.input.problem import error, raise_errors
from syncline.input.source import Override, Source, from_argument
from syncline.input.units import Bytes
from syncline.schemas import SCENARIO, TESTBED
from syncline.testbed.traffic.spec import MAX_TENANTS, TrafficTenant

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
MAX_HOSTS = 250
"""Maximum number of hosts: a subnet of 256 addresses has room for them."""
MTU = 1500
HEADERS = 14
"""Bytes of an Ethernet header, which queueing disciplines count as well."""
FRAME = MTU + HEADERS
PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
"""Networks for private use (RFC 1918). The kernel has special rules for other unrouted ones, such as 127.0.0.0/8."""
LONGEST_QUEUE = 2**32 - 1
"""Maximum bytes of a queue that the kernel can count."""


def check_name(name: str) -> str:
    """Checks and returns the name of a testbed, which becomes part of the names of namespaces."""
    if not _NAME.fullmatch(name):
        raise validation_error(
            "not a valid name for a testbed", found=name, allowed="up to 32 lower-case letters, digits and hyphens"
        )
    return name


def _check_network(text: str) -> str:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise validation_error(
            "not an IPv4 network", found=text, allowed="an address and a length, such as 10.77.0.0/16"
        ) from None
    if network.prefixlen > 24 or not any(map(network.subnet_of, PRIVATE)):
        allowed = f"256 addresses or more of {', '.join(map(str, PRIVATE))}"
        raise validation_error("not a private network (RFC 1918) with room for a testbed", found=text, allowed=allowed)
    return text


def _check_queue(text: str) -> str:
    if not FRAME <= _core.parse_quantity("bytes", text) <= LONGEST_QUEUE:
        allowed = f"{FRAME}B, which is one packet, to {LONGEST_QUEUE}B"
        raise validation_error("not a valid size of a queue", found=text, allowed=allowed)
    return text


class Spec(Strict):
    """A fabric to emulate, and settings of the emulation."""

    schema_: Annotated[Literal["syncline-testbed/1"], Field(alias="schema")] = TESTBED
    """Version of the schema."""
    name: Annotated[str, AfterValidator(check_name)] | None = None
    """Name of the testbed. Without it, the file's name is used."""
    fabric: Any
    """Hosts, switches and links, as in a scenario. There must be only one path between any two hosts, unless hosts are
    joined directly: they forward packets for each other, along the routes of the fabric's file."""
    shaper: Literal["htb", "tbf"] = "htb"
    """The queueing discipline that limits links to their rate."""
    queue: Annotated[Bytes, AfterValidator(_check_queue)] = "1MB"
    """Length of the queue at each port of a switch, at least 1514B. TCP sends up to 64KiB at once, and a shorter queue
    drops all of it. The queues of hosts have Linux's default length, because TCP keeps them short."""
    congestion_control: Annotated[str, Field(min_length=1, max_length=15)] = "cubic"
    """TCP's congestion control on all hosts."""
    network: Annotated[str, AfterValidator(_check_network)] = "10.77.0.0/16"
    """Network for the addresses of hosts, within those for private use (RFC 1918): 10.0.0.0/8, 172.16.0.0/12 or
    192.168.0.0/16. First interfaces of hosts are in its first subnet of 256 addresses, others in the next ones. Each
    pair of hosts that are joined directly has a subnet of its own."""
    traffic: list[TrafficTenant] = Field(default_factory=list, max_length=MAX_TENANTS)
    """Traffic of other tenants that share the fabric: on-off sources, or flows that arrive as a Poisson process."""


@dataclass(frozen=True)
class TestbedRequest:
    """The content of a testbed's file, and the file."""

    spec: Spec
    name: str
    fabric: dict[str, Any]
    """The fabric as ``show fabric`` lists it, with the routes that its file gives (``paths``)."""
    source: Source
    least_efficiency: float = 1.0
    """The lowest ``efficiency`` of the fabric's dimensions, which the rates in :attr:`fabric` do not include."""

    def raise_error(self, message: str, **context: Any) -> NoReturn:
        """Raises an error about the fabric."""
        raise_errors(
            error(Code.BAD_TESTBED, message, mark=self.source.mark(("fabric",), key=True), key="fabric", **context)
        )


def read(path: str, overrides: Iterable[Override] = ()) -> TestbedRequest:
    """Reads a testbed's file, or the fabric and name of a scenario. An override may add tenants to a scenario.

    Raises :class:`SynclineError` with all errors in the file.
    """
    source = from_argument(path)
    if not isinstance(source.root.value, dict):
        raise_errors(error(Code.BAD_VALUE, "not a testbed", mark=source.root.mark, allowed="a mapping"))
    source.override(overrides)
    keys = dict(source.root.value)
    schema = source.root.at(("schema",))
    if "workload" in keys or "jobs" in keys or (schema is not None and schema.value == SCENARIO):
        keys = {key: node for key, node in keys.items() if key in ("name", "fabric", "traffic")}
        if (name := keys.get("name")) is not None and not (isinstance(name.value, str) and _NAME.fullmatch(name.value)):
            del keys["name"]
    spec = check(Source(Node(keys, source.root.mark), source.file), Spec, Whole("the testbed"))
    stem = (source.folder / source.file).stem if source.file else "testbed"
    # File names may contain characters that names of testbeds may not.
    tidy = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:32].strip("-")
    fabric, efficiency = _fabric(source, keys)
    return TestbedRequest(spec, spec.name or tidy or "testbed", fabric, source, efficiency)


def _fabric(source: Source, keys: dict[str, Node]) -> tuple[dict[str, Any], float]:
    """Resolves the fabric like a scenario's, with the full rates of links; returns it and its lowest efficiency."""
    nothing = from_python({"collective": "all_reduce", "bytes": "1B"})
    scenario = Source(Node({"workload": nothing, "fabric": keys["fabric"]}, source.root.mark), source.file)
    loaded = resolve(scenario)
    dims = loaded.resolved["fabric"].get("dims", [])
    least = min((dim.get("efficiency", 1.0) for dim in dims), default=1.0)
    for dim in dims:
        dim["efficiency"] = 1.0
    view: dict[str, Any] = json.loads(loaded.call(_core.show, "fabric"))
    routing = loaded.resolved["fabric"].get("graph", {}).get("routing")
    view["paths"] = routing.get("explicit", []) if isinstance(routing, dict) else []
    return view, least
