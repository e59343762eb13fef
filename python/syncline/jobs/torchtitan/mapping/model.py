"""The model, by torchtitan's name and flavor of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.models.architecture import Decoder, ExpertSizes
from syncline.models.architectures import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings
    from syncline.models.architecture import Architecture

MODELS: Mapping[tuple[str, str], str] = {
    ("llama3", "8B"): "llama3-8b",
    ("llama3", "8B_flex"): "llama3-8b",
    ("llama3", "8B_varlen"): "llama3-8b",
    ("llama3", "70B"): "llama3-70b",
    ("llama3", "405B"): "llama3-405b",
    ("qwen3", "8B"): "qwen3-8b",
    ("qwen3", "14B"): "qwen3-14b",
    ("qwen3", "32B"): "qwen3-32b",
    ("qwen3", "30B-A3B"): "qwen3-30b-a3b",
    ("qwen3", "235B-A22B"): "qwen3-235b-a22b",
    ("deepseek_v3", "16B"): "deepseek-v2-lite",
    ("deepseek_v3", "236B"): "deepseek-v2",
    ("deepseek_v3", "671B"): "deepseek-v3",
    ("gpt_oss", "20b"): "gpt-oss-20b",
    ("gpt_oss", "120b"): "gpt-oss-120b",
}
"""Models by torchtitan's names and flavors. Those of DeepSeek-V3's code are of versions 2 and 3.

Source: ``torchtitan/models/*/__init__.py``.
"""


def model(settings: Settings, given: Given) -> Architecture | None:
    """Sets the model; returns it, if it is known."""
    names = ("model.name", "model.flavor")
    name, flavor = settings.word(names[0]), settings.word(names[1])
    if given.model is not None:
        settings.put("model", given.model, note=f"--model {given.model}")
        return given.architecture
    found = MODELS.get((str(name), str(flavor)))
    if found is None:
        said = " ".join(each for each in (name, flavor) if each is not None)
        near = ", ".join(f"{a} {b}" for a, b in MODELS if a == name) or ", ".join(sorted({a for a, _ in MODELS}))
        settings.problem(
            names[1] if settings.has(names[1]) else names[0],
            "the file does not name the model" if name is None else f"the sizes of `{said}` are in torchtitan's code",
            allowed=near,
            help="add --model NAME, a model's name or the path of its config.json",
        )
        return None
    model = named(found)
    if model.prediction_layers:
        sizes = Decoder.model_validate(
            {key: value for key, value in model.model_dump().items() if key in Decoder.model_fields}
            | {"prediction_layers": 0, "experts": _expert_sizes(model)}
        )
        said = f"{found}, which torchtitan trains without multi-token prediction"
        for key, value in sizes.model_dump(exclude_defaults=True).items():
            for inner, each in value.items() if isinstance(value, dict) else [("", value)]:
                settings.put(f"model.{key}.{inner}".rstrip("."), each, *names, note=said if key == "hidden" else "")
    else:
        settings.put("model", found, *names)
    return model


def _expert_sizes(model: Architecture) -> dict[str, Any] | None:
    return None if model.experts is None else model.experts.model_dump(include=set(ExpertSizes.model_fields))
