"""What every part of a scenario has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from syncline.config.problem import nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.config.node import Path

T = TypeVar("T")


class Strict(BaseModel):
    """A mapping with known keys only, whose values are taken as they are, not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False, allow_inf_nan=False)


def wrong(message: str, *, code: str = "SL0102", **context: str | list[int] | Path | None) -> PydanticCustomError:
    """An error with a message of its own; ``context`` may hold ``allowed``, ``nearest``, ``found`` and ``help``.

    ``part`` says which part of a text is wrong: its first character and its length. ``at`` says what within the value
    that is checked is wrong: keys and positions.
    """
    # Braces in a message would be taken for a template's.
    return PydanticCustomError("syncline", "{message}", {"message": message, "code": code, **context})


def either(allowed: str, *words: str) -> WrapValidator:
    """One error that says what is ``allowed``, for a value that fits no member of a union.

    ``words`` are the members that are words: for another word, the error names the nearest.
    """

    def validate(value: Any, handler: Callable[[Any], T]) -> T:
        try:
            return handler(value)
        except ValidationError as problem:
            word = value.strip() if isinstance(value, str) else ""
            if words and word[:1].isalpha():
                near = nearest(word, words)
                raise wrong("value not allowed", found=shown(value), allowed=allowed, nearest=near) from None
            for found in problem.errors():
                if found["type"] == "syncline":
                    raise wrong(**found["ctx"]) from None
            raise wrong("value not allowed", allowed=allowed) from None

    return WrapValidator(validate)


def form(*, word: bool, default: str | None = None, **by_key: str) -> Callable[[Any], str | None]:
    """Chooses a member of a union by the first of ``by_key`` that a mapping has; ``word`` for a bare string."""

    def choose(value: Any) -> str | None:
        if isinstance(value, str):
            return "word" if word else None
        if isinstance(value, dict):
            return next((tag for key, tag in by_key.items() if key in value), default)
        if isinstance(value, BaseModel):
            return next((tag for key, tag in by_key.items() if key in type(value).model_fields), default)
        return None

    return choose
