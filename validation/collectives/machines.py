"""Makes the machines of the package from the measured rows beside this file: ``make nccl-machines``.

The rows that count are those of ``syncline validate collectives``. Rows between nodes count up to 32 nodes: beyond,
times of one call differ tenfold among runs.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.input import yaml
from syncline.input.dump import dump
from syncline.input.units import bytes_per_s
from syncline.nccl.calibration import About, calibrate, summary
from syncline.nccl.experts import Phase, token_bytes
from syncline.nccl.machine import Machine, MachineFile, rate_text, time_text
from syncline.nccl.rows import read
from syncline.validation.collectives import rows_of

if TYPE_CHECKING:
    from syncline.nccl.rows import Row

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "python" / "syncline" / "data" / "nccl"
MOST_NODES = 32
FEWEST_SHOTS = 10
"""Fewest times that determine the constants of all-reduces in one shot or two."""


def copied(content: dict[str, Any], name: str, copy: dict[str, Any]) -> dict[str, Any]:
    """The file of a machine with another network, or with NVLink of another rate, as ``machines.yaml`` describes it."""
    found = {**content, "name": name, "network": copy.get("network", content["network"])}
    if "links" in copy:
        found |= {"gpu": copy["gpu"], "source": [*content["source"], copy["source"]]}
        found["in_node"] = slower(content["in_node"], copy["links"])
    return found


def slower(part: dict[str, Any], ratio: float) -> dict[str, Any]:
    """A part of a file with all its rates times ``ratio``."""
    found: dict[str, Any] = {}
    for key, value in part.items():
        if isinstance(value, dict):
            found[key] = slower(value, ratio)
        elif key.endswith("rate") and value is not None:
            found[key] = rate_text(ratio * bytes_per_s(value))
        else:
            found[key] = value
    return found


def main() -> None:
    """Writes a file for each system that has rows, and removes all others."""
    settings: dict[str, Any] = yaml.read((HERE / "machines.yaml").read_text("utf-8"), "machines.yaml").to_python()
    by_system: dict[str, list[Row]] = {}
    for row in rows_of(HERE):
        if row.nodes <= MOST_NODES:
            by_system.setdefault(row.system, []).append(row)
    made: dict[str, Machine] = {}
    for system, rows in sorted(by_system.items()):
        about = About(
            name=system,
            gpu=rows[0].gpu,
            software=rows[0].software,
            date=settings["date"],
            source=sorted({row.source for row in rows}),
        )
        made[system] = calibrate(rows, about, settings["networks"].get(system))
    for name, copy in settings["copies"].items():
        content = made[copy["of"]].content.model_dump(by_alias=True)
        made[name] = Machine(MachineFile.model_validate(copied(content, name, copy)))
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.yaml"):
        file.unlink()
    for name, machine in made.items():
        machine.save(FOLDER / f"{name}.yaml")
    (FOLDER.parent / "deepep.yaml").write_text(dump({"machines": experts(settings["date"])}), "utf-8")
    (FOLDER.parent / "shots.yaml").write_text(dump({"machines": shots(settings["date"])}), "utf-8")


def shots(date: str) -> dict[str, list[dict[str, Any]]]:
    """The constants of all-reduces in one shot or two, by machine."""
    by_kernel: dict[tuple[str, str], list[Row]] = {}
    for row in read([HERE / "shots" / "shots.csv.gz"]):
        by_kernel.setdefault((row.system, row.software), []).append(row)
    found: dict[str, list[dict[str, Any]]] = {}
    for (system, software), rows in by_kernel.items():
        if len(rows) < FEWEST_SHOTS:
            continue
        constants = _core.shots_calibrate([(row.gpus, row.bytes, row.seconds) for row in rows])
        if constants is None:
            raise ValueError(f"{system}, {software}: no constants fit these rows")
        one_launch, one_rate, two_launch, two_rate = constants
        predicted = _core.shots_times(constants, [(row.gpus, row.bytes) for row in rows])
        found.setdefault(system, []).append(
            {
                "framework": software,
                "one_launch": time_text(one_launch),
                "one_rate": rate_text(one_rate),
                "two_launch": time_text(two_launch),
                "two_rate": rate_text(two_rate),
                "gpus": sorted({row.gpus for row in rows}),
                "date": date,
                "source": sorted({row.source for row in rows}),
                "errors": summary(
                    [time / row.seconds - 1 for (time, _), row in zip(predicted, rows, strict=True)]
                ).model_dump(),
            }
        )
    return found


def experts(date: str) -> dict[str, Any]:
    """The constants of DeepEP's exchanges, by machine."""
    with gzip.open(HERE / "deepep" / "deepep.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, Any] = {}
    for system, of_system in _grouped(rows, "system").items():
        first = of_system[0]
        exchanges = [_exchange(each) for each in _grouped(of_system, "kernels", "phase", "nodes").values()]
        found[system] = {
            "gpu": first["gpu"],
            "software": first["software"],
            "date": date,
            "source": sorted({row["source"] for row in of_system}),
            "exchanges": exchanges,
        }
    return found


def _grouped(rows: list[dict[str, str]], *columns: str) -> dict[Any, list[dict[str, str]]]:
    found: dict[Any, list[dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        found.setdefault(key if len(key) > 1 else key[0], []).append(row)
    return found


def _exchange(rows: list[dict[str, str]]) -> dict[str, Any]:
    first = rows[0]
    low_latency = first["kernels"] == "low_latency"
    phase: Phase = "dispatch" if first["phase"] == "dispatch" else "combine"
    calls = [
        (
            int(row["tokens"]),
            token_bytes(int(row["hidden"]), phase),
            int(row["experts_per_token"]),
            int(row["gpus"]),
            int(row["sms"]),
        )
        for row in rows
    ]
    times = [float(row["seconds"]) for row in rows]
    constants = _core.deepep_calibrate(low_latency, list(zip(calls, times, strict=True)))
    if constants is None:
        raise ValueError(f"{first['system']}, {first['kernels']}, {first['phase']}: no constants fit these rows")
    launch, token, sm_rate, link_rate = constants
    predicted = _core.deepep_times(constants, low_latency, calls)
    return {
        "kernels": first["kernels"],
        "phase": first["phase"],
        "nodes": int(first["nodes"]),
        "gpus": int(first["gpus"]),
        "launch": time_text(launch),
        "token": time_text(token),
        **({} if low_latency else {"sm_rate": rate_text(sm_rate)}),
        "link_rate": rate_text(link_rate),
        "errors": summary([a / b - 1 for a, b in zip(predicted, times, strict=True)]).model_dump(),
    }


if __name__ == "__main__":
    main()
