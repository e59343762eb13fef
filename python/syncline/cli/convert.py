"""``syncline convert``."""

from __future__ import annotations

import json
from pathlib import Path

from syncline import _core
from syncline.cli.streams import say
from syncline.config.node import Mark, Text
from syncline.config.problem import error, refuse

_SCENARIOS = (".yaml", ".yml", ".json")
_KNOWN = (
    "scenario.yaml -> resolved .yaml or .json; table.parquet of a run's folder -> .csv or .json; "
    "MSCCL .xml -> plan .json; plan .json -> MSCCL .xml"
)


def convert(source: str, target: str) -> int:
    """Converts a file by what it is and what the other's ending says."""
    path, ending = Path(source), Path(target).suffix.lower()
    if path.suffix.lower() == ".parquet" and ending in (".csv", ".json"):
        text = _table(path, ending)
    elif (path.suffix.lower() in _SCENARIOS or path.is_dir()) and ending in _SCENARIOS:
        text = _scenario(source, ending)
    elif (path.suffix.lower(), ending) == (".xml", ".json"):
        text = _core.msccl_to_plan(path) + "\n"
    elif (path.suffix.lower(), ending) == (".json", ".xml"):
        text = _core.plan_to_msccl(path)
    else:
        refuse(
            error(
                "SL0102",
                "no such conversion",
                mark=Mark(Text(source, ()), 0, 0, 0),
                found=f"{path.suffix or 'a folder'} -> {ending or 'no ending'}",
                allowed=_KNOWN,
            )
        )
    try:
        Path(target).write_text(text, "utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        refuse(error("SL0801", f"cannot be written: {reason}", mark=Mark(Text(target, ()), 0, 0, 0)))
    say(f"Wrote {target}")
    return 0


def _table(path: Path, ending: str) -> str:
    if ending == ".csv":
        return _core.table_csv(path.parent, path.stem)
    columns = _core.read_table(path.parent, path.stem)
    return json.dumps({name: values for name, _, values in columns}) + "\n"


def _scenario(source: str, ending: str) -> str:
    from syncline.config.dump import dump
    from syncline.config.load import load

    resolved = load(source).resolved
    return json.dumps(resolved, indent=1) + "\n" if ending == ".json" else dump(resolved)
