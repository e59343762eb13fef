"""What every part of a scenario has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from syncline.codes import Code
from syncline.input.problem import nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.input.node import Path

T = TypeVar("T")


class Strict(BaseModel):
    """A mapping that accepts known keys only, and does not convert its values to other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False, allow_inf_nan=False)


def validation_error(
    message: str, *, code: str = Code.BAD_VALUE, **context: str | list[int] | Path | None
) -> PydanticCustomError:
    """A validation error with its own message; ``context`` may hold ``allowed``, ``nearest``, ``found`` and ``help``.

    ``part`` marks the wrong part of a text: the index of its first character, and its length. ``at`` marks the wrong
    place inside the checked value: a path of keys and positions.
    """
    # The message is passed as an argument of the template, so that braces in it stay as they are.
    return PydanticCustomError("syncline", "{message}", {"message": message, "code": code, **context})


def either(allowed: str, *words: str) -> WrapValidator:
    """Reports a value that fits no member of a union as one error, which says what is ``allowed``.

    ``words`` are the members that are plain words: if the value is another word, the error names the nearest of them.
    """

    def validate(value: Any, handler: Callable[[Any], T]) -> T:
        try:
            return handler(value)
        except ValidationError as problem:
            word = value.strip() if isinstance(value, str) else ""
            if words and word[:1].isalpha():
                near = nearest(word, words)
                raise validation_error("value not allowed", found=shown(value), allowed=allowed, nearest=near) from None
            for found in problem.errors():
                if found["type"] == "syncline":
                    raise validation_error(**found["ctx"]) from None
            raise validation_error("value not allowed", allowed=allowed) from None

    return WrapValidator(validate)


def form(*, word: bool, default: str | None = None, **by_key: str) -> Callable[[Any], str | None]:
    """Makes the discriminator of a union: returns the tag of a value, or None if no member fits.

    The tag of a mapping is that of the first key in ``by_key`` that it has, else ``default``. The tag of a string is
    ``word``, if ``word`` is true.
    """

    def choose(value: Any) -> str | None:
        if isinstance(value, str):
            return "word" if word else None
        if isinstance(value, dict):
            return next((tag for key, tag in by_key.items() if key in value), default)
        if isinstance(value, BaseModel):
            return next((tag for key, tag in by_key.items() if key in type(value).model_fields), default)
        return None

    return choose
