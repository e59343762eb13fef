"""What the settings of a job do not say: the accelerator, how many of them, the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.config.model_file import names_file, read_architecture
from syncline.models.architectures import named

if TYPE_CHECKING:
    from syncline.input.node import Mark
    from syncline.models.architecture import Architecture

ACCELERATOR = "H100"
"""The accelerator of jobs that name none."""


@dataclass(frozen=True, slots=True)
class Given:
    """What is not in the settings, and what says it."""

    accelerator: str
    accelerator_said: str
    gpus: int | None = None
    gpus_said: str = ""
    gpus_mark: Mark | None = None
    vocab: int | None = None
    model: str | None = None

    @classmethod
    def of(
        cls,
        accelerator: str | None,
        gpus: int | None,
        *,
        said: str = "",
        mark: Mark | None = None,
        vocab: int | None = None,
        model: str | None = None,
    ) -> Given:
        """What options give; ``said`` and ``mark`` say where the number of accelerators is from, if not from them."""
        why = f"--accelerator {accelerator}" if accelerator else "assumed: the settings do not name the accelerator"
        count = said or ("" if gpus is None else f"--gpus {gpus}")
        return cls(accelerator or ACCELERATOR, why, gpus, count, mark, vocab, model)

    @property
    def architecture(self) -> Architecture | None:
        """The model that an option names; None without one.

        :raises SynclineError: there is no such model, or its file cannot be read.
        """
        if self.model is None:
            return None
        return read_architecture(self.model) if names_file(self.model) else named(self.model)
