"""Records made for tests: tasks and finished rollouts of given outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.prefixes import Trajectory
from mimo.rollouts.signal import SampledGroup
from mimo.rollouts.token_log import NOT_SAMPLED, Payload
from mimo.types import (
    Context,
    Environment,
    Flag,
    Grades,
    HackFinding,
    HackVerdict,
    Limits,
    Role,
    Rollout,
    RolloutStatus,
    Routing,
    Source,
    Task,
    Turn,
    Verdict,
    Verifier,
)

LIMITS = Limits(
    wall_s=60, turn_s=30, command_s=10, memory_mb=256, processes=32, disk_mb=64, output_bytes=4096
)


def made_task(name: str = "task") -> Task:
    """A task record that no box stands behind."""
    return Task(
        task_id=name,
        domain="coding",
        family="clamp",
        split="train",
        source=Source(kind="generated", name="clamp", version="1", sha256="0", license="Apache-2.0"),
        instruction="repair it",
        environment=Environment(image="i", snapshot="s", workdir="/repo", env={}, limits=LIMITS),
        verifier=Verifier(
            kind="tests", fail_to_pass=("t",), pass_to_pass=(), protected=(), command="", timeout_s=10
        ),
        private=name,
    )


def made_rollout(
    number: int,
    passed: bool | None,
    *,
    group: str = "g",
    tokens: int = 4,
    leak: bool = False,
    quality: float | None = None,
    scores: tuple[float, float] | None = None,
    flag: tuple[int, int] | None = None,
    prompt: int = 3,
) -> Finished:
    """A rollout of `prompt` given and `tokens` sampled tokens; `passed` None = infrastructure failure.

    `flag` is a span counted in sampled tokens.
    """
    total = prompt + tokens
    mask = np.arange(total) >= prompt
    flags = () if flag is None else (Flag(rule="malformed", span=(prompt + flag[0], prompt + flag[1])),)
    turns = (
        Turn(role="user", text="p", span=(0, prompt)),
        Turn(role="assistant", text="a", span=(prompt, total), weight_version=1, flags=flags),
    )
    grades = None
    if quality is not None:
        grades = Grades(quality=quality, grader="test")
    if scores is not None:
        grades = Grades(solution=scores[0], behavior=scores[1], grader="test")
    rollout = Rollout(
        rollout_id=f"{group}.{number}",
        group_id=group,
        task_id="task",
        domain="coding",
        harness="edit-lines",
        policy="p",
        step=1,
        seed=number,
        status=RolloutStatus.ERROR if passed is None else RolloutStatus.DONE,
        contexts=(Context(context_id="0", parent=None, turns=turns),),
        verdict=None if passed is None else Verdict(passed=passed, tampered=False),
        reward=None if passed is None else float(passed),
        grades=grades,
        hack=HackFinding(verdict=HackVerdict.CONFIRMED, routes=("A01",)) if leak else None,
        generated_tokens=tokens,
    )
    payload = Payload(
        token_ids=np.arange(total, dtype=np.int32),
        loss_mask=mask,
        sampler_logprobs=np.where(mask, -0.5, 0.0).astype(np.float32),
        weight_version=np.where(mask, 1, NOT_SAMPLED).astype(np.int32),
    )
    return Finished(rollout=rollout, payload=payload, changes=None)


def made_group(rollouts: Sequence[Finished], method: Routing = "plain", group: str = "g") -> SampledGroup:
    """A group of made rollouts."""
    plan = GroupPlan(group_id=group, task=made_task(), harness="edit-lines", step=1, size=len(rollouts))
    return SampledGroup(plan=plan, finished=tuple(rollouts), method=method)


def made_trajectory(*, turns: int, name: str = "r", prompt: int = 3, tokens: int = 4) -> Trajectory:
    """A trajectory of `turns` sampled turns of `tokens` tokens, with two given tokens between them."""
    ids: list[int] = []
    mask: list[bool] = []
    rows: list[Turn] = []

    def say(role: Role, count: int) -> None:
        start = len(ids)
        ids.extend(range(start, start + count))
        mask.extend([role == "assistant"] * count)
        rows.append(Turn(role=role, text=role, span=(start, start + count)))

    say("user", prompt)
    for number in range(turns):
        if number:
            say("tool", 2)
        say("assistant", tokens)
    sampled = np.array(mask)
    rollout = replace(
        made_rollout(0, True).rollout,
        rollout_id=name,
        contexts=(Context(context_id="0", parent=None, turns=tuple(rows)),),
        num_turns=turns,
    )
    payload = Payload(
        token_ids=np.array(ids, dtype=np.int32),
        loss_mask=sampled,
        sampler_logprobs=np.where(sampled, -0.5, 0.0).astype(np.float32),
        weight_version=np.where(sampled, 1, NOT_SAMPLED).astype(np.int32),
    )
    return Trajectory(rollout=rollout, payload=payload)
