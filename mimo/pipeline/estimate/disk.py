"""Bytes that a stage's result keeps on disk, and what it needs besides while it runs.

Measured on our own stores: 0.24 MB an environment (snapshot, private files, gates), 16 bytes a token of a
rollout (ids, mask, logprobs, versions, compressed records). A checkpoint holds float32 weights and the
optimiser's two moments (12 bytes a parameter) and a served copy of the weights.
"""

from __future__ import annotations

from mimo.pipeline.estimate.flops import weight_bytes
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.estimate.work import Work

ENVIRONMENT_BYTES = 240_000
TOKEN_BYTES = 16


def kept_bytes(work: Work, facts: PolicyFacts | None, dtype: str) -> float:
    """What the stage's published result takes; without known sizes of the policy only its records."""
    found = work.environments * ENVIRONMENT_BYTES + work.kept_tokens * TOKEN_BYTES
    if facts is not None and work.kept_checkpoints:
        kept = min(work.kept_checkpoints, work.checkpoints)
        found += kept * checkpoint_bytes(facts, dtype)
    return found


def passing_bytes(work: Work, facts: PolicyFacts | None, dtype: str) -> float:
    """What it takes besides while it runs: one more checkpoint before the oldest goes, one published copy."""
    if facts is None or not work.steps:
        return 0.0
    return checkpoint_bytes(facts, dtype) + weight_bytes(facts, dtype)


def checkpoint_bytes(facts: PolicyFacts, dtype: str) -> float:
    """One checkpoint: model/, trainer/."""
    return 12.0 * facts.parameters + weight_bytes(facts, dtype)
