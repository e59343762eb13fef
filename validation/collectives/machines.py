"""Makes the machines of the package from the measured rows beside this file: ``make nccl-machines``.

The rows that count are those of ``syncline validate collectives``. Rows between nodes count up to 32 nodes: beyond,
times of one call differ tenfold among runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.input import yaml
from syncline.nccl.calibration import About, calibrate
from syncline.nccl.machine import Machine, MachineFile
from syncline.validation.collectives import rows_of

if TYPE_CHECKING:
    from syncline.nccl.rows import Row

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "python" / "syncline" / "data" / "nccl"
MOST_NODES = 32


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
        made[name] = Machine(MachineFile.model_validate({**content, "name": name, "network": copy["network"]}))
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.yaml"):
        file.unlink()
    for name, machine in made.items():
        machine.save(FOLDER / f"{name}.yaml")


if __name__ == "__main__":
    main()
