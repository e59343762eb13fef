"""How busy this machine's cores are. It needs nothing but Python: benches load it on its own."""

from __future__ import annotations

import os
from pathlib import Path


def busy_s() -> float:
    """Seconds that all cores together were not idle."""
    fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, soft, _ = (int(each) for each in fields)
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
