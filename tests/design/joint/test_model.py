"""Models of a search: by name, and from a Hugging Face configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncline.design.joint import read, save, search, simulate
from syncline.errors import SynclineError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 224,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "_name_or_path": "tiny/llama",
}


def spec(folder: Path, **changes: Any) -> str:
    (folder / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    path = folder / "spec.yaml"
    given = {"model": "config.json", "servers": 4, "degree": 2, "link": "10Gb/s", "search": {"proposals": 200}}
    path.write_text(json.dumps({**given, **changes}), "utf-8")
    return str(path)


def test_a_configuration_of_hugging_face_is_searched_and_simulated(tmp_path: Path):
    request = read(spec(tmp_path, split_parameters=True, parameters={"sequence": 32, "batch": 2}))
    assert request.name == "llama"
    # Llama: two tables, and in each block four projections, three matrices of the MLP and two norms; then a norm.
    attention, mlp = 64 * (64 + 2 * 16) + 64 * 64, 3 * 64 * 224
    assert request.model.parameters == 2 * 1024 * 64 + 2 * (attention + mlp + 2 * 64) + 64
    found = simulate(search(request))
    assert found.simulated_s == pytest.approx(found.answer.step_s, rel=0.35)
    save(found, str(tmp_path / "out"))
    operators = json.loads((tmp_path / "out" / "design.json").read_text("utf-8"))["strategy"]
    assert {each["kind"] for each in operators} == {"dense", "embedding", "attention", "elementwise", "norm"}


def test_the_longest_sequence_is_the_default_and_the_batch_scales_the_work(tmp_path: Path):
    def flop(**parameters: int) -> int:
        graph = read(spec(tmp_path, parameters=parameters)).graph
        (dense,) = (each for each in graph["operators"] if each["name"] == "block1.mlp1")
        return int(dense["choices"][0]["forward"]["ops"]["flop"].removesuffix("FLOP"))

    assert flop() == flop(sequence=128) == 4 * flop(sequence=32)
    assert flop(batch=3) == 3 * flop(batch=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "missing key `model`"),
        ({"module": {"factory": "a:b"}}, "both give the model"),
        ({"model": "other.json"}, "other.json"),
        ({"parameters": {"layerz": 2}}, "layerz"),
        ({"parameters": {"batch": 0}}, "from 1 to"),
        ({"parameters": {"precision": "bf16"}}, "`precision` is given elsewhere in a search"),
        ({"module": {"factory": "a:b", "input": []}, "model": None}, "unknown key `input`"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, changes: dict[str, Any], message: str):
    given = {key: value for key, value in {"model": "config.json", **changes}.items() if value is not None}
    path = spec(tmp_path)
    text = json.loads(Path(path).read_text("utf-8"))
    text.pop("model")
    Path(path).write_text(json.dumps({**text, **given}), "utf-8")
    with pytest.raises(SynclineError) as caught:
        _ = read(path).graph
    assert message in str(caught.value)


def test_an_unsupported_configuration_is_refused_where_it_says_so(tmp_path: Path):
    path = spec(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "model_type": "mixtral"}), "utf-8")
    with pytest.raises(SynclineError, match="mixture of experts"):
        _ = read(path).model
