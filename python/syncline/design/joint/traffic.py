"""What servers send each other in a step: a traffic matrix, as in Figures 4, 6 and 9 of topoopt2022."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.design.joint.answer import Found


@dataclass(frozen=True)
class Traffic:
    """Bytes from server to server in a step; rows are senders."""

    transfers: list[list[int]]
    """Activations and their gradients."""
    all_reduces: list[list[int]]
    """Gradients of parameters, along the rings or trees of their groups."""

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.transfers)

    def total(self, sender: int, receiver: int) -> int:
        """All bytes from one server to another."""
        return self.transfers[sender][receiver] + self.all_reduces[sender][receiver]

    def rows(self) -> Iterator[tuple[int, int, str, int]]:
        """Sender, receiver, kind and bytes of all pairs that send anything."""
        for sender in range(self.servers):
            for receiver in range(self.servers):
                for kind, matrix in (("transfer", self.transfers), ("all_reduce", self.all_reduces)):
                    if matrix[sender][receiver]:
                        yield sender, receiver, kind, matrix[sender][receiver]


def traffic_of(found: Found) -> Traffic:
    """The traffic of the answer: from the first sender to the last receiver, whatever the route."""
    servers = found.request.spec.servers
    transfers = [[0] * servers for _ in range(servers)]
    for sender, receiver, size in found.answer.transfers:
        transfers[sender][receiver] += size
    reduced = [[0] * servers for _ in range(servers)]
    for each in found.answer.all_reduces:
        part = round(each.sent_bytes / len(each.links))
        for sender, receiver in each.links:
            reduced[sender][receiver] += part
    return Traffic(transfers, reduced)
