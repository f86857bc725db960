"""What the audit's report says, gathered from the stages' outputs (structure: `mimo.stages.report`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from mimo.records import to_json
from mimo.run_dir import manifest as manifests
from mimo.run_dir.files import read_lines
from mimo.stages.audit_bench import bench_groups
from mimo.stages.audit_figures import Conclusion
from mimo.stages.audit_tables import conclusion_data, conclusion_tables
from mimo.stages.base import StageContext
from mimo.types import Json, Rollout

_TIME_PARTS = (
    ("rollouts", "time/rollout_s"),
    ("grading", "time/grade_s"),
    ("teachers' scores", "time/teacher_s"),
    ("training", "time/train_s"),
    ("export", "time/export_s"),
    ("weight update", "time/update_s"),
    ("canary", "time/canary_s"),
)
_CURVES = (
    ("rl-mixed", "rollouts/pass_rate_all", "pass rate of sampled rollouts", "share"),
    ("rl-mixed", "groups/accepted", "accepted groups", "groups"),
    ("rl-mixed", "train/grad_norm", "gradient norm", ""),
    ("rl-mixed", "canary/mean", "canary: mean |logprob difference|", "nats"),
    ("cold-start", "train/loss", "cold-start loss", "nats a token"),
    ("cold-start", "eval/pass_rate", "cold-start pass rate", "share"),
)


def audit_report(
    ctx: StageContext, conclusion: Conclusion, rates: Mapping[str, Json], *, sample: Sequence[Rollout]
) -> dict[str, Json]:
    """The report's data.

    Args:
        conclusion: hacks, gate, quality, corrections.
        rates: policy name -> {split, family, maybe domain} -> label -> rate, in the policies' order.
        sample: rollouts to show as transcripts.
    """
    metrics = {stage: _metrics(folder) for stage, folder in ctx.inputs.items()}
    recipe = ctx.recipe
    return {
        "title": f"mimo audit: {recipe.name}",
        "facts": {"recipe": recipe.name, "variant": recipe.variant, "policy": recipe.policy.source},
        "gate": {"verdict": conclusion.gate.verdict, "message": conclusion.gate.message},
        "confidence": recipe.audit.confidence,
        "policies": [_policy(name, cast("dict[str, dict[str, Json]]", row)) for name, row in rates.items()],
        "time": _time(metrics.values()),
        "stages": _stages(ctx.inputs),
        "curves": _curves(metrics),
        "counts": [*_counts(ctx.inputs), *_rows("audit", ctx.counts)],
        "tables": [*conclusion_tables(conclusion), *_training_shares(metrics), *domain_tables(rates)],
        **conclusion_data(conclusion),
        "bench": bench_groups(ctx.inputs.get("rl-mixed"), recipe),
        "rollouts": [{"note": _note(item), "rollout": cast(Json, to_json(item))} for item in sample],
        "artifacts": [
            {"name": f"output of {stage}", "path": str(path)} for stage, path in ctx.inputs.items()
        ],
    }


def _policy(name: str, row: Mapping[str, Mapping[str, Json]]) -> Json:
    families: dict[str, Json] = {}
    for label, rate in row["family"].items():
        split, _, family = label.partition("/")
        families[family if family not in families else label] = {
            "split": split,
            **cast("dict[str, Json]", _rate(rate)),
        }
    found: dict[str, Json] = {"name": name, "families": families}
    if "domain" in row:
        found["domains"] = {label: _rate(rate) for label, rate in row["domain"].items()}
    return found | {split: _rate(rate) for split, rate in row["split"].items()}


def _rate(rate: Json) -> Json:
    facts = cast("dict[str, float]", rate)
    return {
        "rate": facts["mean"],
        "low": facts["low"],
        "high": facts["high"],
        "rollouts": int(facts["rollouts"]),
        "tasks": int(facts["tasks"]),
    }


def domain_tables(rates: Mapping[str, Json]) -> list[Json]:
    """The pass rate of every policy by split and domain, where the task set has several domains."""
    rows = {name: cast("dict[str, dict[str, Json]]", row).get("domain", {}) for name, row in rates.items()}
    labels = sorted({label for row in rows.values() for label in row})
    if not labels:
        return []
    cells: list[Json] = [
        [*label.split("/", 1), *(_cell(row.get(label)) for row in rows.values())] for label in labels
    ]
    note = "Held-out and training tasks of each domain; `context` are the agent's context-following tasks."
    return [
        {"title": "Pass rate by domain", "note": note, "columns": ["split", "domain", *rows], "rows": cells}
    ]


def _cell(rate: Json) -> str:
    if rate is None:
        return "not measured"
    facts = cast("dict[str, float]", rate)
    interval = f"[{facts['low']:.1%}, {facts['high']:.1%}]"
    return f"{facts['mean']:.1%} {interval} of {facts['rollouts']:.0f} rollouts, {facts['tasks']:.0f} tasks"


def _metrics(folder: Path) -> list[dict[str, Json]]:
    path = folder / manifests.ENGINE_FOLDER / "metrics.jsonl"
    return read_lines(path) if path.exists() else []


def _time(metrics: Iterable[Sequence[Mapping[str, Json]]]) -> list[Json]:
    total = _seconds(metrics)
    return [{"name": name, "seconds": total[name]} for name, _ in _TIME_PARTS if total[name] > 0]


def _seconds(metrics: Iterable[Sequence[Mapping[str, Json]]]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for rows in metrics:
        for row in rows:
            values = cast("dict[str, float]", row["metrics"])
            for name, key in _TIME_PARTS:
                total[name] += values.get(key, 0.0)
    return total


def _training_shares(metrics: Mapping[str, Sequence[Mapping[str, Json]]]) -> list[Json]:
    """Each stage's own seconds by part, and their shares: grading is never part of the rollouts' time."""
    rows: list[Json] = []
    for stage, some in metrics.items():
        seconds = _seconds([some])
        total = sum(seconds.values())
        if total > 0:
            shares = [f"{seconds[name]:.1f} s ({seconds[name] / total:.1%})" for name, _ in _TIME_PARTS]
            rows.append([stage, *shares])
    columns: list[Json] = ["stage", *(name for name, _ in _TIME_PARTS)]
    note = "Wall seconds that the stages logged; starting engines and waiting is in none of them."
    return [{"title": "Time by stage", "note": note, "columns": columns, "rows": rows}] if rows else []


def _stages(inputs: Mapping[str, Path]) -> list[Json]:
    found: list[Json] = []
    for stage, folder in inputs.items():
        manifest = manifests.read(folder)
        if manifest is not None:
            found.append({"stage": stage, "seconds": manifest.wall_s, "why": f"made by {manifest.run}"})
    return found


def _curves(metrics: Mapping[str, Sequence[Mapping[str, Json]]]) -> list[Json]:
    found: list[Json] = []
    for stage, key, title, unit in _CURVES:
        points: list[Json] = [
            [row["step"], cast("dict[str, Json]", row["metrics"])[key]]
            for row in metrics.get(stage, ())
            if key in cast("dict[str, Json]", row["metrics"])
        ]
        if points:
            found.append({"title": title, "stage": stage, "unit": unit, "points": points})
    return found


def _counts(inputs: Mapping[str, Path]) -> list[Json]:
    rows: list[Json] = []
    for stage, folder in inputs.items():
        manifest = manifests.read(folder)
        rows += _rows(stage, {} if manifest is None else manifest.counts)
    return rows


def _rows(stage: str, counts: Mapping[str, Json]) -> list[Json]:
    return [{"stage": stage, "what": what, "count": count} for what, count in counts.items()]


def _note(rollout: Rollout) -> str:
    if rollout.error is not None:
        return f"{rollout.status} in {rollout.error.where}"
    return "passes" if rollout.verdict is not None and rollout.verdict.passed else "does not pass"
