"""Which commands a shell script runs, without running any.

Variables, arrays, defaults, arithmetic, conditions on known values and sourced files are followed, as bash follows
them. What only the machine knows (files, dates, other programs) is unknown, and so is what depends on it.
Source of the rules: the Bash Reference Manual, sections 3.5 (expansions) and 6.4 (conditions).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.extras import install
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.jobs.launch.commands import Script, batch_options
from syncline.jobs.launch.statements import ExitError, Statements
from syncline.jobs.launch.values import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Parser


def read_script(path: str, environment: Mapping[str, str]) -> Script:
    """Follows the script of a path with these environment variables.

    :raises SynclineError: the file cannot be read, is no shell script, or the parser is not installed.
    """
    found = Script()
    reader = Statements(_parser(), found)
    text = read_file(path)
    batch_options(path, text, found)
    given = dict(environment)
    for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
        if "nodes" in found.batch:
            given.setdefault(name, found.batch["nodes"].text)
    for name, value in given.items():
        option = f"{name}={value}"
        reader.values.variables[name] = [(Part(value, Mark(Text("--env", [option]), 1, len(name) + 2, len(value))),)]
    with suppress(ExitError):
        reader.file(path, text)
    return found


def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise_errors(
            error(
                Code.MISSING_PACKAGE,
                "shell scripts are read with packages that are not installed: tree-sitter, tree-sitter-bash",
                help=f"{install('scripts')}, or give the arguments themselves after `--`",
            )
        )
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
