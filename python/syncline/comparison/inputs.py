"""Finds the differences between two resolved scenarios, key by key, with keys as ``--set`` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.input.problem import shown
from syncline.quantity import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ABSENT = "absent"
"""Text in place of the value if a scenario does not have the key."""

LAYERS = "workload.layers."
"""Prefix of the keys of layers; a model is expanded into layers."""

LISTED = 10
"""Maximum number of changes that are listed."""
LISTED_OF_LAYERS = 3
"""Maximum number of changes of layers among these."""

WIDEST = 60
"""Maximum number of characters of a list or a mapping that are shown."""

_NO_NUMBER = ("name", "report", "trace", "symmetry", "schema")
"""Sections that do not affect any number of a run."""

_QUANTITIES = ("time", "bytes", "rate", "flops", "flop_rate", "frequency")


@dataclass(frozen=True)
class Change:
    """A key whose value differs, or such a key of several entries of a list."""

    key: str
    """Path of the key. An entry of a list is given by its name, or else its number; ``*`` stands for several."""
    a: str
    """The value in A; if entries have different values, that of the first entry."""
    b: str
    """The same in B."""
    entries: tuple[str, ...] = ()
    """The entries that ``*`` stands for."""
    uniform: bool = True
    """Whether all entries have these values."""
    factor: float | None = None
    """B over A, if that is the same for all entries."""
    decides: bool = True
    """Whether the key can affect a number of a run; ``name`` and ``report`` cannot, for example."""

    @property
    def where(self) -> str:
        """The entries in words; only the first ones if there are many."""
        count = len(self.entries)
        return listed(self.entries) if count <= 3 else f"{count} entries: {self.entries[0]}, {self.entries[1]}, ..."


def changes(a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    """All differences, in the order of the scenarios."""
    found: dict[tuple[str, ...], list[tuple[tuple[str, ...], Any, Any]]] = {}
    a, b = _named(_as_written(a), _as_written(b))
    for path, one, other in _differences(a, b, (), ()):
        found.setdefault(path[1], []).append((path[0], one, other))
    return [_change(template, each) for template, each in found.items()]


def _as_written(scenario: dict[str, Any]) -> dict[str, Any]:
    """The scenario with the keys of its workload as users write them.

    For example, ``parallel.tensor`` instead of ``parallel.tensor.degree``. ``sample`` is left out, since it follows
    from the model.
    """
    workload = scenario.get("workload", {})
    if jobs := workload.get("jobs"):
        return {**scenario, "workload": {**workload, "jobs": [_as_written(job) for job in jobs]}}
    written = {key: value for key, value in workload.items() if key != "sample"}
    if parallel := workload.get("parallel"):
        forms = ("degree", "dims")
        written["parallel"] = {
            key: next((each[form] for form in forms if form in each), each) if isinstance(each, dict) else each
            for key, each in parallel.items()
        }
    return {**scenario, "workload": written}


def _named(a: dict[str, Any], b: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Replaces two different price lists by their names, since most of their keys would differ."""
    one, other = ((each.get("prices") or {}).get("name") for each in (a, b))
    if one == other:
        return a, b
    first, second = ({**each, "prices": name} if name else each for each, name in ((a, one), (b, other)))
    return first, second


def foremost(found: Sequence[Change]) -> tuple[list[Change], int]:
    """The changes that are listed, and the number of those left out.

    Changes that can affect numbers come first. Changing only the batch changes most keys of layers, so only a few of
    these are listed.
    """
    layers = [each for each in found if each.key.startswith(LAYERS)]
    others = sorted((each for each in found if not each.key.startswith(LAYERS)), key=lambda each: not each.decides)
    deciding = sum(each.decides for each in others)
    some = layers if len(layers) <= LISTED_OF_LAYERS + 1 else layers[:LISTED_OF_LAYERS]
    order = [*others[:deciding], *some, *others[deciding:]]
    # If one is left over, it takes no more room than a line that counts it.
    kept = order if len(order) <= LISTED + 1 else order[:LISTED]
    return kept, len(found) - len(kept)


def tally(found: Sequence[Change]) -> str:
    """The number of changes in words: ``10 keys``, or ``10 keys, and 1 that changes no number``."""
    deciding = sum(each.decides for each in found)
    idle = len(found) - deciding
    rest = f"{idle} that {'changes' if idle == 1 else 'change'} no number" if idle else ""
    if not deciding:
        return f"{counted(idle, 'key')}{rest.removeprefix(str(idle))}"
    return ", and ".join(each for each in (counted(deciding, "key"), rest) if each)


Paths = tuple[tuple[str, ...], tuple[str, ...]]
"""A path, and the same path with ``*`` in place of entries of lists."""


def _differences(a: Any, b: Any, path: tuple[str, ...], template: tuple[str, ...]) -> Iterator[tuple[Paths, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            yield from _differences(a.get(key), b.get(key), (*path, str(key)), (*template, str(key)))
        return
    one, other = _entries(a), _entries(b)
    if one is not None and other is not None:
        if one.keys() & other.keys():
            for key in dict.fromkeys((*one, *other)):
                yield from _differences(one.get(key), other.get(key), (*path, key), (*template, "*"))
        elif one or other:
            yield (path, template), a, b
        return
    if not _same(a, b):
        yield (path, template), a, b


def _entries(value: Any) -> dict[str, Any] | None:
    """The entries of a list of mappings by their names, or else by their numbers; None for any other value."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return None
    names = [str(each.get("name", "")) for each in value]
    unique = all(names) and len(set(names)) == len(names)
    return dict(zip(names if unique else map(str, range(len(value))), value, strict=True))


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal; quantities are compared as numbers, so 200Gb/s equals 25GB/s."""
    if a == b:
        return isinstance(a, bool) is isinstance(b, bool)
    return isinstance(a, str) and isinstance(b, str) and _factor(a, b) == 1.0


def _numbers(a: Any, b: Any) -> tuple[float, float] | None:
    """Both values as numbers of the same unit; None if they are not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return None
    if isinstance(a, int | float) and isinstance(b, int | float):
        return float(a), float(b)
    if isinstance(a, str) and isinstance(b, str) and a[:1].isdigit() and b[:1].isdigit():
        for kind in _QUANTITIES:
            try:
                return float(_core.parse_quantity(kind, a)), float(_core.parse_quantity(kind, b))
            except ValueError:
                continue
    return None


def _factor(a: Any, b: Any) -> float | None:
    """B over A to six digits; None if they are not numbers of the same unit, or A is 0."""
    numbers = _numbers(a, b)
    return float(f"{numbers[1] / numbers[0]:.6g}") if numbers and numbers[0] else None


def _change(template: tuple[str, ...], found: list[tuple[tuple[str, ...], Any, Any]]) -> Change:
    decides = template[0] not in _NO_NUMBER
    path, a, b = found[0]
    if len(found) == 1:
        return Change(".".join(path), _text(a), _text(b), factor=_factor(a, b), decides=decides)
    star = template.index("*")
    entries = tuple(dict.fromkeys(path[star] for path, *_ in found))
    factors = {_factor(one, other) for _, one, other in found}
    return Change(
        ".".join(template),
        _text(a),
        _text(b),
        entries,
        all((one, other) == (a, b) for _, one, other in found),
        factors.pop() if len(factors) == 1 else None,
        decides,
    )


def _text(value: Any) -> str:
    """The text of a value, on one line."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        first = ", ".join(str(each.get("name") or _text(each)) for each in value[:3])
        return f"{len(value)}: {first}, ..." if len(value) > 3 else first
    if isinstance(value, list):
        return _cut(", ".join(map(_text, value))) if value else "none"
    if isinstance(value, dict):
        return _cut(", ".join(f"{key}: {_text(each)}" for key, each in value.items())) if value else "none"
    return ABSENT if value is None else shown(value)


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
