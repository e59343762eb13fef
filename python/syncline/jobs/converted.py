"""A job file that is made of other software's settings: its text, with where each key comes from, and its check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.check import in_order
from syncline.input.dump import dump
from syncline.input.problem import exception, raise_errors
from syncline.input.source import Source
from syncline.input.yaml import read
from syncline.jobs.training_job import TrainingJob, resolve
from syncline.schemas import JOB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from syncline.errors import Diagnostic
    from syncline.jobs.settings import Line, Settings

NOT_MODELLED = "Not modelled, and left out"
"""Of settings on which time and memory depend in ways that estimates do not have."""
AS_ASKED = "Left out as asked"
"""Of settings that the user leaves out."""
REPEATED = "Overridden by later settings"
"""Of settings of which only the last one counts."""
WITHOUT_EFFECT = "Without effect on time and memory"
"""Of settings on which neither depends."""
REASONS = (NOT_MODELLED, AS_ASKED, REPEATED, WITHOUT_EFFECT)
"""Why a setting is left out, in the order of the file."""
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Converted:
    """A job file, and what of the settings is not in it."""

    text: str
    """The job file."""
    job: TrainingJob
    """The job that it describes."""
    mapped: tuple[str, ...]
    """Settings that keys come from."""
    left_out: Mapping[str, tuple[str, ...]]
    """All other settings, by why they are left out: one of :data:`REASONS`."""
    warnings: tuple[str, ...]
    """What is used, and not in all that it says."""


def convert(
    name: str,
    origin: str,
    settings: Settings,
    left_out: Mapping[str, Sequence[str]],
    problems: Sequence[Diagnostic],
    mapped: Sequence[str] | None = None,
) -> Converted:
    """Makes the job file of settings whose lines were added, and checks it.

    :param mapped: how the settings are written that keys come from; by default, those that are used.
    :param left_out: all settings that no key comes from, by one of :data:`REASONS`.
    :raises SynclineError: with all problems of the settings, or else of the job that they describe, each with the place
        of the setting that it comes from.
    """
    if found := _without_followers([*problems, *settings.problems]):
        # A setting that is missing may only be misspelt: what has a place comes first.
        raise_errors(
            *in_order(each for each in found if "place" in each),
            *in_order(each for each in found if "place" not in each),
        )
    if mapped is None:
        mapped = [each.said for key, each in settings.found.items() if key in settings.used]
    lists = [(why, tuple(left_out[why])) for why in REASONS if why in left_out]
    text = "".join(f"{line}\n" for line in _text(name, origin, settings.lines, lists))
    return Converted(text, _checked(text, settings.lines), tuple(mapped), dict(lists), tuple(settings.warnings))


def _without_followers(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The problems without those of settings that are missing because they are misspelt."""
    meant = {each.get("nearest") for each in problems if each["code"] == Code.UNKNOWN_KEY}
    return [each for each in problems if each["code"] != Code.MISSING_KEY or each.get("key") not in meant]


def _text(name: str, origin: str, lines: Sequence[Line], lists: Iterable[tuple[str, Sequence[str]]]) -> Iterator[str]:
    yield f"# A training job, converted from {origin}. Comments say where keys come from."
    yield f"schema: {JOB}"
    yield f"name: {dump(name).strip()}"
    open_: tuple[str, ...] = ()
    order: list[tuple[str, ...]] = []
    for line in lines:
        for depth in range(1, len(line.path) + 1):
            if line.path[:depth] not in order:
                order.append(line.path[:depth])
    by_path = {line.path: line for line in lines}
    for path in sorted(by_path, key=lambda each: [order.index(each[: depth + 1]) for depth in range(len(each))]):
        shared = 0
        while shared < min(len(open_), len(path) - 1) and open_[shared] == path[shared]:
            shared += 1
        for depth in range(shared, len(path) - 1):
            yield f"{'  ' * depth}{path[depth]}:"
        open_ = path[:-1]
        line = by_path[path]
        said = f"{'  ' * (len(path) - 1)}{dump({path[-1]: line.value}).strip()}"
        yield f"{said:<36}  # {_cut(line.why)}" if line.why else said
    for title, each in lists:
        if each:
            yield ""
            yield f"# {title}:"
            yield from (f"#   {_cut(said)}" for said in each)


def _cut(text: str) -> str:
    """A comment on one line. What is unprintable is left out, so that nothing of it ends the comment."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= _WIDTH else f"{plain[: _WIDTH - 3]}..."


def _checked(text: str, lines: Sequence[Line]) -> TrainingJob:
    """The job of the text; problems have the places of the settings."""
    try:
        return resolve(Source(read(text, "the job file")))
    except SynclineError as problem:
        marks = {".".join(line.path): line for line in lines}
        placed = []
        for each in problem.diagnostics:
            line = marks.get(each.get("key", ""))
            made: Diagnostic = {name: value for name, value in each.items() if name != "place"}  # type: ignore[assignment]
            if line is not None:
                if line.mark is not None:
                    made["place"] = line.mark.place()
                if line.why:
                    # The remedy is a key of the job file, which the settings only lead to.
                    if (help := each.get("help", "")).startswith("write "):
                        made["help"] = f"in the job file, it would be {help.removeprefix('write ')}"
                    made["notes"] = [*each.get("notes", []), f"`{each.get('key')}` comes from {_cut(line.why)}"]
            placed.append(made)
        raise exception(*placed) from None
