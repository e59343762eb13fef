"""Pictures of a result: the traffic as a heat map, and the topology as a circle of servers."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from syncline.quantity import size

if TYPE_CHECKING:
    from syncline.design.joint.answer import Found
    from syncline.design.joint.traffic import Traffic

_SIDE = 640
_MARGIN = 48
_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#333}.ring{stroke:#2166ac}.match{stroke:#d6604d}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}.ring{stroke:#6baed6}.match{stroke:#f4a582}"
    ".paper{fill:#1b1b1b}}</style>"
)


def _svg(width: int, height: int, body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">{_STYLE}<rect class="paper" width="{width}" height="{height}" fill="#fff"/>'
        f"{body}</svg>\n"
    )


def heat_map(sent: Traffic) -> str:
    """Bytes from each server to each other one, on a logarithmic scale; senders are rows."""
    servers = sent.servers
    cell = _SIDE / servers
    pairs = [(row, column) for row in range(servers) for column in range(servers) if sent.total(row, column)]
    largest = max((sent.total(*pair) for pair in pairs), default=1)
    smallest = min((sent.total(*pair) for pair in pairs), default=1)
    spread = math.log(largest / smallest) or 1.0

    def colour(amount: int) -> str:
        part = math.log(amount / smallest) / spread
        # From light to dark blue.
        red, green, blue = (round(low + (high - low) * part) for low, high in ((222, 8), (235, 48), (247, 107)))
        return f"#{red:02x}{green:02x}{blue:02x}"

    cells = "".join(
        f'<rect x="{_MARGIN + column * cell:.2f}" y="{_MARGIN + row * cell:.2f}" width="{cell:.2f}" '
        f'height="{cell:.2f}" fill="{colour(sent.total(row, column))}"><title>server {row} to {column}: '
        f"{size(sent.total(row, column))}</title></rect>"
        for row, column in pairs
    )
    ticks = [0, servers // 4, servers // 2, 3 * servers // 4, servers - 1]
    marks = "".join(
        f'<text x="{_MARGIN + (at + 0.5) * cell:.1f}" y="{_MARGIN - 8}" text-anchor="middle">{at}</text>'
        f'<text x="{_MARGIN - 8}" y="{_MARGIN + (at + 0.5) * cell + 4:.1f}" text-anchor="end">{at}</text>'
        for at in dict.fromkeys(ticks)
    )
    legend = (
        f'<text x="{_MARGIN}" y="{_MARGIN + _SIDE + 24}">Rows send, columns receive; from {size(smallest)} (light) to '
        f"{size(largest)} (dark) in a step</text>"
    )
    frame = f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>'
    return _svg(_SIDE + 2 * _MARGIN, _SIDE + 2 * _MARGIN, frame + cells + marks + legend, "traffic between servers")


def topology(found: Found) -> str:
    """Servers on a circle, and their links: blue for rings, red for pairs that were joined for transfers."""
    spec, made = found.request.spec, found.topology
    centre, radius = _MARGIN + _SIDE / 2, _SIDE / 2

    def place(server: int) -> tuple[float, float]:
        turn = 2 * math.pi * server / spec.servers - math.pi / 2
        return centre + radius * math.cos(turn), centre + radius * math.sin(turn)

    matched = {tuple(sorted(pair)) for pair in made.matched}
    width = max(0.4, min(2.0, 60 / spec.servers))
    lines = []
    for source, target, count in made.links:
        (x1, y1), (x2, y2) = place(source), place(target)
        kind = "match" if tuple(sorted((source, target))) in matched else "ring"
        lines.append(
            f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke-width="{width * count:.2f}" stroke-opacity="0.6"/>'
        )
    step = max(1, spec.servers // 16)
    dots = []
    for server in range(spec.servers):
        x, y = place(server)
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{max(2.0, 5 * width):.1f}" fill="#777"/>')
        if server % step == 0:
            out = 1 + 20 / radius
            dots.append(
                f'<text x="{centre + (x - centre) * out:.1f}" y="{centre + (y - centre) * out + 4:.1f}" '
                f'text-anchor="middle">{server}</text>'
            )
    side = _SIDE + 2 * _MARGIN
    return _svg(side, side, "".join(lines + dots), "links between servers")
