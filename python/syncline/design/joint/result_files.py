"""The results of a search as files.

- ``design.json``: the answer; lists all files
- ``operators.json``: the model and its strategy
- ``topology.yaml``: the links, and the routes over several of them
- ``scenario.yaml``: a scenario for ``simulate`` with these two
- ``transfers.csv``: bytes from server to server in a step
- ``trace.csv``: the best time after each proposal that improved it
- ``traffic.svg``, ``topology.svg``: pictures of both
- ``report.html``: all of it as one page
- ``run``: the simulation of the scenario
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from syncline import _core, schemas
from syncline.design import folder as folders
from syncline.design.joint import pictures
from syncline.design.joint.traffic import traffic_of
from syncline.input.dump import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from syncline.design.joint.answer import Answer, Found


def save(found: Found, folder: str) -> list[str]:
    """Writes the results, and returns the names of the files. Replaces the folder of an earlier search."""
    return folders.write(folder, lambda path: _write(found, path))


def _write(found: Found, folder: Path) -> list[str]:
    # The page's sentences need this module.
    from syncline.design.joint import page as pages

    write_scenario(found, folder)
    sent = traffic_of(found)
    (folder / "transfers.csv").write_text(_csv(("from", "to", "kind", "bytes"), sent.rows()), "utf-8")
    (folder / "trace.csv").write_text(_csv(("proposal", "step_s"), found.answer.trace), "utf-8")
    (folder / "traffic.svg").write_text(pictures.heat_map(sent), "utf-8")
    (folder / "topology.svg").write_text(pictures.topology(found), "utf-8")
    (folder / pages.FILE).write_bytes(pages.page_of(found))
    if found.result is not None:
        found.result.save(folder / "run")
    names = [schemas.ANSWER, *folders.names(folder)]
    (folder / schemas.ANSWER).write_text(json.dumps({**as_dict(found), "files": names}, indent=1) + "\n", "utf-8")
    return names


def operators_of(found: Found, answer: Answer) -> dict[str, Any]:
    """The operators of a model with the strategy of an answer, in the form that ``workload.operators`` reads."""
    return {
        "schema": schemas.OPERATORS,
        "servers": found.request.spec.servers,
        "graph": found.request.graph,
        "strategy": [placed._asdict() for placed in answer.strategy],
    }


def write_scenario(found: Found, folder: Path) -> None:
    """Writes the scenario of the answer, and the files that it names."""
    (folder / "operators.json").write_text(json.dumps(operators_of(found, found.answer)) + "\n", "utf-8")
    (folder / "topology.yaml").write_text(dump(_topology(found)), "utf-8")
    (folder / "scenario.yaml").write_text(dump(_scenario(found)), "utf-8")


def _topology(found: Found) -> dict[str, Any]:
    """The links as a fabric's file. Parallel links are one with their combined rate, as the search counts them."""
    spec, topology = found.request.spec, found.topology
    rate = _core.parse_quantity("rate", spec.link)
    links = [
        {
            "from": source,
            "to": target,
            "rate": _core.exact_quantity("rate", rate * count),
            "latency": spec.latency,
            "duplex": False,
        }
        for source, target, count in topology.links
    ]
    routes = [list(route) for route in topology.routes]
    return {"npus": spec.servers, "links": links, **({"routing": routes} if routes else {})}


def _scenario(found: Found) -> dict[str, Any]:
    request = found.request
    server = request.spec.server
    compute: dict[str, Any] = {"model": "roofline", "accelerator": request.accelerator.name}
    if request.measured is not None:
        # The operators have their times.
        compute = {"model": "given"}
    elif server.efficiency != 1:
        compute["efficiency"] = server.efficiency
    return {
        "schema": schemas.SCENARIO,
        "name": request.name,
        "workload": {"operators": "operators.json", "precision": request.spec.precision},
        "compute": compute,
        "fabric": {"file": "topology.yaml"},
        "collectives": {**_chunks(found.answer), "algorithms_of": _algorithms(found.answer)},
        "network": found.simulated_with,
    }


def _chunks(answer: Answer) -> dict[str, Any]:
    """Chunks of an all-reduce: the search divides one among its rings alone, and moves chunks through trees.

    All chunks move through a tree one behind the other, so none waits for its turn.
    """
    if answer.chunks == 1:
        return {"chunks": 1}
    limits = ("issue_threshold", "issue_batch", "active_chunks")
    return {"chunks": answer.chunks, **dict.fromkeys(limits, "unlimited")}


def _algorithms(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "group": each.group,
            "collective": "all_reduce",
            "bytes": f"{each.bytes}B",
            "phases": [f"{each.algorithm} all_reduce"],
        }
        for each in answer.all_reduces
    ]


def as_dict(found: Found) -> dict[str, Any]:
    """The answer as plain data."""
    request, answer = found.request, found.answer
    spec = request.spec
    return {
        "schema": schemas.JOINT_RESULTS,
        "name": request.name,
        "model": request.model.name,
        "servers": spec.servers,
        "degree": spec.degree,
        "link": spec.link,
        "step_s": answer.step_s,
        "simulated_s": found.simulated_s,
        "start_s": found.start_s,
        "data_parallel_s": found.data_parallel_s,
        "usd": found.usd,
        "strategy": strategy(found, answer),
        "topology": asdict(found.topology),
        "all_reduces": [{**asdict(each), "bytes": f"{each.bytes}B"} for each in answer.all_reduces],
        "memory": f"{answer.memory_bytes}B",
        "proposals": answer.proposals,
        "accepted": answer.accepted,
        "topologies": answer.topologies,
        "others": [
            {
                "network": each.baseline.name,
                "rate_bits_per_s": each.baseline.rate,
                "usd": each.baseline.usd,
                "step_s": each.answer.step_s,
                "start_s": each.answer.start_s,
                "data_parallel_s": each.answer.start_s if each.answer.data_parallel_fits else None,
                "strategy": strategy(found, each.answer),
            }
            for each in found.others
        ],
        "reranked": [each._asdict() for each in found.reranked],
        "notes": [*found.notes],
    }


def strategy(found: Found, answer: Answer) -> list[dict[str, Any]]:
    """The split and the servers of each operator."""
    rows = []
    for operator, placed in zip(found.request.graph["operators"], answer.strategy, strict=True):
        choice = operator["choices"][placed.choice]
        rows.append(
            {
                "operator": operator["name"],
                "kind": operator["kind"],
                "samples": choice["samples"],
                "parameters": choice["parameters"],
                "servers": [*placed.servers],
            }
        )
    return rows


def _csv(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return text.getvalue()
