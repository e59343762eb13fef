"""``syncline kernels``."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.codes import Code
from syncline.errors import ExitStatus
from syncline.input.problem import cannot_write, error, nearest, raise_errors, require_writable
from syncline.kernels.cases import FAMILIES
from syncline.kernels.measure import MeasureError, Outcome, Request, summarise
from syncline.kernels.measure import measure as run
from syncline.terminal.streams import say


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """Options of ``syncline kernels measure``, as the user gives them."""

    out: str
    device: str
    operations: str
    seconds: float
    quick: bool
    force: bool
    quiet: bool


def measure(options: MeasureOptions) -> int:
    """Measures kernels and writes their table."""
    operations = _operations(options.operations)
    require_writable(options.out, force=options.force)
    request = Request(options.out, options.device, operations, options.seconds, options.quick, options.force)
    outcome = Outcome()
    try:
        run(request, (lambda _: None) if options.quiet else say, outcome)
    except MeasureError as problem:
        if problem.file:
            raise_errors(cannot_write(options.out, str(problem)))
        code = Code.MISSING_PACKAGE if problem.package else Code.BAD_VALUE
        raise_errors(error(code, str(problem), help=problem.help))
    except KeyboardInterrupt:
        # The rows so far are in the file, which the general message would deny.
        say(f"interrupted: {options.out} has the {sum(outcome.rows.values())} rows so far")
        return ExitStatus.INTERRUPTED
    if not options.quiet:
        for sentence in summarise(outcome, options.out):
            say(sentence)
    return ExitStatus.DONE


def _operations(text: str) -> list[str]:
    """Families of operations from a list with commas, in their order."""
    names = [name for each in text.split(",") if (name := each.strip())]
    for name in names or [""]:
        if name not in (*FAMILIES, "all"):
            allowed = ", ".join((*FAMILIES, "all"))
            near = nearest(name, FAMILIES)
            message = "value not allowed for `--operations`"
            raise_errors(error(Code.BAD_VALUE, message, found=name, allowed=allowed, nearest=near))
    return list(FAMILIES) if "all" in names else [name for name in FAMILIES if name in names]
