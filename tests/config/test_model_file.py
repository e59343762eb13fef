"""Models described by a file, and errors with their place in it."""

import json

import pytest

import syncline
from syncline.config.load import load
from syncline.errors import SynclineError
from syncline.input import limits

GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "n_ctx": 1024,
    "rope_scaling": None,
}


def scenario(model, **more):
    return {
        "workload": {"model": model, **more},
        "compute": {"model": "roofline", "accelerator": "H100"},
        "fabric": {"shape": "Ring(4)", "rate": "1GB/s"},
    }


def refused(model, **more):
    with pytest.raises(SynclineError) as caught:
        load(scenario(str(model), **more))
    return caught.value.diagnostics


@pytest.fixture
def file(tmp_path):
    def write(text, name="gpt2.json"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
        return path

    return write


def test_a_file_may_be_given_as_the_model(file):
    loaded = load(scenario(str(file(GPT2)), sequence=256, batch_per_npu=2))
    workload = loaded.resolved["workload"]
    assert (workload["model"], workload["types"]["parameters"]) == ("gpt2", "bf16")
    assert sum(layer["parameters"] for layer in workload["layers"]) == 124_439_808
    assert workload["layers"][0]["outputs"] == 2 * 256 * 768


def test_the_type_of_gradients_determines_the_exchanged_bytes(file):
    def sent(**more):
        path = file({**GPT2, "n_layer": 1, "torch_dtype": "float16"})
        return syncline.simulate(scenario(str(path), sequence=64, **more)).summary.bytes

    assert sent() == sent(precision="fp32") == sent(precision="fp8") == 2 * sent(precision="fp16")
    assert sent(types={"gradients": "bf16"}) == sent(precision="fp16")


def test_ignored_keys_of_a_file_are_noted(file):
    path = str(file({**GPT2, "quantization_config": {"quant_method": "gptq"}}))
    notes = syncline.simulate(scenario(path, layers=1, sequence=64)).summary.notes
    assert any("`quantization_config` (gptq) is left out" in note for note in notes)


def test_a_vocabulary_is_padded_to_a_multiple_of_the_ranks(file):
    """50,257 tokens on 4 ranks become 50,260."""
    path = file({**GPT2, "n_layer": 1})
    odd = syncline.simulate(scenario(str(path), sequence=64, parallel={"tensor": 4}))
    note = next(note for note in odd.summary.notes if "vocabulary" in note)
    assert "of 50257 tokens is padded to 50260, a multiple of its 4 tensor-parallel ranks" in note
    assert "Megatron-LM pads to 50688" in note
    even = syncline.simulate(scenario(str(path), sequence=64, vocabulary=50_260, parallel={"tensor": 4}))
    assert not [note for note in even.summary.notes if "vocabulary" in note]
    # Compute differs by less than one token's lookup per rank, and exchanges do not differ.
    assert odd.summary.compute_s == pytest.approx(even.summary.compute_s, rel=1e-6)
    assert odd.summary.bytes == even.summary.bytes


def test_a_file_called_config_gets_its_name_from_its_content(tmp_path):
    folder = tmp_path / "checks"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(GPT2))
    assert load(scenario(str(folder / "config.json"))).resolved["workload"]["model"] == "gpt2"
    (folder / "config.json").write_text(json.dumps({**GPT2, "_name_or_path": "openai/gpt2-small"}))
    assert load(scenario(str(folder / "config.json"))).resolved["workload"]["model"] == "gpt2-small"


def test_paths_are_relative_to_the_scenario(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "gpt2.json").write_text(json.dumps(GPT2))
    (tmp_path / "inner" / "s.yaml").write_text(json.dumps(scenario("gpt2.json")))
    monkeypatch.chdir(tmp_path)
    assert load("inner/s.yaml").resolved["workload"]["model"] == "gpt2"


def test_errors_name_the_line_of_the_file(file):
    text = json.dumps({**GPT2, "n_head": "twelve"}, indent=2)
    (found,) = refused(path := file(text))
    assert (found["code"], found["key"], found["found"]) == ("SL0102", "n_head", "twelve")
    assert (found["place"]["file"], found["place"]["line"]) == (path.as_posix(), 5)
    assert found["place"]["text"][found["place"]["column"] - 1 :].startswith('"twelve"')


def test_a_missing_key_is_named(file):
    (found,) = refused(file({key: value for key, value in GPT2.items() if key != "n_layer"}))
    assert (found["code"], found["message"]) == ("SL0103", "missing key `n_layer`")
    assert found["allowed"] == "a whole number from 1 to 10000"


def test_a_key_that_is_misspelt_is_named_where_the_right_one_is_missing(file):
    (found,) = refused(file({"n_layr" if key == "n_layer" else key: value for key, value in GPT2.items()}))
    assert (found["code"], found["key"]) == ("SL0103", "n_layer")
    assert found["help"] == "if `n_layr` is meant to be it, rename that"


def test_a_key_that_is_given_twice_is_refused(file):
    (found,) = refused(file(json.dumps(GPT2, indent=2).replace('"n_layer": 12', '"n_layer": 12,\n  "n_layer": 48')))
    assert found["message"] == "the key `n_layer` is given twice, on lines 4 and 5"
    assert (found["place"]["line"], found["help"]) == (4, "leave out one of them")


def test_an_unknown_kind_suggests_the_nearest_and_experts_are_refused(file):
    (found,) = refused(file({**GPT2, "model_type": "gtp2"}))
    assert found["nearest"] == "gpt2"
    (found,) = refused(file({**GPT2, "model_type": "mixtral"}))
    assert found["message"] == "mixtral is mixture of experts, which is not modelled"
    assert "`workload.layers`" in found["help"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", "SL0106", "the file is empty"),
        ("{", "SL0106", "not well-formed JSON"),
        ('{"model_type": "gpt2",}', "SL0106", "not well-formed JSON"),
        ("model_type: gpt2", "SL0106", "not well-formed JSON"),
        ("[1, 2]", "SL0106", "not a model's configuration"),
        ("null", "SL0106", "not a model's configuration"),
        ("[" * 100_000, "SL0106", "nested too deep"),
        ('{"n_layer": ' + "9" * 5000 + "}", "SL0106", "a number is too long"),
        ("{}", "SL0103", "missing key `model_type`"),
        ("\ufeff" + json.dumps({"model_type": "gpt3"}), "SL0102", "`model_type` of this model is not supported"),
    ],
)
def test_files_that_do_not_describe_a_model_are_refused(file, text, code, said):
    (found,) = refused(file(text))
    assert found["code"] == code
    assert said in found["message"]
    assert found["place"]["file"]


def test_missing_and_too_large_files_are_refused(file, tmp_path):
    file(GPT2)
    (found,) = refused(tmp_path / "gpt.json")
    assert (found["code"], found["message"]) == ("SL0105", "no such file")
    assert "gpt2.json" in found["help"]
    (found,) = refused(tmp_path / "no/folder")
    assert found["code"] == "SL0105"
    text = json.dumps(GPT2)
    assert load(scenario(str(file(text.ljust(limits.MAX_MODEL_FILE_BYTES)))))
    (found,) = refused(file(text.ljust(limits.MAX_MODEL_FILE_BYTES + 1)))
    assert (found["code"], found["message"]) == ("SL0106", "larger than 1 MiB")


def test_keys_of_the_scenario_are_also_checked(file):
    path = file(GPT2)
    (found,) = refused(path, sequense=12)
    assert (found["code"], found["nearest"]) == ("SL0101", "sequence")
    (found,) = refused(path, sequence=2048)
    assert (found["key"], found["found"]) == ("workload.sequence", "2048")
    assert found["allowed"].startswith("at most positions, which is 1024")
