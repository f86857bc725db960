"""`mimo plan` as text: the plan, a table of needs, what does not fit, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from commands.render import clean, duration, number, plan_table, size, table
from mimo.pipeline.estimate import Estimate, StageEstimate
from mimo.pipeline.forecast import Forecast

DAY_S = 86400.0


def plan_view(found: Forecast) -> RenderableType:
    """What would run, what it needs, what is in the way, and what all that rests on."""
    parts: list[RenderableType] = [Text(clean(line)) for line in _head(found)]
    parts += [Text(""), plan_table(found.plan), Text(""), _needs(found), Text("")]
    parts += [Text(clean(line)) for line in _totals(found)]
    for title, lines in (
        ("in the way", list(_stops(found))),
        ("worth knowing", list(_notes(found.estimate))),
    ):
        if lines:
            parts.append(Text(f"\n{title}", style="bold red" if title == "in the way" else "bold"))
            parts += [Text(f"  {clean(line)}") for line in lines]
    rows = [(item.name, number(item.value), item.unit, item.source) for item in found.estimate.assumptions]
    parts += [Text("\nassumptions", style="bold"), table(("", "value", "unit", "from"), rows)]
    return Group(*parts)


def _head(found: Forecast) -> Iterator[str]:
    project, facts, hardware = found.project, found.estimate.policy, found.estimate.hardware
    why = f" ({project.why})" if project.why else ""
    yield f"{project.resolved.path.name}, profile {project.profile or 'none'}{why}"
    if facts is None:
        yield f"policy {project.recipe.policy.source}: sizes unknown"
    else:
        active = f", {_count(facts.active)} active" if facts.sparse else ""
        yield f"policy {facts.source}: {_count(facts.parameters)} parameters{active} ({facts.known_from})"
    if hardware.card is None:
        memory = f", {hardware.memory_gib:.0f} GiB" if hardware.memory_gib else ""
        yield f"on {hardware.cores} CPU cores{memory}"
    else:
        how = "taking turns" if hardware.shared else "side by side"
        yield (
            f"on {hardware.gpus} x {hardware.card.name} ({hardware.chosen}): "
            f"sampler {hardware.sampler_gpus}, trainer {hardware.trainer_gpus}, {how}; "
            f"{hardware.usd_gpu_hour:g} USD a GPU hour"
        )
    mean = found.estimate.size
    yield (
        f"a mean rollout: {mean.tokens:,.0f} tokens in {mean.turns:.3g} turns, {mean.generated:,.0f} of them "
        "written by the policy"
    )


def _needs(found: Forecast) -> RenderableType:
    columns = (
        "stage",
        "rollouts",
        "sampled",
        "trained",
        "trainer",
        "sampler",
        "GPUs",
        "disk",
        "time",
        "cost",
    )
    return table(columns, [(name, *_cells(stage)) for name, stage in found.estimate.stages.items()])


def _cells(stage: StageEstimate) -> tuple[str, ...]:
    counts = stage.work
    return (
        _count(counts.rollouts + counts.untrained_rollouts),
        _count(counts.generated + counts.untrained_generated),
        _count(counts.computed),
        "" if stage.trainer is None else f"{stage.trainer.total:,.1f} GiB",
        "" if stage.sampler is None else f"{stage.sampler.total:,.1f} GiB",
        str(stage.gpus) if stage.gpus else "",
        size(stage.disk_bytes),
        "?" if stage.seconds is None else _time(stage.seconds),
        "" if not stage.usd else f"{stage.usd:,.0f} USD",
    )


def _totals(found: Forecast) -> Iterator[str]:
    made = found.estimate
    whole = dict.fromkeys(made.stages, 1.0)
    seconds, left = made.seconds(whole), made.seconds(found.shares)
    price, left_price = made.usd(whole), made.usd(found.shares)
    if seconds is not None and left is not None:
        cost = "" if price is None else f", {price:,.0f} USD"
        left_cost = "" if left_price is None else f", {left_price:,.0f} USD"
        yield f"whole recipe: {_time(seconds)}{cost}; still to do: {_time(left)}{left_cost}"
    yield f"disk at most: {size(made.disk_peak_bytes)} at {found.project.home.root}"
    for name, stage in made.stages.items():
        if stage.teachers is not None and stage.teachers.gpus:
            one = stage.teachers
            where = "1 GPU" if one.gpus == 1 else f"{one.gpus} GPUs"
            yield (
                f"{name}: teachers are read on {where}: {one.reading:,.1f} GiB of each, beside "
                f"{one.beside:,.1f} of trainer and sleeping sampler"
            )
    yield "memory is that of one GPU (without GPUs: of the process), tokens and time are of the whole stage"


def _stops(found: Forecast) -> Iterator[str]:
    yield from found.lacks
    for item in found.estimate.problems:
        if item.stops:
            yield f"{item.what} -> {item.change}"


def _notes(made: Estimate) -> Iterator[str]:
    for item in made.problems:
        if not item.stops:
            yield f"{item.what} -> {item.change}"


def _count(value: float) -> str:
    """`812`, `12.3k`, `4.5M`, `1.02T`; empty for 0."""
    if value < 1000:
        return f"{value:.0f}" if value else ""
    for unit in ("k", "M", "B", "T"):
        value /= 1000
        if value < 999.5 or unit == "T":
            return f"{value:.3g}{unit}"
    raise AssertionError


def _time(seconds: float) -> str:
    return duration(seconds) if seconds < 2 * DAY_S else f"{seconds / DAY_S:,.1f} days"
