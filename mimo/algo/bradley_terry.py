"""Bradley-Terry strengths from pairwise preferences: P(i > j) = sigmoid(t_i - t_j), with a ridge.

Maximises sum_ij wins_ij log sigmoid(t_i - t_j) - ridge / 2 sum t^2 by Newton's method with halved steps. The
ridge keeps an undefeated item finite and makes the answer unique (it sums to 0). Source: METHOD 12 (choice).
"""

from __future__ import annotations

import torch
from torch import Tensor


def bradley_terry(wins: Tensor, *, ridge: float, tolerance: float) -> Tensor:
    """[items] strengths, higher is better, summing to 0; items that nobody compared get 0.

    Args:
        wins: [items, items] how often row was preferred to column; a tie is 0.5 each way. The diagonal is 0.
        ridge: > 0. `tolerance`: largest gradient entry at which the fit ends; it also ends
            where no step improves objective or gradient, and after 100 steps.
    """
    strength = wins.new_zeros(len(wins))
    if not len(wins):
        return strength
    for _ in range(100):
        gradient, curvature = _derivatives(strength, wins, ridge)
        if gradient.abs().amax() <= tolerance:
            break
        step = torch.linalg.solve(curvature, gradient)
        better = _improved(strength, step, wins, ridge)
        if torch.equal(better, strength):
            better = strength + step  # the objective's rounding hides the last steps; the gradient's does not
            if _derivatives(better, wins, ridge)[0].abs().amax() >= gradient.abs().amax():
                break
        strength = better - better.mean()
    return strength


def _derivatives(strength: Tensor, wins: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Gradient [items] and negative Hessian [items, items], which is positive definite."""
    games = wins + wins.T
    chance = torch.sigmoid(strength[:, None] - strength[None, :])
    weight = games * chance * (1 - chance)
    gradient = (wins - games * chance).sum(1) - ridge * strength
    return gradient, torch.diag(weight.sum(1) + ridge) - weight


def _objective(strength: Tensor, wins: Tensor, ridge: float) -> Tensor:
    likelihood = torch.nn.functional.logsigmoid(strength[:, None] - strength[None, :])
    return (wins * likelihood).sum() - strength.square().sum() * (ridge / 2)


def _improved(strength: Tensor, step: Tensor, wins: Tensor, ridge: float) -> Tensor:
    """The strength after the largest of step, step/2, ... that raises the objective, else the strength."""
    now = _objective(strength, wins, ridge)
    for halving in range(30):
        there = strength + step * 0.5**halving
        if _objective(there, wins, ridge) > now:
            return there
    return strength
