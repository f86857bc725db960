"""Measurable facts of a finished rollout: what its patch does, and how the policy went about it.

Pure functions of records. Everything a policy wrote (paths, code, turns) is data here: parsed under limits,
never run, never used as a path, quoted only in cut form.
"""

from __future__ import annotations

from mimo.graders.behavior import BehaviorFacts, behavior_facts
from mimo.graders.ground import Ground
from mimo.graders.patch import PatchFacts, patch_facts
from mimo.types import Rollout, record
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
    verdict = rollout.verdict
    kept = Changes(files=(), capped=False) if changes is None else changes
    refused = {} if verdict is None else verdict.detail.get("refused")
    patch = patch_facts(kept, ground, refused if isinstance(refused, dict) else {})
    return Facts(
        rollout_id=rollout.rollout_id,
        passed=verdict is not None and verdict.passed and not verdict.tampered,
        patch=patch,
        behavior=behavior_facts(rollout, ground),
    )
