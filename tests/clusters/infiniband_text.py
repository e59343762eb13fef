"""InfiniBand networks as ``ibnetdiscover`` prints them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fat:
    """Hosts on leaves that spines join."""

    hosts: int
    interfaces: int
    leaves: int
    hosts_per_leaf: int
    spines: int
    cables: int
    rails: bool = True
    speed: str = "4xHDR"
    """Width and speed of hosts' ports."""
    up: str = "4xHDR"
    """Those of ports between switches."""
    blocks: tuple[str, ...] = field(default=("Switch", "Ca"))
    """Kinds of devices that are printed."""

    def text(self) -> str:
        """What the program prints."""
        ports: list[list[str]] = [[] for _ in range(self.leaves + self.spines)]
        interfaces: list[list[str]] = []
        for host in range(self.hosts):
            for at in range(self.interfaces):
                leaf = host // self.hosts_per_leaf * self.interfaces + at
                if not self.rails:
                    leaf = (host * self.interfaces + at) // self.hosts_per_leaf
                port, own, name = len(ports[leaf]) + 1, guid("h", host * 16 + at), f"gpu{host + 1:03d} mlx5_{at}"
                lid = 1000 + host * self.interfaces + at
                ports[leaf].append(f'[{port}]\t"H-{own}"[1]({own}) \t\t# "{name}" lid {lid} {self.speed}')
                where = f'lid {lid} lmc 0 "{self._name(leaf)}" lid {leaf + 1} {self.speed}'
                line = f'[1]({own}) \t"S-{guid("s", leaf)}"[{port}]\t\t# {where}'
                interfaces.append([*_about("ca", own), f'Ca\t1 "H-{own}"\t\t# "{name}"', line, ""])
        for leaf in range(self.leaves):
            for spine in range(self.leaves, self.leaves + self.spines):
                for _ in range(self.cables):
                    low, high = len(ports[leaf]) + 1, len(ports[spine]) + 1
                    ports[leaf].append(self._cable(low, spine, high))
                    ports[spine].append(self._cable(high, leaf, low))
        lines = ["#", "# Topology file: generated on Mon Mar  4 09:12:44 2024", "#", "# Initiated from node 1", ""]
        if "Switch" in self.blocks:
            for switch, own_ports in enumerate(ports):
                own = guid("s", switch)
                about = f'"{self._name(switch)}" enhanced port 0 lid {switch + 1} lmc 0'
                lines += [*_about("switch", own), f'Switch\t41 "S-{own}"\t\t# {about}', *own_ports, ""]
        if "Ca" in self.blocks:
            lines += [line for each in interfaces for line in each]
        return "\n".join(lines) + "\n"

    def _name(self, switch: int) -> str:
        kind, at = ("leaf", switch) if switch < self.leaves else ("spine", switch - self.leaves)
        return f"MF0;{kind}{at + 1:02d}:MQM8700/U1"

    def _cable(self, port: int, other: int, there: int) -> str:
        return f'[{port}]\t"S-{guid("s", other)}"[{there}]\t\t# "{self._name(other)}" lid {other + 1} {self.up}'


def guid(kind: str, number: int) -> str:
    """The GUID of a host's interface (``h``) or a switch (``s``)."""
    return f"{({'h': 0xB8CEF603, 's': 0x1070FD03}[kind] << 32) + number:016x}"


def _about(kind: str, own: str) -> list[str]:
    return [
        "vendid=0x2c9",
        f"devid=0x{ {'ca': 0x101B, 'switch': 0xD2F0}[kind]:x}",
        f"sysimgguid=0x{own}",
        f"{kind}guid=0x{own}",
    ]
