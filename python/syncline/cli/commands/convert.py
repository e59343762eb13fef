"""``syncline convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.cli.commands.options import refuse
from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.node import Mark, Text
from syncline.input.problem import cannot_write, error, exists_already, raise_errors
from syncline.terminal.streams import print_diagnostics, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.clusters.printed import Printed

_SCENARIOS = (".yaml", ".yml", ".json")
_KNOWN = (
    "scenario.yaml -> resolved .yaml or .json, or Chakra traces .et; ASTRA-sim 1 .txt -> Chakra traces .et; "
    "SimAI's workload .txt -> scenario .yaml or .json; SimAI's topology -> fabric .yaml or .json; "
    "table.parquet of a run's folder -> .csv or .json; "
    "MSCCL .xml -> plan .json; plan .json -> MSCCL .xml; "
    "what a cluster prints (nvidia-smi topo -m, NCCL's topology .xml, ibnetdiscover, Slurm's topology.conf or "
    "topology.yaml) -> fabric .yaml or .json"
)


def convert(
    source: str,
    target: str,
    dims: str | None = None,
    iterations: int | None = None,
    given: Mapping[str, str] | None = None,
    *,
    fabric: str | None = None,
    force: bool = False,
) -> int:
    """Converts ``source`` to the format of ``target``'s ending. Replaces an existing file only with ``force``.

    ``given`` are options that add to what a cluster printed, by their flags; ``fabric`` is the file that the scenario
    of a workload of SimAI names.
    """
    path, ending = Path(source), Path(target).suffix.lower()
    if ending == ".et" and (path.suffix.lower() in (*_SCENARIOS, ".txt") or path.is_dir()):
        return _traces(source, target, dims, iterations, force=force)
    if dims is not None or iterations is not None:
        option = "--dims" if dims is not None else "--iterations"
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"{option} applies only to converting ASTRA-sim 1 text workloads into traces",
                help="leave it out",
            )
        )
    printed = _printed(path) if ending in _SCENARIOS else None
    if given and printed is None:
        _refuse_unprinted(path)
        options = dict.fromkeys(given, True)
        refuse(options, "applies only to what a cluster prints", "leave it out")
    simai = _simai(path) if ending in _SCENARIOS else None
    if fabric is not None and simai is None:
        raise_errors(
            error(Code.BAD_VALUE, "--fabric applies only to converting a workload of SimAI", help="leave it out")
        )
    notes: Sequence[str] = ()
    if simai is not None:
        text, notes = _job(simai, ending, fabric)
    elif path.suffix.lower() == ".parquet" and ending in (".csv", ".json"):
        text = _table(path, ending)
    elif printed is not None:
        text, notes = _fabric(printed, ending, given or {})
    elif (path.suffix.lower() in _SCENARIOS or path.is_dir()) and ending in _SCENARIOS:
        text = _scenario(source, ending, Path(target).parent)
    elif (path.suffix.lower(), ending) == (".xml", ".json"):
        plan, found = _core.msccl_to_plan(path)
        print_diagnostics(json.loads(found))
        text = plan + "\n"
    elif (path.suffix.lower(), ending) == (".json", ".xml"):
        text = _core.plan_to_msccl(path)
    else:
        kind = "a folder" if path.is_dir() else path.suffix or "a file without an ending"
        raise_errors(
            error(
                Code.BAD_VALUE,
                "no such conversion",
                mark=Mark(Text(source, ()), 0, 0, 0),
                found=f"{kind} -> {ending or 'a file without an ending'}",
                allowed=_KNOWN,
            )
        )
    _spare(source, Path(target), force=force)
    try:
        write_whole(target, text)
    except OSError as problem:
        raise_errors(cannot_write(target, problem))
    for note in notes:
        say(note)
    say(f"Wrote {target}")
    return 0


def _printed(path: Path) -> Printed | None:
    """What a cluster printed; None if the file is something else."""
    ending = path.suffix.lower()
    if path.is_dir() or ending in (".json", ".parquet"):
        return None
    from syncline.clusters import recognise

    return recognise(path.as_posix(), yaml=ending in _SCENARIOS)


def _refuse_unprinted(path: Path) -> None:
    """Refuses a text that nothing printed by its contents, though options add to what clusters print.

    :raises SynclineError: it is no scenario, table or folder by its name.
    """
    if path.is_dir() or path.suffix.lower() in (*_SCENARIOS, ".parquet"):
        return
    from syncline.clusters.conversion import KINDS

    said = path.read_bytes()[:200].strip()
    raise_errors(
        error(
            Code.BAD_SYNTAX,
            "not what a tool of a cluster prints" if said else "the file is empty",
            mark=Mark(Text(path.as_posix(), ()), 0, 0, 0),
            allowed=", ".join(each.name for each in KINDS.values()),
            help="save all that the tool prints",
        )
    )


def _fabric(printed: Printed, ending: str, options: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """The text of the fabric of a cluster from what it printed, and notes about it."""
    from syncline.clusters import Given
    from syncline.clusters import convert as call

    made = call(printed, Given(dict(options)), as_json=ending == ".json")
    return made.text, made.notes


def _simai(path: Path) -> Printed | None:
    """A workload of SimAI; None if the file is something else."""
    if path.is_dir() or path.suffix.lower() in (*_SCENARIOS, ".parquet", ".xml"):
        return None
    from syncline.simai import recognise

    return recognise(path.as_posix())


def _job(printed: Printed, ending: str, fabric: str | None) -> tuple[str, Sequence[str]]:
    """The text of the scenario of a workload of SimAI, and notes about it."""
    from syncline.input.dump import dump
    from syncline.simai import convert as call

    made = call(printed)
    if fabric is None:
        raise_errors(
            error(
                Code.MISSING_KEY,
                "missing option --fabric: a workload does not say on which network it runs",
                help="add --fabric FILE, a fabric as `syncline convert TOPOLOGY FILE` writes it",
            )
        )
    scenario = {**made.scenario, "fabric": {"file": fabric}}
    return json.dumps(scenario, indent=1) + "\n" if ending == ".json" else dump(scenario), made.notes


def _spare(source: str, target: Path, *, force: bool) -> None:
    """Refuses to overwrite the source, and any other existing file unless ``force``."""
    if not target.exists():
        return
    if target.samefile(source):
        place = Mark(Text(target.as_posix(), ()), 0, 0, 0)
        raise_errors(error(Code.BAD_VALUE, "OUT is the same file as IN", mark=place, help="choose another name"))
    if not force:
        raise_errors(exists_already(target))


def _traces(source: str, target: str, dims: str | None, iterations: int | None, *, force: bool) -> int:
    """Writes a trace for each rank, to PREFIX.RANK.et where PREFIX is ``target`` without its ending."""
    prefix = Path(target).with_suffix("")
    if not prefix.parent.is_dir():
        raise_errors(cannot_write(target, f"there is no folder {prefix.parent.as_posix()}"))
    _spare(source, Path(f"{prefix}.0.et"), force=force)
    if Path(source).suffix.lower() == ".txt":
        sizes = _sizes(dims)
        files, found = _core.to_chakra(source, prefix, sizes, 1 if iterations is None else iterations)
    else:
        if dims is not None or iterations is not None:
            option = "--dims" if dims is not None else "--iterations"
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    f"{option} does not apply to a scenario, which already defines it",
                    help="leave it out",
                )
            )
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            resolved = Path(folder) / "scenario.json"
            resolved.write_text(_scenario(source, ".json"), "utf-8")
            files, found = _core.to_chakra(resolved, prefix)
    print_diagnostics(json.loads(found))
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    say(f"Wrote {files[0]}{more}")
    return 0


def _sizes(dims: str | None) -> list[int]:
    """Parses the value of ``--dims``, such as 2x4x4."""
    parts = [] if dims is None else dims.lower().split("x")
    if not parts or not all(part.isdecimal() and 0 < int(part) < 2**31 for part in parts):
        raise_errors(
            error(
                Code.BAD_VALUE if dims else Code.MISSING_KEY,
                "not a valid value of --dims: sizes of the dimensions, lowest first"
                if dims
                else "missing option --dims: sizes of the dimensions, lowest first",
                found=dims,
                help="write --dims 2x4x4",
            )
        )
    return [int(part) for part in parts]


def _table(path: Path, ending: str) -> str:
    if ending == ".csv":
        return _core.table_csv(path.parent, path.stem)
    columns = _core.read_table(path.parent, path.stem)
    return json.dumps({name: values for name, _, values in columns}) + "\n"


def _scenario(source: str, ending: str, folder: Path | None = None) -> str:
    """The text of the resolved scenario, with paths relative to ``folder``."""
    from syncline.config.files import moved
    from syncline.config.load import load
    from syncline.input.dump import dump

    resolved = moved(load(source).resolved, "", folder or "")
    return json.dumps(resolved, indent=1) + "\n" if ending == ".json" else dump(resolved)
