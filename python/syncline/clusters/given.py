"""Rates and numbers that a user adds to what was printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors

EXAMPLES = {
    "--nvlink": "25GB/s for V100, A100, H100 and H200, 50GB/s for B200 and B300",
    "--nic": "400Gb/s",
    "--pcie": "32GB/s for 16 lanes of PCIe 4, 64GB/s for 16 lanes of PCIe 5",
    "--cpu": "40GB/s",
    "--uplink": "3.2Tb/s: all links between a switch and one above it; one rate for each level, the lowest first",
    "--scale-up": "450GB/s for the 18 NVLinks of an H100",
}
"""Examples of each rate, one direction of one link."""
RATES = tuple(EXAMPLES)
"""Options that give a rate."""


@dataclass
class Given:
    """What a user adds. Each value must be used: :meth:`refuse_unused` names those that were not."""

    options: dict[str, str] = field(default_factory=dict)
    """Values of options, by their flags; absent ones are left out."""
    used: set[str] = field(default_factory=set)

    def rate(self, flag: str, why: str, printed: int | None = None) -> int:
        """The rate that an option gives, else the one that was printed, in bits per second.

        :raises SynclineError: both are missing, and ``why`` says what has no rate; or it is not a rate, or 0.
        """
        self.used.add(flag)
        text = self.options.get(flag)
        if text is None and printed is not None:
            return printed
        if text is None:
            example = EXAMPLES[flag]
            raise_errors(
                error(
                    Code.MISSING_KEY,
                    f"missing option {flag}: {why}",
                    help=f"add {flag} RATE, one direction of one link, such as {example}",
                )
            )
        try:
            found = _core.parse_quantity("rate", text)
        except ValueError as problem:
            message, remedy = problem.args
            raise_errors(error(Code.BAD_UNIT, message, key=flag, found=text, help=remedy))
        if found == 0:
            self._bad(flag, "a link needs a rate above zero", f"a rate, such as {EXAMPLES[flag]}")
        return found

    def rates(self, flag: str, why: str) -> list[int]:
        """Several rates, separated by commas, in bits per second."""
        texts = [each.strip() for each in self.options.get(flag, "").split(",") if each.strip()]
        self.used.add(flag)
        return [Given({flag: text}).rate(flag, why) for text in texts] or [Given().rate(flag, why)]

    def given(self, flag: str) -> bool:
        """Whether the option is there; it then counts as used."""
        self.used.add(flag)
        return flag in self.options

    def count(self, flag: str, default: int) -> int:
        """The number that an option gives, at least 1."""
        self.used.add(flag)
        text = self.options.get(flag, str(default))
        if not (text.isascii() and text.isdigit() and 0 < int(text[:12]) <= 1_000_000):
            self._bad(flag, "not a valid number", "1 to 1000000")
        return int(text)

    def word(self, flag: str, allowed: tuple[str, ...]) -> str:
        """One of several words; the first without the option."""
        self.used.add(flag)
        text = self.options.get(flag, allowed[0])
        if text not in allowed:
            self._bad(flag, "value not allowed", ", ".join(allowed))
        return text

    def names(self, flag: str, known: list[str]) -> list[str] | None:
        """Some of the names that are known, separated by commas; None without the option."""
        self.used.add(flag)
        if flag not in self.options:
            return None
        found = [each.strip() for each in self.options[flag].split(",") if each.strip()]
        for each in found:
            if each not in known:
                near = nearest(each, known)
                raise_errors(
                    error(
                        Code.BAD_VALUE,
                        f"{flag} names what the text does not have",
                        key=flag,
                        found=each,
                        allowed=", ".join(known),
                        nearest=near,
                    )
                )
        if not found:
            self._bad(flag, "no name is given", ", ".join(known))
        return found

    def time(self, flag: str) -> str | None:
        """A time, as it is written; None without the option."""
        self.used.add(flag)
        text = self.options.get(flag)
        if text is not None:
            try:
                _core.parse_quantity("time", text)
            except ValueError as problem:
                message, remedy = problem.args
                raise_errors(error(Code.BAD_UNIT, message, key=flag, found=text, help=remedy))
        return text

    def latency(self, flag: str | None = None) -> dict[str, str]:
        """The key ``latency`` of links: that of an option for some of them, else that of all; empty without both."""
        found = (self.time(flag) if flag is not None else None) or self.time("--latency")
        return {} if found is None else {"latency": found}

    def refuse_unused(self) -> None:
        """Raises an error for options that nothing needed."""
        unused = [flag for flag in self.options if flag not in self.used]
        if unused:
            raise_errors(
                *(
                    error(Code.BAD_VALUE, f"{flag} changes nothing here", key=flag, found=self.options[flag], help=why)
                    for flag, why in ((flag, _UNUSED.get(flag, "leave it out")) for flag in unused)
                )
            )

    def _bad(self, flag: str, message: str, allowed: str) -> NoReturn:
        raise_errors(error(Code.BAD_VALUE, message, key=flag, found=self.options[flag], allowed=allowed))


_UNUSED = {
    "--nvlink": "leave it out: the text has no NVLinks without a rate",
    "--nic": "leave it out, or give the number of machines with --nodes: one machine alone uses no network",
    "--pcie": "leave it out: no path leads over PCIe",
    "--cpu": "leave it out: no path leads between processors",
    "--nics": "leave it out, or give the number of machines with --nodes: one machine alone uses no network",
    "--domain": "leave it out: no NVSwitches join all GPUs of a machine",
    "--by-link": "leave it out: it applies to networks",
    "--gpus": "leave it out: the text says how many GPUs a machine has",
    "--hosts": "leave it out: the text describes one machine",
    "--scale-up": "leave it out, or give the number of GPUs of a host with --gpus",
    "--pcie-latency": "leave it out: no path leads over PCIe, or every link gets --latency",
    "--scale-up-latency": "leave it out: the text has no scale-up network, or every link gets --latency",
    "--uplink": "leave it out: the text has all rates between switches, or no switches above others",
    "--network": "leave it out, or give the number of machines with --nodes",
}
