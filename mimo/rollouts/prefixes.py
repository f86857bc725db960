"""History prefixes: where a recorded trajectory can be gone on from, each just before an assistant turn.

A trajectory with k assistant turns has k complete prefixes. The ids are the recorded ones, cut, never
rendered again; the turn that followed in the recording is neither shown nor a target (METHOD 10.2).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mimo.algo.sample_weights import prefix_probabilities
from mimo.rollouts.loop import derived_seed
from mimo.rollouts.token_log import Payload
from mimo.types import Rollout, Turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """A recorded rollout or demonstration with its tokens."""

    rollout: Rollout
    payload: Payload


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """The history of `source` before its assistant turn number `position` (0-based)."""

    source: Rollout
    position: int
    ids: tuple[int, ...]
    turns: tuple[Turn, ...]


def prefixes(trajectory: Trajectory) -> list[Prefix]:
    """Every prefix of the trajectory's first context, in order.

    Before a mistake that was acted out (a turn with no loss at all) there is none: it is history only.

    Raises:
        ValueError: a turn's span is partly outside what the tokens say is sampled.
    """
    rollout, payload = trajectory.rollout, trajectory.payload
    turns = rollout.contexts[0].turns if rollout.contexts else ()
    found: list[Prefix] = []
    spoken = [(place, turn) for place, turn in enumerate(turns) if turn.role == "assistant"]
    for position, (place, turn) in enumerate(spoken):
        start, end = turn.span
        learnt = payload.loss_mask[start:end]
        if end <= len(payload) and end > start and not learnt.any():
            continue
        if end > len(payload) or not learnt.all():
            raise ValueError(f"{rollout.rollout_id}: turn {place} spans {turn.span}, which was not sampled")
        ids = tuple(payload.token_ids[:start].tolist())
        found.append(Prefix(source=rollout, position=position, ids=ids, turns=turns[:place]))
    return found


def draw_prefixes(
    trajectories: Sequence[Trajectory], number: int, *, decay: float, seed: int, step: int
) -> list[Prefix]:
    """`number` prefixes for `step` (0-based): every trajectory is used once before any is used again.

    Of a trajectory one position is drawn, turn t with probability proportional to `decay` ** t. Equal
    arguments give equal prefixes, so a resumed step draws what it drew before.
    """
    drawn = []
    for place in range(step * number, (step + 1) * number):
        choices = prefixes(_at(trajectories, place, seed))
        chances = prefix_probabilities(len(choices), decay=decay, dtype=torch.float64)
        draw = random.Random(derived_seed("position", seed, place))
        drawn.append(draw.choices(choices, chances.tolist())[0])
    return drawn


def _at(trajectories: Sequence[Trajectory], place: int, seed: int) -> Trajectory:
    epoch, within = divmod(place, len(trajectories))
    order = list(range(len(trajectories)))
    random.Random(derived_seed("prefix", seed, epoch)).shuffle(order)
    return trajectories[order[within]]
