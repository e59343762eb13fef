"""Settings of other software, and what becomes of each: a key of a job file, or a reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.errors import Diagnostic
    from syncline.input.node import Mark


MOST = 1 << 40
"""Largest whole number that a setting may be."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is written."""

    value: Any
    """True for a switch; a text, or a list of texts, of the command line; or a value of a file."""
    said: str
    """How it is written, such as ``--num-layers 80``."""
    mark: Mark | None
    """Where it is written."""
    unknown: str | None = None
    """Why its value is not known; None if it is."""

    @property
    def off(self) -> bool:
        """Whether it is absent or a switch that is off, which a number 0 is not."""
        return self.value is None or self.value is False or self.value == [] or self.value == {}


@dataclass(frozen=True, slots=True)
class Line:
    """A key of a job file, and where it comes from."""

    path: tuple[str, ...]
    value: Any
    why: str
    """The settings that it comes from, or the default that counts."""
    mark: Mark | None = None


@dataclass(slots=True)
class Settings:
    """The settings of a job by name. Reading one notes that it is used."""

    found: Mapping[str, Setting]
    software: str
    """Whose defaults count where a setting is absent."""
    spelled: Mapping[str, str] | None = None
    """How settings are written, for what is missing; without it, as arguments with dashes."""
    used: set[str] = field(default_factory=set)
    lines: list[Line] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What is used, and not in all that it says."""

    def rest(self, chosen: Callable[[str], bool]) -> list[str]:
        """How the chosen ones of the settings are written that no key comes from."""
        return [each.said for name, each in self.found.items() if name not in self.used and chosen(name)]

    def name(self, name: str) -> str:
        """How a setting is written."""
        return f"--{name}" if self.spelled is None else self.spelled.get(name, name)

    def has(self, name: str) -> bool:
        """Whether a setting is there."""
        return name in self.found

    def raw(self, name: str) -> Any:
        """The value of a setting; None if it is absent, or not known, which is a problem."""
        self.used.add(name)
        setting = self.found.get(name)
        if setting is None:
            return None
        if setting.unknown is not None:
            self.problem(
                name,
                f"the value of `{setting.said}` is not known: {setting.unknown}",
                help="give it with --env NAME=VALUE, or give the arguments themselves after `--`"
                if self.spelled is None
                else "write the value itself",
            )
            return None
        return setting.value

    def flag(self, name: str) -> bool:
        """Whether a switch is on."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        if isinstance(value, str) and value.lower() in ("true", "false", "1", "0"):
            return value.lower() in ("true", "1")
        self.bad(name, "true or false")
        return False

    def whole(self, name: str, default: int | None = None, least: int = 1, most: int = MOST) -> int | None:
        """A whole number from ``least`` to ``most``."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.bad(name, f"a whole number from {least} to {most}")
        return default

    def needed(self, name: str, most: int = MOST) -> int:
        """A whole number from 1 to ``most``; its absence is a problem, and then it counts as 1."""
        value = self.whole(name, most=most)
        if value is None and not self.has(name):
            self.problem(name, f"missing `{self.name(name)}`", help=f"add {self.name(name)}")
        return value or 1

    def number(self, name: str, default: float) -> float:
        """A number."""
        value = self.raw(name)
        if value is None:
            return default
        try:
            return float(value)
        except (TypeError, ValueError):
            self.bad(name, "a number")
            return default

    def word(self, name: str, *allowed: str, default: str | None = None) -> str | None:
        """One of some words; any text without words."""
        value = self.raw(name)
        if value is None:
            return default
        text = str(value)
        if allowed and text not in allowed:
            self.bad(name, ", ".join(allowed))
            return default
        return text

    def bad(self, name: str, allowed: str) -> None:
        """Notes a value that cannot be used."""
        from syncline.input.problem import nearest

        value = self.found[name].value
        text = shown(value)
        words = allowed.split(", ")
        near = nearest(text, words) if isinstance(value, str) and len(words) > 1 else None
        self.problem(name, f"not a value of `{self.found[name].said.split(' ')[0]}`", allowed=allowed, near=near)

    def problem(
        self, name: str, message: str, *, allowed: str | None = None, near: str | None = None, help: str | None = None
    ) -> None:
        """Notes an error about a setting, or about its absence."""
        setting = self.found.get(name)
        self.problems.append(
            error(
                Code.BAD_VALUE if setting else Code.MISSING_KEY,
                message,
                mark=None if setting is None else setting.mark,
                key=self.name(name) if setting is None else setting.said.split(" ")[0].rstrip(":="),
                found=None if setting is None else shown(setting.value),
                allowed=allowed,
                nearest=near,
                help=help,
            )
        )

    def said(self, *names: str) -> str:
        """How settings are written; empty if all are absent."""
        return ", ".join(self.found[name].said for name in names if name in self.found)

    def default_note(self, *names: str) -> str:
        """The note of a key whose default counts because these settings are all absent; empty if one is there."""
        return "" if self.said(*names) else f"default of {self.software}"

    def put(self, path: str, value: Any, *names: str, note: str = "", mark: Mark | None = None) -> None:
        """Sets a key of the job file by these settings; ``note`` says more, or what counts if all are absent."""
        self.used.update(names)
        written = self.said(*names)
        why = ": ".join(each for each in (written, note) if each)
        mark = next((self.found[name].mark for name in names if name in self.found), mark)
        self.lines.append(Line(tuple(path.split(".")), value, why, mark))
