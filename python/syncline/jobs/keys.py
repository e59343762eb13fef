"""Keys of other software's files: what each means for time and memory, and problems with those that are not known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.problem import error, nearest
from syncline.input.source import from_file
from syncline.jobs.converted import AS_ASKED, NOT_MODELLED, REPEATED, WITHOUT_EFFECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncline.errors import Diagnostic
    from syncline.jobs.settings import Setting, Settings


class Keys(Strict):
    """The keys of a software's files."""

    mapped: list[str]
    """Those that become keys of a job file."""
    renamed: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Names of older versions, and today's."""
    without_effect: list[str]
    """Those on which time and memory do not depend. A name that ends with a point stands for all below it."""
    not_modelled: list[str]
    """Those on which they depend in ways that estimates do not have."""
    refused: dict[str, str]
    """Those of jobs that cannot be estimated, and what these are."""

    @property
    def all(self) -> set[str]:
        """All names."""
        return {*self.mapped, *self.renamed, *self.without_effect, *self.not_modelled, *self.refused}


def read_keys(file: str) -> Keys:
    """The keys of a file of the package."""
    return check(from_file(str(files("syncline") / "data" / file)), Keys, Whole("the file of keys"))


@dataclass(frozen=True, slots=True)
class Known:
    """Settings of a file whose keys are known."""

    found: Mapping[str, Setting]
    """Settings by today's names."""
    free: frozenset[str]
    """Names of those without effect."""
    ignored: Sequence[Setting]
    """Those that the user leaves out."""
    repeated: Sequence[Setting]
    """Those that an older name gives, too."""
    problems: Sequence[Diagnostic]

    def left_out(self, settings: Settings) -> dict[str, list[str]]:
        """All settings that no key of the job file comes from, by the reason."""
        # A switch that is off changes nothing.
        free = {name for name, each in self.found.items() if name in self.free or each.off}
        return {
            NOT_MODELLED: settings.rest(lambda each: each not in free),
            AS_ASKED: [each.said for each in self.ignored],
            REPEATED: [each.said for each in self.repeated],
            WITHOUT_EFFECT: settings.rest(lambda each: each in free),
        }


def known(given: Mapping[str, Setting], keys: Keys, ignored: Iterable[str], software: str) -> Known:
    """Sorts the settings of a file; unknown and refused ones are problems, unless they are ignored."""
    skipped = frozenset(ignored)
    names = keys.all
    found: dict[str, Setting] = {}
    free: set[str] = set()
    left: list[Setting] = []
    repeated: list[Setting] = []
    problems: list[Diagnostic] = []
    for name, setting in given.items():
        above, today = _above(name, names), keys.renamed.get(name, name)
        if name in skipped:
            left.append(setting)
        elif (why := keys.refused.get(today) or keys.refused.get(_above(name, set(keys.refused)) or "")) and (
            today not in names or today in keys.refused
        ):
            if setting.off or setting.value == "":
                found[today] = setting
                free.add(today)
            else:
                problems.append(_refused(name, setting, why))
        elif setting.value == {} and any(each.startswith(f"{name}.") for each in names):
            # A section without keys.
            found[name] = setting
            free.add(name)
        elif above is not None or name in names:
            if today in found:
                repeated.append(setting)
                continue
            found[today] = replace(setting)
            if above in keys.without_effect or today in keys.without_effect or today in keys.refused:
                free.add(today)
        else:
            problems.append(_unknown(name, setting, names, software))
    return Known(found, frozenset(free), left, repeated, problems)


def _above(name: str, names: set[str]) -> str | None:
    """The name that stands for all below it, such as ``job.``."""
    parts = name.split(".")
    return next((each for n in range(1, len(parts)) if (each := ".".join(parts[:n]) + ".") in names), None)


def _refused(name: str, setting: Setting, why: str) -> Diagnostic:
    return error(
        Code.BAD_VALUE,
        f"this job cannot be estimated: {why}",
        mark=setting.mark,
        key=name,
        found=setting.said,
        help=f"add --ignore {name} to leave it out",
    )


def _unknown(name: str, setting: Setting, names: set[str], software: str) -> Diagnostic:
    near = nearest(name, [each for each in names if not each.endswith(".")], likeness=0.8)
    return error(
        Code.UNKNOWN_KEY,
        f"unknown key of {software} `{name}`",
        mark=setting.mark,
        key=name,
        found=name,
        nearest=near,
        help=None if near else f"if neither time nor memory depends on it, add --ignore {name}",
    )
