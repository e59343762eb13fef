"""Checks values against the typed models, and reports all errors at once."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from syncline.codes import Code
from syncline.input import limits
from syncline.input.node import Path, dotted
from syncline.input.problem import error, nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic_core import ErrorDetails

    from syncline.errors import Diagnostic
    from syncline.input.source import Source

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Whole:
    """What a file describes, for errors about it."""

    name: str
    """Its name, such as ``the table``."""
    hint: Callable[[Path], str | None] | None = None
    """Gives the help for an unknown key, by its path; None if there is nothing to say."""
    when_empty: str | None = None
    """The help for an empty file; without it, the help lists the required keys."""


def check(source: Source, model: type[M], whole: Whole) -> M:
    """Reads the values of ``source`` as ``model``.

    Raises :class:`SynclineError` with all errors.
    """
    checked, problems = collect(source, model, whole)
    if checked is None:
        raise_errors(*in_order(problems))
    return checked


def collect(source: Source, model: type[M], whole: Whole) -> tuple[M | None, list[Diagnostic]]:
    """Like :func:`check`, but returns the errors, so that the caller can add more before raising."""
    try:
        return model.model_validate(source.root.to_python()), []
    except ValidationError as problem:
        return None, [_diagnostic(source, model, details, whole) for details in problem.errors(include_url=False)]
    except RecursionError:
        return None, [error(Code.BAD_SYNTAX, "nested too deep")]


def in_order(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The problems in the order of their places, without repeats.

    If there are more than :data:`limits.MAX_PROBLEMS`, the last one kept says how many are left out.
    """
    each = {json.dumps(problem, sort_keys=True): problem for problem in problems}
    kept = sorted(each.values(), key=_order)
    if len(kept) > limits.MAX_PROBLEMS:
        *kept, last = kept[: limits.MAX_PROBLEMS]
        more = f"{len(each) - limits.MAX_PROBLEMS} more errors are not shown"
        kept.append({**last, "notes": [*last.get("notes", ()), more]})
    return kept


def _order(diagnostic: Diagnostic) -> tuple[str, int, int]:
    place = diagnostic.get("place", {})
    return place.get("file", ""), place.get("line", 0), place.get("column", 0)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a problem is, and the types that were tried there."""

    path: Path
    """Path of keys and positions, without tags of unions."""
    chosen: Any
    """The type of the value there; None if the key is unknown."""
    holder: Any
    """The type of the mapping or list that holds the value."""
    is_key: bool
    """Whether the key itself is wrong, and not its value."""


def _place(model: type[BaseModel], details: ErrorDetails) -> _Place:
    """Where an error of pydantic is, with the tags of unions taken out of its location.

    A tag may be spelt like a key, so the type of the holder decides which of the two a part of the location is.
    """
    parts = details["loc"]
    path: list[str | int] = []
    holder: Any = None
    here: Any = model
    is_key = False
    for index, part in enumerate(parts):
        tagged = dict(_members(here)) if here is not None else {}
        if part in tagged:
            here = tagged[str(part)]
            continue
        # pydantic adds "[key]" after the key if the key of a mapping is itself wrong.
        if index and index == len(parts) - 1 and part == "[key]" and _is_dict(holder) and details["input"] == path[-1]:
            is_key = True
            continue
        path.append(part)
        holder, here = here, _inside(here, part)
    return _Place(tuple(path), here, holder, is_key)


def _is_dict(annotation: Any) -> bool:
    return any(get_origin(each) is dict for each in _unwrap(annotation))


def knows(model: type[BaseModel], path: Path) -> bool:
    """Whether a file of this form can have a value at ``path``."""
    annotation: Any = model
    for part in path:
        annotation = _inside(annotation, part)
        if annotation is None:
            return False
    return True


def _inside(annotation: Any, part: str | int) -> Any:
    """The type of the value under ``part``; None if there is no such key."""
    for each in _unwrap(annotation):
        if _is_model(each):
            fields = {field.alias or name: field for name, field in each.model_fields.items()}
            if part in fields:
                field = fields[str(part)]
                return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        elif get_origin(each) is list:
            return get_args(each)[0]
        elif get_origin(each) is dict:
            return get_args(each)[1]
    return None


def _diagnostic(source: Source, model: type[BaseModel], details: ErrorDetails, whole: Whole) -> Diagnostic:
    place = _place(model, details)
    path = place.path
    kind, context, key = details["type"], details.get("ctx", {}), dotted(path)
    value = source.mark(path)
    if kind == "extra_forbidden":
        names = _names(next((each for each in _unwrap(place.holder) if _is_model(each)), None))
        bad = str(path[-1])
        deeper = [] if len(path) > 1 else _below(model, bad)
        known = None if whole.hint is None or bad in names else whole.hint(path)
        return error(
            Code.UNKNOWN_KEY,
            f"unknown key `{bad}`",
            mark=source.mark(path, key=True),
            key=key,
            found=bad,
            allowed=", ".join(names),
            nearest=deeper[0] if len(deeper) == 1 else None if deeper or known else nearest(bad, names),
            help=known or _remedy(bad, deeper),
        )
    if kind == "missing" and details["input"] == {}:
        return _empty(source, place, whole)
    if kind == "missing":
        where = f"`{dotted(path[:-1])}`" if path[:-1] else whole.name
        return error(
            Code.MISSING_KEY,
            f"missing key `{path[-1]}`",
            mark=source.mark(path[:-1], key=True),
            key=key,
            help=f"add `{path[-1]}` to {where}",
        )
    if kind == "syncline":
        context = dict(context)
        message, code = context.pop("message"), context.pop("code")
        found = context.pop("found", None) or (None if code == Code.MISSING_KEY else _found(details["input"]))
        part = context.pop("part", None)
        if value and part:
            value = value.part(details["input"], *part)
        if deeper := context.pop("at", ()):
            path = (*path, *deeper)
            key, value = dotted(path), source.mark(path, key=True)
        return error(code, message, mark=value, key=key, found=found, **context)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _no_form(source, place, details, key)
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", context["expected"])
        text = shown(details["input"])
        return error(
            Code.BAD_VALUE,
            "value not allowed",
            mark=source.mark(path, key=place.is_key),
            key=key,
            found=text,
            allowed=", ".join(names),
            nearest=nearest(text, names) if isinstance(details["input"], str) else None,
        )
    return error(
        Code.BAD_VALUE,
        "value not allowed",
        mark=value,
        key=key or None,
        found=shown(details["input"]),
        allowed=_allowed(details),
    )


def _empty(source: Source, place: _Place, whole: Whole) -> Diagnostic:
    """The error for an empty mapping with required keys: one error that names all of them."""
    inside = place.path[:-1]
    name = f"`{dotted(inside)}`" if inside else whole.name
    holder = next(each for each in _unwrap(place.holder) if _is_model(each))
    needed = [field.alias or key for key, field in holder.model_fields.items() if field.is_required()]
    start = None if inside else whole.when_empty
    return error(
        Code.MISSING_KEY,
        f"{name} is empty",
        mark=source.mark(inside, key=True),
        key=dotted(inside) or None,
        allowed=", ".join(_names(holder)),
        help=start or f"add {', '.join(f'`{key}`' for key in needed)}",
    )


def _below(model: type[BaseModel], name: str) -> list[str]:
    """Paths of a key ``name`` in the sections of ``model`` that have such a key."""
    found = []
    for section, field in model.model_fields.items():
        annotation = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        forms = [member for _, member in _members(annotation)] or list(_unwrap(annotation))
        if any(_is_model(form) and name in _names(form) for form in forms):
            found.append(f"{section}.{name}")
    return found


def _remedy(bad: str, deeper: list[str]) -> str | None:
    if bad == "<<":
        return "merge keys are not supported: write the keys out"
    return f"did you mean one of `{'`, `'.join(deeper)}`?" if len(deeper) > 1 else None


def _found(value: Any) -> str | None:
    """The value that was found, as text; None if it is a mapping or a list."""
    return None if isinstance(value, (dict, list, BaseModel)) else shown(value)


def _no_form(source: Source, place: _Place, details: ErrorDetails, key: str) -> Diagnostic:
    """The error for a value that fits no form of a union."""
    path = place.path
    forms = [member for _, member in _members(place.chosen)]
    value = details["input"]
    words = [str(word) for member in forms if get_origin(member) is Literal for word in get_args(member)]
    words += ["a list"] * any(get_origin(member) is list for member in forms)
    known = list(dict.fromkeys(key for member in forms if _is_model(member) for key in _discriminators(member)))
    one = f"the key {known[0]}" if len(known) == 1 else f"one of the keys {', '.join(known)}"
    if isinstance(value, dict):
        near = next((each for bad in value if (each := nearest(str(bad), known))), None)
        return error(
            Code.MISSING_KEY,
            f"`{key}` has none of the keys that select its form",
            mark=source.mark(path, key=True),
            key=key,
            allowed=one,
            nearest=near,
        )
    return error(
        Code.BAD_VALUE,
        "value not allowed",
        mark=source.mark(path),
        key=key,
        found=shown(value),
        allowed=", ".join([*words, f"or a mapping with {one}" if words else f"a mapping with {one}"]),
    )


def _is_model(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, BaseModel)


def _discriminators(member: Any) -> tuple[str, ...]:
    """The keys that select a form: its first required key, ``links`` for a graph, or the names of the families."""
    if families := getattr(member, "FAMILIES", None):
        return tuple(families)
    fields = {field.alias or name: field for name, field in member.model_fields.items()}
    required = (name for name, field in fields.items() if field.is_required())
    return ("links" if "links" in fields and "npus" in fields else next(required, next(iter(fields))),)


_PLAIN = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
}


def _allowed(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "greater_than_equal":
            return f"at least {_number(context['ge'])}"
        case "greater_than":
            return f"above {_number(context['gt'])}"
        case "less_than_equal":
            return f"at most {_number(context['le'])}"
        case "less_than":
            return f"below {_number(context['lt'])}"
        case "too_short":
            return f"at least {context['min_length']} entries" if context["min_length"] > 1 else "at least one entry"
        case "string_too_short":
            return "non-empty text"
        case "string_too_long":
            return f"at most {context['max_length']} characters"
        case kind:
            return _PLAIN.get(kind) or details["msg"][:1].lower() + details["msg"][1:]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _names(model: type[BaseModel] | None) -> list[str]:
    fields = model.model_fields.items() if model else ()
    return [field.alias or name for name, field in fields]


def _members(annotation: Any) -> Iterator[tuple[str, Any]]:
    """Tags and types of the tagged members of a union."""
    for each in _union(annotation):
        if get_origin(each) is Annotated:
            inner, *metadata = get_args(each)
            tag = next((item.tag for item in metadata if isinstance(item, Tag)), None)
            if tag is not None:
                yield tag, inner
            else:
                yield from _members(inner)


def _union(annotation: Any) -> Iterator[Any]:
    """The members of a union, with their metadata."""
    if get_origin(annotation) is Annotated and not any(isinstance(i, Tag) for i in get_args(annotation)[1:]):
        yield from _union(get_args(annotation)[0])
    elif hasattr(annotation, "__args__") and get_origin(annotation) not in (Annotated, list, dict):
        for each in get_args(annotation):
            yield from _union(each)
    else:
        yield annotation


def _unwrap(annotation: Any) -> Iterator[Any]:
    """The types that an annotation may mean."""
    for each in _union(annotation):
        yield get_args(each)[0] if get_origin(each) is Annotated else each
