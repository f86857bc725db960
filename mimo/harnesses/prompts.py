"""What a policy is told before the task, by name: the goal of its domain, the actions as the format says."""

from __future__ import annotations

from collections.abc import Mapping

from mimo.types import Domain

GOALS: Mapping[Domain, str] = {
    "coding": "Repair code.",
    "agent": "Do the task in the folder /work. Change nothing else.",
    "cyber": "Solve the security task in the folder /work.",
    "visual": "Do the task in the folder /work.",
}

PROMPTS: Mapping[str, str] = {
    "terse": "{goal} One action a turn:\n{actions}",
    "guided": (
        "{goal}\nLook before you change something, and look again before you submit. "
        "Write exactly one action a turn, then wait for what it gives back:\n{actions}"
    ),
    "plan": (
        "{goal}\nEach turn: one line that says what you do next and why, then one action.\n"
        "Actions:\n{actions}\nSubmit when the task is done."
    ),
}


def system_text(prompt: str, domain: Domain, actions: str) -> str:
    """The system message."""
    return PROMPTS[prompt].format(goal=GOALS[domain], actions=actions)
