"""The parts of a recipe that train: cold start, mixed RL, grading, distillation."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mimo.recipe.model_base import Count, NonNegative, Positive, Section, Share, Whole

Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class Optimizer(Section):
    """The optimiser; muon is used on hidden matrices, and AdamW with the same learning rate elsewhere."""

    name: Literal["muon", "adamw"]
    """muon or adamw."""
    learning_rate: Positive
    """Learning rate after the warm-up."""
    weight_decay: NonNegative
    """Decoupled weight decay."""
    momentum: Beta
    """Momentum of muon, [0, 1)."""
    nesterov: bool
    """Nesterov momentum in muon."""
    betas: tuple[Beta, Beta] = Field(strict=False)
    """AdamW's decay rates, each [0, 1)."""
    eps: Positive
    """AdamW's denominator term."""


class StopPassRate(Section):
    """Stop cold-start inside a band of pass rates, so that RL has work to do."""

    low: Share
    """Lower end of the band."""
    high: Share
    """Upper end of the band."""
    first_step: Count
    """Steps before the first evaluation."""
    every_steps: Count
    """Steps between two evaluations."""
    rollouts: Count
    """Rollouts of each evaluation."""

    @model_validator(mode="after")
    def _ordered(self) -> StopPassRate:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class ColdStart(Section):
    """cold-start: SFT on demonstrations that the verifier passed."""

    demonstrations_per_task: Count
    """Demonstrations of each training task."""
    correction_share: Share
    """Share of demonstrations in which the expert first makes a mistake, then names and corrects it."""
    corrections: str | None
    """Corrections file of an earlier run's audit, relative to the file it is named in; null = none."""
    corrections_max_share: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Largest share of all demonstrations that may come from that file, [0, 1); the others are counted."""
    steps: Count
    """Optimiser steps (a horizon: raising it continues the run)."""
    batch_rollouts: Count
    """Demonstrations in a step."""
    optimizer: Optimizer
    """Optimiser."""
    grad_clip: Positive
    """Largest global gradient norm."""
    warmup_steps: Whole
    """Steps in which the learning rate rises linearly."""
    checkpoint_every: Count
    """Steps between two checkpoints."""
    stop_pass_rate: StopPassRate | None
    """Stop inside a band of pass rates; null = do all steps."""
    eval_rollouts: Whole
    """Rollouts of the evaluation at the end; 0 = none."""


class Judge(Section):
    """A model that grades beside program analysis; where it is served is in `runtime.judge`."""

    model: Annotated[str, Field(min_length=1)]
    """Its name at the endpoint."""
    max_tokens: Count
    """Longest answer, tokens."""
    retries: Whole
    """Further tries after an answer that is missing or malformed."""


class Grading(Section):
    """How quality changes rewards (GRS) and advantages (GAR)."""

    grs_min_pass_rate: Share
    """Tasks with this pass rate or more are graded by GRS, the others by GAR."""
    grs_floor: Share
    """Least factor of a passing rollout."""
    spread_epsilon: Positive
    """A group whose rewards differ by no more than this is rejected."""
    gar_cap: Annotated[float, Field(ge=1.0)]
    """Cap of the common factor that keeps positive mass."""
    gar_below_mean: Literal["zero", "keep"]
    """Passing rollouts below the mean: zero (the GAR paper) or keep (keeps mass under a length penalty)."""
    gar_recentre: bool
    """Subtract the group mean after redistribution."""
    judge: Judge | None
    """Grade with a model as well; null = program analysis alone."""


class Shares(Section):
    """Share of each kind of task in a step; they sum to 1."""

    coding: Share
    """Coding tasks."""
    agent: Share
    """Tool-use tasks."""
    visual: Share
    """Tasks that need sight."""
    cyber: Share
    """Security tasks."""
    context: Share
    """Tasks that need context management."""

    @model_validator(mode="after")
    def _sum_to_one(self) -> Shares:
        total = self.coding + self.agent + self.visual + self.cyber + self.context
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"shares sum to {total:g}, not 1")
        return self


class MaskBounds(Section):
    """Tokens whose importance ratio is outside these bounds carry no loss (METHOD 2)."""

    positive_low: NonNegative
    """Lower bound where the advantage is positive."""
    positive_high: Positive
    """Upper bound where the advantage is positive."""
    negative_low: NonNegative
    """Lower bound where the advantage is negative."""
    negative_high: Positive
    """Upper bound where the advantage is negative."""

    @model_validator(mode="after")
    def _ordered(self) -> MaskBounds:
        for sign in ("positive", "negative"):
            low, high = getattr(self, f"{sign}_low"), getattr(self, f"{sign}_high")
            if low >= high:
                raise ValueError(f"{sign}_low {low:g} is not below {sign}_high {high:g}")
            if not low <= 1 <= high:
                raise ValueError(f"{sign}_low to {sign}_high must contain 1, the ratio of equal policies")
        return self


class EntropySteering(Section):
    """Steers the mask bounds by the policy's entropy."""

    low: NonNegative
    """Below this entropy (nats a token) the positive interval widens and the negative one narrows."""
    high: Positive
    """Above it the opposite."""
    step: Positive
    """Relative change of the bounds in one step."""

    @model_validator(mode="after")
    def _ordered(self) -> EntropySteering:
        if self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        return self


class LengthPenalty(Section):
    """Group-relative length penalty (METHOD 5)."""

    max: Share
    """Largest penalty; below 1 every pass stays above every failure."""
    deadzone: NonNegative
    """Relative excess over the reference length that costs nothing."""
    saturation: Positive
    """Relative excess at which the penalty is `max`; above `deadzone`."""
    exponent: Annotated[float, Field(ge=1.0)]
    """Shape between the two."""
    percentile: Annotated[float, Field(ge=0.0, le=100.0)]
    """Percentile of the passing rollouts' lengths that is the reference."""
    gate: Share
    """Only groups whose pass rate is above this are penalised."""

    @model_validator(mode="after")
    def _ordered(self) -> LengthPenalty:
        if self.deadzone >= self.saturation:
            raise ValueError(f"deadzone {self.deadzone:g} is not below saturation {self.saturation:g}")
        return self


class TokenPenalty(Section):
    """Penalty on flagged tokens that keeps the mass of each sign (METHOD 6)."""

    kappa: Annotated[float, Field(ge=1.0)]
    """Factor on flagged tokens of negative advantage."""
    alpha_max: Annotated[float, Field(ge=1.0)]
    """Cap of the factor on unflagged positive tokens."""
    beta_min: Annotated[float, Field(gt=0.0, le=1.0)]
    """Floor of the factor on unflagged negative tokens."""
    skip_if_no_absorber: bool
    """Leave a batch as it is when no unflagged token can take up the mass."""


class RlMixed(Section):
    """rl-mixed: reinforcement learning over all domains."""

    steps: Count
    """Optimiser steps (a horizon: raising it continues the run)."""
    groups_per_step: Count
    """Accepted groups of a step."""
    group_size: Annotated[int, Field(ge=2)]
    """Rollouts of a group, at least 2."""
    max_refills: Whole
    """Times that a group of a step is replaced when the filter rejects it."""
    stop_rejected_steps: Count
    """So many steps in a row without an accepted group fail the stage."""
    shares: Shares
    """Share of each kind of task."""
    aggregation: Literal["prompt-mean", "token-mean", "sequence-mean"]
    """How token losses become one number."""
    mask: MaskBounds
    """Bounds of the masked importance ratio."""
    entropy: EntropySteering | None
    """Steering of the bounds; null = fixed."""
    length_penalty: LengthPenalty
    """Length penalty."""
    token_penalty: TokenPenalty
    """Token penalty."""
    optimizer: Optimizer
    """Optimiser."""
    grad_clip: Positive
    """Largest global gradient norm."""
    warmup_steps: Whole
    """Steps in which the learning rate rises linearly."""
    checkpoint_every: Count
    """Steps between two checkpoints."""
    keep_checkpoints: Annotated[int, Field(ge=2)]
    """Checkpoints kept; 2 or more, so that a damaged newest one has a predecessor."""


class PrefixWeights(Section):
    """Weight of each source of contexts in mopd2; they sum to 1."""

    student: Share
    """The student's own rollouts."""
    teacher_prefix: Share
    """Single turns after a teacher's history."""
    sft_prefix: Share
    """Single turns after a demonstration's history."""

    @model_validator(mode="after")
    def _sum_to_one(self) -> PrefixWeights:
        total = self.student + self.teacher_prefix + self.sft_prefix
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"weights sum to {total:g}, not 1")
        return self


class Mopd2(Section):
    """mopd2: multi-teacher on-policy distillation with prefixes."""

    steps: Count
    """Optimiser steps (a horizon: raising it continues the run)."""
    student: Literal["cold-start", "rl-mixed"]
    """Where the student starts: cold-start = the policy that rl-mixed started from, or rl-mixed's own."""
    samples_per_step: Annotated[int, Field(ge=3)]
    """Samples of a step, shared out by `weights`."""
    alpha: NonNegative
    """Weight of the outcome advantage in the student's samples; above 0 they come in groups."""
    clip: Positive
    """Largest |log teacher - log student| of a token, nats."""
    weights: PrefixWeights
    """Weight of each source of contexts."""
    prefix_decay: Annotated[float, Field(gt=0.0, le=1.0)]
    """Factor on the chance of a prefix for each further turn it holds, (0, 1]."""
    learning_rate: Positive
    """Learning rate; the rest of the optimiser is that of rl_mixed."""
    evaluation_contexts: Count
    """Fixed contexts of each kind, never trained on, in which student and teacher are compared."""
