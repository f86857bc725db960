"""Context management: which old observations a policy goes on without, by name.

keep-all   nothing is dropped; a rollout whose context is full ends.
recent     when the context is more than 60% full, all observations but the newest are replaced by one line.

Dropping starts a new context (the record's `parent` names the old one): what was sampled stays in the old
context with its tokens and logprobs, the new one begins with copied ids and trains on new turns only. It
costs the engine's prefix cache of that context once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PLACEHOLDER = "[dropped]"
"""The text of an observation that was dropped."""


class ContextManager(Protocol):
    """Decides before each turn but the first."""

    def drops(self, observation_tokens: Sequence[int], *, used: int, limit: int) -> int:
        """How many of the oldest observations are (or stay) dropped.

        Args:
            observation_tokens: sizes of all observations so far, as they are in the context now.
            used: tokens of the context; `limit` is all it can hold.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Drops nothing."""

    def drops(self, observation_tokens: Sequence[int], *, used: int, limit: int) -> int:
        """Zero."""
        del observation_tokens, used, limit
        return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Recent:
    """Keeps the `keep` newest observations once the context is more than `above` full."""

    keep: int = 1
    above: float = 0.6

    def drops(self, observation_tokens: Sequence[int], *, used: int, limit: int) -> int:
        """All but the newest, when it is time; else none more than now."""
        return max(0, len(observation_tokens) - self.keep) if used > self.above * limit else 0


CONTEXTS: dict[str, ContextManager] = {"keep-all": KeepAll(), "recent": Recent()}
