"""Reading YAML: values, errors and limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.input import dump, limits, source, yaml


def read(text: str) -> object:
    return yaml.read(text, "f").to_python()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("0x10", 16),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("no", "no"),
        ("on", "on"),
        ("25GB/s", "25GB/s"),
        ("2x4x4", "2x4x4"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("'1'", "1"),
        ('"a\\nb"', "a\nb"),
        ("2026-01-01", "2026-01-01"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("2: x", {"2": "x"}),
        ('{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
    ],
)
def test_scalars_have_their_obvious_types(text: str, value: object) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object:os.system x", "tags are not allowed"),
        ("a: 1\n---\nb: 2", "a second document starts here"),
        ("a: *x", "no anchor `x` is defined before this alias"),
        ("a: &x [*x]", "no anchor `x` is defined before this alias"),
        ("[a, b]: 1", "a key must be a plain word"),
        ("a: 1\na: 2", "key `a` is given twice"),
        ("a: \x01", "not well-formed YAML"),
    ],
)
def test_invalid_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(SynclineError) as caught:
        read(text)
    assert any(each["message"].startswith(message) for each in caught.value.diagnostics)


def test_yaml_nested_deeper_than_the_limit_is_refused() -> None:
    read("[" * limits.MAX_DEPTH + "]" * limits.MAX_DEPTH)
    with pytest.raises(SynclineError, match="nested more than 64 deep"):
        read("[" * 10_000)


def test_aliases_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ALIASED", 8)
    read("a: &x [1, 2, 3]\nb: [*x, *x]")
    with pytest.raises(SynclineError, match="aliases repeat more than 8 values"):
        read("a: &x [1, 2, 3]\nb: [*x, *x, *x]")


def test_a_billion_laughs_attack_is_refused_at_once() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(SynclineError, match="aliases repeat more than"):
        read("\n".join(lines))


def test_more_values_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_NODES", 4)
    read("[1, 2, 3]")
    with pytest.raises(SynclineError, match="more than 4 values"):
        read("[1, 2, 3, 4]")


def test_a_file_larger_than_the_limit_is_refused(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "f"  # type: ignore[operator]
    path.write_bytes(b"x" * 100)
    assert source.read_file(str(path), 100) == "x" * 100
    with pytest.raises(SynclineError, match="larger than"):
        source.read_file(str(path), 99)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe\x00", "not UTF-8 text: byte 0"), (b"\x80", "not UTF-8 text: byte 0")],
)
def test_files_that_are_not_text_are_refused(content: bytes, message: str, tmp_path: object) -> None:
    path = tmp_path / "f"  # type: ignore[operator]
    path.write_bytes(content)
    with pytest.raises(SynclineError, match=message):
        source.from_file(str(path))


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab:-[]{},&*!|>'\"#%\n\t ~0.é"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        yaml.read(text, "f").to_python()
    except SynclineError as error:
        assert str(error)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(plain)
def test_dumped_values_read_back_unchanged(value: object) -> None:
    assert yaml.read(dump.dump(value), "f").to_python() == value
