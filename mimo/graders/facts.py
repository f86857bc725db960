"""Measurable facts of a finished rollout: what its patch does, and how the policy went about it.

Pure functions of records. Everything a policy wrote (paths, code, turns) is data here: parsed under limits,
never run, never used as a path, quoted only in cut form.
"""

from __future__ import annotations

from mimo.graders.behavior import BehaviorFacts, behavior_facts
from mimo.graders.ground import Ground
from mimo.graders.patch import PatchFacts, patch_facts
from mimo.types import Json, Rollout, record
from sandbox.base import Changes


@record
class Facts:
    """All that program analysis knows of a rollout; `passed` is the verifier's word."""

    rollout_id: str
    passed: bool
    patch: PatchFacts
    behavior: BehaviorFacts


def facts_of(rollout: Rollout, changes: Changes | None, ground: Ground) -> Facts:
    """The facts of one rollout; one without changes (it failed early) has an empty patch."""
    kept = Changes(files=(), capped=False) if changes is None else changes
    return facts_with(rollout, patch_facts(kept, ground, refused_paths(rollout)), ground)


def refused_paths(rollout: Rollout) -> dict[str, Json]:
    """Path -> why the verifier left it out; empty without a verdict."""
    refused = None if rollout.verdict is None else rollout.verdict.detail.get("refused")
    return refused if isinstance(refused, dict) else {}


def facts_with(rollout: Rollout, patch: PatchFacts, ground: Ground) -> Facts:
    """The facts of a rollout whose patch was analysed before (equal patches are common)."""
    verdict = rollout.verdict
    return Facts(
        rollout_id=rollout.rollout_id,
        passed=verdict is not None and verdict.passed and not verdict.tampered,
        patch=patch,
        behavior=behavior_facts(rollout, ground),
    )
