"""What verifier, graders and the hack audit said of a rollout, as feedback on its trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mimo.tracking.names import cut

if TYPE_CHECKING:
    from mlflow.entities import Assessment

_RATIONALE = 2_000


def feedback(rollout: Mapping[str, Any]) -> list[Assessment]:
    """One entry per thing that was said; what was not judged has none (None never becomes a number)."""
    from mlflow.entities import AssessmentSource, Feedback

    return [
        Feedback(
            name=name, value=value, rationale=cut(why, _RATIONALE) or None, source=AssessmentSource(kind, who)
        )
        for name, value, why, kind, who in _said(rollout)
        if value is not None
    ]


def _said(rollout: Mapping[str, Any]) -> Iterator[tuple[str, Any, str, str, str]]:
    verdict = rollout.get("verdict") or {}
    yield "passed", verdict.get("passed"), str(verdict.get("detail") or ""), "CODE", "verifier"
    if verdict.get("tampered"):
        yield "tampered", True, str(verdict.get("detail") or ""), "CODE", "verifier"
    grades = rollout.get("grades") or {}
    grader = str(grades.get("grader") or "grader")
    kind = "LLM_JUDGE" if "llm" in grader.lower() else "CODE"
    for name in ("solution", "behavior", "quality", "tier"):
        yield name, grades.get(name), "\n".join(map(str, grades.get("evidence") or [])), kind, grader
    hack = rollout.get("hack") or {}
    why = "\n".join([*map(str, hack.get("routes") or []), *map(str, hack.get("evidence") or [])])
    yield "hack", hack.get("verdict"), why, "CODE", "hack audit"
    yield "reward", rollout.get("reward"), "", "CODE", "reward"
    yield "advantage", rollout.get("advantage"), "", "CODE", "advantage"
