"""Layers of the chunks of a pipeline as Megatron-LM writes them, such as ``Et*3|(tt|)*29m|L``.

Source: ``--pipeline-model-parallel-layout`` in Megatron-LM, ``pipeline_parallel_layer_layout.py``: ``E`` is the
embedding, ``t`` a layer, ``m`` a layer of multi-token prediction, ``L`` the loss; ``|`` ends a chunk, ``*n`` repeats
what is before it.
"""

from __future__ import annotations

import re

MOST = 100_000
"""Most letters of a layout, written out."""
_GROUP = re.compile(r"\(([^()]*)\)(?:\*(\d{1,5}))?")
_LETTER = re.compile(r"([EtmL|])\*(\d{1,5})")


def chunks(text: str) -> list[str] | None:
    """The letters of each chunk; None if the text is no layout."""
    plain = re.sub(r"[\s,]", "", text)
    while (found := _GROUP.search(plain)) is not None:
        times = int(found[2] or 1)
        if len(plain) + len(found[1]) * times > MOST:
            return None
        plain = plain[: found.start()] + found[1] * times + plain[found.end() :]
    if len(plain) + sum(int(each[2]) for each in _LETTER.finditer(plain)) > MOST:
        return None
    plain = _LETTER.sub(lambda each: each[1] * int(each[2]), plain)
    if not plain or set(plain) - set("EtmL|"):
        return None
    return plain.split("|")


def split_of(parts: list[str]) -> str | list[int] | None:
    """The ``split`` of a job file that has these chunks, or the layers of each; None if job files have neither.

    Job files have the embedding in the first chunk, the loss in the last, and multi-token prediction after all layers.
    """
    plain = "".join(parts)
    if "E" in plain.lstrip("E") or "L" in plain.rstrip("L") or "mt" in plain.replace("E", "").replace("L", ""):
        return None
    layers = [part.count("t") for part in parts]
    if len(set(layers)) == 1 and not any("m" in part for part in parts):
        return "even"
    if len({len(part) for part in parts}) == 1:
        return "ends"
    each, left = -(-sum(layers) // len(layers)), sum(layers)
    wanted = []
    for _ in layers[:-1]:
        wanted.append(min(each, left))
        left -= wanted[-1]
    if layers == [*wanted, left] and not any("m" in part for part in parts[:-1]):
        return "rest"
    return [part.count("t") + part.count("m") for part in parts]
