"""The answer in words: how much longer, which part, which layers, and what was changed; and warnings about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.comparison.inputs import LAYERS
from syncline.comparison.pairs import merge_equal_layers
from syncline.quantity import counted, digits, listed, money, percent, time
from syncline.report import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.comparison.comparison import Comparison
    from syncline.comparison.inputs import Change
    from syncline.comparison.pairs import LayerPair, Pair

ALIKE = 1e-9
"""Steps that differ by a smaller fraction count as equally long."""

_NEARLY_ALL = 0.9
_MAJORITY = 0.5
_NAMED = 3
"""Maximum number of layers, and of changes of the inputs, that are named."""


def sentences(found: Comparison) -> Iterator[str]:
    """Explains in a few sentences how the two runs differ, and why."""
    step = found.step
    if found.identical:
        yield f"A and B are the same in every number: {_it(found)} takes {time(step.a_s)}."
        yield _inputs(found, made="made no difference")
        return
    if not _differ(step):
        yield f"A and B are equally fast: {_it(found)} takes {time(step.a_s)} in both."
        yield _inputs(found, made="changed other numbers")
        return
    stopped = [letter for letter, each in zip("AB", (found.a, found.b), strict=True) if not each.summary.iterations]
    if stopped:
        when = listed([f"{letter} after {time(step.a_s if letter == 'A' else step.b_s)}" for letter in stopped])
        yield f"It is not known which of them is faster. Stopped before a step was complete: {when}."
        yield _inputs(found)
        return
    yield _lead(found)
    yield from _per_work(found)
    yield from _because(found)
    yield from _cost(found)
    yield _inputs(found)


def _differ(pair: Pair) -> bool:
    return abs(pair.difference_s) > ALIKE * max(pair.a_s, pair.b_s)


def _it(found: Comparison) -> str:
    return "a step" if found.a.summary.compute_s or found.b.summary.compute_s else "the communication"


def _lead(found: Comparison) -> str:
    step = found.step
    fast, slow = min(step.a_s, step.b_s), max(step.a_s, step.b_s)
    word = "faster" if step.difference_s < 0 else "slower"
    times = f"{slow / fast:.3g}x {word}" if fast and slow / fast >= 1.1 else f"{percent(1 - fast / slow)} {word}"
    if not fast:
        times = word
    return f"B is {times}: {_it(found)} takes {time(step.b_s)} instead of {time(step.a_s)}."


def _per_work(found: Comparison) -> Iterator[str]:
    """Compares the time per sample or token, if the steps do different amounts of work."""
    if not found.per_work or not _other_work(found):
        return
    pair = found.per_work[-1]
    if not _differ(pair):
        yield f"For {pair.name}, they take the same time."
        return
    fast, slow = min(pair.a_s, pair.b_s), max(pair.a_s, pair.b_s)
    word = "faster" if pair.difference_s < 0 else "slower"
    much = f"{slow / fast:.3g}x" if slow / fast >= 1.1 else percent(1 - fast / slow)
    yield f"For {pair.name}, B is {much} {word}: {time(pair.b_s)} instead of {time(pair.a_s)}."


def _other_work(found: Comparison) -> str:
    """How the work of a step differs, in words; empty if it is the same, or unknown."""
    said = []
    for key, what in (("samples_per_step", "sample"), ("tokens_per_step", "token")):
        a, b = (getattr(each.summary, key, None) for each in (found.a, found.b))
        if a is not None and b is not None and a != b:
            said.append(f"{counted(a, what)} in A and {b} in B")
    return " and ".join(said)


def _because(found: Comparison) -> Iterator[str]:
    """Names the part of the step that differs most, and the layers that contribute most to that."""
    step = found.step
    if len(found.parts) == 1 or _it(found) != "a step":
        yield from _longest(found)
        return
    part = max(found.parts[1:], key=lambda each: each.difference_s * step.difference_s)
    share = part.difference_s / step.difference_s
    moved = f"which {'rose' if part.difference_s > 0 else 'fell'} from {time(part.a_s)} to {time(part.b_s)}"
    more = ""
    if share > 1.1:
        other = min(found.parts[1:], key=lambda each: each.difference_s * step.difference_s)
        sign = "more" if other.difference_s > 0 else "less"
        much = "The reason is"
        more = f"; {time(abs(other.difference_s))} {sign} {other.name} makes up for some of that"
    elif share >= _NEARLY_ALL:
        much = "All of that is" if share > 0.9995 else "Nearly all of that is"
    elif share >= _MAJORITY:
        much = f"Most of that ({percent(share)}) is"
    else:
        much = f"The largest part of that ({percent(share)}) is"
    yield f"{much} {part.name}, {moved}{_of_layers(found, part)}{more}."


def _cost(found: Comparison) -> Iterator[str]:
    """Compares the cost of the networks, and training performance per dollar."""
    of_key = {each.key: each for each in found.cost_and_performance}
    cost, performance = of_key.get("cost_usd"), of_key.get("iterations_per_s_per_usd")
    if cost is None or cost.a is None or cost.b is None or cost.ratio is None:
        return
    if abs(cost.ratio - 1) <= ALIKE:
        said = f"Both networks cost {money(cost.a)}"
    else:
        said = f"B's network costs {money(cost.b)} instead of {money(cost.a)} ({digits(cost.ratio)}x)"
    if performance is None or performance.ratio is None:
        yield f"{said}."
    elif abs(performance.ratio - 1) <= ALIKE:
        yield f"{said}; a dollar buys as much training in both."
    else:
        yield f"{said}; a dollar buys {digits(performance.ratio)}x the training in B."


def _of_layers(found: Comparison, part: Pair) -> str:
    """Names the layers that contribute most to the difference of a part."""
    if part.name not in ("compute", "exposed communication"):
        return ""

    def of(layer: LayerPair) -> float:
        pair = layer.compute if part.name == "compute" else layer.exposed
        return pair.difference_s / part.difference_s

    groups = merge_equal_layers(found.layers, found.step.difference_s)
    order = sorted((each for each in groups if of(each) > 0), key=lambda each: -of(each))
    named = order[:_NAMED]
    share = sum(map(of, named))
    if not named or len(found.layers) == 1:
        return ""
    names = listed([each.name for each in named])
    if share >= _NEARLY_ALL:
        return f", {'all' if share > 0.9995 else 'nearly all'} of it for {names}"
    if share >= _MAJORITY:
        return f", {percent(share)} of it for {names}"
    count = sum(each.count for each in order)
    return (
        f", spread over {counted(count, 'layer')}; the largest share, {percent(of(named[0]))}, is for {named[0].name}"
    )


def _longest(found: Comparison) -> Iterator[str]:
    """For jobs of communication alone: names the collective and the phase that differ most."""
    if found.collectives and not found.collectives[0].only:
        first = found.collectives[0]
        if len(found.collectives) > 1 and _differ(first.duration):
            yield f"{first.name} differs most: {time(first.duration.b_s)} instead of {time(first.duration.a_s)}."
    phase = next((each for each in found.phases if not each.only), None)
    if phase is None:
        return
    pair, what = max(
        (
            (phase.queue, "a chunk queues for"),
            (phase.network, "a message takes"),
            (phase.reduction, "a reduction takes"),
        ),
        key=lambda each: abs(each[0].difference_s),
    )
    if _differ(pair):
        yield f"Delays differ most in {phase.name}: {what} {time(pair.b_s)} instead of {time(pair.a_s)}."


def _inputs(found: Comparison, made: str = "") -> str:
    """Says what was changed in the inputs."""
    if found.changes is None:
        return "It is not known whether the inputs differ: one of the runs has no scenario."
    deciding = [each for each in found.changes if each.decides]
    if not deciding:
        versions = f"; A was simulated by version {found.a.version}, B by {found.b.version}"
        but = f", except for {listed([each.key for each in found.changes])}" if found.changes else ""
        return f"The inputs are the same{but}{versions if found.a.version != found.b.version else ''}."
    # Models are expanded into layers, so changing only the batch changes most keys of layers.
    layers = [each for each in deciding if each.key.startswith(LAYERS)]
    others = [each for each in deciding if not each.key.startswith(LAYERS)]
    named = [f"{each.key} ({change(each)})" for each in others]
    if len(layers) > 1:
        named.append(f"{counted(len(layers), 'key')} of {LAYERS.rstrip('.')}")
    else:
        named += [f"{each.key} ({change(each)})" for each in layers]
    if len(named) > _NAMED:
        keys = listed([each.key for each in others[:_NAMED]])
        what = f"The inputs differ in {counted(len(deciding), 'key')}, including {keys}"
    else:
        what = f"The inputs differ in {listed(named)}"
    return f"{what}; that {made}." if made else f"{what}."


def change(each: Change) -> str:
    """A change in words: ``25GB/s -> 50GB/s``, or the factor if several entries differ by the same factor."""
    what = f"{each.a} -> {each.b}"
    if not each.uniform:
        what = f"times {each.factor:g}" if each.factor else f"{what} and so on"
    where = f" in {listed(each.entries)}" if 0 < len(each.entries) <= _NAMED else ""
    return f"{what}{where}"


def warnings(found: Comparison) -> Iterator[str]:
    """Reasons to be careful when comparing the two runs."""
    a, b = found.a.summary, found.b.summary
    for label, each in (("A", a), ("B", b)):
        if each.ended != "finished":
            text = subject.ENDED[each.ended]
            yield f"{label} was cut short. {text}{'' if each.iterations else f' {subject.NO_STEP}'}"
        if each.overload:
            yield f"The times of {label} are too short. {subject.overload(each)}"
    if a.ranks != b.ranks:
        yield f"A has {counted(a.ranks, 'rank')} and B {b.ranks}: their steps do different amounts of work."
    if bool(a.compute_s) != bool(b.compute_s):
        yield "One of the two is a job of communication alone, without compute that could wait."
    elif work := _other_work(found):
        per = f"; for the same work, compare the times for {found.per_work[-1].name}" if found.per_work else ""
        yield f"A step does different work: {work}{per}."
    elif _other_job(found):
        yield "The jobs differ: the compared steps do not do the same work."
    if a.network_model != b.network_model:
        yield (
            f"The network models differ, {a.network_model} and {b.network_model}: part of the difference comes from the"
            " models and not from the cluster."
        )
    if a.iterations != b.iterations and min(a.iterations, b.iterations) > 0:
        yield (
            f"A is a mean of {counted(a.iterations, 'iteration')} and B of {b.iterations}: the last iteration of a run"
            " has no next one to hide its communication behind."
        )
    if found.a.version != found.b.version:
        yield f"A was simulated by version {found.a.version} of syncline, B by version {found.b.version}."


def _other_job(found: Comparison) -> bool:
    models = [(each.scenario or {}).get("workload", {}).get("model") for each in (found.a, found.b)]
    return models[0] != models[1] or (bool(found.layers) and all(each.only for each in found.layers))
