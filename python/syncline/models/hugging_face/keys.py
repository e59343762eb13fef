"""Reads and checks the keys of a ``config.json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.models.architecture import WIDEST
from syncline.models.errors import ModelError, ModelErrorKind, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "quick_gelu": "gelu",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "squared_relu",
}
"""Activations of syncline by their names in files; approximations of a function count as that function."""

_EXPERTS = (
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
)
"""Keys of files that make their MLPs experts; with the values 0 and 1, there are no experts."""
BLOCKS = 10_000
"""Most layers of a decoder that is simulated."""


@dataclass(frozen=True)
class Keys:
    """Reads and checks the keys of a file."""

    values: Mapping[str, Any]

    def size(self, key: str, default: int | None = None, *, most: int = WIDEST) -> int:
        """A whole number from 1 to ``most``; ``default`` if the key is absent or null."""
        found = self.values.get(key)
        if found is None and default is not None:
            return default
        allowed = f"a whole number from 1 to {most}"
        if found is None:
            kind = ModelErrorKind.VALUE if key in self.values else ModelErrorKind.MISSING_KEY
            raise ModelError(key, None, allowed, kind=kind)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= most:
            raise ModelError(key, found, allowed)
        return found

    def number(self, key: str, *, most: int = WIDEST) -> int:
        """A whole number from 0 to ``most``; 0 if the key is absent or null."""
        found = self.values.get(key)
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most:
            raise ModelError(key, found, f"a whole number from 0 to {most}")
        return found

    def flag(self, key: str, *, default: bool) -> bool:
        """A boolean; ``default`` if the key is absent."""
        found = self.values.get(key, default)
        if not isinstance(found, bool):
            raise ModelError(key, found, "true or false")
        return found

    def rate(self, *keys: str) -> bool:
        """Whether any of these probabilities of dropping an element is above 0; absent means 0."""
        positive = False
        for key in keys:
            found = self.values.get(key, 0)
            if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
                raise ModelError(key, found, "a number from 0 to 1")
            positive = positive or found > 0
        return positive

    def activation(self, key: str, default: str) -> str:
        """The activation of syncline for the file's name of it."""
        found = self.values.get(key)
        found = default if found is None else found
        if not isinstance(found, str) or found not in _ACTIVATIONS:
            raise unknown_name(key, found, _ACTIVATIONS)
        return _ACTIVATIONS[found]

    def no_experts(self) -> None:
        """Raises an error if the file describes experts."""
        for key in _EXPERTS:
            found = self.values.get(key)
            if found is not None and found not in (0, 1):
                why = f"`{key}` makes this a mixture of experts, which is not modelled"
                raise ModelError(key, found, "1, or no such key: a decoder without experts", problem=why)

    def must_be(self, key: str, wanted: object, default: object, why: str) -> None:
        """Raises an error if ``key`` has any value but ``wanted``."""
        found = self.values.get(key, default)
        if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
            raise ModelError(key, found, f"{str(wanted).lower() if isinstance(wanted, bool) else wanted}: {why}")

    def within(self, key: str) -> Keys:
        """The keys of a mapping in the file; no keys if it is absent."""
        found = self.values.get(key)
        if found is None:
            return Keys({})
        if not isinstance(found, dict):
            raise ModelError(key, found, "a mapping")
        return Keys(found)
