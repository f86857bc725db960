"""Prefixes are the recorded ids, cut; what is drawn depends on seed and step alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mimo.rollouts.prefixes import draw_prefixes, prefixes
from tests.mimo.rollouts.made import made_trajectory


def test_k_turns_give_k_prefixes_each_ending_before_its_turn() -> None:
    made = made_trajectory(turns=3)
    found = prefixes(made)
    assert [prefix.position for prefix in found] == [0, 1, 2]
    spans = [turn.span for turn in made.rollout.contexts[0].turns if turn.role == "assistant"]
    for prefix, (start, _) in zip(found, spans, strict=True):
        assert prefix.ids == tuple(made.payload.token_ids[:start].tolist())
        assert prefix.turns[-1].span[1] == start
        assert prefix.turns == made.rollout.contexts[0].turns[: len(prefix.turns)]


def test_a_span_that_was_not_sampled_is_refused() -> None:
    made = made_trajectory(turns=2)
    mask = made.payload.loss_mask.copy()
    mask[made.rollout.contexts[0].turns[1].span[0]] = False
    with pytest.raises(ValueError, match="was not sampled"):
        prefixes(replace(made, payload=replace(made.payload, loss_mask=mask)))


def test_a_mistake_acted_out_is_history_and_never_sampled_anew() -> None:
    made = made_trajectory(turns=3)
    mistake = made.rollout.contexts[0].turns[1]
    mask = made.payload.loss_mask.copy()
    mask[mistake.span[0] : mistake.span[1]] = False
    found = prefixes(replace(made, payload=replace(made.payload, loss_mask=mask)))
    assert [prefix.position for prefix in found] == [1, 2]
    assert mistake in found[0].turns


def test_every_trajectory_is_used_once_before_any_is_used_again() -> None:
    made = [made_trajectory(turns=2, name=f"r{number}") for number in range(6)]
    drawn = [prefix for step in range(2) for prefix in draw_prefixes(made, 6, decay=0.6, seed=1, step=step)]
    assert set(Counter(prefix.source.rollout_id for prefix in drawn).values()) == {2}
    assert drawn[6:] == draw_prefixes(made, 6, decay=0.6, seed=1, step=1)


def test_early_turns_are_favoured_as_the_decay_says() -> None:
    """METHOD 10.2: p_t ~ .6^t over 3 turns is .510, .306, .184."""
    made = [made_trajectory(turns=3)]
    drawn = Counter(prefix.position for prefix in draw_prefixes(made, 4000, decay=0.6, seed=3, step=0))
    for position, share in enumerate((0.510, 0.306, 0.184)):
        assert drawn[position] / 4000 == pytest.approx(share, abs=0.03)
    assert Counter(prefix.position for prefix in draw_prefixes(made, 300, decay=1.0, seed=3, step=0))[2] > 60
